# SPDX-License-Identifier: BSD-2-Clause
"""Caches of computed values with limited memory, and of symbols by address."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from retsnoop_py.symbolize.frames import (
    Resolved,
    Symbolizer,
    UserAddress,
    UserKey,
    UserSymbolizer,
    user_key,
)

Key = TypeVar("Key", bound=Hashable)
Kind = TypeVar("Kind")
#: The key of a lookup (True for a return address), and its result.
Symbol = tuple[bool, Resolved]
#: The same of programs.
UserSymbol = tuple[UserKey, Resolved]


class BoundedCache(Generic[Key, Kind]):
    """Values by key. If their total weight exceeds ``room``, all are removed.

    Removing all values is cheap, and the ones in use are soon computed again.
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


class SymbolCache:
    """A symbolizer that asks another one only once for each address."""

    def __init__(self, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._known: tuple[dict[int, Resolved], dict[int, Resolved]] = ({}, {})
        self._new: list[Symbol] = []

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """See :class:`Symbolizer`."""
        known = self._known[is_return]
        found = known.get(address)
        if found is None:
            found = known[address] = self._symbolizer.resolve(address, is_return=is_return)
            self._new.append((is_return, found))
        return found

    def take_new(self) -> list[Symbol]:
        """The answers since the last call of this."""
        taken, self._new = self._new, []
        return taken


class UserSymbolCache:
    """The same of addresses of programs; without ``symbolizer`` none has a name."""

    def __init__(self, symbolizer: UserSymbolizer | None) -> None:
        self._symbolizer = symbolizer
        self._known: dict[UserKey, Resolved] = {}
        self._new: list[UserSymbol] = []

    def resolve_user(
        self, tgid: int, address: UserAddress, proc_tgid: int | None = None, name: str = ""
    ) -> Resolved:
        """See :class:`UserSymbolizer`."""
        key = user_key(tgid, address)
        found = self._known.get(key)
        if found is None:
            if self._symbolizer is None:
                found = Resolved(address.place, None, 0, 0, None)
            else:
                found = self._symbolizer.resolve_user(tgid, address, proc_tgid, name)
            self._known[key] = found
            self._new.append((key, found))
        return found

    def take_new(self) -> list[UserSymbol]:
        """The answers since the last call of this."""
        taken, self._new = self._new, []
        return taken
