# SPDX-License-Identifier: BSD-2-Clause
"""What comes before a session's record: events, what was captured, branches, the user stack."""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.session.model import (
    NO_ARGS,
    NO_EVENTS,
    Branch,
    BranchRecords,
    Captured,
    CapturedValue,
    EventKind,
    Events,
)
from retsnoop_py.symbolize.frames import UserAddress

if TYPE_CHECKING:
    from retsnoop_py.session.model import Earlier, KernelMessage
    from retsnoop_py.session.paths import Path, PathItems


_MEMBERS = ("kind", "depth", "cpu", "id", "seq", "ts", "result", "flags")
#: What took the room of the last one before there was such a thing: it is 0.
_BEFORE = "unused"
#: What counts from 0, which so needs no look at each event.
_UNSIGNED = frozenset({"depth", "id", "seq"})
_KINDS = frozenset(map(int, (EventKind.ENTRY, EventKind.EXIT, EventKind.PROBE)))
_ARG_KINDS = frozenset(map(int, (EventKind.ARGS, EventKind.PROBE_ARGS)))
_PROBE = int(EventKind.PROBE)
_PATH = int(EventKind.PATH)
#: So many are unpacked at once; a part holds no more.
_CHUNK = 128
#: The kernel's stack of 16 KiB has no room for so many calls.
_MAX_DEPTH = 1 << 10


class EventDecoder:
    """Decodes the payloads of event parts.

    ``functions`` is how many there are. Raises DataError if ``layouts`` do not describe events.
    """

    def __init__(self, layouts: Sequence[Layout], functions: int) -> None:
        layout = layout_named(layouts, "rsn_event")
        self._functions = functions
        self._one = layout.format()
        for member in layout.members:
            if member.name in _UNSIGNED and not member.code.isupper():
                raise DataError(f"struct {layout.name}: member {member.name} has a sign")
        order = [member.name for member in layout.members]
        members = [_BEFORE if name not in order and name == "flags" else name for name in _MEMBERS]
        layout.picker(("size", *members))  # raises if there is one that is missing
        self._width = len(order)
        self._at = [order.index(name) for name in members]
        self._size_at = order.index("size")
        self._head = struct.Struct(layout.order + "HB")
        self._layouts = layouts
        self._items: Items | None = None
        self._path_items: PathItems | None = None
        self._paths: dict[int, Path] = {}
        self._many = lru_cache(_CHUNK)(self._make_many)

    def decode(self, data: bytes) -> tuple[Events, Mapping[int, Captured]]:
        """The calls, returns and probe hits in ``data``, and what was captured, by their number.

        Each item tells its size, so one of a kind that is not known is passed over. Raises
        DataError if the data is damaged.
        """
        chunk = _CHUNK * self._one.size
        parts = []
        for start in range(0, len(data), chunk):
            found = self._uniform(data[start : start + chunk])
            if found is None:
                return self._walk(data)
            parts.append(found)
        if len(parts) == 1:
            return parts[0], NO_ARGS
        if not parts:
            return NO_EVENTS, NO_ARGS
        columns = zip(*parts, strict=True)
        return Events(*(tuple(chain.from_iterable(column)) for column in columns)), NO_ARGS

    def _make_many(self, count: int) -> tuple[struct.Struct, tuple[int, ...]]:
        """The format of so many events one after another, and the sizes they must have."""
        order, body = self._one.format[0], self._one.format[1:]
        return struct.Struct(order + body * count), (self._one.size,) * count

    def _uniform(self, data: bytes) -> Events | None:
        """The events, if they are all of the kinds and the size that are known."""
        count, rest = divmod(len(data), self._one.size)
        if rest:
            return None
        many, sizes = self._many(count)
        flat, width = many.unpack(data), self._width
        if flat[self._size_at :: width] != sizes:
            return None
        columns = Events(*[flat[at::width] for at in self._at])
        if not _KINDS.issuperset(columns.kinds):
            return None
        self._check(columns)
        return columns

    def _item(self, data: bytes) -> tuple[int, Captured]:
        """What was captured at an event; most runs capture nothing."""
        if self._items is None:
            self._items = Items(self._layouts)
        return self._items.read(data)

    def _path(self, data: bytes) -> Path:
        """The way of a call; most runs follow none."""
        if self._path_items is None:
            from retsnoop_py.session.paths import PathItems

            self._path_items = PathItems(self._layouts)
        path = self._path_items.read(data)
        if path.id >= self._functions:
            raise DataError("the executed path of a call belongs to a function that is not traced")
        return path

    def take_paths(self) -> dict[int, Path]:
        """The ways of calls that were decoded since this was called, by their entry events."""
        taken, self._paths = self._paths, {}
        return taken

    def _walk(self, data: bytes) -> tuple[Events, Mapping[int, Captured]]:
        """The items one by one."""
        found: list[tuple[int, ...]] = []
        args: dict[int, Captured] = {}
        at, end, size_of = 0, len(data), self._one.size
        while at + self._head.size <= end:
            size, kind = self._head.unpack_from(data, at)
            if not 0 < size <= end - at:
                raise DataError(f"an event of {size} bytes does not fit its part")
            if kind in _KINDS:
                if size < size_of:
                    raise DataError(f"{size} bytes are too few for an event")
                row = self._one.unpack_from(data, at)
                found.append(tuple([row[index] for index in self._at]))
            elif kind in _ARG_KINDS:
                seq, captured = self._item(data[at : at + size])
                args[seq] = captured
            elif kind == _PATH:
                path = self._path(data[at : at + size])
                self._paths[path.seq] = path
            at += size
        columns = Events(*zip(*found, strict=True)) if found else NO_EVENTS
        self._check(columns)
        return columns, args

    def _check(self, events: Events) -> None:
        if max(events.depths, default=0) >= _MAX_DEPTH:
            raise DataError("an event is deeper than any stack")
        if max(events.ids, default=0) < self._functions:
            return
        for kind, number in zip(events.kinds, events.ids, strict=True):
            if number >= self._functions and kind != _PROBE:
                raise DataError("an event names a function that is not traced")


