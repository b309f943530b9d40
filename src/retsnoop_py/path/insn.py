# SPDX-License-Identifier: BSD-2-Clause
"""Instructions in a form that does not depend on the architecture.

A :class:`Machine` per architecture (:mod:`retsnoop_py.path.x86`, :mod:`retsnoop_py.path.arm64`)
decodes machine code and contains the other differences. A register has the name of its full width:
``eax`` is ``rax`` with a size of 4 bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

from retsnoop_py.value import Value

__all__ = [
    "INT",
    "OPPOSITE",
    "Flow",
    "Imm",
    "Insn",
    "Machine",
    "Mem",
    "Memory",
    "Names",
    "Operand",
    "Reg",
    "user_copy",
]

#: The symbol that begins at an address; None if the address is inside a symbol.
Names = Callable[[int], str | None]
#: Bytes of an int.
INT = 4
#: Reads a number of bytes at an address. Returns fewer bytes if some cannot be read.
Memory = Callable[[int, int], bytes]
#: Conditions, in x86's names, and their opposites.
OPPOSITE = {
    "e": "ne",
    "b": "ae",
    "be": "a",
    "l": "ge",
    "le": "g",
    "s": "ns",
    "o": "no",
    "p": "np",
    "rcxz": "nrcxz",
}
OPPOSITE |= {other: one for one, other in OPPOSITE.items()}


class Flow(Enum):
    """The control flow after an instruction."""

    NEXT = "next"
    #: To ``target``.
    JUMP = "jump"
    #: To ``target`` if ``condition`` holds, else to the next instruction.
    BRANCH = "branch"
    #: To an address from a register or a table.
    INDIRECT = "indirect"
    #: Into ``target`` (0: unknown) and back.
    CALL = "call"
    RETURN = "return"
    #: Nowhere: ud2, int3, hlt; brk.
    STOP = "stop"


class Reg(NamedTuple):
    """A register and its used ``size`` in bytes; ``high``: bits 8 to 15."""

    name: str
    size: int
    high: bool = False


class Imm(NamedTuple):
    """A constant, sign-extended to 64 bits, used in ``size`` bytes."""

    value: int
    size: int


class Mem(NamedTuple):
    """``size`` bytes at base + at * scale + disp; a ``segment`` means per-CPU data."""

    base: str | None
    at: str | None
    scale: int
    disp: int
    size: int
    segment: str | None = None


Operand = Reg | Imm | Mem


class Insn(NamedTuple):
    """An instruction.

    ``op`` is its operation, in this module's names: ``mov`` (loads and stores, by operand),
    ``cmp``, ``cmov`` ...; ``entry`` at a function's beginning, ``nop``, ``pad`` between functions,
    ``trap`` for the instruction in WARN(); ``other`` if the operation does not matter. ``operands``
    begin with the destination. Arithmetic has one source operand, and the destination is the other
    one; or it has two source operands. ``ccmp`` compares if its ``condition`` holds, else it sets
    the flags to a constant. ``condition`` belongs to a branch, cmov, setcc or ccmp, in x86's names.
    ``writes`` are the registers that the instruction changes. ``flags``: it sets the condition
    flags. If an instruction moves several values or computes an operand first, ``parts`` are
    simpler instructions with the same effect.
    """

    address: int
    size: int
    text: str
    op: str
    operands: tuple[Operand, ...] = ()
    flow: Flow = Flow.NEXT
    target: int = 0
    condition: str = ""
    writes: tuple[str, ...] = ()
    flags: bool = False
    parts: tuple[Insn, ...] = ()
    #: The targets of an indirect jump through a table, by index.
    table: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[Insn, ...]:
        """The steps of the instruction: its parts, or the instruction itself."""
        return self.parts or (self,)

    @property
    def compared(self) -> tuple[Operand, ...]:
        """The two operands that set the flags; a value compared with 0 appears twice."""
        return self.operands[-2:]

    @property
    def goes_through(self) -> bool:
        """True for a call or a jump through a pointer."""
        return self.flow is Flow.INDIRECT or (self.flow is Flow.CALL and not self.target)

    @property
    def is_open(self) -> bool:
        """True for a call or jump to an address from a register or memory, except from a table."""
        return self.goes_through and bool(self.operands) and not self.table

    def keeps(self, register: str) -> bool:
        """Return True if the instruction goes on to the next one and preserves ``register``."""
        if self.flow is not Flow.NEXT or self.parts or register in self.writes:
            return False
        if self.op in ("cmp", "test", "bt", "nop"):
            return True
        if self.op in ("push", "pop") and register == "rsp":
            return False
        if self.op == "push":
            return True
        if self.op not in ("mov", "movzx", "movsx", "lea", "add", "sub", "and", "or", "xor", "pop"):
            return False
        to = self.operands[0]
        return not isinstance(to, Reg) or to.name != register

    def pointer_of(self, following: Insn) -> Operand | None:
        """Return the operand with the target of ``following``, as readable before this instruction.

        ``following`` is the next instruction. Return None if the operand cannot be determined.
        """
        pointer, to = following.operands[0], self.operands[0] if self.operands else None
        if isinstance(pointer, Imm) or self.end != following.address:
            return None
        if isinstance(pointer, Reg):
            if self.op == "mov" and to == pointer and not self.parts:
                source = self.operands[1]
                return None if isinstance(source, Imm) else source
            return pointer if self.keeps(pointer.name) else None
        stores = self.op == "push" or (isinstance(to, Mem) and self.op not in ("cmp", "test", "bt"))
        registers = filter(None, (pointer.base, pointer.at))
        return None if stores or not all(map(self.keeps, registers)) else pointer

    @property
    def end(self) -> int:
        """The address behind the instruction."""
        return self.address + self.size


#: Functions that copy bytes of the user as they are: (to, from, size), or with ``struct`` (to, size
#: of it, from, size).
_USER_COPY = re.compile(r"_*(?:arch_|raw_|inline_)?copy_(struct_)?from_user")


def user_copy(name: str | None) -> tuple[int, int] | None:
    """Return the numbers of the arguments to and from of a function that copies from the user.

    Return None for another function: some of a similar name fill a struct with other members.
    """
    found = _USER_COPY.fullmatch(name.partition(".")[0]) if name else None
    return None if found is None else (0, 2) if found[1] else (0, 1)


class Machine(Value):
    """An architecture: its decoder, its calling convention and how Linux patches its code.

    There is one object for each architecture, so they are compared by identity.
    """

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    #: The name that ``uname -m`` prints.
    name: str
    #: Registers: arguments in order, registers that a call may change, and the result's register.
    arguments: tuple[str, ...]
    clobbered: tuple[str, ...]
    result: str
    stack: str
    frame: str
    #: Offsets of registers in ``struct pt_regs``, in bytes. Probes can read only these registers.
    pt_regs: Mapping[str, int]
    #: Registers by DWARF number.
    dwarf_registers: tuple[str, ...]
    #: Decodes the code at an address. Stops at code that it cannot decode.
    decode: Callable[[bytes, int], list[Insn]]
    #: Replaces a call or jump to a thunk with this symbol name by the plain instruction.
    plain: Callable[[Insn, str], Insn]
    #: The end of the place for ftrace's hook at a function's start, from its first instructions.
    hook_end: Callable[[Sequence[Insn]], int]
    #: Removes data that belongs to the next function from the end of a function's code.
    own: Callable[[bytes], bytes]
    #: A function's code without the calls and breakpoints of tracers at its beginning.
    untraced: Callable[[bytes], bytes]
    #: Returns True if code may contain a number, given as a signed 32-bit number.
    makes: Callable[[bytes, int], bool]
    #: The target of the veneer at an address, from its code; None if the code is not a veneer.
    veneer: Callable[[bytes, int], int | None]
    #: The targets of the jump table that the last of some instructions uses.
    table: Callable[[Sequence[Insn], Memory], tuple[int, ...]]
    #: Bytes of a veneer; 0 if the architecture does not have veneers.
    veneer_size: int = 0
    #: Conditions by their numbers in the code of conditional comparisons.
    conditions: tuple[str, ...] = ()
    #: The register that holds the running task, or an empty string.
    current: str = ""
    #: True if a probe may be placed on a call or jump through a pointer.
    probes_open: bool = True
    #: Symbol names that take precedence over other names of the same address.
    first_names: tuple[str, ...] = ()
    #: True if arguments of more than 16 bytes are passed by address, in a register.
    large_by_address: bool = False
    #: Name prefixes of assembly helpers, with their result registers. They keep other registers.
    helpers: tuple[tuple[str, str], ...] = ()
    #: Name prefixes of helpers that read a number of the user, with the registers of its value and
    #: of its address. They change those and keep the others.
    user_reads: tuple[tuple[str, str, str], ...] = ()
    #: Bytes of a register.
    word: int = 8
    #: Bytes that a call pushes on the stack, before the arguments that are there.
    call_pushes: int = 0
