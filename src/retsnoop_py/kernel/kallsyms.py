# SPDX-License-Identifier: BSD-2-Clause
"""Read /proc/kallsyms and /proc/modules: symbols by address and by name, and modules.

C code parses the file while it is read and keeps only functions; a symbol is decoded at its first
use. A live run reads the same symbols with a BPF program, if the kernel supports BPF iterators. The
symbols are those of the moment, including symbols of modules, and BPF programs and trampolines as
``[bpf]``.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

from retsnoop_py.errors import PrivilegeError, RetsnoopError, UnavailableError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.tracefs import MOUNT_PROC, Traceable, has_proc
from retsnoop_py.libbpf.facts import Functions, IteratedSymbols, ListFormat, SymbolTable
from retsnoop_py.value import Value

__all__ = ["Kallsyms", "Module", "Symbol", "read_modules", "require_addresses"]

#: Maximum size in bytes of a symbol without a following symbol, such as the last [bpf] image.
_UNBOUNDED = 64 << 10
#: The highest address.
_HIGHEST = (1 << 64) - 1
#: The kernel's iterator for symbols, and the struct that it passes to a program.
_ITERATOR, _ITERATED = "bpf_iter_ksym", "kallsym_iter"
_MEMBERS = ("value", "type", "name", "module_name", "exported", "show_value")
#: Symbols at the start of vmlinux. ``_text`` lies before ``_stext``, so a kernel without
#: CONFIG_KALLSYMS_ALL does not list it. On x86-64 both have the same address.
_BEGINNINGS = ("_text", "_stext")
#: The suffix that the compiler appends to a static variable of a function; may be empty.
_NUMBERED = re.compile(rb"(?:\.\d+)?")


class Module(Value):
    """A loaded module: address of its text (0 if hidden), and size of its memory in bytes."""

    name: str
    address: int
    size: int


def read_modules(path: Path) -> tuple[Module, ...]:
    """Return the modules listed in ``path``; empty on a kernel without modules."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return ()
    modules = []
    for line in text.splitlines():
        fields = line.split()
        # name size users dependencies state address [taint]
        if len(fields) >= 6:
            modules.append(Module(fields[0], int(fields[5], 16), int(fields[1])))
    return tuple(modules)


def require_addresses(path: Path) -> None:
    """Raise PrivilegeError if ``path``, /proc/kallsyms, hides addresses from this process.

    Only the lines up to the first text symbol are read; the lines before have per-CPU offsets,
    which start at 0.
    """
    try:
        with path.open("rb") as lines:
            first = next((line for line in lines if line[16:19].lower() == b" t "), b"")
    except OSError:
        return  # the code that reads the whole file reports the error
    if first and not int(first[:16], 16):
        raise _hidden(path)


def _hidden(path: Path) -> PrivilegeError:
    """Return the error for hidden addresses, by the rules of kallsyms_show_value()."""
    try:
        value = (path.parent / "sys/kernel/kptr_restrict").read_text().strip()
    except OSError:
        value = "unknown"
    hides = f"{path} hides the addresses of the kernel's functions"
    as_root = "run as root, or with CAP_SYSLOG and CAP_DAC_READ_SEARCH as well"
    allow = "run `sysctl kernel.kptr_restrict=1` as root, then retsnoop-py as root"
    if value in {"0", "1"}:
        return PrivilegeError(f"{hides}: this process lacks CAP_SYSLOG", as_root)
    if value == "2":
        return PrivilegeError(f"{hides}: kernel.kptr_restrict is 2, which applies to root", allow)
    return PrivilegeError(hides, f"{as_root}; if you are: {allow}")


class Symbol(Value):
    """A symbol: ``address``, ``size`` in bytes up to the next symbol, ``module`` or None."""

    address: int
    size: int
    name: str
    module: str | None


