# SPDX-License-Identifier: BSD-2-Clause
"""The kernel's monotonic clock as local wall-clock time."""

from __future__ import annotations

import time
from functools import lru_cache

from retsnoop_py.value import Value

_NS = 1_000_000_000
_DAY_S = 86_400


class Clock(Value):
    """``realtime_offset_ns`` is REALTIME minus MONOTONIC, ``utc_offset_s`` local minus UTC.

    Both are fixed: a clock that is set or a summer time that begins during a run changes
    nothing, so the times of a run stay in order.
    """

    realtime_offset_ns: int
    utc_offset_s: int

    def time_of_day(self, monotonic_ns: int) -> str:
        """``HH:MM:SS.uuuuuu``, microseconds truncated."""
        us = (monotonic_ns + self.realtime_offset_ns) // 1000
        return f"{_hours((us // 1_000_000 + self.utc_offset_s) % _DAY_S)}.{us % 1_000_000:06}"

    def timestamp(self, monotonic_ns: int) -> str:
        """ISO 8601 with nanoseconds: ``2026-11-21T19:20:11.222836123+01:00``."""
        total = monotonic_ns + self.realtime_offset_ns + self.utc_offset_s * _NS
        seconds, ns = divmod(total, _NS)
        day, seconds = divmod(seconds, _DAY_S)
        return f"{_date(day)}T{_hours(seconds)}.{ns:09}{_zone(self.utc_offset_s)}"


@lru_cache(maxsize=64)
def _hours(seconds: int) -> str:
    """``HH:MM:SS``, worked out once a second: there may be thousands of sessions in one."""
    minutes, seconds = divmod(seconds, 60)
    return f"{minutes // 60:02}:{minutes % 60:02}:{seconds:02}"


@lru_cache(maxsize=16)
def _date(day: int) -> str:
    """The day so many days after the first of 1970."""
    return time.strftime("%Y-%m-%d", time.gmtime(day * _DAY_S))


@lru_cache(maxsize=16)
def _zone(offset_s: int) -> str:
    hours, minutes = divmod(abs(offset_s) // 60, 60)
    return f"{'-' if offset_s < 0 else '+'}{hours:02}:{minutes:02}"
