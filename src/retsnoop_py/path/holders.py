# SPDX-License-Identifier: BSD-2-Clause
"""The locations of a value as instructions move it: registers and stack slots."""

from __future__ import annotations

from collections.abc import Iterable

from retsnoop_py.path.insn import INT, Flow, Imm, Insn, Machine, Mem, Operand, Reg
from retsnoop_py.value import Value

__all__ = ["Holders"]


class Holders(Value):
    """Registers and stack slots that hold a value.

    ``depth`` and ``frame`` are the offsets of the stack pointer and of the frame pointer from the
    stack pointer at the entry. ``frame`` is None if the register is not used as a frame pointer.
    """

    machine: Machine
    places: frozenset[str | int]
    depth: int
    frame: int | None

    def slot(self, memory: Mem) -> int | None:
        """Return the stack slot of a memory operand, or None."""
        if memory.at or memory.segment:
            return None
        if memory.base == self.machine.stack:
            return self.depth + memory.disp
        if memory.base == self.machine.frame and self.frame is not None:
            return self.frame + memory.disp
        return None

    def also(self, place: str | int) -> Holders:
        """Return the locations with one more."""
        if place in self.places:
            return self
        return Holders(self.machine, self.places | {place}, self.depth, self.frame)

    def without(self, places: Iterable[str | int]) -> Holders:
        """Return the locations without ``places``."""
        left = self.places.difference(places)
        frame = None if self.machine.frame in places else self.frame
        if len(left) == len(self.places) and frame == self.frame:
            return self
        return Holders(self.machine, left, self.depth, frame)

    def pushed(self, insn: Insn) -> Holders:
        """Return the locations after a push or pop."""
        operand = insn.operands[0] if insn.operands else None
        if insn.op == "push":
            depth = self.depth - 8
            has = isinstance(operand, Reg) and operand.name in self.places
            places = self.places | {depth} if has else self.places - {depth}
            return Holders(self.machine, places, depth, self.frame)
        after = Holders(self.machine, self.places, self.depth + 8, self.frame)
        if not isinstance(operand, Reg):
            return after
        return (
            after.also(operand.name)
            if self.depth in self.places
            else after.without((operand.name,))
        )

    def moved(self, insn: Insn) -> Holders:
        """Return the locations after a change of the stack pointer or of the frame pointer."""
        place = self._computed(insn)
        if self.machine.frame in insn.writes:
            left = self.without((self.machine.frame,))
            return Holders(self.machine, left.places, self.depth, place)
        if place is None:
            return self
        return Holders(self.machine, self.places, place, self.frame)

    def _computed(self, insn: Insn) -> int | None:
        """Return the stack offset that an instruction computes from a stack address, or None."""
        operands = insn.operands
        by = operands[-1] if insn.op in ("add", "sub") else Imm(0, 8)
        base = (
            operands[-1] if insn.op == "mov" else operands[len(operands) == 3] if operands else None
        )
        if not isinstance(by, Imm) or not isinstance(base, Reg):
            return None
        start = self.depth if base.name == self.machine.stack else None
        start = self.frame if base.name == self.machine.frame else start
        if start is None or insn.op not in ("add", "sub", "mov"):
            return None
        return start + (-by.value if insn.op == "sub" else by.value)

    def is_frame(self, insn: Insn) -> bool:
        """Return True if an instruction sets the stack pointer, or the frame pointer by it."""
        written, machine = insn.writes, self.machine
        if machine.stack in written:
            return True
        return machine.frame in written and self._computed(insn) is not None

    def after(self, insn: Insn) -> Holders:
        """Return the locations after any instruction.

        A move of the whole value adds a location. Other writes remove their destination.
        """
        held = self
        for step in insn.steps:
            held = held.after_step(step)
        return held

    def after_step(self, insn: Insn) -> Holders:
        """Return the locations after an instruction without parts."""
        operands = insn.operands
        if insn.flow is Flow.CALL:
            return self.without(self.machine.clobbered)
        if insn.op in ("push", "pop"):
            return self.pushed(insn)
        if self.is_frame(insn):
            return self.moved(insn)
        if insn.op == "mov" and len(operands) == 2:
            target, source = operands
            slot = self.slot(source) if isinstance(source, Mem) else None
            place = source.name if isinstance(source, Reg) else slot
            has = place in self.places and target.size == self.machine.word
            where: str | int | None = target.name if isinstance(target, Reg) else None
            if isinstance(target, Mem):
                where = self.slot(target)
            if where is None:
                return self
            return self.also(where) if has else self.without((where,))
        return self.without(insn.writes) if insn.writes else self

    def common(self, other: Holders) -> Holders:
        """Return the common locations of two paths that meet."""
        if other == self:
            return self
        frame = self.frame if self.frame == other.frame else None
        both = self.places & other.places
        if self.depth != other.depth:
            both = frozenset(one for one in both if isinstance(one, str))
        return Holders(self.machine, both, self.depth, frame)

    def place_of(self, operand: Operand) -> str | int | None:
        """Return the register or stack slot of an operand, or None."""
        if isinstance(operand, Mem):
            return self.slot(operand)
        return operand.name if isinstance(operand, Reg) else None

    def with_copies(self, insn: Insn, value: int | None = None) -> Holders:
        """Return the locations after an instruction without parts, where copies of ints count, too.

        ``value`` is the value if it is a constant.
        """
        if insn.op not in ("mov", "movsx", "movzx") or len(insn.operands) != 2:
            return self.after_step(insn)
        target, source = insn.operands
        where = self.place_of(target)
        if where is None or self.is_frame(insn):
            return self.after_step(insn)
        is_it = isinstance(source, Imm) and source.value == value
        is_it = is_it or self.place_of(source) in self.places
        is_whole = min(target.size, source.size) >= INT
        return self.also(where) if is_whole and is_it else self.without((where,))

    def joined(self, other: Holders) -> Holders:
        """Return the locations of either of two states at the same place in the code."""
        return Holders(self.machine, self.places | other.places, self.depth, self.frame)
