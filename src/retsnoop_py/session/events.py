# SPDX-License-Identifier: BSD-2-Clause
"""Parts that precede a session's record: events, captured values, branches, the user stack."""

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
from retsnoop_py.session.paths import PathItems
from retsnoop_py.symbolize.frames import UserAddress

if TYPE_CHECKING:
    from retsnoop_py.session.model import Earlier, KernelMessage
    from retsnoop_py.session.paths import Path


_MEMBERS = ("kind", "depth", "cpu", "id", "seq", "ts", "result", "flags")
#: The member in place of the last one in older layouts; it is 0.
_BEFORE = "unused"
#: Members that are never negative, so no check per event is needed.
_UNSIGNED = frozenset({"depth", "id", "seq"})
_KINDS = frozenset(map(int, (EventKind.ENTRY, EventKind.EXIT, EventKind.PROBE)))
_ARG_KINDS = frozenset(map(int, (EventKind.ARGS, EventKind.PROBE_ARGS)))
_PROBE = int(EventKind.PROBE)
_PATH = int(EventKind.PATH)
#: Events to unpack at once; a part contains no more.
_CHUNK = 128
#: The kernel's stack of 16 KiB has no room for as many calls.
_MAX_DEPTH = 1 << 10


class EventDecoder:
    """Decodes the payloads of event parts.

    ``functions`` is the number of functions. Raises DataError if ``layouts`` have no events.
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
        layout.picker(("size", *members))  # raises if a member is missing
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
        """Return the calls, returns and probe hits in ``data``, and the captured values by number.

        Each item contains its size, so unknown kinds can be skipped. Raises DataError if the data
        is damaged.
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
        """Return the format of ``count`` events in a row, and the sizes that they must have."""
        order, body = self._one.format[0], self._one.format[1:]
        return struct.Struct(order + body * count), (self._one.size,) * count

    def _uniform(self, data: bytes) -> Events | None:
        """Return the events if all have known kinds and the same size."""
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
        """Decode the values captured at an event; most runs capture nothing."""
        if self._items is None:
            self._items = Items(self._layouts)
        return self._items.read(data)

    def _path(self, data: bytes) -> Path:
        """Decode the executed path of a call; most runs record none."""
        if self._path_items is None:
            self._path_items = PathItems(self._layouts)
        path = self._path_items.read(data)
        if path.id >= self._functions:
            raise DataError("the executed path of a call belongs to a function that is not traced")
        return path

    def take_paths(self) -> dict[int, Path]:
        """Return the paths decoded since the last call, by their entry events."""
        taken, self._paths = self._paths, {}
        return taken

    def _walk(self, data: bytes) -> tuple[Events, Mapping[int, Captured]]:
        """Decode the items one by one."""
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


#: The errno of a capture that reached the limit of its call.
NO_ROOM = 28
_ARGS = ("kind", "cnt", "id", "seq")
_ARG = ("value", "data")
_ALIGNMENT = 8


class Items:
    """Reads ``struct rsn_args`` as ``layouts`` describe it.

    Raises DataError if ``layouts`` do not describe it.
    """

    def __init__(self, layouts: Sequence[Layout]) -> None:
        head, one = layout_named(layouts, "rsn_args"), layout_named(layouts, "rsn_arg")
        self._head = head.format()
        self._pick = head.picker(_ARGS)
        self._one = one.format()
        self._pick_one = one.picker(_ARG)

    def read(self, item: bytes) -> tuple[int, Captured]:
        """Return the number of the event and its captured values. Raises DataError on damage."""
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


#: Maximum number of sessions with parts; beyond it, the session silent for longest is dropped.
_MAX_OPEN = 1 << 16
#: Maximum number of kernel messages per session.
_MAX_MESSAGES = 32
#: Maximum characters of a line that comes in parts; the next part then starts a new message.
_LONGEST_LINE = 4096
#: Maximum bytes of events of continuing sessions: a call that never ends could fill the memory.
_MAX_BYTES = 256 << 20

#: The key of a session: its thread and its start, CLOCK_MONOTONIC ns.
Key = tuple[int, int]


class Branches(NamedTuple):
    """Raw ``struct perf_branch_entry``, newest first, or a negative errno instead."""

    error: int
    data: bytes