#: The errno that stands for a capture that reached the limit of its call.
NO_ROOM = 28
_ARGS = ("kind", "cnt", "id", "seq")
_ARG = ("value", "data")
_ALIGNMENT = 8


class Items:
    """Reads ``struct rsn_args`` as ``layouts`` describe it.

    Raises DataError if they do not.
    """

    def __init__(self, layouts: Sequence[Layout]) -> None:
        head, one = layout_named(layouts, "rsn_args"), layout_named(layouts, "rsn_arg")
        self._head = head.format()
        self._pick = head.picker(_ARGS)
        self._one = one.format()
        self._pick_one = one.picker(_ARG)

    def read(self, item: bytes) -> tuple[int, Captured]:
        """The number of the event, and what was captured at it; DataError if it is damaged."""
        try:
            kind, count, number, seq = self._pick((*self._head.unpack_from(item), 0))
            start = self._head.size
            table = self._one.iter_unpack(item[start : start + count * self._one.size])
            at = _aligned(start + count * self._one.size)
            values = []
            for row in table:
                value_len, data_len = self._pick_one((*row, 0))
                value = item[at : at + value_len]
                at = _aligned(at + value_len)
                error = -min(data_len, 0)
                data = item[at : at + max(data_len, 0)]
                at = _aligned(at + len(data))
                values.append(CapturedValue(value, data, error))
        except struct.error as err:
            raise DataError(f"captured arguments are cut: {err}") from None
        if number < 0 or at > len(item) or len(values) != count:
            raise DataError(f"{count} captured arguments do not fit {len(item)} bytes")
        return seq, Captured(kind, number, tuple(values))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT


#: Parts of so many sessions are kept; beyond that the longest silent session goes.
_MAX_OPEN = 1 << 16
#: So many messages of the kernel are kept of a session.
_MAX_MESSAGES = 32
#: Characters of a line that comes in parts, beyond which the next one is a message of its own.
_LONGEST_LINE = 4096
#: Bytes of events kept for sessions that go on: a call that never ends could fill the memory.
_MAX_BYTES = 256 << 20

#: Which session: its thread and its start, CLOCK_MONOTONIC ns.
Key = tuple[int, int]


class Branches(NamedTuple):
    """Raw ``struct perf_branch_entry``, newest first, or a negative errno instead."""

    error: int
    data: bytes


class SessionParts:
    """A session's parts: ``arrived`` tells how many came; payloads as the kernel side made them.

    ``args`` and ``earlier`` are what its records before have brought.
    """

    __slots__ = (
        *("_events", "_is_cut", "_messages", "args", "arrived", "branches", "earlier"),
        *("event_bytes", "forgotten", "paths", "user_stack"),
    )

    def __init__(self) -> None:
        self.arrived = 0
        self._events: list[bytes] = []
        self._messages: tuple[KernelMessage, ...] = ()
        #: Whether the last one's line goes on in the next.
        self._is_cut = False
        #: How many bytes of events there are or, for what was captured at them, were.
        self.event_bytes = 0
        #: How many parts with events were forgotten, because others needed the memory.
        self.forgotten = 0
        self.args: dict[int, Captured] = {}
        self.paths: dict[int, Path] = {}
        self.earlier: Earlier | None = None
        self.branches: Branches | None = None
        self.user_stack = b""

    def take_events(self) -> bytes:
        """The events since this was called last."""
        events, self._events = self._events, []
        return b"".join(events)

    def take_messages(self) -> tuple[KernelMessage, ...]:
        """What the kernel said since this was called last."""
        messages = self._messages
        if messages:
            self._messages = ()
        return messages

    def add_message(self, message: KernelMessage, ends: bool) -> None:
        """Append what the kernel said; of very much the first and the last stay.

        ``ends``: its line ends with it, else what comes next from there belongs to it.
        """
        kept, is_cut, self._is_cut = self._messages, self._is_cut, not ends
        if is_cut and kept and kept[-1].source == message.source and _is_short(kept[-1]):
            last = kept[-1]
            kept, message = kept[:-1], last._replace(text=last.text + message.text)
        elif len(kept) == _MAX_MESSAGES:
            at = _MAX_MESSAGES // 2
            cut = kept[at].left_out + 1
            kept = (*kept[:at], kept[at + 1]._replace(left_out=cut), *kept[at + 2 :])
        self._messages = (*kept, message)

    def add_events(self, data: bytes) -> None:
        """Append events."""
        self._events.append(data)
        self.event_bytes += len(data)

    def forget_events(self) -> int:
        """Free the events and what was captured at them; return how many parts that were."""
        count = len(self._events)
        self._events = []
        self.args, self.paths = {}, {}
        self.event_bytes = 0
        self.forgotten += count
        return count


