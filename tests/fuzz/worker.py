# SPDX-License-Identifier: BSD-2-Clause
"""One target of the fuzzers, in a process that may crash, hang or run out of memory."""

from __future__ import annotations

import os
import resource
import sys
import time
from pathlib import Path
from typing import NamedTuple

import hypothesis
from hypothesis import strategies as st
from tests.fuzz.targets import Target, target

#: Bytes of address space; a sanitizer maps terabytes.
MEMORY = 3 << 30
#: Examples between looks at the clock, and seconds to make a failing one smaller.
EXAMPLES, SHRINKING_S = 50, 20.0


class Tried(NamedTuple):
    """How many examples there were, and the smallest one that failed."""

    count: int
    failing: bytes = b""
    complaint: str = ""


class Failure(Exception):
    """An example did what none may do."""


def limit_memory() -> None:
    """Let what takes too much memory end in a MemoryError."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def search(what: Target, seed: int, end: float, current: Path) -> Tried:
    """Try examples until the time ``end`` (monotonic); each is in the file ``current`` before."""
    found = Tried(0)

    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
        phases=[hypothesis.Phase.generate, hypothesis.Phase.shrink],
    )
    @hypothesis.given(st.randoms(use_true_random=False))
    def trial(chance) -> None:  # type: ignore[no-untyped-def]
        nonlocal found, end
        if time.monotonic() > end:
            return
        data = what.make(chance)
        current.write_bytes(data)
        complaint = what.damage(current)
        found = found._replace(count=found.count + 1)
        if complaint is None:
            return
        if not found.complaint:
            end = time.monotonic() + SHRINKING_S
        if not found.complaint or len(data) <= len(found.failing):
            found = found._replace(failing=data, complaint=complaint)
        raise Failure(complaint)

    while time.monotonic() < end and not found.complaint:
        seed += 1
        try:
            hypothesis.seed(seed)(trial)()
        except (Failure, hypothesis.errors.Flaky):
            pass
    return found


def main(arguments: list[str]) -> int:
    """Search in a target, or try one file; 0, or 1 with the complaint on stdout."""
    limit_memory()
    name, *rest = arguments
    if len(rest) == 1:
        complaint = target(name).damage(Path(rest[0]))
        print(complaint or "nothing to complain about")
        return complaint is not None
    seconds, seed, current = float(rest[0]), int(rest[1]), Path(rest[2])
    found = search(target(name), seed, time.monotonic() + seconds, current)
    print(found.count)
    if found.complaint:
        current.write_bytes(found.failing)
        print(found.complaint)
    return bool(found.complaint)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
