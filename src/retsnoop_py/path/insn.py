# SPDX-License-Identifier: BSD-2-Clause
"""Instructions as the analysis sees them, whatever the machine.

A :class:`Machine` per architecture (:mod:`retsnoop_py.path.x86`, :mod:`retsnoop_py.path.arm64`)
makes these of machine code and knows what else differs. Registers go by the name of their full
width, so that ``eax`` is ``rax`` with a size of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

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
]

#: What an address is called: the symbol that begins there; None in the middle of one.
Names = Callable[[int], str | None]
#: Bytes of an int.
INT = 4
#: So many bytes at an address, fewer where they cannot be read.
Memory = Callable[[int, int], bytes]
#: Conditions, as x86 calls them, and their opposites.
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
    """Where control goes behind an instruction."""

    NEXT = "next"
    #: To ``target``.
    JUMP = "jump"
    #: To ``target`` or on, as ``condition`` says.
    BRANCH = "branch"
    #: To wherever a register or a table says.
    INDIRECT = "indirect"
    #: Into ``target`` (0: not known) and back.
    CALL = "call"
    RETURN = "return"
    #: Nowhere: ud2, int3, hlt; brk.
    STOP = "stop"


class Reg(NamedTuple):
    """A register, ``size`` bytes of it; ``high``: bits 8 to 15."""

    name: str
    size: int
    high: bool = False


class Imm(NamedTuple):
    """A constant, sign-extended to 64 bits, used in ``size`` bytes."""

    value: int
    size: int


class Mem(NamedTuple):
    """``size`` bytes at base + at * scale + disp; ``segment`` is per-CPU data where given."""

    base: str | None
    at: str | None
    scale: int
    disp: int
    size: int
    segment: str | None = None


Operand = Reg | Imm | Mem


class Insn(NamedTuple):
    """One instruction.

    ``op`` is what it does in a vocabulary of its own: ``mov`` (loads and stores by operand),
    ``cmp``, ``cmov`` ...; ``entry`` at a function's beginning, ``nop``, ``pad`` between functions,
    ``trap`` for what WARN() is made of; ``other`` where it does not matter. ``operands`` have the
    destination first; what computes has one source, and is its own other one, or two. ``ccmp``
    compares if its ``condition`` holds, else it sets the flags to a constant. ``condition`` is that
    of a branch, cmov, setcc or ccmp, in x86's words. ``writes`` are the registers it changes;
    ``flags``: it sets those that conditions look at. ``parts`` are simpler instructions that do
    together what one does that moves several values, or computes an operand first.
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
    #: Of an indirect jump through a table: where it leads, by the index.
    table: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[Insn, ...]:
        """What it does, one after the other: its parts, or itself."""
        return self.parts or (self,)

    @property
    def compared(self) -> tuple[Operand, ...]:
        """The two operands that the flags are of, if it sets them; one compared with 0 is twice."""
        return self.operands[-2:]

    @property
    def goes_through(self) -> bool:
        """Whether it is a call or a jump through a pointer."""
        return self.flow is Flow.INDIRECT or (self.flow is Flow.CALL and not self.target)

    @property
    def is_open(self) -> bool:
        """Whether it goes where a register or memory says: a call, or a jump through no table."""
        return self.goes_through and bool(self.operands) and not self.table

    def keeps(self, register: str) -> bool:
        """Whether it is known to go on to what is behind it without a change of ``register``."""
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
        """Where ``following``, right behind it, finds what it goes through, as it is before both.

        None if that cannot be told.
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
        """The address behind it."""
        return self.address + self.size


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Machine:
    """An architecture: its decoder, its calling convention and how Linux patches its code."""

    #: As ``uname -m`` says it.
    name: str
    #: Registers of the first arguments, those that a call may change, and that of the result.
    arguments: tuple[str, ...]
    clobbered: tuple[str, ...]
    result: str
    stack: str
    frame: str
    #: Offsets of registers in ``struct pt_regs``, in bytes. Others are none that probes can read.
    pt_regs: Mapping[str, int]
    #: Registers by the numbers that DWARF has for them.
    dwarf_registers: tuple[str, ...]
    #: From code and its address to instructions; stops at what it cannot decode.
    decode: Callable[[bytes, int], list[Insn]]
    #: An instruction that goes to a symbol of this name, without the thunk that this may be.
    plain: Callable[[Insn, str], Insn]
    #: Where a function begins that ftrace may hook, from its first instructions.
    hook_end: Callable[[Sequence[Insn]], int]
    #: A function's code, up to the next symbol, without what belongs to the one that is there.
    own: Callable[[bytes], bytes]
    #: A function's code without the calls and breakpoints of tracers at its beginning.
    untraced: Callable[[bytes], bytes]
    #: Whether code may make a number, given as a signed one of 32 bits.
    makes: Callable[[bytes, int], bool]
    #: Where a veneer leads that is at an address, from its code; None for what is none.
    veneer: Callable[[bytes, int], int | None]
    #: The targets of the jump table of which the last of some instructions takes one.
    table: Callable[[Sequence[Insn], Memory], tuple[int, ...]]
    #: Bytes of a veneer, 0 where there are none.
    veneer_size: int = 0
    #: Conditions by their numbers in the code of conditional comparisons, where there are such.
    conditions: tuple[str, ...] = ()
    #: The register that has the running task, where one does.
    current: str = ""
    #: Whether a probe may be at a call or jump through a pointer.
    probes_open: bool = True
    #: Names that go before others of their addresses.
    first_names: tuple[str, ...] = ()
    #: Arguments of more than 16 bytes are passed by address, in a register.
    large_by_address: bool = False
    #: How names of helpers in assembly begin, with the register of what they give; others are kept.
    helpers: tuple[tuple[str, str], ...] = ()
    #: Bytes of a register.
    word: int = 8
