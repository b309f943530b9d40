# SPDX-License-Identifier: BSD-2-Clause
"""What was worked out once and may be needed again, within bounds."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kind = TypeVar("Kind")


class Kept(Generic[Key, Kind]):
    """Values by key. When their weights come to more than ``room`` all are forgotten.

    Forgetting all of them is cheap, and what is still needed is soon there again.
    """

    def __init__(self, room: int) -> None:
        self._values: dict[Key, Kind] = {}
        self._room = room
        self._left = room
        #: The value of a key, None if it is not kept.
        self.get = self._values.get

    def __len__(self) -> int:
        return len(self._values)

    def keep(self, key: Key, value: Kind, weight: int = 1) -> Kind:
        """Keep ``value``, unless it alone is heavier than a quarter of the room; gives it back."""
        if weight <= self._room // 4:
            if weight > self._left:
                self._values.clear()
                self._left = self._room
            self._left -= weight
            self._values[key] = value
        return value
