# SPDX-License-Identifier: BSD-2-Clause
"""Searches of the open files of all processes, with an end.

A process may have a million open files, and a command that fails or hangs may start such processes.
So a search ends after some seconds, and its result says that it is not whole.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["SECONDS", "Search", "together"]

#: A search ends after so many seconds, and all searches of one answer after so many together.
SECONDS, _TOGETHER = 3.0, 20.0
_deadline: ContextVar[float] = ContextVar("_deadline", default=float("inf"))


@contextmanager
def together() -> Iterator[None]:
    """Let no search within the body last longer than until 20 s after the beginning of the body."""
    token = _deadline.set(time.monotonic() + _TOGETHER)
    try:
        yield
    finally:
        _deadline.reset(token)


class Search:
    """A search of /proc. ``is_whole`` is False once the time was not enough.

    ``remark`` is a sentence about that, "" for a whole search.
    """

    def __init__(self) -> None:
        self._end = min(time.monotonic() + SECONDS, _deadline.get())
        self.is_whole = True

    @property
    def remark(self) -> str:
        """Return "" or the sentence."""
        if self.is_whole:
            return ""
        return "The search of the open files took too long, and retsnoop-py ended it."

    def is_over(self) -> bool:
        """Return whether the time is over, and remember that the search was cut."""
        if time.monotonic() > self._end:
            self.is_whole = False
        return not self.is_whole

    def processes(self) -> Iterator[int]:
        """Yield the ids of all processes except this one, while there is time."""
        for name in _names("/proc"):
            if self.is_over():
                return
            if name.isdecimal() and int(name) != os.getpid():
                yield int(name)

    def descriptors(self, pid: int) -> Iterator[tuple[int, str]]:
        """Yield number and target (``pipe:[7]``) of a process's descriptors, while time lasts."""
        for name in _names(f"/proc/{pid}/fd"):
            if self.is_over():
                return
            try:
                yield int(name), os.readlink(f"/proc/{pid}/fd/{name}")
            except (OSError, ValueError):
                continue  # it was closed meanwhile


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []
