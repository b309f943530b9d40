# SPDX-License-Identifier: BSD-2-Clause
"""Programs and libraries: the symbols and the source lines of an ELF file."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.elf_file import MAX_NAME, ElfFile, Section, string_at
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import DwarfImage

__all__ = ["Program", "debug_file"]

_SYMBOL = struct.Struct("=IBBHQQ")
#: STT_FUNC and STT_GNU_IFUNC.
_FUNCTIONS = frozenset({2, 10})
_SHF_ALLOC = 2
_TABLES = ((".symtab", ".strtab"), (".dynsym", ".dynstr"))
_DEBUG_FILES = Path("usr/lib/debug/.build-id")


class _Symbol(NamedTuple):
    """A function: where it begins, its bytes, and its name's place in the string table."""

    address: int
    size: int
    name: int


class Program:
    """An ELF file that processes map. ``name`` is what to call it.

    ``fd`` is the open file and ``debug`` its separate debug file, of which both are left open;
    ``lines``: source lines as well. Raises OSError and DataError as :class:`ElfFile` does.
    """

    def __init__(self, fd: int, name: str, debug: int | None = None, *, lines: bool) -> None:
        self.name = name
        self._lines = lines
        with ElfFile(name, fd) as elf:
            self._sections = [s for s in elf.sections.values() if s.flags & _SHF_ALLOC]
            self._strings, self._symbols = _symbols(elf)
            self._debug = os.dup(fd) if elf.has_dwarf else None if debug is None else os.dup(debug)
            has_symtab = ".symtab" in elf.sections
        if debug is not None and not has_symtab:
            with ElfFile(name, debug) as elf:
                strings, symbols = _symbols(elf)
                if symbols:
                    self._strings, self._symbols = strings, symbols
        self._starts = [symbol.address for symbol in self._symbols]

    def resolve(self, offset: int, place: int) -> Resolved:
        """The call that returns to ``offset`` in the file; ``place`` is what to call that."""
        address = self._linked(offset)
        if address is None:
            return Resolved(place, None, 0, 0, self.name)
        symbol = self._symbol(address - 1)
        name = string_at(self._strings, symbol.name) if symbol else None
        frames = self._frames(address - 1, name)
        if symbol is None:
            return Resolved(place, None, 0, 0, self.name, frames)
        distance = address - symbol.address
        return Resolved(place, name, distance, place - distance, self.name, frames)

    def close(self) -> None:
        """Close what was opened for source lines."""
        if "_image" in self.__dict__ and self._image is not None:
            self._image.close()
        if self._debug is not None:
            os.close(self._debug)
            self._debug = None

    def _linked(self, offset: int) -> int | None:
        """The address a byte of the file is linked to."""
        for section in self._sections:
            if _holds(section, offset):
                return section.address + offset - section.offset
        return None

    def _symbol(self, address: int) -> _Symbol | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        symbol = self._symbols[index]
        return symbol if address < symbol.address + max(symbol.size, 1) else None

    @cached_property
    def _image(self) -> DwarfImage | None:
        if not self._lines or self._debug is None:
            return None
        from retsnoop_py.libbpf.dwarf import DwarfImage

        try:
            return DwarfImage(Path(self.name), fd=self._debug)
        except RetsnoopError:
            return None

    def _frames(self, address: int, symbol: str | None) -> tuple[SourceFrame, ...]:
        """The inline chain, outermost first."""
        if self._image is None:
            return ()
        try:
            location = self._image.lookup(address)
        except RetsnoopError:
            return ()
        if location is None:
            return ()
        return tuple(
            SourceFrame(
                (function or symbol or "??")[:MAX_NAME], file and file[:MAX_NAME], line, column
            )
            for function, file, line, column in reversed(location.frames)
        )


def debug_file(build_id: str | None, root: Path = Path("/")) -> Path | None:
    """The separate debug file of an image, None where it is not installed."""
    if not build_id:
        return None
    path = root / _DEBUG_FILES / build_id[:2] / f"{build_id[2:]}.debug"
    return path if path.is_file() else None


def _holds(section: Section, offset: int) -> bool:
    return section.offset <= offset < section.offset + section.size


def _symbols(elf: ElfFile) -> tuple[bytes, list[_Symbol]]:
    """The functions of the better symbol table, by address; of several names the shortest.

    Before them the string table that has their names: they are read when they are asked for.
    """
    for table, strings in _TABLES:
        raw, names = elf.read(table), elf.read(strings)
        whole = raw[: len(raw) // _SYMBOL.size * _SYMBOL.size]
        found: dict[int, _Symbol] = {}
        for name, info, _, section, address, size in _SYMBOL.iter_unpack(whole):
            if info & 15 not in _FUNCTIONS or not section or not address:
                continue
            known = found.get(address)
            if (
                known is None
                or known.size < size
                or (known.size == size and _length(names, name) < _length(names, known.name))
            ):
                found[address] = _Symbol(address, size, name)
        if found:
            return names, sorted(found.values())
    return b"", []


def _length(names: bytes, offset: int) -> int:
    end = names.find(b"\0", offset, offset + MAX_NAME)
    return (end if end >= 0 else offset + MAX_NAME) - offset
