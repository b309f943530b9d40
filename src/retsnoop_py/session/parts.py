# SPDX-License-Identifier: BSD-2-Clause
"""What comes before a session's record: its events, branches and user stack, a part each."""

from __future__ import annotations

from typing import NamedTuple

#: Parts of so many sessions are kept; of those that are not heard of again the oldest go first.
_MAX_OPEN = 1 << 16

#: Which session: its thread and its start, CLOCK_MONOTONIC ns.
Key = tuple[int, int]


class Branches(NamedTuple):
    """Raw ``struct perf_branch_entry``, newest first, or a negative errno instead."""

    error: int
    data: bytes


class Parts(NamedTuple):
    """A session's parts: ``arrived`` tells how many came; payloads as the kernel side made them."""

    arrived: int = 0
    events: bytes = b""
    branches: Branches | None = None
    user_stack: bytes = b""


_NONE = Parts()


class PartStore:
    """The parts of sessions whose record has not come yet."""

    def __init__(self) -> None:
        self._open: dict[Key, Parts] = {}

    def add_events(self, key: Key, data: bytes) -> None:
        """Append events."""
        known = self._known(key)
        self._open[key] = known._replace(arrived=known.arrived + 1, events=known.events + data)

    def set_branches(self, key: Key, branches: Branches) -> None:
        """The last branches before what the next record of the session tells."""
        known = self._known(key)
        self._open[key] = known._replace(arrived=known.arrived + 1, branches=branches)

    def set_user_stack(self, key: Key, data: bytes) -> None:
        """The user stack of the session."""
        known = self._known(key)
        self._open[key] = known._replace(arrived=known.arrived + 1, user_stack=data)

    def get(self, key: Key) -> Parts:
        """What has come for a session that goes on."""
        return self._open.get(key, _NONE)

    def take(self, key: Key) -> Parts:
        """What has come for a session that has ended; forgotten here."""
        return self._open.pop(key, _NONE)

    def _known(self, key: Key) -> Parts:
        known = self._open.get(key)
        if known is None:
            if len(self._open) >= _MAX_OPEN:
                del self._open[next(iter(self._open))]
            known = _NONE
        return known
