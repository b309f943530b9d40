# SPDX-License-Identifier: BSD-2-Clause
"""Read the DWARF of an image with libdw: compile units, inline chains and variables.

The native extension is loaded with the first image, because most runs need no DWARF.
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

#: DW_LANG_Mips_Assembler, which every assembler uses as its language.
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
    """One level of an inline chain in DWARF. ``function`` is None if only the line table has it."""

    function: str | None
    file: str | None
    line: int
    column: int


class Location(NamedTuple):
    """The location of an address in DWARF: the chain, innermost first, and its compile unit."""

    frames: tuple[DwarfFrame, ...]
    unit: str
    comp_dir: str
    is_assembly: bool


class Variable(NamedTuple):
    """A variable or parameter, before the instruction at an address runs.

    ``where``: ``register``: the variable is in the register (DWARF's number). ``memory``: it is in
    memory at the register's value plus ``offset`` bytes. ``sum``: its value is that sum. ``given``:
    its value is the register's value at the function's entry. ``size`` is in bytes, 0 if unknown.
    ``kind`` is the kind of ``type``, reached through ``pointers`` pointers, without typedefs:
    ``number``, ``enum``, ``struct``, ``union`` or ``other``. ``depth`` is the depth of its scope;
    ``in_header``: a header declares the variable.
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
    """An address at which a line begins; ``is_empty``: it has only the code of another line."""

    address: int
    file: str
    is_empty: bool


class LinePlaces(NamedTuple):
    """The addresses of a line's code in a unit.

    ``below`` and ``above`` are the nearest lines with code in these files, or None.
    """

    places: tuple[LinePlace, ...]
    below: int | None
    above: int | None


class DwarfStats(NamedTuple):
    """Number of units in the image, tables built so far, their bytes, restarts of libdw."""

    units: int
    loads: int
    bytes: int
    resets: int


def load() -> tuple[FFI, Lib]:
    """Load the native extension; return cffi's ``ffi`` and ``lib``."""
    from retsnoop_py._dwarf import ffi, lib

    return ffi, lib


def defect(path: Path) -> tuple[str, bool] | None:
    """Return why libdw cannot read the DWARF of ``path``; None if it can.

    The second value is True if the compression is not supported.
    """
    ffi, lib = load()
    error, message = ffi.new("int *"), ffi.new("char[256]")
    handle = lib.rsn_dwarf_open(os.fsencode(path), -1, ffi.NULL, 0, error, message, 256)
    if handle == ffi.NULL:
        why = ffi.string(message).decode(errors="replace")
        return why, bool(error[0] == lib.RSN_DWARF_COMPRESSED)
    lib.rsn_dwarf_close(handle)
    return None


class DwarfImage:
    """An ELF image with DWARF; a context manager. Threads may share it.

    ``sections`` (name → runtime address) places a relocatable image; other images keep their linked
    addresses. ``fd``: an open descriptor of the file, which stays open. Raise InputError if the
    file cannot be read. Raise DataError if it is not an ELF file, has no DWARF or cannot be
    decoded.
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
        names = [ffi.new("char[]", name.encode(errors="surrogateescape")) for name in sections]
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
        """Free all memory; the image must not be used after that. Idempotent."""
        with self._lock:
            handle: CData | None = self._handle
            if handle is not None:
                self._lib.rsn_dwarf_close(handle)
                self._handle = None  # type: ignore[assignment] # so that a later call is a TypeError

    def lookup(self, address: int) -> Location | None:
        """Return the inline chain at ``address``; None if DWARF lacks the address.

        Raise DataError if the address's unit cannot be decoded.
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
        """Return the variables with a known location at ``address``, outer scopes first.

        Variables in pieces, or computed from more than a register and a number, are omitted. Raise
        DataError if the address's unit cannot be decoded.
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
        """Return all compile units with their ranges. Raise DataError if they cannot be decoded."""
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
        """Return the code of a line in the unit at index ``unit`` of :meth:`units`.

        Files match if their path is ``path`` or ends with it. Raise DataError for damaged DWARF.
        """
        ffi = self._ffi
        near = ffi.new("uint32_t[2]", [0, _NO_LINE])
        room = 64
        with self._lock:
            while True:
                places = ffi.new("struct rsn_dwarf_place[]", room)
                found = self._lib.rsn_dwarf_find_line(
                    self._handle,
                    unit,
                    path.encode(errors="surrogateescape"),
                    line,
                    places,
                    room,
                    near,
                    near + 1,
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
        """Return the current memory use of the image."""
        raw = self._ffi.new("struct rsn_dwarf_stats *")
        with self._lock:
            self._lib.rsn_dwarf_get_stats(self._handle, raw)
        return DwarfStats(raw.units, raw.loads, raw.bytes, raw.resets)