def _is_short(message: KernelMessage) -> bool:
    return len(message.text) < _LONGEST_LINE


#: Of a session that has none; not to be changed.
NO_PARTS = SessionParts()


class PartStore:
    """The parts of sessions whose record has not come yet.

    Events take no more than ``max_bytes``, and no more than ``max_open`` sessions are kept. Where
    there would be more, the session that was silent for the longest time loses its events, or all
    its parts: the record of a session may be lost, and then nothing else ends it. ``dropped``
    counts the parts with events that were lost in this way, ``SessionParts.forgotten`` those of one
    session.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES, max_open: int = _MAX_OPEN) -> None:
        #: The session that was silent for the longest time first.
        self._open: OrderedDict[Key, SessionParts] = OrderedDict()
        #: Those that have events, the one that was silent for the longest time first.
        self._holding: OrderedDict[Key, SessionParts] = OrderedDict()
        self._max_bytes = max_bytes
        self._max_open = max_open
        self._bytes = 0
        self.dropped = 0

    def add_events(self, key: Key, data: bytes) -> None:
        """Append events."""
        parts = self._arrived(key)
        if parts.event_bytes + len(data) > self._max_bytes:
            parts.forgotten += 1
            self.dropped += 1
            return
        self._holding[key] = parts
        self._holding.move_to_end(key)
        self._bytes += len(data)
        parts.add_events(data)
        while self._bytes > self._max_bytes:
            _, oldest = self._holding.popitem(last=False)
            self._bytes -= oldest.event_bytes
            self.dropped += oldest.forget_events()

    def set_branches(self, key: Key, branches: Branches) -> None:
        """The last branches before what the next record of the session tells."""
        self._arrived(key).branches = branches

    def set_user_stack(self, key: Key, data: bytes) -> None:
        """The user stack of the session."""
        self._arrived(key).user_stack = data

    def add_message(self, key: Key, message: KernelMessage | None, ends: bool) -> None:
        """Append what the kernel said, as :meth:`SessionParts.add_message` does."""
        parts = self._arrived(key)
        if message is not None:
            parts.add_message(message, ends)

    def get(self, key: Key) -> SessionParts:
        """What has come for a session that goes on."""
        return self._open.get(key, NO_PARTS)

    def drop_branches(self, key: Key) -> None:
        """Those of a session that goes on belonged to the record it just had."""
        if key in self._open:
            self._open[key].branches = None

    def take(self, key: Key) -> SessionParts:
        """What has come for a session that has ended; forgotten here."""
        parts = self._open.pop(key, NO_PARTS)
        self._holding.pop(key, None)
        self.release(parts, parts.event_bytes)
        return parts

    def release(self, parts: SessionParts, size: int) -> None:
        """``size`` bytes of events need not be kept any more."""
        size = min(size, parts.event_bytes)
        parts.event_bytes -= size
        self._bytes -= size

    def _arrived(self, key: Key) -> SessionParts:
        parts = self._open.get(key)
        if parts is None:
            if len(self._open) >= self._max_open:
                oldest = self.take(next(iter(self._open)))
                self.dropped += oldest.forget_events()
            parts = self._open[key] = SessionParts()
        else:
            self._open.move_to_end(key)
        parts.arrived += 1
        return parts


# --- structs of the kernel's own ABI, the same everywhere and for ever ---------------------------

#: ``struct perf_branch_entry``: from, to, and flags, which are not used.
_BRANCH = "QQ8x"
#: ``struct bpf_stack_build_id``: status, build id, offset in the file or address.
_USER_FRAME = "i20sQ"
_NO_FRAME, _HAS_BUILD_ID = 0, 1


def read_branches(order: str, raw: Branches) -> BranchRecords:
    """Branch records in byte order ``order``; a rest that is no whole record is left out."""
    record = struct.Struct(order + _BRANCH)
    whole = raw.data[: len(raw.data) // record.size * record.size]
    return BranchRecords(-raw.error, tuple(map(Branch._make, record.iter_unpack(whole))))


def read_user_stack(order: str, data: bytes) -> tuple[UserAddress, ...]:
    """A user stack in byte order ``order``; a rest that is no whole frame is left out."""
    frame = struct.Struct(order + _USER_FRAME)
    whole = data[: len(data) // frame.size * frame.size]
    return tuple(
        UserAddress(build_id.hex() if status == _HAS_BUILD_ID else "", place)
        for status, build_id, place in frame.iter_unpack(whole)
        if status != _NO_FRAME
    )
