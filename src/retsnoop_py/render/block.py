# SPDX-License-Identifier: BSD-2-Clause
"""A session as text: a header, sections with an empty line before each, warnings.

::

    12:31:43.934858 -> 12:31:43.935952 TID/PID 250/250 (simfail/simfail):

Of a process in a container: ``TID/PID 250/250 (7/7 in its PID namespace) (simfail/simfail):``
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Protocol

from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.session.losses import may_warn, session_warnings
from retsnoop_py.session.model import Session
from retsnoop_py.session.report import Report
from retsnoop_py.settings import BpfSettings
from retsnoop_py.text import printable
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


class Section(Protocol):
    """One view of a session: call trace, branches, call stack."""

    def lines(self, report: Report) -> Iterable[str]:
        """Its lines, none of which ends in blanks; without any it is left out."""
        ...


class BlockRenderer:
    """Writes sessions as blocks of ``sections``, in their order."""

    def __init__(
        self, sections: Sequence[Section], bpf: BpfSettings, clock: Clock, palette: Palette
    ) -> None:
        self._sections = sections
        self._bpf = bpf
        self._clock = clock
        self._palette = palette

    def session(self, report: Report) -> str:
        """One session, with two empty lines behind it."""
        lines = [self._header(report.session)]
        for section in self._sections:
            shown = section.lines(report)
            if shown:
                lines.append("")
                lines += shown
        if may_warn(report.session):
            lines += [
                paint(printable(warning), self._palette.warning)
                for warning in session_warnings(report.session, self._bpf)
            ]
        lines += ("", "", "")
        return "\n".join(lines)

    def summary(self, lost: Mapping[str, int], warnings: Sequence[str]) -> str:  # noqa: ARG002
        """Nothing: text has it on stderr."""
        return ""

    def _header(self, session: Session) -> str:
        time_of = self._clock.time_of_day
        who = session.tid, session.tgid, session.ns_tid, session.ns_tgid
        task = _task(*who, session.task_comm, session.proc_comm)
        return f"{time_of(session.start_ns)} -> {time_of(session.emit_ns)} TID/PID {task}:"


@lru_cache(maxsize=1024)
def _task(tid: int, tgid: int, ns_tid: int, ns_tgid: int, comm: str, proc_comm: str) -> str:
    inside = ""
    if ns_tid and (ns_tid, ns_tgid) != (tid, tgid):
        inside = f" ({ns_tid}/{ns_tgid} in its PID namespace)"
    return f"{tid}/{tgid}{inside} ({printable(comm)}/{printable(proc_comm)})"
