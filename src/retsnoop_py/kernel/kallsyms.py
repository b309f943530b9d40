# SPDX-License-Identifier: BSD-2-Clause
"""/proc/kallsyms: the kernel's symbols, by address and by name.

The file is read in one go and parsed in C; a line is decoded when something asks for it. It
holds what is loaded at that moment: modules, and BPF programs and trampolines as ``[bpf]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.modules import Module
from retsnoop_py.kernel.native import Functions, ListFormat, SymbolTable
from retsnoop_py.kernel.tracefs import Traceable

__all__ = ["Kallsyms", "Symbol", "is_padding"]

#: Functions are text symbols: local and global, strong and weak.
_FUNCTION_TYPES = frozenset({b"t", b"T", b"w", b"W"})
#: Bytes a symbol may cover where nothing else ends it: the last [bpf] image, for one.
_UNBOUNDED = 64 << 10
_NO_END = (1 << 64) - 1


class Symbol(NamedTuple):
    """A symbol: ``address``, ``size`` in bytes up to whatever comes next, ``module`` or None."""

    address: int
    size: int
    name: str
    module: str | None


def is_padding(name: bytes) -> bool:
    """Whether a symbol names the bytes before a function, not the function."""
    return name.startswith((b"__pfx_", b"__cfi_"))


class Kallsyms:
    """The symbols of ``path``; ``modules`` tells where the modules end.

    Raises :class:`UnavailableError` where there is no such file and :class:`PrivilegeError`
    where the kernel hides the addresses.
    """

    def __init__(self, path: Path, modules: Sequence[Module] = ()) -> None:
        self._path = path
        self._module_ends = {m.name: m.address + m.size for m in modules if m.address}
        self.table = self._read()
        text_ends = self.table.find("_etext")
        self._text_end = self.table.address(text_ends[0]) if text_ends else None

    def reread(self) -> None:
        """Read the file again: attaching adds trampolines and programs to it."""
        self.table = self._read()

    def _read(self) -> SymbolTable:
        try:
            text = self._path.read_bytes()
        except OSError as err:
            raise UnavailableError(
                f"cannot read {self._path}: {err.strerror}",
                "mount /proc; the kernel needs CONFIG_KALLSYMS",
            ) from err
        table = SymbolTable(text, ListFormat.KALLSYMS, by_address=True)
        if not len(table):
            raise UnavailableError(f"{self._path} lists no symbols")
        if not table.address(len(table) - 1):
            raise self._hidden()
        return table

    def _hidden(self) -> PrivilegeError:
        sysctl = self._path.parent / "sys/kernel/kptr_restrict"
        try:
            value = sysctl.read_text().strip()
        except OSError:
            value = "unknown"
        hint = "run as root (in a container: with CAP_SYSLOG)"
        if value not in {"0", "1"}:
            hint = "run as root after `sysctl kernel.kptr_restrict=1`"
        return PrivilegeError(
            f"{self._path} shows every address as zero: kernel.kptr_restrict is {value}", hint
        )

    # -- by address --

    def lookup(self, address: int) -> tuple[Symbol, int] | None:
        """The function that covers ``address`` and the offset into it, in bytes.

        None for an address between functions, in data, or beyond the text. Of several names
        of one address the first in the kernel's own order counts: that order puts weak names,
        linker marks and names with more leading underscores last, and it is the order by
        which the kernel itself names addresses.
        """
        index = self.table.above(address) - 1
        if index < 0:
            return None
        start = self.table.address(index)
        while index > 0 and self.table.address(index - 1) == start:
            index -= 1
        while index < len(self.table):
            line = self.table.line(index)
            if line.address != start:
                break
            if line.type in _FUNCTION_TYPES and not is_padding(line.name):
                symbol = self.symbol(index)
                return (symbol, address - start) if address - start < symbol.size else None
            index += 1
        return None

    def symbol(self, index: int) -> Symbol:
        """The symbol on line ``index`` of :attr:`table`."""
        line = self.table.line(index)
        module = line.module.decode(errors="replace") or None
        end = line.address + _UNBOUNDED
        if line.type in _FUNCTION_TYPES:
            end = self._limit(line.address, module)
        above = index + 1
        while above < len(self.table):
            beyond = self.table.address(above)
            if beyond != line.address:
                end = min(end, beyond)
                break
            above += 1
        size = max(end - line.address, 0)
        return Symbol(line.address, size, line.name.decode(errors="replace"), module)

    def name(self, index: int) -> tuple[str, str | None]:
        """Name and module of the symbol on line ``index`` of :attr:`table`."""
        line = self.table.line(index)
        return line.name.decode(errors="replace"), line.module.decode(errors="replace") or None

    def _limit(self, address: int, module: str | None) -> int:
        if module is not None:
            end = self._module_ends.get(module, 0)
            return end if end > address else address + _UNBOUNDED
        # What follows _etext is data, or init code that is gone after boot.
        return self._text_end or address + _UNBOUNDED

    def functions(self, traceable: Traceable) -> Functions:
        """Every function by its index in :attr:`table`, and whether it can be traced."""
        return self.table.functions(
            traceable.table,
            by_address=traceable.has_addresses,
            text_end=self._text_end or _NO_END,
        )

    # -- by name --

    def named(self, name: str, module: str | None = None) -> list[Symbol]:
        """All symbols called ``name``, of ``module`` if given, vmlinux's first."""
        symbols = [self.symbol(index) for index in self.table.find(name)]
        symbols.sort(key=lambda symbol: (symbol.module is not None, symbol.address))
        return [s for s in symbols if module is None or s.module == module]

    def address_of(self, name: str, module: str | None = None) -> int | None:
        """Address of the first symbol called ``name``, data included; None if there is none."""
        symbols = self.named(name, module)
        return symbols[0].address if symbols else None
