# SPDX-License-Identifier: BSD-2-Clause
"""The events of a session and what was captured at them, decoded in bulk where it can be."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING

from retsnoop_py.errors import DataError
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.session.model import NO_ARGS, NO_EVENTS, EventKind, Events

if TYPE_CHECKING:
    from retsnoop_py.session.arguments import Captured, Items
    from retsnoop_py.session.paths import Path, PathItems

_MEMBERS = ("kind", "depth", "cpu", "id", "seq", "ts", "result", "flags")
#: What took the room of the last one before there was such a thing: it is 0.
_BEFORE = "unused"
#: What counts from 0, which so needs no look at each event.
_UNSIGNED = frozenset({"depth", "id", "seq"})
_KINDS = frozenset(map(int, (EventKind.ENTRY, EventKind.EXIT, EventKind.PROBE)))
_ARGS = frozenset(map(int, (EventKind.ARGS, EventKind.PROBE_ARGS)))
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
            from retsnoop_py.session.arguments import Items

            self._items = Items(self._layouts)
        return self._items.read(data)

    def _path(self, data: bytes) -> Path:
        """The way of a call; most runs follow none."""
        if self._path_items is None:
            from retsnoop_py.session.paths import PathItems

            self._path_items = PathItems(self._layouts)
        path = self._path_items.read(data)
        if path.id >= self._functions:
            raise DataError("the way of a call is that of a function that is not traced")
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
            elif kind in _ARGS:
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
