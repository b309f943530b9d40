# SPDX-License-Identifier: BSD-2-Clause
"""A limit on the time that explaining a log takes.

Each pattern takes little time on each line (``tests/unit/test_patterns.py``), but a log of 50 MB
may have millions of lines, each different and each similar to what many rules look for.
"""

from __future__ import annotations

from time import thread_time
from typing import Protocol

from retsnoop_py.errors import DataError

__all__ = ["LimitedLines", "Lines", "PartlyReadError", "TimeLimit"]


class PartlyReadError(DataError):
    """The time was over before the end of the log."""


#: Bytes between two looks at the clock, and those that a line counts for besides its own.
_STEP, _LINE = 16384, 256


class Lines(Protocol):
    """What lines are read from: a binary file, say."""

    def readline(self, size: int, /) -> bytes:
        """The next line, no more than ``size`` bytes of it; nothing at the end."""


class TimeLimit:
    """Seconds of this thread's CPU time from now: waiting for a loader's output does not count.

    ``stopped``: whether anything was left out because the time was over.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._end = thread_time() + seconds
        self.stopped = False

    def extend(self, seconds: float) -> None:
        """Allow ``seconds`` from now, in place of what is left."""
        self._end = thread_time() + seconds

    def stop(self) -> bool:
        """Whether the time is over, for one who leaves the rest out then."""
        if thread_time() < self._end:
            return False
        self.stopped = True
        return True

    def error(self, lines: LimitedLines) -> PartlyReadError:
        """An error with the part of the log that was read until the time was over."""
        return PartlyReadError(
            f"explain stopped after {self._seconds:.0f} s of CPU time:"
            f" it read {lines.bytes / 1e6:.1f} MB ({lines.count:,} lines) of the log,"
            " and did not explain all of it",
            "pass only the part of the log with the failure (grep, tail)",
        )


class LimitedLines:
    """Lines of a stream, which ends when a time limit is over; counts what it read."""

    def __init__(self, stream: Lines, limit: TimeLimit) -> None:
        self._readline = stream.readline
        self._limit = limit
        self._unchecked = 0
        self.bytes = self.count = 0

    def readline(self, size: int, /) -> bytes:
        """The next line, no more than ``size`` bytes of it; nothing at the end."""
        # a look at the clock for each line would cost more than reading an empty one
        if self._unchecked > _STEP:
            if self._limit.stop():
                return b""
            self._unchecked = 0
        line = self._readline(size)
        self.bytes += len(line)
        self.count += bool(line)
        self._unchecked += len(line) + _LINE
        return line
