# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's monotonic clock as local wall-clock time."""

from __future__ import annotations

from retsnoop_py.value import Value

_DAY_US = 86_400_000_000


class Clock(Value):
    """``realtime_offset_ns`` is REALTIME minus MONOTONIC, ``utc_offset_s`` local minus UTC.

    Both are fixed: a clock that is set or a summer time that begins during a run changes
    nothing, so the times of a run stay in order.
    """

    realtime_offset_ns: int
    utc_offset_s: int

    def time_of_day(self, monotonic_ns: int) -> str:
        """``HH:MM:SS.uuuuuu``, microseconds truncated."""
        us = (monotonic_ns + self.realtime_offset_ns) // 1000 + self.utc_offset_s * 1_000_000
        seconds, us = divmod(us % _DAY_US, 1_000_000)
        minutes, seconds = divmod(seconds, 60)
        return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}.{us:06}"
