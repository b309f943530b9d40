# SPDX-License-Identifier: BSD-2-Clause
"""``python -m tests.bench``: boot kernels, measure, print tables; ``make bench`` calls it."""

from __future__ import annotations

import argparse
import compileall
import os
import signal
import sys
import tempfile
from datetime import date
from pathlib import Path

from tests.bench.docs import DOCS, rewritten, section
from tests.bench.guest import Guest, compile_meter
from tests.bench.plan import KernelBench
from tests.bench.results import KernelResults, merged, read_results, to_json
from tests.bench.selections import KEYS
from tests.bench.table import unmet
from tests.bench.tools import NAMES, Tool, find_tools, version

import retsnoop_py
from retsnoop_py.errors import RetsnoopError

KERNELS = ("5.10", "6.1", "6.12", "7.2")
#: Under QEMU 7.2, older kernels do not reach their console if the clock counts instructions.
COUNTED = ("6.12", "7.2")


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description="Measure retsnoop-py and its peers side by side, in one guest per kernel.",
        epilog="retsnoop is the one RETSNOOP= names, or the one on PATH.",
    )
    add = parser.add_argument
    add("kernels", nargs="*", metavar="KERNEL", help=f"{' '.join(KERNELS)} (default: all)")
    add("-n", "--repeat", type=int, default=3, metavar="N", help="runs of each (default 3)")
    add("--limit", type=float, default=300, metavar="S", help="give up after S s (default 300)")
    add("--select", nargs="+", choices=KEYS, default=KEYS, help="what to trace (default: all)")
    add("--tools", nargs="+", choices=NAMES, default=NAMES, help="tools to run (default: all)")
    counted = f"by counted instructions, for a busy machine: {' '.join(COUNTED)} only"
    add("--icount", action="store_true", help=counted)
    add(
        "--json",
        type=Path,
        metavar="FILE",
        help="write the results to a file, and add them to its existing results",
    )
    add("--show", type=Path, metavar="FILE", help="measure nothing, take results of --json")
    add("--write-docs", action="store_true", help=f"put the tables into {DOCS}")
    options = parser.parse_args(words)
    able = COUNTED if options.icount else KERNELS
    options.kernels = options.kernels or os.environ.get("KERNEL", "").split() or list(able)
    if options.icount and not set(options.kernels) <= set(COUNTED):
        parser.error(f"--icount works for {' and '.join(COUNTED)} only: leave it out for others")
    return options


def bench(kernel: str, options: argparse.Namespace, tools: tuple[Tool, ...]) -> KernelResults:
    """Measure one kernel; Ctrl-C ends the guest."""
    versions = {tool.name: version(tool) for tool in tools}
    with tempfile.TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        meter = compile_meter(folder)
        with Guest(kernel, folder, meter, options.limit, icount=options.icount) as guest:
            today = date.today().isoformat()  # noqa: DTZ011 - the day where it is run
            results = KernelResults(
                kernel, guest.release, today, options.repeat, versions, icount=options.icount
            )
            keys = tuple(options.select)
            KernelBench(guest, tools, keys, folder, meter, options.limit, results).measure()
    return results


def publish(results: KernelResults, options: argparse.Namespace) -> None:
    """Print the table of one kernel and write the requested files."""
    print(section(results), end="\n\n", flush=True)
    for row in unmet(results):
        print(f"not met: {row.selection}: {row.what}", file=sys.stderr)
    if options.write_docs:
        DOCS.write_text(rewritten(DOCS.read_text(), results))


def run(options: argparse.Namespace) -> None:
    """Measure each kernel and publish its results."""
    if options.show:
        for results in read_results(options.show).values():
            publish(results, options)
        return
    # an installation also compiles it; a guest cannot store compiled files
    compileall.compile_dir(Path(retsnoop_py.__file__).parent, quiet=1)
    tools = find_tools(options.tools)
    for tool in tools:
        if not tool.path:
            print(f"{tool.name} is left out: {tool.why}", file=sys.stderr)
    for kernel in options.kernels:
        results = bench(kernel, options, tools)
        if options.json:
            have = read_results(options.json)
            results = merged(have[kernel], results) if kernel in have else results
            options.json.write_text(to_json((have | {kernel: results}).values()))
        publish(results, options)


def main() -> int:
    """Run the bench. Return 0, 130 after Ctrl-C or SIGTERM, or the status of an error."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run(parse(sys.argv[1:]))
    except KeyboardInterrupt:
        print("stopped; the guest is gone", file=sys.stderr)
        return 130
    except RetsnoopError as error:
        print(f"{error.message}\n{error.hint or ''}".rstrip(), file=sys.stderr)
        return error.exit_status
    return 0


if __name__ == "__main__":
    sys.exit(main())
