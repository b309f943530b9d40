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


class Symbolizer(Protocol):
    """Resolves addresses; live from the kernel and its image, at replay from the recording."""

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        """Resolve ``address``.

        ``is_return``: it is a return address, so its source location is that of the byte before it.
        """
        ...
