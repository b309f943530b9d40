# SPDX-License-Identifier: BSD-2-Clause
"""A session (one call of an entry function), and the tree of its calls.

Most sessions of a run have the same call tree with other times and results. A :class:`Shape`
holds everything that depends only on the tree, and is computed once per tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntEnum, IntFlag
from itertools import pairwise
from types import MappingProxyType
from typing import NamedTuple, Self

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.paths import NO_PATHS, Path
from retsnoop_py.symbolize.frames import Resolved, UserAddress


class Call(NamedTuple):
    """One traced call on a session's stack.

    ``func_id`` is the function's index in the run. ``result`` is the raw 64-bit result register,
    signed. ``latency_ns`` includes the callees; for an unfinished call it is the start time
    (CLOCK_MONOTONIC ns). ``interrupt``: an interrupt of the thread made the call.
    """

    function: Function
    func_id: int
    seq: int
    result: int
    latency_ns: int
    finished: bool
    stitched: bool
    interrupt: bool = False


class CapturedValue(NamedTuple):
    """One argument: the bytes of its value, the bytes behind its pointer, and the read error.

    ``error`` is a positive errno, 0 for none. Without error and data, the argument is NULL, is not
    a pointer, or is a pointer that is not followed.
    """

    value: bytes = b""
    data: bytes = b""
    error: int = 0


class Captured(NamedTuple):
    """The values captured at one event; ``id`` is the ID of the function or of the probe."""

    kind: int
    id: int
    values: tuple[CapturedValue, ...]


class EventKind(IntEnum):
    """``enum rsn_event_kind`` of ``src/bpf/records.h``; a unit test keeps the two equal."""

    ENTRY = 1
    EXIT = 2
    PROBE = 3
    ARGS = 4
    PROBE_ARGS = 5
    PATH = 6


class EventFlags(IntFlag):
    """``enum rsn_event_flags`` of ``src/bpf/records.h``; a unit test keeps the two equal."""

    INTERRUPT = 1


class Event(NamedTuple):
    """A call, a return or a hit of an injected probe, in the order of ``seq``.

    ``id`` is the ID of the function or of the injected probe, ``depth`` is 1 for the entry
    function, ``time_ns`` is CLOCK_MONOTONIC. ``result`` is the raw 64-bit result register of an
    exit, signed. ``flags`` are of ``enum rsn_event_flags``.
    """

    kind: int
    depth: int
    cpu: int
    id: int
    seq: int
    time_ns: int
    result: int
    flags: int = 0


NO_ARGS: Mapping[int, Captured] = MappingProxyType({})


class Events(NamedTuple):
    """The events of a session as one column per field of :class:`Event`."""

    kinds: tuple[int, ...]
    depths: tuple[int, ...]
    cpus: tuple[int, ...]
    ids: tuple[int, ...]
    seqs: tuple[int, ...]
    times_ns: tuple[int, ...]
    results: tuple[int, ...]
    flags: tuple[int, ...]

    @classmethod
    def of(cls, events: Iterable[Event]) -> Events:
        """Build the columns from single events."""
        return cls(*zip(*events, strict=True)) if (events := tuple(events)) else NO_EVENTS

    def each(self) -> Iterator[Event]:
        """Yield the events, one by one."""
        return map(Event._make, zip(*self, strict=True))


NO_EVENTS = Events((), (), (), (), (), (), (), ())


class SessionKind(IntEnum):
    """Why a session is reported."""

    #: The session has ended.
    FINAL = 0
    #: The session continues. A chain of calls is about to be overwritten.
    STITCH = 1
    #: The session continues. An injected probe was hit.
    PROBE = 2
    #: The session still runs although tracing has ended.
    RUNNING = 3


class MissedCalls(NamedTuple):
    """Calls of traced functions for which the kernel did not run our BPF programs.

    At least the first one was noticed when ``inside`` returned: it made the calls, or its caller
    did just before. ``shared``: other threads used the CPU meanwhile, and some calls may be theirs.
    """

    calls: int
    inside: Function
    shared: bool


class Branch(NamedTuple):
    """A branch the CPU took, from one address to another."""

    source: int
    target: int


class BranchRecords(NamedTuple):
    """The branches that the CPU recorded, newest first, or the errno of a failed read."""

    error: int
    branches: tuple[Branch, ...] = ()


#: RSN_MESSAGE_BYTES of ``src/bpf/records.h``.
MESSAGE_BYTES = 512


class MessageSource(IntEnum):
    """``enum rsn_message_source`` of ``src/bpf/records.h``; a unit test keeps the two equal."""

    PRINTK = 1
    NETLINK = 2
    FS_CONTEXT = 3
    VERIFIER = 4
    BTF = 5
    IO_URING = 6


_SOURCES = {int(source): source.name.lower() for source in MessageSource}


class KernelMessage(NamedTuple):
    """A message that the kernel wrote in a session's thread while the session ran.

    ``source`` is ``printk`` (the kernel log), ``netlink`` (an extended acknowledgement to the
    sender of a netlink message), ``fs_context`` (the log of a file system context), ``verifier``
    and ``btf`` (text that a BPF loader without a log buffer did not receive) or ``io_uring`` (a
    rejected request). ``left_out`` is the number of messages dropped before this one.
    ``instruction`` is the instruction of the BPF program that the message is about, if known.
    """

    source: str
    text: str
    left_out: int = 0
    instruction: int | None = None

    @classmethod
    def of(cls, source: int, data: bytes) -> Self:
        """Decode a message of the kernel side. A message that fills its buffer was truncated."""
        text = data.partition(b"\0")[0].decode("utf-8", "backslashreplace")
        while text[:1] == "\1":  # KERN_SOH: a letter for the level follows
            text = text[2:]
        if source == MessageSource.FS_CONTEXT:
            text = text[2:]  # a letter for the level and a blank
        cut = "..." if len(data) >= MESSAGE_BYTES else ""
        return cls(_SOURCES.get(source, str(source)), text.strip() + cut)


class Session(NamedTuple):
    """A thread's call of an entry function until it returns, or until an interim report.

    Times are CLOCK_MONOTONIC ns. ``calls`` is outermost first; ``kstack`` holds raw addresses,
    innermost first. ``dropped`` to ``lost_entries`` and ``missed`` count missing data.
    """

    start_ns: int
    emit_ns: int
    tid: int
    tgid: int
    task_comm: str
    proc_comm: str
    is_error: bool
    died: bool
    calls: tuple[Call, ...]
    kstack: tuple[int, ...]
    last_seq: int
    dropped: int
    too_deep: int
    lost_exits: int
    lost_entries: int
    #: The kernel could not unwind: ``kstack`` has the return address of each call, then the rest.
    call_sites: bool = False
    #: The events since the previous record of the same session.
    events: Events = NO_EVENTS
    #: The values captured at an event, by its ``seq``.
    args: Mapping[int, Captured] = NO_ARGS
    #: The CPU on which the session ended.
    cpu: int = 0
    kind: SessionKind = SessionKind.FINAL
    #: None: not requested, or lost.
    branches: BranchRecords | None = None
    #: Innermost first.
    user_stack: tuple[UserAddress, ...] = ()
    #: The events before this record, for a session with several records.
    earlier: Earlier | None = None
    #: Thread and process in their own PID namespace, and its inode; 0 for the first namespace.
    ns_tid: int = 0
    ns_tgid: int = 0
    pid_ns: int = 0
    #: The process ID in the tracer's /proc; 0 if the process is not visible there.
    proc_tgid: int = 0
    missed: MissedCalls | None = None
    #: ``kstack`` is the place where the thread exits, inside the calls or not.
    exiting: bool = False
    #: Only counted, not shown.
    ignored: bool = False
    #: The basic blocks that calls executed, by the ``seq`` of their entry.
    paths: Mapping[int, Path] = NO_PATHS
    #: The messages since the previous record of the same session.
    said: tuple[KernelMessage, ...] = ()

    @property
    def has_other_ids(self) -> bool:
        """True if the thread's PID namespace uses other IDs than the kernel."""
        return bool(self.ns_tid) and (self.ns_tid, self.ns_tgid) != (self.tid, self.tgid)


