# SPDX-License-Identifier: BSD-2-Clause
"""Limits of CPU time that hold on a slow machine, too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from time import process_time, thread_time

__all__ = ["at_most"]

#: CPU seconds that :func:`_work` takes on the machine whose seconds :func:`at_most` is given.
_USUAL = 0.03


@contextmanager
def at_most(seconds: float, of_thread: bool = True) -> Iterator[None]:
    """Fail if the body takes more than ``seconds`` of CPU time of a usual machine.

    A machine, or one whose cores are shared with others, may be several times as slow. So a body
    that took longer is compared with the time that a fixed piece of work takes at that moment.
    ``of_thread``: the time of this thread, else that of the process.
    """
    clock = thread_time if of_thread else process_time
    began = clock()
    yield
    used = clock() - began
    if used < seconds:
        return
    slowness = max(1.0, max(_work() for _ in range(3)) / _USUAL)
    assert used < seconds * slowness, (
        f"{used:.1f} s of CPU time; the limit is {seconds:g} s, and this machine is "
        f"{slowness:.1f} times as slow as usual"
    )


def _work() -> float:
    """Return the CPU seconds that a fixed piece of work takes."""
    began, total = thread_time(), 0
    for number in range(1_000_000):
        total += number * number
    return thread_time() - began
