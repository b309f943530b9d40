# SPDX-License-Identifier: BSD-2-Clause
"""The symbols a recording carries, as a symbolizer."""

from __future__ import annotations

from collections.abc import Iterable

from retsnoop_py.symbolize.frames import Resolved, UserAddress, UserKey, user_key


class RecordedSymbolizer:
    """Answers from the SYMBOLS frames of a recording; an address they lack has no name."""

    def __init__(self) -> None:
        self._known: tuple[dict[int, Resolved], dict[int, Resolved]] = ({}, {})
        self._users: dict[UserKey, Resolved] = {}

    def add(self, symbols: Iterable[tuple[bool, Resolved]]) -> None:
        """Know these answers too."""
        for is_return, resolved in symbols:
            self._known[is_return][resolved.address] = resolved

    def add_users(self, symbols: Iterable[tuple[UserKey, Resolved]]) -> None:
        """Know these answers about programs too."""
        self._users.update(symbols)

    def resolve_user(self, tgid: int, address: UserAddress) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.UserSymbolizer`."""
        known = self._users.get(user_key(tgid, address))
        return known or Resolved(address.place, None, 0, 0, None)

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.Symbolizer`."""
        known = self._known[is_return].get(address)
        return known or Resolved(address, None, 0, 0, None)
