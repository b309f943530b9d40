# SPDX-License-Identifier: BSD-2-Clause
"""Run one fuzz target in a process that may crash, hang or run out of memory."""

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

#: Limit of the address space in bytes. Sanitizers, which map terabytes, run without it.
MEMORY = 3 << 30
#: Examples between checks of the time, and seconds for shrinking a failing example.
EXAMPLES, SHRINKING_S = 50, 20.0


class Tried(NamedTuple):
    """The number of tried examples, and the smallest failing example."""

    count: int
    failing: bytes = b""
    complaint: str = ""


class Failure(Exception):
    """An example had a forbidden effect."""


def limit_memory() -> None:
    """Limit the address space, so that excessive memory use ends in a MemoryError."""
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def search(what: Target, seed: int, end: float, current: Path) -> Tried:
    """Try examples until the time ``end`` (monotonic). Each is first written to ``current``."""
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
    """Search in a target, or try one file. Return 0, or print the complaint and return 1."""
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