class StackRow(NamedTuple):
    """One line of a merged stack: a traced call, a kernel frame, or both.

    ``hidden`` marks tracing's own frames, kept only by ``stacks.unfiltered``.
    """

    call: Call | None
    frame: Resolved | None
    hidden: bool = False


_ENTRY, _EXIT = int(EventKind.ENTRY), int(EventKind.EXIT)
_INTERRUPT = int(EventFlags.INTERRUPT)
#: Shapes with this many events in total are kept.
_ROOM = 1 << 15


class RowKind(IntEnum):
    """The kind of a row of a trace."""

    ENTRY = 1
    EXIT = 2
    PROBE = 3
    #: A call and its return without events in between.
    LEAF = 4
    #: Events that did not arrive.
    GAP = 5
    #: Events that earlier reports of the session have printed.
    EARLIER = 6


class TraceRow(NamedTuple):
    """One row. All indexes are indexes of the session's events.

    ``depth`` is 1 for the entry function. A probe has the depth of its caller, a gap the depth at
    its start. ``id`` is the ID of the function or of the probe. ``event`` is the event of the row,
    for a leaf the return. ``began`` is the start of the returning call, None if unknown.
    ``inner`` are the direct callees of that call, each as (began, ended); None if some are missing.
    ``missing`` is the number of events that a gap or an earlier report stands for.
    ``interrupt``: the row happens in an interrupt of the thread.
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
    """The call trace of one session: its shape, and the events of the rows.

    ``spent`` is the time of callees that an earlier report printed, by the index that stands for
    the end of these callees.
    """

    shape: Shape
    events: Events
    spent: Mapping[int, int] = MappingProxyType({})

    def duration_ns(self, row: TraceRow) -> int | None:
        """Duration of the call of an EXIT or LEAF row in ns, with callees; None if unknown."""
        if row.began is None:
            return None
        times = self.events.times_ns
        return times[row.event] - times[row.began]

    def self_ns(self, row: TraceRow) -> int | None:
        """Duration of the call of an EXIT or LEAF row in ns, without traced callees."""
        total = self.duration_ns(row)
        if total is None or row.inner is None:
            return None
        times = self.events.times_ns
        return total - sum(times[ended] - times[began] for began, ended in row.inner)


class _Carried(NamedTuple):
    """A running call at the time of a report: the data for its later return.

    ``entry`` is None if the call was not seen, ``callees_ns`` is None if callees are missing.
    """

    function: int
    entry: Event | None
    callees_ns: int | None


class Earlier:
    """The state of a session between reports. The next report prints only new events.

    If each report printed all calls so far, a session with a thousand calls would print most of
    its calls hundreds of times.
    """

    __slots__ = ("_running", "_shown", "_waiting", "count")

    def __init__(self) -> None:
        #: The number of events that were printed.
        self.count = 0
        self._shown = 0
        self._waiting: list[Events] = []
        self._running: list[_Carried] = []

    def wait(self, events: Events) -> None:
        """Keep events for the next report."""
        if events.seqs:
            self._waiting.append(events)

    def trace(self, events: Events, last_seq: int) -> Trace:
        """Return the trace of ``events`` and earlier unprinted events, up to ``last_seq``."""
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
    """An event that only carries a time."""
    return Event(0, 0, 0, 0, 0, time_ns, 0)


def _carried(call: _Running, events: Events) -> _Carried:
    times = events.times_ns
    entry = None if call.began is None else Event(*(column[call.began] for column in events))
    inner = call.inner
    took = None if inner is None else sum(times[ended] - times[began] for began, ended in inner)
    return _Carried(call.function, entry, took)


class Tracer:
    """Builds traces, and caches their shapes."""

    def __init__(self) -> None:
        self._shapes: BoundedCache[object, Shape] = BoundedCache(_ROOM)

    def trace(self, session: Session) -> Trace:
        """Return the trace of a session, up to the last event of its record.

        If the session was reported before, the trace contains only the events since then.
        """
        events, last_seq = session.events, session.last_seq
        if session.earlier is not None:
            return session.earlier.trace(events, last_seq)
        shape = self._shape(events, last_seq)
        if shape is None:
            # a perf buffer can reorder parts; an interim record covers only some events
            told = {event.seq: event for event in events.each() if 1 <= event.seq <= last_seq}
            events = Events.of(told[seq] for seq in sorted(told))
            shape = self._shape(events, last_seq)
            assert shape is not None
        return Trace(shape, events)

    def _shape(self, events: Events, last_seq: int) -> Shape | None:
        """Return the shape of ordered events up to ``last_seq``; None if they are unordered."""
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
    """Return the shape for ``rows``, whose events have these flags."""
    if any(flags):
        rows = [
            row._replace(interrupt=bool(flags[row.event] & _INTERRUPT))
            if row.kind not in (RowKind.GAP, RowKind.EARLIER)
            else row
            for row in rows
        ]
    return Shape(tuple(rows))


class _Running:
    """A running call: its function, its first event (None: unknown), its callees."""

    __slots__ = ("began", "function", "inner")

    def __init__(self, function: int, began: int | None) -> None:
        self.function = function
        self.began = began
        self.inner: list[tuple[int, int]] | None = [] if began is not None else None


class _Tree:
    """Tracks the running calls during a walk over the events."""

    def __init__(self) -> None:
        self.running: list[_Running] = []

    def rows(
        self, events: Events, last_seq: int, first: int = 0, before: int = 0
    ) -> list[TraceRow]:
        """Return the rows of ``events`` from index ``first`` on, after number ``before``."""
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
        """Forget everything that missing events may have changed.

        Two missing events (a return and a call) can replace the innermost call, three can replace
        its caller, and so on.
        """
        row = TraceRow(RowKind.GAP, len(self.running), missing=missing)
        for height, call in enumerate(reversed(self.running), 1):
            call.inner = None
            if missing > height:
                call.began = None
        return row

    def _lose_inner(self) -> None:
        """Record that a callee of the innermost call is incomplete."""
        if self.running:
            self.running[-1].inner = None
