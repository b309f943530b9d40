# SPDX-License-Identifier: BSD-2-Clause
"""Where a value is kept, as instructions move it: in registers and in slots of the stack."""

from __future__ import annotations

from collections.abc import Iterable

from retsnoop_py.path import x86 as machine
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Reg
from retsnoop_py.value import Value

__all__ = ["Holders"]


class Holders(Value):
    """Registers and stack slots that hold a value.

    ``depth`` and ``frame`` are where stack and frame pointer are, from the stack pointer at the
    entry; ``frame`` is None where rbp is no frame pointer.
    """

    places: frozenset[str | int]
    depth: int
    frame: int | None

    def slot(self, memory: Mem) -> int | None:
        """The slot that a memory operand is, if it is one."""
        if memory.at or memory.segment:
            return None
        if memory.base == machine.STACK:
            return self.depth + memory.disp
        if memory.base == "rbp" and self.frame is not None:
            return self.frame + memory.disp
        return None

    def also(self, place: str | int) -> Holders:
        """With one more."""
        if place in self.places:
            return self
        return Holders(self.places | {place}, self.depth, self.frame)

    def without(self, places: Iterable[str | int]) -> Holders:
        """Without some."""
        left = self.places.difference(places)
        frame = None if "rbp" in places else self.frame
        if len(left) == len(self.places) and frame == self.frame:
            return self
        return Holders(left, self.depth, frame)

    def pushed(self, insn: Insn) -> Holders:
        """After a push or pop."""
        operand = insn.operands[0] if insn.operands else None
        if insn.op == "push":
            depth = self.depth - 8
            has = isinstance(operand, Reg) and operand.name in self.places
            places = self.places | {depth} if has else self.places - {depth}
            return Holders(places, depth, self.frame)
        after = Holders(self.places, self.depth + 8, self.frame)
        if not isinstance(operand, Reg):
            return after
        return (
            after.also(operand.name)
            if self.depth in self.places
            else after.without((operand.name,))
        )

    def moved(self, insn: Insn) -> Holders:
        """After an addition to the stack pointer."""
        by = insn.operands[1] if len(insn.operands) == 2 else None
        if not isinstance(by, Imm) or insn.op not in ("add", "sub"):
            return self
        depth = self.depth + (by.value if insn.op == "add" else -by.value)
        return Holders(self.places, depth, self.frame)

    def after(self, insn: Insn) -> Holders:
        """After any instruction: moves of the whole value keep it, other writes lose it."""
        operands = insn.operands
        if insn.flow is Flow.CALL:
            return self.without(machine.CLOBBERED)
        if insn.op == "mov" and len(operands) == 2:
            target, source = operands
            slot = self.slot(source) if isinstance(source, Mem) else None
            place = source.name if isinstance(source, Reg) else slot
            has = place in self.places and target.size == machine.WORD
            where: str | int | None = target.name if isinstance(target, Reg) else None
            if isinstance(target, Mem):
                where = self.slot(target)
            if where is None:
                return self
            return self.also(where) if has else self.without((where,))
        if insn.op in ("push", "pop"):
            return self.pushed(insn)
        if machine.STACK in insn.writes:
            return self.moved(insn)
        return self.without(insn.writes) if insn.writes else self

    def common(self, other: Holders) -> Holders:
        """What two ways that meet have in common."""
        if other == self:
            return self
        frame = self.frame if self.frame == other.frame else None
        both = self.places & other.places
        if self.depth != other.depth:
            both = frozenset(one for one in both if isinstance(one, str))
        return Holders(both, self.depth, frame)