class SessionParts:
    """The parts of a session. ``arrived`` counts them; payloads are raw, as the kernel sent them.

    ``args`` and ``earlier`` come from previous records of the session.
    """

    __slots__ = (
        *("_events", "_is_cut", "_messages", "args", "arrived", "branches", "earlier"),
        *("event_bytes", "forgotten", "paths", "user_stack"),
    )

    def __init__(self) -> None:
        self.arrived = 0
        self._events: list[bytes] = []
        self._messages: tuple[KernelMessage, ...] = ()
        #: True if the line of the last message continues in the next message.
        self._is_cut = False
        #: Bytes of the stored events, including the bytes of captured values already decoded.
        self.event_bytes = 0
        #: Number of event parts that were dropped because others needed the memory.
        self.forgotten = 0
        self.args: dict[int, Captured] = {}
        self.paths: dict[int, Path] = {}
        self.earlier: Earlier | None = None
        self.branches: Branches | None = None
        self.user_stack = b""

    def take_events(self) -> bytes:
        """Return the events since the last call."""
        events, self._events = self._events, []
        return b"".join(events)

    def take_messages(self) -> tuple[KernelMessage, ...]:
        """Return the kernel messages since the last call."""
        messages = self._messages
        if messages:
            self._messages = ()
        return messages

    def add_message(self, message: KernelMessage, ends: bool) -> None:
        """Append a kernel message. If there are too many, only the first and last ones are kept.

        ``ends``: the line ends with this message; otherwise the next message continues it.
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
        """Free the events and captured values; return the number of their parts."""
        count = len(self._events)
        self._events = []
        self.args, self.paths = {}, {}
        self.event_bytes = 0
        self.forgotten += count
        return count


def _is_short(message: KernelMessage) -> bool:
    return len(message.text) < _LONGEST_LINE


#: The parts of a session without parts; do not change it.
NO_PARTS = SessionParts()


class PartStore:
    """The parts of sessions whose record has not arrived yet.

    Events use at most ``max_bytes``, and at most ``max_open`` sessions are kept. Beyond a limit,
    the session that was silent for the longest time loses its events or all its parts: its
    record may be lost, and then it would never end. ``dropped`` counts the lost parts with
    events, ``SessionParts.forgotten`` the lost parts per session.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES, max_open: int = _MAX_OPEN) -> None:
        #: Ordered by the last activity, the longest silent session first.
        self._open: OrderedDict[Key, SessionParts] = OrderedDict()
        #: Sessions with events, the longest silent session first.
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
        """Store the last branches before the next record of the session."""
        self._arrived(key).branches = branches

    def set_user_stack(self, key: Key, data: bytes) -> None:
        """Store the user stack of the session."""
        self._arrived(key).user_stack = data

    def add_message(self, key: Key, message: KernelMessage | None, ends: bool) -> None:
        """Append a kernel message, as :meth:`SessionParts.add_message` does."""
        parts = self._arrived(key)
        if message is not None:
            parts.add_message(message, ends)

    def get(self, key: Key) -> SessionParts:
        """Return the parts of a session that continues."""
        return self._open.get(key, NO_PARTS)

    def drop_branches(self, key: Key) -> None:
        """Drop the branches of a continuing session; they belonged to its last record."""
        if key in self._open:
            self._open[key].branches = None

    def take(self, key: Key) -> SessionParts:
        """Remove and return the parts of a session that has ended."""
        parts = self._open.pop(key, NO_PARTS)
        self._holding.pop(key, None)
        self.release(parts, parts.event_bytes)
        return parts

    def release(self, parts: SessionParts, size: int) -> None:
        """Release the memory of ``size`` bytes of events."""
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


# --- structs of the kernel's ABI, the same on all kernels -----------------------------------------

#: ``struct perf_branch_entry``: from, to, and flags, which are unused.
_BRANCH = "QQ8x"
#: ``struct bpf_stack_build_id``: status, build id, offset in the file or address.
_USER_FRAME = "i20sQ"
_NO_FRAME, _HAS_BUILD_ID = 0, 1


def read_branches(order: str, raw: Branches) -> BranchRecords:
    """Decode branch records in byte order ``order``; ignore an incomplete last record."""
    record = struct.Struct(order + _BRANCH)
    whole = raw.data[: len(raw.data) // record.size * record.size]
    return BranchRecords(-raw.error, tuple(map(Branch._make, record.iter_unpack(whole))))


def read_user_stack(order: str, data: bytes) -> tuple[UserAddress, ...]:
    """Decode a user stack in byte order ``order``; ignore an incomplete last frame."""
    frame = struct.Struct(order + _USER_FRAME)
    whole = data[: len(data) // frame.size * frame.size]
    return tuple(
        UserAddress(build_id.hex() if status == _HAS_BUILD_ID else "", place)
        for status, build_id, place in frame.iter_unpack(whole)
        if status != _NO_FRAME
    )
