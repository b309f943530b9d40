# SPDX-License-Identifier: BSD-2-Clause
"""DWARF of one image through libdw: compile units, and inline chains and variables of addresses.

The native extension is loaded with the first image, not before: most runs need no DWARF.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from retsnoop_py.errors import DataError, InputError, RetsnoopError

if TYPE_CHECKING:
    from retsnoop_py._dwarf import FFI, CData, Lib

__all__ = [
    "CompileUnit",
    "DwarfFrame",
    "DwarfImage",
    "DwarfStats",
    "LinePlace",
    "LinePlaces",
    "Location",
    "Variable",
]

#: DW_LANG_Mips_Assembler: what every assembler says it is.
_ASSEMBLER = 0x8001
_MAX_FRAMES = 64
_MAX_VARIABLES = 256
_NO_LINE = 2**32 - 1

_HINTS = {
    "RSN_DWARF_NOT_ELF": "give an uncompressed vmlinux or module file",
    "RSN_DWARF_NONE": "install the debug package that belongs to it",
    "RSN_DWARF_COMPRESSED": "make a plain copy: objcopy --decompress-debug-sections FILE COPY",
    "RSN_DWARF_NO_ALT": "install the debug package's common (dwz) file",
    "RSN_DWARF_DAMAGED": "the file is damaged: install it again",
}


class DwarfFrame(NamedTuple):
    """One level of a chain as DWARF has it. ``function`` None: only the line table knows it."""

    function: str | None
    file: str | None
    line: int
    column: int


class Location(NamedTuple):
    """What DWARF says of an address: the chain, innermost first, and its compile unit."""

    frames: tuple[DwarfFrame, ...]
    unit: str
    comp_dir: str
    is_assembly: bool


class Variable(NamedTuple):
    """A variable or parameter while the instruction at an address has not run yet.

    ``where``: it is in the ``register`` (DWARF's number), in ``memory`` at that plus ``offset``
    bytes, the ``sum`` of these itself, or what the register had ``given`` at the function's entry.
    ``size`` in bytes, 0 if unknown. ``kind`` is that of ``type``, which is behind so many
    ``pointers``, typedefs not counted: ``number``, ``enum``, ``struct``, ``union`` or ``other``.
    ``depth`` is that of its scope; ``in_header``: it is declared in a header.
    """

    name: str
    where: str
    register: int
    offset: int
    size: int
    kind: str
    type: str | None
    pointers: int
    depth: int
    in_header: bool


class CompileUnit(NamedTuple):
    """A compile unit and its address ranges [low, high)."""

    name: str
    comp_dir: str
    ranges: tuple[tuple[int, int], ...]


class LinePlace(NamedTuple):
    """An address at which a line begins; ``is_empty``: another one's code is all there is."""

    address: int
    file: str
    is_empty: bool


class LinePlaces(NamedTuple):
    """Where a unit has code of a line.

    ``below`` and ``above`` are the nearest lines of such files that have code, None for none.
    """

    places: tuple[LinePlace, ...]
    below: int | None
    above: int | None


class DwarfStats(NamedTuple):
    """Units in the image, tables built so far, bytes they hold, restarts of libdw."""

    units: int
    loads: int
    bytes: int
    resets: int


def load() -> tuple[FFI, Lib]:
    """The native extension: cffi's ``ffi`` and ``lib``."""
    from retsnoop_py._dwarf import ffi, lib

    return ffi, lib


def defect(path: Path) -> tuple[str, bool] | None:
    """Why libdw cannot read the DWARF of ``path``, and whether for its compression; None if not."""
    ffi, lib = load()
    error, message = ffi.new("int *"), ffi.new("char[256]")
    handle = lib.rsn_dwarf_open(os.fsencode(path), -1, ffi.NULL, 0, error, message, 256)
    if handle == ffi.NULL:
        why = ffi.string(message).decode(errors="replace")
        return why, bool(error[0] == lib.RSN_DWARF_COMPRESSED)
    lib.rsn_dwarf_close(handle)
    return None


class DwarfImage:
    """An ELF image with DWARF, open until closed; a context manager. Safe to share by threads.

    ``sections`` (name → runtime address) places a relocatable image; other images keep the
    addresses they were linked at. ``fd``: the file is open already, and left so. Raises
    InputError where the file cannot be read and DataError where it is no ELF file, has no DWARF
    or cannot be decoded.
    """

    def __init__(self, path: Path, sections: Mapping[str, int] | None = None, fd: int = -1) -> None:
        ffi, lib = load()
        self.path = path
        self._ffi = ffi
        self._lib = lib
        self._lock = threading.Lock()
        self._handle = self._open(sections or {}, fd)
        self._frames = ffi.new("struct rsn_dwarf_frame[]", _MAX_FRAMES)
        self._unit = ffi.new("struct rsn_dwarf_unit *")

    def _open(self, sections: Mapping[str, int], fd: int) -> CData:
        ffi = self._ffi
        names = [ffi.new("char[]", name.encode()) for name in sections]
        table = ffi.new("struct rsn_dwarf_section[]", max(1, len(names)))
        for i, (name, address) in enumerate(zip(names, sections.values(), strict=True)):
            table[i].name, table[i].address = name, address
        error, message = ffi.new("int *"), ffi.new("char[256]")
        handle = self._lib.rsn_dwarf_open(
            os.fsencode(self.path), fd, table, len(names), error, message, 256
        )
        if handle == ffi.NULL:
            raise self._error(error[0], self._text(message) or "")
        return handle

    def _error(self, code: int, message: str) -> RetsnoopError:
        names = {getattr(self._lib, name): name for name in _HINTS}
        hint = _HINTS.get(names.get(code, ""))
        kind = InputError if code == self._lib.RSN_DWARF_IO else DataError
        return kind(f"{self.path}: {message}", hint)

    def _text(self, pointer: CData) -> str | None:
        if pointer == self._ffi.NULL:
            return None
        raw: bytes = self._ffi.string(pointer)
        return raw.decode(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free everything; the image must not be used any more. Calling it again does nothing."""
        with self._lock:
            handle: CData | None = self._handle
            if handle is not None:
                self._lib.rsn_dwarf_close(handle)
                self._handle = None  # type: ignore[assignment] # so that a later call is a TypeError

    def lookup(self, address: int) -> Location | None:
        """The inline chain at ``address``, None where DWARF knows nothing of it.

        Raises DataError where the unit that has it cannot be decoded.
        """
        with self._lock:
            frames = self._frames
            count = self._lib.rsn_dwarf_lookup(
                self._handle, address, frames, _MAX_FRAMES, self._unit
            )
            if count < 0:
                raise self._error(
                    count, self._text(self._lib.rsn_dwarf_message(self._handle)) or ""
                )
            if count == 0:
                return None
            chain = tuple(self._frame(frames[i]) for i in range(count))
            unit = self._unit
            assembly = unit.language == _ASSEMBLER
            name, comp_dir = self._text(unit.name) or "", self._text(unit.comp_dir) or ""
            return Location(chain, name, comp_dir, assembly)

    def _frame(self, raw: CData) -> DwarfFrame:
        return DwarfFrame(self._text(raw.function), self._text(raw.file), raw.line, raw.column)

    def variables(self, address: int) -> tuple[Variable, ...]:
        """The variables whose place is known at ``address``, outer scopes' before inner ones'.

        Those that are kept in pieces, or computed of more than a register and a number, are left
        out. Raises DataError where the unit that has the address cannot be decoded.
        """
        ffi, lib = self._ffi, self._lib
        found = ffi.new("struct rsn_dwarf_variable[]", _MAX_VARIABLES)
        with self._lock:
            count = lib.rsn_dwarf_variables(self._handle, address, found, _MAX_VARIABLES)
            if count < 0:
                raise self._error(count, self._text(lib.rsn_dwarf_message(self._handle)) or "")
            return tuple(self._variable(found[i]) for i in range(count))

    def _variable(self, raw: CData) -> Variable:
        return Variable(
            self._text(raw.name) or "",
            ("register", "memory", "sum", "given")[raw.where],
            raw.reg,
            raw.offset,
            raw.size,
            ("other", "number", "enum", "struct", "union")[raw.kind],
            self._text(raw.type),
            raw.pointers,
            raw.depth,
            bool(raw.in_header),
        )

    def units(self) -> tuple[CompileUnit, ...]:
        """All compile units with their ranges. Raises DataError where they cannot be decoded."""
        ffi = self._ffi
        units, ranges = ffi.new("struct rsn_dwarf_unit **"), ffi.new("struct rsn_dwarf_range **")
        counts = ffi.new("size_t[2]")
        with self._lock:
            error = self._lib.rsn_dwarf_units(self._handle, units, counts, ranges, counts + 1)
            if error:
                raise self._error(
                    error, self._text(self._lib.rsn_dwarf_message(self._handle)) or ""
                )
            spread: list[list[tuple[int, int]]] = [[] for _ in range(counts[0])]
            words = memoryview(ffi.buffer(ranges[0], counts[1] * 24)).cast("Q") if counts[1] else []
            for low, high, unit in zip(words[0::3], words[1::3], words[2::3], strict=True):
                spread[unit].append((low, high))
            return tuple(
                CompileUnit(
                    self._text(units[0][i].name) or "",
                    self._text(units[0][i].comp_dir) or "",
                    tuple(spread[i]),
                )
                for i in range(counts[0])
            )

    def find_line(self, unit: int, path: str, line: int) -> LinePlaces:
        """Where the unit at index ``unit`` of :meth:`units` has code of a line.

        Of any file whose path is ``path`` or ends in it. Raises DataError for damaged DWARF.
        """
        ffi = self._ffi
        near = ffi.new("uint32_t[2]", [0, _NO_LINE])
        room = 64
        with self._lock:
            while True:
                places = ffi.new("struct rsn_dwarf_place[]", room)
                found = self._lib.rsn_dwarf_find_line(
                    self._handle, unit, path.encode(), line, places, room, near, near + 1
                )
                if found < 0:
                    raise self._error(
                        found, self._text(self._lib.rsn_dwarf_message(self._handle)) or ""
                    )
                if found <= room:
                    break
                room = found
            return LinePlaces(
                tuple(self._place(places[i]) for i in range(found)),
                near[0] or None,
                None if near[1] == _NO_LINE else near[1],
            )

    def _place(self, raw: CData) -> LinePlace:
        return LinePlace(raw.address, self._text(raw.file) or "", bool(raw.is_empty))

    @property
    def stats(self) -> DwarfStats:
        """What the image costs now."""
        raw = self._ffi.new("struct rsn_dwarf_stats *")
        with self._lock:
            self._lib.rsn_dwarf_get_stats(self._handle, raw)
        return DwarfStats(raw.units, raw.loads, raw.bytes, raw.resets)
