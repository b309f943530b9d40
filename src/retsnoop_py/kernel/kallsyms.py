# SPDX-License-Identifier: BSD-2-Clause
"""/proc/kallsyms and /proc/modules: the kernel's symbols, by address and by name, and its modules.

The file is parsed in C while it is read, and only its functions stay; one is decoded when
something asks for it. A live run has the same from a BPF program, where the kernel can do that.
They are those loaded at that moment: modules' too, and BPF programs and trampolines as ``[bpf]``.
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

#: Bytes a symbol may cover where nothing else ends it: the last [bpf] image, for one.
_UNBOUNDED = 64 << 10
#: The last address there is.
_HIGHEST = (1 << 64) - 1
#: What the kernel iterates by, and what it shows a program of a symbol.
_ITERATOR, _ITERATED = "bpf_iter_ksym", "kallsym_iter"
_MEMBERS = ("value", "type", "name", "module_name", "exported", "show_value")
#: Where vmlinux begins. ``_text`` lies before ``_stext`` and so outside of what a kernel without
#: CONFIG_KALLSYMS_ALL lists, unless both are one place, as on x86-64.
_BEGINNINGS = ("_text", "_stext")
#: What the compiler appends to the name of a function's static variable, or nothing.
_NUMBERED = re.compile(rb"(?:\.\d+)?")


class Module(Value):
    """A loaded module: the address of its text (0 if hidden) and all its memory in bytes."""

    name: str
    address: int
    size: int


def read_modules(path: Path) -> tuple[Module, ...]:
    """The modules listed in ``path``; none on a kernel without modules."""
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
    """Raise PrivilegeError where ``path``, /proc/kallsyms, shows no addresses to this process.

    Reads up to the first symbol of the text; those before it are per-CPU offsets, from 0 on.
    """
    try:
        with path.open("rb") as lines:
            first = next((line for line in lines if line[16:19].lower() == b" t "), b"")
    except OSError:
        return  # who reads all of it says why
    if first and not int(first[:16], 16):
        raise _hidden(path)


def _hidden(path: Path) -> PrivilegeError:
    """The error that says why addresses are hidden, by the rules of kallsyms_show_value()."""
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
    """A symbol: ``address``, ``size`` in bytes up to whatever comes next, ``module`` or None."""

    address: int
    size: int
    name: str
    module: str | None


def _iterator(btf: Btf) -> tuple[int, list[int]] | None:
    """What :meth:`SymbolTable.iterated` takes; None on kernels before 6.0."""
    found = btf.find_all((_ITERATOR, _ITERATED), Kind.FUNC, Kind.STRUCT)
    if len(found) < 2:
        return None
    offsets = {member.name: member.bit_offset // 8 for member in btf.members(found[_ITERATED])}
    if not offsets.keys() >= set(_MEMBERS):
        return None
    return found[_ITERATOR], [offsets[name] for name in _MEMBERS]


class Kallsyms:
    """The symbols of ``path``; ``modules`` tells where the modules end.

    With ``btf``, the kernel's types, a BPF program reads them where that works. Raises
    :class:`UnavailableError` where there is no such file and :class:`PrivilegeError` where the
    kernel hides the addresses.
    """

    def __init__(self, path: Path, modules: Sequence[Module] = (), btf: Btf | None = None) -> None:
        self._path = path
        self._iterator = _iterator(btf) if btf is not None else None
        self._module_ends = {m.name: m.address + m.size for m in modules if m.address}
        self.table = self._read()
        self._is_old = False
        text_ends = self.table.find("_etext")
        self._text_end = self.table.address(text_ends[0]) if text_ends else None
        #: How often each module has its names, as far as anybody asked.
        self._own_names: dict[str | None, Counter[str]] = {}

    @cached_property
    def _text(self) -> bytes:
        """The whole file: some megabytes, whose generation takes the kernel a while."""
        return self._path.read_bytes() + b"\n"

    @cached_property
    def _beginning(self) -> tuple[tuple[str, int], ...]:
        """The symbol at which vmlinux begins and its address; empty if none is listed."""
        found = ((name, self.address_of(name)) for name in _BEGINNINGS)
        return tuple((name, address) for name, address in found if address is not None)[:1]

    def outdate(self) -> None:
        """Read the file again when something is looked up that may have changed.

        Attaching adds trampolines and programs to it; the kernel's own functions stay.
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
            pass  # what was known at the start of a run is better than to end it

    # -- by address --

    def lookup(self, address: int) -> tuple[Symbol, int] | None:
        """The function that covers ``address`` and the offset into it, in bytes.

        None for an address between functions, in data, or beyond the text. Of several names
        of one address the first in the kernel's own order counts: that order puts weak names,
        linker marks and names with more leading underscores last, and it is the order by
        which the kernel itself names addresses. A number that no address can be has none.
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
        """The symbol at ``index`` of :attr:`table`."""
        return self.symbols((index,))[0]

    def symbols(self, indexes: Iterable[int]) -> list[Symbol]:
        """The symbols at ``indexes`` of :attr:`table`, in that order."""
        return [
            Symbol(address, self.size(address, extent, module or None), name, module or None)
            for address, extent, name, module in zip(
                *self.table.columns(array("I", indexes)), strict=True
            )
        ]

    def size(self, address: int, extent: int, module: str | None) -> int:
        """Bytes of the symbol at ``address``, of which the next one is ``extent`` bytes away."""
        if module or address + extent > (self._text_end or _HIGHEST):
            return max(min(extent, self._limit(address, module) - address), 0)
        return min(extent, _UNBOUNDED)

    def name(self, index: int) -> tuple[str, str | None]:
        """Name and module of the symbol at ``index`` of :attr:`table`."""
        line = self.table.line(index)
        return line.name.decode(errors="replace"), line.module.decode(errors="replace") or None

    def _limit(self, address: int, module: str | None) -> int:
        if module is not None:
            end = self._module_ends.get(module, 0)
            return end if end > address else address + _UNBOUNDED
        # What follows _etext is data, or init code that is gone after boot.
        return self._text_end or address + _UNBOUNDED

    def functions_at(self, points: array[int]) -> Functions:
        """The same as :meth:`functions`, by the addresses of ftrace's trace points."""
        return self.table.functions_at(points, text_end=self._text_end or _HIGHEST)

    def functions(self, traceable: Traceable) -> Functions:
        """Every function by its index in :attr:`table`, and whether it can be traced."""
        return self.table.functions(
            traceable.table,
            by_address=traceable.has_addresses,
            text_end=self._text_end or _HIGHEST,
        )

    # -- by name --

    def named(self, name: str, module: str | None = None) -> list[Symbol]:
        """All functions called ``name``, of ``module`` if given, vmlinux's first."""
        symbols = [self.symbol(index) for index in self.table.find(name)]
        symbols.sort(key=lambda symbol: (symbol.module is not None, symbol.address))
        return [s for s in symbols if module is None or s.module == module]

    def address_of(self, name: str, module: str | None = None) -> int | None:
        """Address of the first function called ``name``; None if there is none."""
        symbols = self.named(name, module)
        return symbols[0].address if symbols else None

    def probe_places(self, addresses: Iterable[int]) -> list[str | None]:
        """How a kprobe event of tracefs is told each of ``addresses``: ``SYMBOL+OFFSET``.

        The symbol is where vmlinux begins, for modules above it too. An offset cannot be negative:
        what lies below, as modules do on arm64, is counted from the next symbol of its own module
        that no other one there is called by. None where there is no such symbol.
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
        """How many functions have each name, in the module of the symbol at ``index``."""
        module = self.table.line(index).module
        first = end = index
        while first > 0 and self.table.line(first - 1).module == module:
            first -= 1
        while end < len(self.table) and self.table.line(end).module == module:
            end += 1
        return Counter(self.name(one)[0] for one in range(first, end))

    def data_address(self, name: str) -> int | None:
        """Address of vmlinux's variable ``name``, of which :attr:`table` holds none.

        The compiler may have numbered it, as it does what is static in a function: ``name.4``.
        """
        needle, at = b" " + name.encode(), -1
        while (at := self._text.find(needle, at + 1)) >= 0:
            end = self._text.find(b"\n", at)
            if _NUMBERED.fullmatch(self._text[at + len(needle) : end]):
                return int(self._text[self._text.rfind(b"\n", 0, at) + 1 : at].split()[0], 16)
        return None

    def lists(self, name: str, module: str | None) -> bool:
        """Whether ``name`` of ``module`` (None: vmlinux) is a symbol at all, of data as well."""
        end = name if module is None else f"{name}\t[{module}]"
        with self._path.open(errors="replace") as lines:
            return any(line.rstrip("\n").endswith(f" {end}") for line in lines)
