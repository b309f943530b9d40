# SPDX-License-Identifier: BSD-2-Clause
"""The variables of the source that registers and memory hold at an instruction, by DWARF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.path.insn import Machine, Mem, Reg

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import Variable

__all__ = ["Held", "ReadVariables", "VariablePlaces"]

#: Returns the variables with known locations at an address of the running kernel.
ReadVariables = Callable[[int], "Sequence[Variable]"]


class Held(NamedTuple):
    """A variable and an offset in bytes: into the variable, or behind the pointer in it."""

    variable: Variable
    offset: int = 0


class VariablePlaces:
    """The locations of variables in the code of a ``machine``."""

    def __init__(self, read: ReadVariables, machine: Machine) -> None:
        self._read = read
        self._numbers = {name: at for at, name in enumerate(machine.dwarf_registers)}
        self._known: dict[int, list[Variable]] = {}

    def _at(self, address: int) -> list[Variable]:
        """Return the variables at ``address``, without the local variables of macros."""
        if address not in self._known:
            found = self._read(address)
            self._known[address] = [one for one in found if not one.name.startswith("__")]
        return self._known[address]

    def in_register(self, register: Reg, address: int) -> Held | None:
        """Return the variable in a register before the instruction at ``address``, or None."""
        number = self._numbers.get(register.name)
        if number is None or register.high:
            return None
        return _best(
            Held(one)
            for one in self._at(address)
            if one.where == "register" and one.register == number
        )

    def in_memory(self, memory: Mem, address: int) -> Held | None:
        """Return the stack variable that a memory operand reads, in whole or in part."""
        return _best(
            held
            for held in self._from_base(memory, address)
            if held.variable.where == "memory" and 0 <= held.offset < held.variable.size
        )

    def behind(self, memory: Mem, address: int) -> Held | None:
        """Return the pointer through which an operand reads, and the offset behind it.

        A pointer to a part of a struct, as of ``container_of()``, is in the same register as the
        pointer to the struct. Before the part, only the struct has members.
        """
        return _best(
            held
            for held in self._from_base(memory, address)
            if held.variable.where in ("register", "sum")
            and held.variable.pointers
            and held.offset >= 0
        )

    def _from_base(self, memory: Mem, address: int) -> Iterator[Held]:
        """Yield the variables at offsets from an operand's base, with the operand's offset."""
        number = self._numbers.get(memory.base or "")
        if number is not None and not memory.at and not memory.segment:
            for one in self._at(address):
                if one.register == number:
                    yield Held(one, memory.disp - one.offset)


def _best(found: Iterable[Held]) -> Held | None:
    """Return the variable of the innermost function, preferably with a named type.

    A variable from a header comes last.
    """

    def rank(held: Held) -> tuple[bool, int, bool]:
        one = held.variable
        return one.in_header, -one.depth, one.type is None

    return min(found, key=rank, default=None)
