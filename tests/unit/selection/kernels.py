# SPDX-License-Identifier: BSD-2-Clause
"""A small kernel to select from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.unit.kernel.btf_writer import SIGNED, BtfWriter
from tests.unit.kernel.tree import Tree

from retsnoop_py.kernel.btf import Kind
from retsnoop_py.selection.model import Selection
from retsnoop_py.selection.select import select
from retsnoop_py.settings import SelectionSettings

BASE = 0xFFFFFFFF81000000
MODULES = 0xFFFFFFFFC0200000


def btf() -> bytes:
    """The types of ``__sys_bpf(int cmd)``, ``array_map_alloc(void)`` and ``helper(void)``."""
    w = BtfWriter()
    number = w.int("int", 4, SIGNED)
    w.func("__sys_bpf", number, [("cmd", number)])
    w.func("array_map_alloc", w.ptr(w.add(Kind.FWD, "bpf_map", 0)))
    w.func("helper", 0)
    return w.bytes()


@dataclass
class Units:
    """Source files and the address ranges of their functions."""

    files: dict[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    included: dict[str, Sequence[int]] = field(default_factory=dict)

    def functions_in(self, pattern: str) -> list[tuple[int, int]]:
        return [r for name, ranges in self.files.items() if name == pattern for r in ranges]

    def included_in(self, pattern: str, addresses: Sequence[int]) -> list[int]:
        return [one for one in self.included.get(pattern, ()) if one in addresses]


class Kernel:
    """Functions of 0x10 bytes each, in the order they are added."""

    def __init__(self, root: Path, *, addrs: bool = True) -> None:
        self.tree = Tree(root)
        self.units = Units()
        self._addrs = addrs
        self._symbols: list[str] = []
        self._listed: list[tuple[str, str]] = []
        self._next = BASE
        self._next_in_module = MODULES

    def add(self, name: str, module: str | None = None, *, traceable: bool = True) -> int:
        """A function; gives its address."""
        if module:
            address = self._next_in_module
            self._next_in_module += 0x10
        else:
            address = self._next
            self._next += 0x10
        self._symbols.append(f"{address:x} t {name}" + (f"\t[{module}]" if module else ""))
        if traceable:
            # as with IBT, where ENDBR comes first
            self._list(address + 4, name + (f" [{module}]" if module else ""))
        return address

    def list_again(self, name: str) -> None:
        """Another line in ftrace's list."""
        self._listed.append(("", name))

    def _list(self, address: int, name: str) -> None:
        self._listed.append((f"{address:x} " if self._addrs else "", name))

    def select(
        self,
        entry: Sequence[str] = (),
        allow: Sequence[str] = (),
        deny: Sequence[str] = (),
        presets: Sequence[str] = (),
        *,
        telling: bool = False,
    ) -> Selection:
        """Write the kernel's files and select."""
        end = f"{self._next:x} T _etext"
        self.tree.kallsyms(*self._symbols, end, f"{self._next + 16:x} d some_data")
        self.tree.traceable(*(name for _, name in self._listed))
        if self._addrs:
            self.tree.traceable(*(where + name for where, name in self._listed), addrs=True)
        settings = SelectionSettings(
            tuple(entry), tuple(allow), tuple(deny), tuple(presets), telling
        )
        units = self.units if self.units.files else None
        return select(self.tree.facts, settings, units)


def labels(selection: Selection) -> list[str]:
    """The functions that are traced."""
    return [function.label for function in selection.functions]


def reasons(selection: Selection) -> dict[str, str]:
    """Why the others are not."""
    return {rejection.label: rejection.text for rejection in selection.rejections}
