# SPDX-License-Identifier: BSD-2-Clause
"""Instructions as the analysis sees them, whatever the machine.

A decoder per architecture (:mod:`retsnoop_py.path.x86`) makes these of machine code. Registers
go by the name of their full width, so that ``eax`` is ``rax`` with a size of 4 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

__all__ = ["Decoder", "Flow", "Imm", "Insn", "Mem", "Operand", "Reg"]


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
    #: Nowhere: ud2, int3, hlt.
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

    ``op`` is what it does in a vocabulary of its own (``mov``, ``load`` by operand, ``cmp``,
    ``cmov`` ...; ``other`` where it does not matter), ``operands`` are in the order of Intel's
    syntax: the destination first. ``condition`` is that of a branch, cmov or setcc. ``writes``
    are the registers it changes; ``flags``: it sets those that conditions look at.
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

    @property
    def end(self) -> int:
        """The address behind it."""
        return self.address + self.size


#: From code and its address to instructions; stops at what it cannot decode.
Decoder = Callable[[bytes, int], list[Insn]]
