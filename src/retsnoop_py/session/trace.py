# SPDX-License-Identifier: BSD-2-Clause
"""The tree of a session's calls, out of its events.

Most sessions of a run have the same tree, with other times and results. So what depends on the
tree alone, a :class:`Shape`, is worked out once for each different one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import Event, EventFlags, EventKind, Events, Session

_ENTRY, _EXIT = int(EventKind.ENTRY), int(EventKind.EXIT)
_INTERRUPT = int(EventFlags.INTERRUPT)
#: Shapes with so many events together are kept.
_ROOM = 1 << 15


class RowKind(IntEnum):
    """What a row of a trace tells."""

    ENTRY = 1
    EXIT = 2
    PROBE = 3
    #: A call and its return with nothing in between.
    LEAF = 4
    #: Events that did not arrive.
    GAP = 5
    #: Events that earlier reports of the session have told.
    EARLIER = 6


class TraceRow(NamedTuple):
    """One row. Indexes are those of the session's events.

    ``depth`` is 1 for the entry function; that of a probe is its caller's, that of a gap the one
    at its beginning. ``id`` is the function's or the probe's. ``event`` is where the row happens,
    for a leaf the return; ``began`` is where the call that returns began, None if that is not
    known. ``inner`` are the direct callees of that call, each as (began, ended); None if some
    are missing. ``missing`` is how many events a gap or what was told earlier stands for.
    ``interrupt``: it happens in an interrupt of the thread.
    """

    kind: RowKind
    depth: int
    id: int = 0
    event: int = 0
    began: int | None = None
    inner: tuple[tuple[int, int], ...] | None = None
    missing: int = 0
    interrupt: bool = False


class Shape:
    """The rows of all traces with equal trees."""

    __slots__ = ("rows",)

    def __init__(self, rows: tuple[TraceRow, ...]) -> None:
        self.rows = rows


class Trace(NamedTuple):
    """The call trace of one session: its shape, and the events its rows point at.

    ``spent`` is for callees that are not among the rows, but were told of earlier: by the index
    that stands for the end of all of them in one call, the time they took.
    """

    shape: Shape
    events: Events
    spent: Mapping[int, int] = MappingProxyType({})

    def duration_ns(self, row: TraceRow) -> int | None:
        """How long the call of an EXIT or LEAF row took, callees included; None: not known."""
        if row.began is None:
            return None
        times = self.events.times_ns
        return times[row.event] - times[row.began]

    def self_ns(self, row: TraceRow) -> int | None:
        """The same without the traced callees."""
        total = self.duration_ns(row)
        if total is None or row.inner is None:
            return None
        times = self.events.times_ns
        return total - sum(times[ended] - times[began] for began, ended in row.inner)


class _Carried(NamedTuple):
    """A call that ran when its session was reported: what its return will need.

    ``entry`` is None where it was not seen, ``callees_ns`` where not all callees were.
    """

    function: int
    entry: Event | None
    callees_ns: int | None


class Earlier:
    """What is known of a session from before its next report, which tells only what came since.

    Were each report to tell all calls so far, a session with a thousand of them would tell most
    calls hundreds of times.
    """

    __slots__ = ("_running", "_shown", "_waiting", "count")

    def __init__(self) -> None:
        #: How many events have been told.
        self.count = 0
        self._shown = 0
        self._waiting: list[Events] = []
        self._running: list[_Carried] = []

    def wait(self, events: Events) -> None:
        """Keep events for the next report."""
        if events.seqs:
            self._waiting.append(events)

    def trace(self, events: Events, last_seq: int) -> Trace:
        """The calls up to event ``last_seq`` that have not been told, ``events`` among them."""
        self.wait(events)
        arrived = [event for waiting in self._waiting for event in waiting.each()]
        self._waiting = []
        self.wait(Events.of(event for event in arrived if event.seq > last_seq))
        new = {event.seq: event for event in arrived if self._shown < event.seq <= last_seq}
        tree, spent = _Tree(), {}
        before: list[Event] = []
        for call in self._running:
            running = _Running(call.function, None)
            if call.entry is not None:
                running.began = len(before)
                before.append(call.entry)
            if call.callees_ns is not None:
                start, end = len(before), len(before) + 1
                before += [_at(0), _at(call.callees_ns)]
                running.inner = [(start, end)]
                spent[end] = call.callees_ns
            tree.running.append(running)
        told = Events.of([*before, *(new[seq] for seq in sorted(new))])
        rows = tree.rows(told, max(last_seq, self._shown), len(before), self._shown)
        if self.count:
            rows.insert(0, TraceRow(RowKind.EARLIER, 1, missing=self.count))
        self.count += len(new)
        self._shown = max(last_seq, self._shown)
        self._running = [_carried(call, told) for call in tree.running]
        return Trace(_shape(rows, told.flags), told, spent)


def _at(time_ns: int) -> Event:
    """Something to tell a time by."""
    return Event(0, 0, 0, 0, 0, time_ns, 0)


def _carried(call: _Running, events: Events) -> _Carried:
    times = events.times_ns
    entry = None if call.began is None else Event(*(column[call.began] for column in events))
    inner = call.inner
    took = None if inner is None else sum(times[ended] - times[began] for began, ended in inner)
    return _Carried(call.function, entry, took)


class Tracer:
    """Makes traces, and remembers their shapes."""

    def __init__(self) -> None:
        self._shapes: BoundedCache[object, Shape] = BoundedCache(_ROOM)

    def trace(self, session: Session) -> Trace:
        """The trace of a session, up to the last event its record tells of.

        Of one that was reported before: what came since then.
        """
        events, last_seq = session.events, session.last_seq
        if session.earlier is not None:
            return session.earlier.trace(events, last_seq)
        shape = self._shape(events, last_seq)
        if shape is None:
            # parts from a perf buffer may come in another order; an interim record is of a part
            told = {event.seq: event for event in events.each() if 1 <= event.seq <= last_seq}
            events = Events.of(told[seq] for seq in sorted(told))
            shape = self._shape(events, last_seq)
            assert shape is not None
        return Trace(shape, events)

    def _shape(self, events: Events, last_seq: int) -> Shape | None:
        """The shape of events in order, none behind ``last_seq``; None if they are not so."""
        kinds, depths, _, ids, seqs, _, _, flags = events
        key = kinds, depths, ids, seqs, flags, last_seq
        known = self._shapes.get(key)
        if known is not None:
            return known
        if seqs and not 1 <= seqs[0] <= seqs[-1] <= last_seq:
            return None
        if any(after <= before for before, after in pairwise(seqs)):
            return None
        shape = _shape(_Tree().rows(events, last_seq), flags)
        return self._shapes.keep(key, shape, len(seqs) + 1)


def _shape(rows: Sequence[TraceRow], flags: Sequence[int]) -> Shape:
    """A shape of these rows, which are of events with these flags."""
    if any(flags):
        rows = [
            row._replace(interrupt=bool(flags[row.event] & _INTERRUPT))
            if row.kind not in (RowKind.GAP, RowKind.EARLIER)
            else row
            for row in rows
        ]
    return Shape(tuple(rows))


class _Running:
    """A call that has not returned: its function, its first event (None: not known), callees."""

    __slots__ = ("began", "function", "inner")

    def __init__(self, function: int, began: int | None) -> None:
        self.function = function
        self.began = began
        self.inner: list[tuple[int, int]] | None = [] if began is not None else None


class _Tree:
    """Follows the calls that are running while it walks over the events."""

    def __init__(self) -> None:
        self.running: list[_Running] = []

    def rows(
        self, events: Events, last_seq: int, first: int = 0, before: int = 0
    ) -> list[TraceRow]:
        """The rows of ``events`` from index ``first`` on; ``before`` is the number before it."""
        kinds, depths, _, ids, seqs, _, _, _ = (column[first:] for column in events)
        rows: list[TraceRow] = []
        for index, (kind, depth, func, seq) in enumerate(
            zip(kinds, depths, ids, seqs, strict=True), first
        ):
            if seq != before + 1:
                rows.append(self._gap(seq - before - 1))
            if kind == _ENTRY:
                self._enter(depth, func, index)
                rows.append(TraceRow(RowKind.ENTRY, depth, func, index))
            elif kind == _EXIT:
                row = self._leave(depth, func, index)
                last = rows[-1] if rows else None
                if last and last.kind is RowKind.ENTRY and row.began == last.event:
                    rows[-1] = row._replace(kind=RowKind.LEAF)
                else:
                    rows.append(row)
            else:
                rows.append(TraceRow(RowKind.PROBE, depth, func, index))
            before = seq
        if before < last_seq:
            rows.append(self._gap(last_seq - before))
        return rows

    def _enter(self, depth: int, func: int, index: int) -> None:
        running = self.running
        if len(running) >= depth:
            del running[max(depth - 1, 0) :]
            self._lose_inner()
        while len(running) < depth - 1:
            running.append(_Running(-1, None))
        running.append(_Running(func, index))

    def _leave(self, depth: int, func: int, index: int) -> TraceRow:
        running = self.running
        if len(running) > depth:
            del running[depth:]
            self._lose_inner()
        if depth < 1 or len(running) < depth or running[-1].function != func:
            del running[max(depth - 1, 0) :]
            self._lose_inner()
            return TraceRow(RowKind.EXIT, depth, func, index)
        call = running.pop()
        if call.began is None:
            self._lose_inner()
            return TraceRow(RowKind.EXIT, depth, func, index)
        if running and running[-1].inner is not None:
            running[-1].inner.append((call.began, index))
        inner = None if call.inner is None else tuple(call.inner)
        return TraceRow(RowKind.EXIT, depth, func, index, call.began, inner)

    def _gap(self, missing: int) -> TraceRow:
        """Events are missing here: what they may have changed is not known any more.

        For the innermost call to be another one by now it takes two of them, a return and a call;
        for its caller three, and so on.
        """
        row = TraceRow(RowKind.GAP, len(self.running), missing=missing)
        for height, call in enumerate(reversed(self.running), 1):
            call.inner = None
            if missing > height:
                call.began = None
        return row

    def _lose_inner(self) -> None:
        """A callee of the innermost call was not seen whole."""
        if self.running:
            self.running[-1].inner = None
