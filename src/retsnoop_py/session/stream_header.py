# SPDX-License-Identifier: BSD-2-Clause
"""The data needed to read a stream of records on any machine."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.layouts import Layout
from retsnoop_py.settings import (
    ArgSettings,
    BpfSettings,
    FilterSettings,
    StackSettings,
    SymbolizeMode,
    ViewSettings,
)
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.model import ArgumentFacts


#: ns of a second.
NS = 1_000_000_000
_DAY_S = 86_400


class ModuleFacts(Value):
    """A kernel module that has traced functions: its name, start address and build id (hex)."""

    name: str
    address: int = 0
    build_id: str | None = None


class StreamHeader(Value):
    """The kernel, the traced functions and the settings of the run that creates the records.

    ``functions`` is indexed by the function ID of the records. ``realtime_offset_ns`` is
    CLOCK_REALTIME minus CLOCK_MONOTONIC, ``utc_offset_s`` local time minus UTC. Both were read at
    the start of the run, so a replay elsewhere prints the same times. ``symbolize`` is the mode
    that the run used, never ``AUTO``; ``stext`` is the address of ``_stext`` (0: unknown) and
    ``build_id`` the kernel's build ID, hex.
    """

    functions: Sequence[Function]
    layouts: tuple[Layout, ...]
    realtime_offset_ns: int
    utc_offset_s: int
    release: str = ""
    machine: str = ""
    build_id: str | None = None
    stext: int = 0
    kaslr_offset: int | None = None
    modules: tuple[ModuleFacts, ...] = ()
    mechanism: str = ""
    tool_version: str = ""
    command: tuple[str, ...] = ()
    filters: FilterSettings = FilterSettings()
    stacks: StackSettings = StackSettings()
    views: ViewSettings = ViewSettings()
    args: ArgSettings = ArgSettings()
    #: What is captured of arguments, and the types to read it by; None for nothing.
    arguments: ArgumentFacts | None = None
    #: The injected probes by their id, as they are shown: ``kprobe:bprm_execve+0x5``.
    probes: tuple[str, ...] = ()
    bpf: BpfSettings = BpfSettings()
    symbolize: SymbolizeMode = SymbolizeMode.NONE
    #: Globs of the functions whose executed paths are recorded.
    paths: tuple[str, ...] = ()

    def probe_name(self, number: int) -> str:
        """The injected probe of this id, as it is shown."""
        return self.probes[number] if number < len(self.probes) else f"probe {number}"


def realtime_offset_ns(samples: int = 10) -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC, ns: the sample taken in the shortest time."""
    best = None
    for _ in range(samples):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        found = (after - before, wall - (before + after) // 2)
        best = found if best is None else min(best, found)
    assert best is not None
    return best[1]


def utc_offset_s() -> int:
    """How far local time is ahead of UTC now, in seconds."""
    return time.localtime().tm_gmtoff


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
        total = monotonic_ns + self.realtime_offset_ns + self.utc_offset_s * NS
        seconds, ns = divmod(total, NS)
        day, seconds = divmod(seconds, _DAY_S)
        return f"{_date(day)}T{_hours(seconds)}.{ns:09}{_zone(self.utc_offset_s)}"


class SymbolicClock(Clock):
    """The same for a template of sessions (:mod:`retsnoop_py.session.repeats`)."""

    def time_of_day(self, monotonic_ns: int) -> str:
        """See :class:`Clock`."""
        from retsnoop_py.libbpf.repeat import Kind
        from retsnoop_py.session.repeats import placeholder

        return placeholder(Kind.TIME6, monotonic_ns)

    def timestamp(self, monotonic_ns: int) -> str:
        """See :class:`Clock`."""
        from retsnoop_py.libbpf.repeat import Kind
        from retsnoop_py.session.repeats import placeholder

        return placeholder(Kind.TIME9, monotonic_ns) + _zone(self.utc_offset_s)


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
