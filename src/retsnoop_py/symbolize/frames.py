# SPDX-License-Identifier: BSD-2-Clause
"""What is known of one address."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class SourceFrame(NamedTuple):
    """One level of an inline chain: a function and the line within it.

    ``file`` is relative to the kernel's source root where it can be; ``line`` and ``column``
    are 0 where DWARF has none.
    """

    function: str
    file: str | None
    line: int
    column: int = 0


class Resolved(NamedTuple):
    """An address resolved.

    ``name`` and ``offset`` (bytes) are those of kallsyms for the address itself, ``name`` None
    where no symbol covers it; ``start`` is the symbol's address. ``frames`` is DWARF's chain,
    outermost (the function that has the code) first, empty without DWARF.
    """

    address: int
    name: str | None
    offset: int
    start: int
    module: str | None
    frames: tuple[SourceFrame, ...] = ()


class UserAddress(NamedTuple):
    """An address of a program: an offset in the file with ``build_id`` (hex).

    Where that is empty, ``place`` is the address in the process.
    """

    build_id: str
    place: int


#: What makes an address one: build id and offset; where there is no build id process and address.
UserKey = tuple[str, int, int]


def user_key(tgid: int, address: UserAddress) -> UserKey:
    """The key of an address seen in process ``tgid``."""
    return address.build_id, 0 if address.build_id else tgid, address.place


class UserSymbolizer(Protocol):
    """Resolves addresses of programs; live from their files, at replay from the recording."""

    def resolve_user(
        self, tgid: int, address: UserAddress, proc_tgid: int | None = None, name: str = ""
    ) -> Resolved:
        """Resolve what a call in process ``tgid`` returns to; ``module`` is the file's path.

        ``proc_tgid``: what our /proc calls that process, 0 for nothing, where that is not ``tgid``;
        ``name``: the process's, which its program often has.
        """
        ...


class Symbolizer(Protocol):
    """Resolves addresses; live from the kernel and its image, at replay from the recording."""

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """Resolve ``address``.

        ``is_return``: it is a return address, so its source location is that of the byte before it.
        """
        ...