def _iterator(btf: Btf) -> tuple[int, list[int]] | None:
    """Return the arguments of :class:`IteratedSymbols`; None on kernels before 6.0."""
    found = btf.find_all((_ITERATOR, _ITERATED), Kind.FUNC, Kind.STRUCT)
    if len(found) < 2:
        return None
    offsets = {member.name: member.bit_offset // 8 for member in btf.members(found[_ITERATED])}
    if not offsets.keys() >= set(_MEMBERS):
        return None
    return found[_ITERATOR], [offsets[name] for name in _MEMBERS]


class Kallsyms:
    """The symbols of ``path``; ``modules`` has the ends of the modules.

    With ``btf`` (the kernel's types) a BPF program reads the symbols, if possible. Raise
    :class:`UnavailableError` if the file is missing, and :class:`PrivilegeError` if the kernel
    hides the addresses.
    """

    def __init__(self, path: Path, modules: Sequence[Module] = (), btf: Btf | None = None) -> None:
        self._path = path
        self._iterator = _iterator(btf) if btf is not None else None
        self._module_ends = {m.name: m.address + m.size for m in modules if m.address}
        self.table = self._read()
        self._is_old = False
        text_ends = self.table.find("_etext")
        self._text_end = self.table.address(text_ends[0]) if text_ends else None
        #: For each module that was looked up, the number of symbols of each name.
        self._own_names: dict[str | None, Counter[str]] = {}

    @cached_property
    def _text(self) -> bytes:
        """Return the whole file: some megabytes, which the kernel generates slowly."""
        return self._path.read_bytes() + b"\n"

    @cached_property
    def _beginning(self) -> tuple[tuple[str, int], ...]:
        """Return the symbol at the start of vmlinux and its address; empty if not listed."""
        found = ((name, self.address_of(name)) for name in _BEGINNINGS)
        return tuple((name, address) for name, address in found if address is not None)[:1]

    def outdate(self) -> None:
        """Read the file again at the next lookup of a symbol that may have changed.

        Attaching adds trampolines and programs to the file; the kernel's own functions stay.
        """
        self._is_old = True

    def _read(self) -> SymbolTable:
        try:
            table = self._iterated() or SymbolTable(self._path, ListFormat.KALLSYMS)
        except OSError as err:
            is_there = has_proc(self._path.parents[1])
            raise UnavailableError(
                f"cannot read {self._path}: {err.strerror}",
                "the kernel needs CONFIG_KALLSYMS" if is_there else MOUNT_PROC,
            ) from err
        if not len(table):
            raise UnavailableError(f"{self._path} lists no symbols")
        if not table.address(len(table) - 1):
            raise _hidden(self._path)
        return table

    def _iterated(self) -> SymbolTable | None:
        if self._iterator is None:
            return None
        try:
            return IteratedSymbols(*self._iterator)
        except OSError:
            self._iterator = None
            return None

    def _update(self) -> None:
        try:
            self.table = self._read()
        except RetsnoopError:
            pass  # keep the symbols from the start of the run instead of ending it

    # -- by address --

    def lookup(self, address: int) -> tuple[Symbol, int] | None:
        """Return the function that contains ``address``, and the offset in the function in bytes.

        Return None for an address between functions, in data, or after the text. If several symbols
        have the same address, the first in the kernel's order counts. The kernel's order puts weak
        names, linker marks and names with more leading underscores last, and the kernel itself
        names addresses by this order. Numbers outside of the address range give None.
        """
        if not 0 <= address <= _HIGHEST:
            return None
        found = self._lookup(address)
        if self._is_old and (found is None or found[0].module is not None):
            self._is_old = False
            self._update()
            found = self._lookup(address)
        return found

    def _lookup(self, address: int) -> tuple[Symbol, int] | None:
        index = self.table.above(address) - 1
        if index < 0:
            return None
        start = self.table.address(index)
        while index > 0 and self.table.address(index - 1) == start:
            index -= 1
        symbol = self.symbol(index)
        return (symbol, address - start) if address - start < symbol.size else None

    def symbol(self, index: int) -> Symbol:
        """Return the symbol at ``index`` of :attr:`table`."""
        return self.symbols((index,))[0]

    def symbols(self, indexes: Iterable[int]) -> list[Symbol]:
        """Return the symbols at ``indexes`` of :attr:`table`, in that order."""
        return [
            Symbol(address, self.size(address, extent, module or None), name, module or None)
            for address, extent, name, module in zip(
                *self.table.columns(array("I", indexes)), strict=True
            )
        ]

    def size(self, address: int, extent: int, module: str | None) -> int:
        """Return a symbol's size in bytes; ``extent``: the distance to the next symbol in bytes."""
        if module or address + extent > (self._text_end or _HIGHEST):
            return max(min(extent, self._limit(address, module) - address), 0)
        return min(extent, _UNBOUNDED)

    def name(self, index: int) -> tuple[str, str | None]:
        """Return the name and the module of the symbol at ``index`` of :attr:`table`."""
        line = self.table.line(index)
        return line.name.decode(errors="replace"), line.module.decode(errors="replace") or None

    def _limit(self, address: int, module: str | None) -> int:
        if module is not None:
            end = self._module_ends.get(module, 0)
            return end if end > address else address + _UNBOUNDED
        # Addresses after _etext are data, or init code that the kernel frees after boot.
        return self._text_end or address + _UNBOUNDED

    def functions_at(self, points: array[int]) -> Functions:
        """Return the result of :meth:`functions`, from the addresses of ftrace's trace points."""
        return self.table.functions_at(points, text_end=self._text_end or _HIGHEST)

    def functions(self, traceable: Traceable) -> Functions:
        """Return every function by its index in :attr:`table`, and whether it can be traced."""
        return self.table.functions(
            traceable.table,
            by_address=traceable.has_addresses,
            text_end=self._text_end or _HIGHEST,
        )

    # -- by name --

    def named(self, name: str, module: str | None = None) -> list[Symbol]:
        """Return all functions called ``name``, of ``module`` if given; vmlinux comes first."""
        symbols = [self.symbol(index) for index in self.table.find(name)]
        symbols.sort(key=lambda symbol: (symbol.module is not None, symbol.address))
        return [s for s in symbols if module is None or s.module == module]

    def address_of(self, name: str, module: str | None = None) -> int | None:
        """Return the address of the first function called ``name``, or None."""
        symbols = self.named(name, module)
        return symbols[0].address if symbols else None

    def probe_places(self, addresses: Iterable[int]) -> list[str | None]:
        """Return each of ``addresses`` as a kprobe event of tracefs names it: ``SYMBOL+OFFSET``.

        The symbol is the start of vmlinux, also for modules at higher addresses. Offsets cannot be
        negative. A lower address, as in modules on arm64, is therefore relative to a preceding
        symbol with a unique name in the same module. None if no such symbol exists.
        """
        return [self._probe_place(address) for address in addresses]

    def _probe_place(self, address: int) -> str | None:
        for name, start in self._beginning:
            if start <= address:
                return f"{name}+{address - start}"
        index = self.table.above(address) - 1
        if index < 0 or not self.table.line(index).module:
            return None
        _, module = self.name(index)
        if module not in self._own_names:
            self._own_names[module] = self._names_around(index)
        counts = self._own_names[module]
        while index >= 0:
            name, owner = self.name(index)
            if owner != module:
                return None
            if counts[name] == 1:
                return f"{module}:{name}+{address - self.table.address(index)}"
            index -= 1
        return None

    def _names_around(self, index: int) -> Counter[str]:
        """Return the number of functions of each name, in the module of the symbol at ``index``."""
        module = self.table.line(index).module
        first = end = index
        while first > 0 and self.table.line(first - 1).module == module:
            first -= 1
        while end < len(self.table) and self.table.line(end).module == module:
            end += 1
        return Counter(self.name(one)[0] for one in range(first, end))

    def data_address(self, name: str) -> int | None:
        """Return the address of the variable ``name`` of vmlinux, or None.

        :attr:`table` has no variables. The compiler may append a number to the name of a static
        variable of a function: ``name.4``.
        """
        needle, at = b" " + name.encode(), -1
        while (at := self._text.find(needle, at + 1)) >= 0:
            end = self._text.find(b"\n", at)
            if _NUMBERED.fullmatch(self._text[at + len(needle) : end]):
                return int(self._text[self._text.rfind(b"\n", 0, at) + 1 : at].split()[0], 16)
        return None

    def lists(self, name: str, module: str | None) -> bool:
        """Return True if ``name`` of ``module`` (None: vmlinux) is a symbol, of code or data."""
        end = name if module is None else f"{name}\t[{module}]"
        with self._path.open(errors="replace") as lines:
            return any(line.rstrip("\n").endswith(f" {end}") for line in lines)
