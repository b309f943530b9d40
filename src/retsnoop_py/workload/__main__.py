# SPDX-License-Identifier: BSD-2-Clause
"""``python -m retsnoop_py.workload``: make system calls that fail at known places in the kernel."""

from __future__ import annotations

import argparse
import contextlib
import errno
import resource
import sys

from retsnoop_py.workload.cases import CASES, Case


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m retsnoop_py.workload",
        description="Fail in the kernel in known ways, to have something to trace. Needs root.",
    )
    parser.add_argument("cases", nargs="*", metavar="CASE", help="cases to run, by name")
    parser.add_argument("-a", "--all", action="store_true", help="run all cases, in order")
    parser.add_argument("-l", "--list", action="store_true", help="list the cases and end")
    parser.add_argument("-n", "--repeat", type=int, default=1, help="run each case N times")
    parser.add_argument("-q", "--quiet", action="store_true", help="print nothing")
    return parser.parse_args()


def run(case: Case) -> str | None:
    """Run ``case``. Return None, or a message if its result was unexpected."""
    result = case.run()
    number = -min(result, 0)
    if number in {outcome.errno for outcome in case.outcomes}:
        return None
    return f"{case.name}: unexpected {errno.errorcode.get(number, 'success')}"


def describe(case: Case) -> str:
    """Return the case as a line: name, errno, description."""
    names = dict.fromkeys(errno.errorcode.get(o.errno, "success") for o in case.outcomes)
    return f"{case.name:<28}{' or '.join(names):<16}{case.what}"


def main() -> int:
    """Run the cases of the command line.

    Return 0 if every result was as expected, 1 if not, 2 for a usage error.
    """
    args = parse()
    if args.list:
        print("\n".join(describe(case) for case in CASES))
        return 0
    known = {case.name: case for case in CASES}
    unknown = [name for name in args.cases if name not in known]
    if unknown or not (args.cases or args.all):
        problem = f"no such case: {', '.join(unknown)}" if unknown else "no case named"
        print(f"{problem}; --list shows all, --all runs all", file=sys.stderr)
        return 2
    with contextlib.suppress(ValueError, OSError):  # 5.10 charges maps to it; refused is fine
        infinite = resource.RLIM_INFINITY
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (infinite, infinite))
    problems = []
    for case in CASES if args.all else [known[name] for name in args.cases]:
        for _ in range(args.repeat):
            wrong = run(case)
            if wrong:
                problems.append(wrong)
        if not args.quiet:
            print(describe(case), flush=True)
    print("".join(f"{problem}\n" for problem in problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
