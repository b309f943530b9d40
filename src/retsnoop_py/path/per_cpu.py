# SPDX-License-Identifier: BSD-2-Clause
"""Variables of which each CPU has its own, as code reads them: by ``__per_cpu_offset[cpu]``."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.path.values import Node

__all__ = ["Part", "PerCpu"]

_MASK = (1 << 64) - 1
_SECTION = ".data..percpu"
#: Where the variables of each CPU are, by its number.
_OFFSETS = "__per_cpu_offset"
_POINTER_BYTES = 8


class Part(NamedTuple):
    """What lies at an offset of a per-CPU variable of a BTF type."""

    variable: str
    type: int
    offset: int


class PerCpu:
    """The per-CPU variables of the kernel's ``btf``.

    ``name_of`` has the name of the variable at an address.
    """

    def __init__(self, btf: Btf, name_of: Callable[[int], str | None]) -> None:
        self._btf = btf
        self._name_of = name_of
        self._variables: dict[str, tuple[int, int, int]] | None = None

    def at(self, address: int) -> Part | None:
        """The variable with this address in the section of all of them; None between them."""
        if self._variables is None:
            section = self._btf.find(_SECTION, Kind.DATASEC)
            self._variables = {} if section is None else self._btf.variables(section)
        for name, (start, size, type_id) in self._variables.items():
            if start <= address < start + size:
                return Part(name, type_id, address - start)
        return None

    def read_by(self, load: Node) -> Part | None:
        """What a load reads whose address was made of a CPU's offset; None for any other load."""
        (base,) = load.args or (None,)
        address = load.value
        if base is not None and base.kind == "op" and base.name == "+":
            constants = [one for one in base.args if one.kind == "const"]
            others = [one for one in base.args if one.kind != "const"]
            if len(constants) != 1:
                return None
            address += constants[0].value
            (base,) = others
        if base is None or not self._is_offset(base):
            return None
        return self.at(address & _MASK)

    def _is_offset(self, node: Node) -> bool:
        """Whether a value is an element of the array of offsets."""
        if node.kind != "load" or not node.args or node.size != _POINTER_BYTES:
            return False
        index = node.args[0]
        is_scaled = index.kind == "op" and index.name in ("*", "<<")
        return is_scaled and self._name_of(node.value & _MASK) == _OFFSETS
