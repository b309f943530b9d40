# SPDX-License-Identifier: BSD-2-Clause
"""The variables of the source that registers and memory hold at an instruction, by DWARF."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.path.insn import Machine, Mem, Reg

if TYPE_CHECKING:
    from retsnoop_py.libbpf.dwarf import Variable

__all__ = ["Held", "ReadVariables", "VariablePlaces"]

#: The variables whose place is known at an address of the running kernel.
ReadVariables = Callable[[int], "Sequence[Variable]"]


class Held(NamedTuple):
    """A variable, or what is ``offset`` bytes into it or, of a pointer, behind it."""

    variable: Variable
    offset: int = 0


class VariablePlaces:
    """What is where in the code of a ``machine``."""

    def __init__(self, read: ReadVariables, machine: Machine) -> None:
        self._read = read
        self._numbers = {name: at for at, name in enumerate(machine.dwarf_registers)}
        self._known: dict[int, list[Variable]] = {}

    def _at(self, address: int) -> list[Variable]:
        """Those that the source has at ``address``: what a macro calls its own is in no line."""
        if address not in self._known:
            found = self._read(address)
            self._known[address] = [one for one in found if not one.name.startswith("__")]
        return self._known[address]

    def in_register(self, register: Reg, address: int) -> Held | None:
        """The variable that a register has before the instruction at ``address``."""
        number = self._numbers.get(register.name)
        if number is None or register.high:
            return None
        return _best(
            Held(one)
            for one in self._at(address)
            if one.where == "register" and one.register == number
        )

    def in_memory(self, memory: Mem, address: int) -> Held | None:
        """The variable, on the stack mostly, that an operand reads, or reads a part of."""
        return _best(
            held
            for held in self._from_base(memory, address)
            if held.variable.where == "memory" and 0 <= held.offset < held.variable.size
        )

    def behind(self, memory: Mem, address: int) -> Held | None:
        """The pointer through which an operand reads, and how far behind it."""
        return _best(
            held
            for held in self._from_base(memory, address)
            if held.variable.where in ("register", "sum") and held.variable.pointers
        )

    def _from_base(self, memory: Mem, address: int) -> Iterator[Held]:
        """The variables whose place is counted from an operand's base, and how far it is there."""
        number = self._numbers.get(memory.base or "")
        if number is not None and not memory.at and not memory.segment:
            for one in self._at(address):
                if one.register == number:
                    yield Held(one, memory.disp - one.offset)


def _best(found: Iterable[Held]) -> Held | None:
    """That of the innermost function, best one whose type has a name.

    Of those in headers one only where nobody else has a name.
    """

    def rank(held: Held) -> tuple[bool, int, bool]:
        one = held.variable
        return one.in_header, -one.depth, one.type is None

    return min(found, key=rank, default=None)
