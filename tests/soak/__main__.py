# SPDX-License-Identifier: BSD-2-Clause
"""``python -m tests.soak``: hours of rounds, sessions, kills and bad input (``make soak``)."""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Iterator

from tests.soak.inputs import mutated_inputs
from tests.soak.kernel import STEPS, KernelSoak
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
        "An hour and a half each, under emulation.",
    )
    add = parser.add_argument
    subjects = [INPUTS, *KERNELS]
    add("subjects", nargs="*", metavar="WHAT", help=f"{' '.join(subjects)} (default: all of these)")
    add("--scale", type=float, default=1.0, metavar="X", help="a fraction of the full numbers")
    add(
        "--steps",
        default=",".join(STEPS),
        metavar="STEP,...",
        help="only these of a kernel (default: %(default)s); the rounds take an hour",
    )
    add("--seed", type=int, default=0, metavar="N", help="other damage than the usual one")
    add("--write-docs", action="store_true", help=f"put the table into {DOCS}")
    options = parser.parse_args(words)
    options.subjects = options.subjects or subjects
    if unknown := set(options.steps.split(",")) - set(STEPS):
        parser.error(f"no such step: {', '.join(sorted(unknown))}")
    return options


def soak(subject: str, options: argparse.Namespace) -> Iterator[tuple[str, Outcome]]:
    """Run the steps of one subject. Each step starts with a line on the terminal."""
    if subject == INPUTS:
        for outcome in mutated_inputs(options.scale, options.seed, say):
            yield "Damaged input", outcome
        return
    kernel = KernelSoak(subject, options.scale, say, options.steps.split(","))
    for outcome in kernel.run():
        yield f"Linux {subject}: {kernel.release}", outcome


def say(line: str) -> None:
    """Print progress."""
    print(line, file=sys.stderr, flush=True)


def main() -> int:
    """Run the soak. Return 0, 1 after a failure, 130 after Ctrl-C or SIGTERM."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    options = parse(sys.argv[1:])
    wrong = False
    try:
        for subject in options.subjects:
            outcomes = []
            for head, outcome in soak(subject, options):
                outcomes.append(outcome)
                if options.write_docs:
                    DOCS.write_text(rewritten(DOCS.read_text(), subject, head, [outcome]))
            print(f"### {subject}", *table(outcomes), sep="\n", end="\n\n", flush=True)
            wrong |= any(each.problems for each in outcomes)
    except KeyboardInterrupt:
        say("stopped; the guest is gone")
        return 130
    except RetsnoopError as error:
        say(f"{error.message}\n{error.hint or ''}".rstrip())
        return error.exit_status
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
