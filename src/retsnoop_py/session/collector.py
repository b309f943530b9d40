# SPDX-License-Identifier: BSD-2-Clause
"""From batches of raw records to sessions."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum, IntFlag
from functools import lru_cache
from heapq import heappop, heappush
from itertools import count
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.events import (
    NO_PARTS,
    Branches,
    EventDecoder,
    Key,
    PartStore,
    SessionParts,
    read_branches,
    read_user_stack,
)
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.session.model import (
    NO_EVENTS,
    Call,
    Earlier,
    Events,
    KernelMessage,
    MessageSource,
    MissedCalls,
    Session,
    SessionKind,
)

if TYPE_CHECKING:
    from retsnoop_py.session.model import BranchRecords, Captured
    from retsnoop_py.session.unwritten import Unwritten
    from retsnoop_py.symbolize.frames import UserAddress

    #: The decoded parts of a session.
    _Read = tuple[Events, Mapping[int, Captured], BranchRecords | None, tuple[UserAddress, ...]]

Batch = bytes | memoryview


class RecordType(IntEnum):
    """``enum rsn_record_type`` of ``src/bpf/records.h``; a unit test keeps the two equal."""

    SESSION = 1
    EVENTS = 2
    BRANCHES = 3
    USER_STACK = 4
    MESSAGE = 5


class SessionFlags(IntFlag):
    """``enum rsn_session_flags`` of ``src/bpf/records.h``; a unit test keeps the two equal."""

    ERROR = 1
    DIED = 2
    CALL_SITES = 4
    IGNORED = 8
    STITCH = 16
    PROBE = 32
    EXITING = 64
    RUNNING = 128
    SWITCHED = 256


_ERROR, _DIED, _CALL_SITES, _IGNORED, _STITCH, _PROBE, _EXITING, _RUNNING, _SWITCHED = (
    int(flag) for flag in SessionFlags
)
_INTERIM = _STITCH | _PROBE
_UNENDED = _INTERIM | _RUNNING
_FINAL = SessionKind.FINAL
_SESSION_RECORD = int(RecordType.SESSION)
_NOTHING: _Read = (NO_EVENTS, NO_PARTS.args, None, ())
_UNWRITTEN = (MessageSource.VERIFIER, MessageSource.BTF, MessageSource.IO_URING)
_PARTS = (RecordType.EVENTS, RecordType.BRANCHES, RecordType.USER_STACK, RecordType.MESSAGE)

_SESSION = (
    "slot_cnt",
    "kstack_cnt",
    "depth",
    "stitch_pos",
    "start_ts",
    "emit_ts",
    "tid",
    "tgid",
    "task_comm",
    "proc_comm",
    "flags",
    "last_seq",
    "dropped",
    "too_deep",
    "lost_exits",
    "lost_entries",
    "parts",
    "cpu",
    "ns_tid",
    "ns_tgid",
    "pid_ns",
    "proc_tgid",
    "interrupt_pos",
    "missed",
    "missed_in",
)
_COMMS = ("task_comm", "proc_comm")
#: Losses of an incomplete session; a struct without such a member could not have that loss.
_LATER = (
    *("dropped", "too_deep", "lost_exits", "lost_entries", "parts", "cpu"),
    *("ns_tid", "ns_tgid", "pid_ns", "proc_tgid", "interrupt_pos"),
    *("missed", "missed_in"),
)
_SLOT = ("func_id", "seq", "result", "latency")
_PART = ("start_ts", "tid", "cnt")
#: Maximum number of records that wait for parts; further records are shown without parts.
_MAX_WAITING = 1 << 14
#: Well over RSN_MAX_DEPTH and RSN_MAX_KSTACK of ``src/bpf/records.h``: matching calls with frames
#: takes up to their product in steps.
_MAX_CALLS, _MAX_KSTACK = 256, 1024


#: Calling the class takes several times longer, and there are many sessions.
_new_session: Callable[[type[Session], tuple[Any, ...]], Session] = tuple.__new__
_new_call: Callable[[type[Call], tuple[Any, ...]], Call] = tuple.__new__


@lru_cache(maxsize=4096)
def comm_text(comm: bytes) -> str:
    r"""A task's name as text: up to the first NUL, bytes that are not UTF-8 as ``\xNN``."""
    return comm.partition(b"\0")[0].decode("utf-8", "backslashreplace")


