# SPDX-License-Identifier: BSD-2-Clause
"""Limit the time for explaining a log.

Each pattern takes little time on each line (``tests/unit/test_patterns.py``). But a log of 50 MB
can have millions of different lines that resemble the texts of many rules.
"""

from __future__ import annotations

from time import thread_time
from typing import Protocol

from retsnoop_py.errors import DataError

__all__ = ["LimitedLines", "Lines", "PartlyReadError", "TimeLimit"]


class PartlyReadError(DataError):
    """The time limit was reached before the end of the log."""


#: Number of bytes between two checks of the clock, and the bytes added for each line.
_STEP, _LINE = 16384, 256


class Lines(Protocol):
    """A source of lines, such as a binary file."""

    def readline(self, size: int, /) -> bytes:
        """Return the next line, at most ``size`` bytes; empty at the end."""


class TimeLimit:
    """A limit in seconds of this thread's CPU time: waiting for a loader does not count.

    ``stopped``: some work was skipped because of the limit.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = thread_time() + seconds
        self.stopped = False

    def extend(self, seconds: float) -> None:
        """Set the limit to ``seconds`` from now."""
        self._end = thread_time() + seconds

    def stop(self) -> bool:
        """Return True if the time is over; the caller must then skip the rest."""
        if thread_time() < self._end:
            return False
        self.stopped = True
        return True

    def error(self, lines: LimitedLines) -> PartlyReadError:
        """Return an error with the part of the log that was read within the limit."""
        return PartlyReadError(
            f"explain stopped after {self._seconds:.0f} s of CPU time:"
            f" it read {lines.bytes / 1e6:.1f} MB ({lines.count:,} lines) of the log,"
            " and did not explain all of it",
            "pass only the part of the log with the failure (grep, tail)",
        )


class LimitedLines:
    """Lines of a stream that ends at a time limit; counts lines and bytes."""

    def __init__(self, stream: Lines, limit: TimeLimit) -> None:
        self._readline = stream.readline
        self._limit = limit
        self._unchecked = 0
        self.bytes = self.count = 0

    def readline(self, size: int, /) -> bytes:
        """Return the next line, at most ``size`` bytes; empty at the end."""
        # Checking the clock for each line would take longer than reading an empty line.
        if self._unchecked > _STEP:
            if self._limit.stop():
                return b""
            self._unchecked = 0
        line = self._readline(size)
        self.bytes += len(line)
        self.count += bool(line)
        self._unchecked += len(line) + _LINE
        return line
