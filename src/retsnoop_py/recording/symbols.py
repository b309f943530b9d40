# SPDX-License-Identifier: BSD-2-Clause
"""The symbols a recording carries, as a symbolizer."""

from __future__ import annotations

from collections.abc import Iterable

from retsnoop_py.recording.format import MAX_NAME
from retsnoop_py.session.paths import Origin, OriginKey, Path
from retsnoop_py.symbolize.frames import Resolved, UserAddress, UserKey, user_key

#: libdw is asked for no longer chains of inlined functions.
_MAX_FRAMES = 64


class RecordedSymbolizer:
    """Answers from the SYMBOLS frames of a recording; an address they lack has no name."""

    def __init__(self) -> None:
        self._known: tuple[dict[int, Resolved], dict[int, Resolved]] = ({}, {})
        self._users: dict[UserKey, Resolved] = {}
        self._origins: dict[OriginKey, Origin] = {}

    def add(self, symbols: Iterable[tuple[bool, Resolved]]) -> None:
        """Know these answers too."""
        for is_return, resolved in symbols:
            self._known[is_return][resolved.address] = _bounded(resolved)

    def add_users(self, symbols: Iterable[tuple[UserKey, Resolved]]) -> None:
        """Know these answers about programs too."""
        self._users.update((key, _bounded(resolved)) for key, resolved in symbols)

    def add_origins(self, origins: Iterable[tuple[OriginKey, Origin]]) -> None:
        """Know these answers about ways too."""
        self._origins.update(origins)

    def origin(self, path: Path) -> Origin | None:
        """See :class:`retsnoop_py.session.paths.Origins`."""
        return self._origins.get(path.key)

    def resolve_user(
        self,
        tgid: int,
        address: UserAddress,
        proc_tgid: int | None = None,  # noqa: ARG002 - of the machine that recorded it
        name: str = "",  # noqa: ARG002 - helps to find the file
    ) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.UserSymbolizer`."""
        known = self._users.get(user_key(tgid, address))
        return known or Resolved(address.place, None, 0, 0, None)

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.Symbolizer`."""
        known = self._known[is_return].get(address)
        return known or Resolved(address, None, 0, 0, None)


def _bounded(resolved: Resolved) -> Resolved:
    """The answer with what no live run finds cut off: it is printed for every frame."""
    if len(resolved.frames) > _MAX_FRAMES:
        resolved = resolved._replace(frames=resolved.frames[-_MAX_FRAMES:])
    if any(len(text or "") > MAX_NAME for text in (resolved.name, resolved.module)):
        resolved = resolved._replace(name=_cut(resolved.name), module=_cut(resolved.module))
    if any(len(f.function) > MAX_NAME or len(f.file or "") > MAX_NAME for f in resolved.frames):
        frames = (
            f._replace(function=f.function[:MAX_NAME], file=_cut(f.file)) for f in resolved.frames
        )
        resolved = resolved._replace(frames=tuple(frames))
    return resolved


def _cut(text: str | None) -> str | None:
    return None if text is None else text[:MAX_NAME]
