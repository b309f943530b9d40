# SPDX-License-Identifier: BSD-2-Clause
"""The session model: what one call of an entry function did, as every renderer sees it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum, IntFlag
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.paths import NO_PATHS, Path
from retsnoop_py.symbolize.frames import Resolved, UserAddress

if TYPE_CHECKING:
    from retsnoop_py.session.arguments import Captured
    from retsnoop_py.session.trace import Earlier


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
