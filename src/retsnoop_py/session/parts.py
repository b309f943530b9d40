# SPDX-License-Identifier: BSD-2-Clause
"""What comes before a session's record: its events, branches and user stack, a part each."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.session.model import Branch, BranchRecords
from retsnoop_py.symbolize.frames import UserAddress

if TYPE_CHECKING:
    from retsnoop_py.session.arguments import Captured
    from retsnoop_py.session.paths import Path
    from retsnoop_py.session.trace import Earlier

#: Parts of so many sessions are kept; of those that are not heard of again the oldest go first.
_MAX_OPEN = 1 << 16
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
        *("_events", "args", "arrived", "branches", "earlier", "event_bytes", "paths"),
        "user_stack",
    )

    def __init__(self) -> None:
        self.arrived = 0
        self._events: list[bytes] = []
        #: How many bytes of events there are or, for what was captured at them, were.
        self.event_bytes = 0
        self.args: dict[int, Captured] = {}
        self.paths: dict[int, Path] = {}
        self.earlier: Earlier | None = None
        self.branches: Branches | None = None
        self.user_stack = b""

    def take_events(self) -> bytes:
        """The events since this was called last."""
        events, self._events = self._events, []
        return b"".join(events)

    def add_events(self, data: bytes) -> None:
        """Append events."""
        self._events.append(data)
        self.event_bytes += len(data)


#: Of a session that has none; not to be changed.
NO_PARTS = SessionParts()


class PartStore:
    """The parts of sessions whose record has not come yet.

    ``dropped`` counts parts with events for which there was no room.
    """

    def __init__(self, max_bytes: int = _MAX_BYTES) -> None:
        self._open: dict[Key, SessionParts] = {}
        self._max_bytes = max_bytes
        self._bytes = 0
        self.dropped = 0

    def add_events(self, key: Key, data: bytes) -> None:
        """Append events."""
        parts = self._arrived(key)
        if self._bytes + len(data) > self._max_bytes:
            self.dropped += 1
            return
        self._bytes += len(data)
        parts.add_events(data)

    def set_branches(self, key: Key, branches: Branches) -> None:
        """The last branches before what the next record of the session tells."""
        self._arrived(key).branches = branches

    def set_user_stack(self, key: Key, data: bytes) -> None:
        """The user stack of the session."""
        self._arrived(key).user_stack = data

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
            if len(self._open) >= _MAX_OPEN:
                self.take(next(iter(self._open)))
            parts = self._open[key] = SessionParts()
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