class Collector:
    """Decodes batches: records one after another, each padded to a multiple of 8 bytes.

    ``skipped`` counts the records of types this version does not know. Raises DataError if
    the layouts do not describe the records.
    """

    def __init__(self, functions: Sequence[Function], layouts: Sequence[Layout]) -> None:
        self._count = len(functions)
        self._functions: Sequence[Function] | Mapping[int, Function] = functions
        if isinstance(functions, FunctionTable):
            self._functions = functions.by_id
        session, slot = layout_named(layouts, "rsn_session"), layout_named(layouts, "rsn_slot")
        self._session_format = session.format()
        self._pick_session = session.picker(_SESSION, text=_COMMS, optional=_LATER)
        self._slot_format = slot.format()
        self._pick_slot = slot.picker(_SLOT)
        self._plain_slots = tuple(member.name for member in slot.members) == _SLOT
        self._order = session.order
        #: By the number of addresses.
        self._stack_formats: dict[int, struct.Struct] = {}
        self._header = struct.Struct(session.order + "II")
        self._parts = PartStore()
        #: Waiting records in order, each with the number of parts that it needs.
        self._waiting: dict[Key, list[tuple[int, int, bytes]]] = {}
        self._serial = count()
        self._nr_waiting = 0
        self._layouts = layouts
        self._unwritten: Unwritten | None = None
        self._part_format: struct.Struct | None = None
        self._decoder: EventDecoder | None = None
        if any(layout.name == "rsn_part" for layout in layouts):
            self._describe_parts(layouts)
        self.skipped = 0
        #: The end of the record of the last session, as an offset in its batch.
        self.position = 0

    def _describe_parts(self, layouts: Sequence[Layout]) -> None:
        part = layout_named(layouts, "rsn_part")
        self._part_format = part.format()
        self._pick_part = part.picker(_PART)
        self._decoder = EventDecoder(layouts, self._count)

    @property
    def parts_dropped(self) -> int:
        """Number of event parts of continuing sessions that were dropped for lack of memory."""
        return self._parts.dropped

    def feed(self, batch: Batch) -> list[Session]:
        """Return all sessions of one batch. Raises DataError like :meth:`sessions`."""
        return list(self.sessions(batch))

    def sessions(self, batch: Batch, start: int = 0, end: int | None = None) -> Iterator[Session]:
        """Yield the sessions of one batch in order, from byte ``start`` to ``end``.

        Raises DataError with the byte offset in the batch at the first malformed record, after
        everything before it has been yielded.
        """
        view = memoryview(batch)
        position, end = start, len(view) if end is None else end
        unpack, head = self._header.unpack_from, self._header.size
        while position < end:
            if end - position < head:
                raise _damaged(position, f"{end - position} bytes are too few for a record")
            kind, size = unpack(view, position)
            if not head <= size <= end - position:
                raise _misfit(position, size, end - position)
            complete: Sequence[Session] = ()
            if kind == _SESSION_RECORD:
                complete = self._session(view, position, size)
            elif self._part_format is not None and kind in _PARTS:
                complete = self._part(kind, view, position, size)
            else:
                self.skipped += 1
            position += (size + 7) & ~7
            for session in complete:
                self.position = position
                yield session

    def rest(self) -> Iterator[Session]:
        """Yield the sessions that still wait for parts, at the end of the stream.

        Raises DataError if one session is malformed, after the others.
        """
        waiting, self._waiting, self._nr_waiting = self._waiting, {}, 0
        damage = None
        for key, records in waiting.items():
            parts = self._parts.take(key)
            for _, _, record in sorted(records, key=itemgetter(1)):
                view, size = memoryview(record), len(record)
                try:
                    session = self._decode(self._fields(view, 0, size), view, 0, size, parts)
                except DataError as err:
                    damage = damage or err
                    continue
                yield session
        if damage is not None:
            raise damage

    def discard(self) -> int:
        """Forget the sessions that wait for parts; return their number."""
        waiting, self._waiting = self._waiting, {}
        return sum(map(len, waiting.values()))

    def count(self, batch: Batch) -> int:
        """Return the number of records in ``batch``, up to a malformed one."""
        return sum(1 for _ in self.split(batch, 1))

    def _part(self, kind: int, view: memoryview, position: int, size: int) -> Sequence[Session]:
        """Store a part; return the sessions that are complete with it."""
        assert self._part_format is not None
        head = self._part_format
        if size < head.size:
            raise _damaged(position, f"{size} bytes are too few for a part of a session")
        start_ts, tid, cnt = self._pick_part((*head.unpack_from(view, position), 0))
        key, payload = (tid, start_ts), bytes(view[position + head.size : position + size])
        if kind == RecordType.EVENTS:
            self._parts.add_events(key, payload)
        elif kind == RecordType.BRANCHES:
            self._parts.set_branches(key, Branches(min(cnt, 0), payload))
        elif kind == RecordType.MESSAGE:
            self._parts.add_message(key, *self._message(cnt, payload))
        else:
            self._parts.set_user_stack(key, payload)
        return self._complete(key) if key in self._waiting else ()

    def _message(self, source: int, payload: bytes) -> tuple[KernelMessage | None, bool]:
        """Return a kernel message, if it has content, and whether its line ends with it."""
        if source not in _UNWRITTEN:
            return KernelMessage.of(source, payload), True
        if self._unwritten is None:
            from retsnoop_py.session.unwritten import Unwritten

            self._unwritten = Unwritten(self._layouts)
        return self._unwritten.message(source, payload)

    def _complete(self, key: Key) -> list[Session]:
        """Return the waiting sessions of ``key`` that have all parts now."""
        arrived, records = self._parts.get(key).arrived, self._waiting[key]
        ready = []
        while records and records[0][0] <= arrived:
            ready.append(memoryview(heappop(records)[2]))
        if not records:
            del self._waiting[key]
        self._nr_waiting -= len(ready)
        return [session for one in ready for session in self._session(one, 0, len(one))]

    def split(self, batch: Batch, limit: int) -> Iterator[memoryview]:
        """Yield ``batch`` cut between records into parts of about ``limit`` bytes.

        The rest from a malformed record on is one part, so that decoding reports the damage.
        """
        view = memoryview(batch)
        unpack, head, end = self._header.unpack_from, self._header.size, len(view)
        start = position = 0
        while position + head <= end:
            _, size = unpack(view, position)
            if not head <= size <= end - position:
                break
            position += (size + 7) & ~7
            if position - start >= limit:
                yield view[start:position]
                start = position
        if start < end:
            yield view[start:]

    def _fields(self, view: memoryview, position: int, size: int) -> tuple[Any, ...]:
        """Return the members :data:`_SESSION` of a record."""
        head = self._session_format
        if size < head.size:
            raise _damaged(position, f"{size} bytes are too few for a session")
        return self._pick_session((*head.unpack_from(view, position), 0))

    def _session(self, view: memoryview, position: int, size: int) -> Sequence[Session]:
        """Return the session of a record; None if it is ignored or waits for its parts."""
        fields = self._fields(view, position, size)
        start_ts, tid, flags, needed = fields[4], fields[6], fields[10], fields[16]
        key = tid, start_ts
        if flags & _IGNORED and not flags & _EXITING:
            self._parts.take(key)
            return ()
        if not needed or self._part_format is None:
            return (self._decode(fields, view, position, size, NO_PARTS),)
        parts = self._parts.get(key)
        if parts.arrived < needed and self._nr_waiting < _MAX_WAITING:
            record = needed, next(self._serial), bytes(view[position : position + size])
            heappush(self._waiting.setdefault(key, []), record)
            self._nr_waiting += 1
            return ()
        session = self._decode(fields, view, position, size, parts)
        if flags & _INTERIM:
            self._parts.drop_branches(key)
        else:
            self._parts.take(key)
        return (session,)

    def _decode(
        self,
        fields: tuple[Any, ...],
        view: memoryview,
        position: int,
        size: int,
        parts: SessionParts,
    ) -> Session:
        (
            slot_cnt,
            kstack_cnt,
            depth,
            stitch_pos,
            start_ts,
            emit_ts,
            tid,
            tgid,
            task_comm,
            proc_comm,
            flags,
            last_seq,
            dropped,
            too_deep,
            lost_exits,
            lost_entries,
            _,
            cpu,
            ns_tid,
            ns_tgid,
            pid_ns,
            proc_tgid,
            interrupt_pos,
            missed,
            missed_in,
        ) = fields
        slots = position + self._session_format.size
        stack = slots + slot_cnt * self._slot_format.size
        fits = 0 <= slot_cnt <= _MAX_CALLS and 0 <= kstack_cnt <= _MAX_KSTACK
        if not fits or stack + kstack_cnt * 8 > position + size:
            raise _damaged(
                position, f"{slot_cnt} calls and {kstack_cnt} addresses do not fit {size} bytes"
            )
        # A copy: an iterator over a memoryview in a traceback's reference loop crashes the garbage
        # collector of Python 3.11 (gh-77894).
        calls = self._calls(
            bytes(view[slots:stack]),
            (depth, stitch_pos or slot_cnt, interrupt_pos or slot_cnt),
            position,
        )
        kstack = (self._stack_formats.get(kstack_cnt) or self._stack_format(kstack_cnt)).unpack_from
        events, args, branches, user_stack = (
            _NOTHING if parts is NO_PARTS else self._read_parts(parts, flags, position)
        )
        # all by position: a third of the time that keywords take
        return _new_session(
            Session,
            (
                start_ts,
                emit_ts,
                tid,
                tgid,
                comm_text(task_comm),
                comm_text(proc_comm),
                flags & _ERROR != 0,
                flags & _DIED != 0,
                calls,
                kstack(view, stack),
                last_seq,
                dropped + parts.forgotten,
                too_deep,
                lost_exits,
                lost_entries,
                flags & _CALL_SITES != 0,
                events,
                args,
                cpu,
                _kind_of(flags) if flags & _UNENDED else _FINAL,
                branches,
                user_stack,
                parts.earlier,
                ns_tid,
                ns_tgid,
                pid_ns,
                proc_tgid,
                self._missed(missed, missed_in, flags, position) if missed else None,
                flags & _EXITING != 0,
                flags & _IGNORED != 0,
                parts.paths,
                parts.take_messages(),
            ),
        )

    def _read_parts(self, parts: SessionParts, flags: int, position: int) -> _Read:
        """Decode the parts of a session with ``flags``; update them if the session continues."""
        events, args = self._events(parts, position)
        if flags & _INTERIM and parts.earlier is None:
            parts.earlier = Earlier()
        branches = read_branches(self._order, parts.branches) if parts.branches else None
        user_stack = read_user_stack(self._order, parts.user_stack) if parts.user_stack else ()
        return events, args, branches, user_stack

    def _stack_format(self, count: int) -> struct.Struct:
        """Return the format of ``count`` addresses."""
        made = self._stack_formats[count] = struct.Struct(f"{self._order}{count}Q")
        return made

    def _missed(self, missed: int, missed_in: int, flags: int, position: int) -> MissedCalls:
        try:
            inside = self._functions[missed_in]
        except IndexError:
            raise _damaged(position, "it names a function that is not traced") from None
        return MissedCalls(missed, inside, bool(flags & _SWITCHED))

    def _events(self, parts: SessionParts, position: int) -> tuple[Events, Mapping[int, Captured]]:
        """Return the events since the previous record, and the values captured at them."""
        data = parts.take_events()
        if not data:
            return NO_EVENTS, parts.args
        assert self._decoder is not None
        try:
            events, args = self._decoder.decode(data)
        except DataError as err:
            raise _damaged(position, err.message) from None
        paths = self._decoder.take_paths()
        parts.paths.update(paths)
        if args or paths:
            parts.args.update(args)
        else:
            self._parts.release(parts, len(data))
        return events, parts.args

    def _calls(self, slots: bytes, begins: tuple[int, int, int], position: int) -> tuple[Call, ...]:
        """Decode the calls.

        ``begins`` are the indexes of the first returned, the first stitched and the first
        interrupt call.
        """
        returned, stitched, interrupt = begins
        rows = self._slot_format.iter_unpack(slots)
        if not self._plain_slots:
            rows = (self._pick_slot((*row, 0)) for row in rows)
        functions = self._functions
        try:
            return tuple(
                [
                    _new_call(
                        Call,
                        (
                            functions[func],
                            func,
                            seq,
                            result,
                            latency,
                            index >= returned,
                            index >= stitched,
                            index >= interrupt,
                        ),
                    )
                    for index, (func, seq, result, latency) in enumerate(rows)
                ]
            )
        except IndexError:  # func_id
            raise _damaged(position, "it names a function that is not traced") from None


def _kind_of(flags: int) -> SessionKind:
    if flags & _RUNNING:
        return SessionKind.RUNNING
    return SessionKind.PROBE if flags & _PROBE else SessionKind.STITCH


def _misfit(position: int, size: int, left: int) -> DataError:
    return _damaged(position, f"its size of {size} bytes does not fit the {left} there are")


def _damaged(position: int, why: str) -> DataError:
    return DataError(
        f"malformed record at byte {position} of its batch: {why}",
        "report this if the recording is intact: the BPF side and its layouts disagree",
    )
