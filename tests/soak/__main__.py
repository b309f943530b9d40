# SPDX-License-Identifier: BSD-2-Clause
"""``python -m tests.soak``: hours of rounds, sessions, kills and bad input (``make soak``)."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator
from datetime import date

from tests.soak.inputs import mutated_inputs
from tests.soak.kernel import KernelSoak
from tests.soak.results import DOCS, Outcome, rewritten, table

from retsnoop_py.errors import RetsnoopError

INPUTS = "inputs"
KERNELS = ("5.10", "6.1", "6.12", "7.2", "7.3")


def parse(words: list[str]) -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.soak",
        description="Per kernel: 10,000 rounds of attaching, a million sessions of 8 threads, 100 "
        "kills. Without a kernel ('inputs'): 20,000 damaged recordings, objects and globs. "
        "Half an hour each, under emulation.",
    )
    add = parser.add_argument
    subjects = [INPUTS, *KERNELS]
    add("subjects", nargs="*", metavar="WHAT", help=f"{' '.join(subjects)} (default: all of these)")
    add("--scale", type=float, default=1.0, metavar="X", help="a fraction of the full numbers")
    add("--seed", type=int, default=0, metavar="N", help="other damage than the usual one")
    add("--write-docs", action="store_true", help=f"put the table into {DOCS}")
    options = parser.parse_args(words)
    options.subjects = options.subjects or subjects
    return options


def soak(subject: str, options: argparse.Namespace) -> tuple[str, list[Outcome]]:
    """Do the steps of one subject; a head for them, and what they gave."""
    today = date.today().isoformat()  # noqa: DTZ011 - the day where it is run
    if subject == INPUTS:
        steps: Iterator[Outcome] = mutated_inputs(options.scale, options.seed, say)
        return f"Damaged input, {today}", list(steps)
    kernel = KernelSoak(subject, options.scale, say)
    outcomes = list(kernel.run())
    return f"Linux {subject}: {kernel.release}, {today}", outcomes


def say(line: str) -> None:
    """What has been done, for who waits."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Run the soak; 0, 1 if something was wrong, 130 after Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = parse(sys.argv[1:])
    wrong = False
    try:
        for subject in options.subjects:
            head, outcomes = soak(subject, options)
            print(f"### {head}", *table(outcomes), sep="\n", end="\n\n", flush=True)
            wrong |= any(each.problems for each in outcomes)
            if options.write_docs:
                DOCS.write_text(rewritten(DOCS.read_text(), subject, head, outcomes))
    except KeyboardInterrupt:
        say("stopped; the guest is gone")
        return 130
    except RetsnoopError as error:
        say(f"{error.message}\n{error.hint or ''}".rstrip())
        return error.exit_status
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
