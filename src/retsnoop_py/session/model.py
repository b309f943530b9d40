# SPDX-License-Identifier: BSD-2-Clause
"""A session, what one call of an entry function did, and the tree of its calls.

Most sessions of a run have the same tree, with other times and results. So what depends on the
tree alone, a :class:`Shape`, is worked out once for each different one.
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

    ``func_id`` is the function's position among those of the run. ``result`` is the raw 64-bit
    result register, signed. ``latency_ns`` includes the callees; for an unfinished call it is the
    time it started (CLOCK_MONOTONIC ns). ``interrupt``: an interrupt of the thread made it.
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
    """One argument: the bytes of its value, those it points to, and what went wrong with them.

    ``error`` is a positive errno, 0 for none. Without an error and data it is NULL, or not a
    pointer, or one that is not followed.
    """

    value: bytes = b""
    data: bytes = b""
    error: int = 0


class Captured(NamedTuple):
    """What was captured at one event: ``id`` is that of the function or of the probe."""

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

    ``id`` is that of the function or of the injected probe, ``depth`` 1 for the entry function,
    ``time_ns`` CLOCK_MONOTONIC. ``result`` is the raw 64-bit result register of an exit, signed.
    ``flags`` are of ``enum rsn_event_flags``.
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
    """The events of a session, field by field; :class:`Event` tells what these are."""

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
        """Single events put together."""
        return cls(*zip(*events, strict=True)) if (events := tuple(events)) else NO_EVENTS

    def each(self) -> Iterator[Event]:
        """The events, one by one."""
        return map(Event._make, zip(*self, strict=True))


NO_EVENTS = Events((), (), (), (), (), (), (), ())


class SessionKind(IntEnum):
    """Why a session is reported."""

    #: It has ended.
    FINAL = 0
    #: It goes on; a chain of calls is about to be forgotten.
    STITCH = 1
    #: It goes on; an injected probe was hit.
    PROBE = 2
    #: It goes on although tracing has ended.
    RUNNING = 3


class MissedCalls(NamedTuple):
    """Calls of traced functions that the kernel kept from our programs.

    They were noticed when ``inside`` returned, the first of them at least: it made them, or its
    caller just before. ``shared``: other threads had the CPU meanwhile, and some may be theirs.
    """

    calls: int
    inside: Function
    shared: bool


class Branch(NamedTuple):
    """A branch the CPU took, from one address to another."""

    source: int
    target: int


class BranchRecords(NamedTuple):
    """What the CPU kept of its branches, newest first; or the errno why it gave none."""

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
    """What the kernel said in words, in a session's thread while the session ran.

    ``source``: ``printk``, for the kernel's log, ``netlink``, an extended acknowledgement for who
    sent a netlink message, ``fs_context``, the log of a file system context, for who opened that,
    ``verifier`` and ``btf``, what a loader of BPF that gave no log would have found in it, or
    ``io_uring``, a request that was refused. ``left_out``: so many messages before this one were
    too many to keep. ``instruction``: that of the program which it is about, where that is known.
    """

    source: str
    text: str
    left_out: int = 0
    instruction: int | None = None

    @classmethod
    def of(cls, source: int, data: bytes) -> Self:
        """A message as the kernel side sends it, which fills its room where it was cut."""
        text = data.partition(b"\0")[0].decode("utf-8", "backslashreplace")
        while text[:1] == "\1":  # KERN_SOH: a letter for its level follows
            text = text[2:]
        if source == MessageSource.FS_CONTEXT:
            text = text[2:]  # a letter for its level and a blank
        cut = "..." if len(data) >= MESSAGE_BYTES else ""
        return cls(_SOURCES.get(source, str(source)), text.strip() + cut)


class Session(NamedTuple):
    """One thread from an entry function's call to its return, or to where it is reported before.

    Times are CLOCK_MONOTONIC ns. ``calls`` is outermost first; ``kstack`` holds raw
    addresses, innermost first. ``dropped`` to ``lost_entries`` and ``missed`` say what is missing.
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
    #: The kernel could not unwind: ``kstack`` is where each call returns to, then what was above.
    call_sites: bool = False
    #: Those that came since the record before this one of the same session.
    events: Events = NO_EVENTS
    #: What was captured at an event, by its ``seq``.
    args: Mapping[int, Captured] = NO_ARGS
    #: The CPU on which it ended.
    cpu: int = 0
    kind: SessionKind = SessionKind.FINAL
    #: None: none were asked for, or they were lost.
    branches: BranchRecords | None = None
    #: Innermost first.
    user_stack: tuple[UserAddress, ...] = ()
    #: What came before: of a session that goes on, or did when it was reported before.
    earlier: Earlier | None = None
    #: Thread and process in their own PID namespace, and its inode; 0 where that is the first.
    ns_tid: int = 0
    ns_tgid: int = 0
    pid_ns: int = 0
    #: What the /proc of who traced it calls the process; 0: it was not there.
    proc_tgid: int = 0
    missed: MissedCalls | None = None
    #: ``kstack`` is where the thread exits, inside the calls or not.
    exiting: bool = False
    #: Not to be shown: it is there to be counted.
    ignored: bool = False
    #: Which blocks calls ran, by the ``seq`` of their entry.
    paths: Mapping[int, Path] = NO_PATHS
    #: Since the record before this one of the same session.
    said: tuple[KernelMessage, ...] = ()

    @property
    def has_other_ids(self) -> bool:
        """Whether its own PID namespace knows it by other ids than the kernel does."""
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
