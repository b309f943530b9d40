# SPDX-License-Identifier: BSD-2-Clause
"""The result of resolving an address."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class SourceFrame(NamedTuple):
    """One level of an inline chain: a function and the line in it.

    ``file`` is relative to the kernel's source root if possible; ``line`` and ``column`` are 0 if
    DWARF has none.
    """

    function: str
    file: str | None
    line: int
    column: int = 0


class Resolved(NamedTuple):
    """A resolved address.

    ``name`` and ``offset`` (bytes) are those of kallsyms for the address itself; ``name`` is None
    if no symbol contains the address; ``start`` is the symbol's address. ``frames`` is DWARF's
    inline chain, starting with the outermost function, which contains the code; empty without
    DWARF.
    """

    address: int
    name: str | None
    offset: int
    start: int
    module: str | None
    frames: tuple[SourceFrame, ...] = ()


class UserAddress(NamedTuple):
    """An address of a program: an offset in the file with ``build_id`` (hex).

    If ``build_id`` is empty, ``place`` is the address in the process.
    """

    build_id: str
    place: int


#: The identity of an address: build id and offset; without a build id, process and address.
UserKey = tuple[str, int, int]


def user_key(tgid: int, address: UserAddress) -> UserKey:
    """Return the key of an address in process ``tgid``."""
    return address.build_id, 0 if address.build_id else tgid, address.place


class UserSymbolizer(Protocol):
    """Resolve addresses of programs: live from their files, at replay from the recording."""

    def resolve_user(
        self, tgid: int, address: UserAddress, proc_tgid: int | None = None, name: str = ""
    ) -> Resolved:
        """Resolve the return address of a call in process ``tgid``; ``module`` is the file's path.

        ``proc_tgid``: the process id in this process's /proc if it differs from ``tgid``; 0 if
        none. ``name``: the name of the process, often also the name of its program.
        """
        ...


class Symbolizer(Protocol):
    """Resolve kernel addresses: live from the kernel and its image, or from a recording."""

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """Resolve ``address``.

        ``is_return``: it is a return address, so its source location is the location of the byte
        before.
        """
        ...
