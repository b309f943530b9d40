# SPDX-License-Identifier: BSD-2-Clause
"""The machine code of a function, as it runs: from /proc/kcore, else from the build's vmlinux.

The running code differs from the file: the kernel patches alternatives, static keys, return thunks
and the tracer's calls at boot and later. Therefore memory comes first. If the kernel does not show
its memory (lockdown, no CONFIG_PROC_KCORE), the file serves, and the running code may differ.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, Self

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.path.insn import Machine
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.kallsyms import Kallsyms, Symbol

__all__ = [
    "CodeSource",
    "FunctionCode",
    "Part",
    "VmlinuxText",
    "having_number",
    "read_function",
]

_PT_LOAD = 1
_HEADER_BYTES = 64
_SEGMENT = struct.Struct("=IIQQQQQQ")
_LARGEST_OFFSET = (1 << 63) - 1
#: The maximum size of a kernel function in bytes.
_MAX_FUNCTION = 1 << 18


class CodeSource(Protocol):
    """A source of machine code."""

    #: The source's name in messages.
    name: str

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at the run-time ``address``; fewer if the source has fewer."""
        ...


class VmlinuxText:
    """The text in the ELF file ``path``, which runs ``bias`` bytes above its linked address.

    A context manager. The file may come from a debuginfod server, or from another user. Raises
    DataError for a damaged file, OSError if the file cannot be read.
    """

    def __init__(self, path: Path, bias: int) -> None:
        self.name = str(path)
        self._bias = bias
        self._fd = open_regular(path)
        try:
            self._segments = self._read_segments()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read_segments(self) -> list[tuple[int, int, int]]:
        """Return address, offset in the file and size of each segment."""
        header = self._pread(_HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES:
            raise DataError(f"{self.name} is cut short")
        (table,) = struct.unpack_from("=Q", header, 32)
        entry, count = struct.unpack_from("=HH", header, 54)
        raw = self._pread(_SEGMENT.size * count, table)
        if entry != _SEGMENT.size or len(raw) < _SEGMENT.size * count:
            raise DataError(f"{self.name} has a damaged table of segments")
        return [
            (address, offset, filled)
            for kind, _, offset, address, _, filled, _, _ in _SEGMENT.iter_unpack(raw)
            if kind == _PT_LOAD
        ]

    def _pread(self, size: int, offset: int) -> bytes:
        """Return at most ``size`` bytes; none at an offset that no file has."""
        return os.pread(self._fd, size, offset) if offset <= _LARGEST_OFFSET else b""

    def read(self, address: int, size: int) -> bytes:
        """See :class:`CodeSource`."""
        linked = address - self._bias
        for start, offset, length in self._segments:
            if start <= linked < start + length:
                return self._pread(min(size, start + length - linked), offset + linked - start)
        return b""


class Part(Value):
    """Contiguous code at ``address``."""

    address: int
    code: bytes

    @property
    def end(self) -> int:
        """The address behind the part."""
        return self.address + len(self.code)


class FunctionCode(Value):
    """The code of a function, with its ``.cold`` part if the compiler moved code there."""

    name: str
    module: str | None
    parts: tuple[Part, ...]

    @property
    def address(self) -> int:
        """The address of the function's first instruction."""
        return self.parts[0].address

    def contains(self, address: int) -> bool:
        """Return True if ``address`` is in the function."""
        return any(part.address <= address < part.end for part in self.parts)

    def offset(self, address: int) -> str:
        """Return ``address`` as symbol and offset: ``map_create+0x1f``."""
        return f"{self.name}+{address - self.address:#x}"


def read_function(
    symbol: Symbol, symbols: Kallsyms, source: CodeSource, machine: Machine
) -> FunctionCode | None:
    """Return the code of the function at ``symbol``; None if ``source`` does not have it."""
    cold = [
        one
        for one in symbols.named(f"{symbol.name}.cold", symbol.module)
        if one.module == symbol.module
    ]
    parts = []
    # several cold parts: their functions have the same name, so the owner is unknown
    for one in (symbol, *(cold if len(cold) == 1 else ())):
        code = machine.own(source.read(one.address, min(one.size, _MAX_FUNCTION)))
        if one is symbol:
            code = machine.untraced(code)
        if code:
            parts.append(Part(one.address, code))
    if not parts or parts[0].address != symbol.address:
        return None
    return FunctionCode(symbol.name, symbol.module, tuple(parts))


def having_number(
    symbols: Kallsyms, source: CodeSource, names: Iterable[str], number: int, machine: Machine
) -> list[Symbol]:
    """Return the functions with code that may make ``number``, a signed int.

    ``names`` are ``NAME`` or ``NAME[MODULE]``. See :attr:`retsnoop_py.path.insn.Machine.makes`.
    """
    found = []
    for text in names:
        name, _, module = text.rstrip("]").partition("[")
        for symbol in symbols.named(name, module or None):
            code = read_function(symbol, symbols, source, machine)
            if code is not None and any(machine.makes(part.code, number) for part in code.parts):
                found.append(symbol)
                break
    return found
