# SPDX-License-Identifier: BSD-2-Clause
"""Find out if a function can still return another number than the result of a failed call."""

from __future__ import annotations

from collections.abc import Iterable

from retsnoop_py.path.asks import as_chosen, asks_zero, is_zero
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.deduce import holds
from retsnoop_py.path.failure import MASK32, Failure, is_result
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, Flow, Imm, Insn, Mem, Operand, Reg
from retsnoop_py.path.origin import Handed, Made, Returned
from retsnoop_py.path.values import LOCAL_BYTES, Flags, Node

__all__ = ["OtherResults"]

#: The search gives up after this many states.
_MAX_STATES = 20_000


class OtherResults:
    """The search for returns of another number than ``failure``, which ``returned`` made.

    ``handed``: a called function returned its argument, the result, unchanged.
    """

    def __init__(
        self, graph: Graph, failure: Failure, returned: Returned, handed: Handed | None
    ) -> None:
        self._graph = graph
        self._failure = failure
        self._result = failure.result
        self._returned = returned
        self._handed = handed
        #: Offsets of local variables with used addresses; None until they are computed.
        self._locals: list[int] | None = None

    def reaches_other(
        self, start: int, holders: Holders, zeros: tuple[Holders, Holders] | None = None
    ) -> bool:
        """Return True if a path from a block reaches a return with another number.

        ``zeros`` are the known locations of a 0, and the known locations with a 0 in the lowest
        byte.
        """
        nothing = Holders(holders.machine, frozenset(), holders.depth, holders.frame)
        waiting = [(start, holders, *(zeros or (nothing, nothing)))]
        seen = set(waiting)
        while waiting:
            index, held, zero, low = waiting.pop()
            block, asked = self._graph.blocks[index], None
            for step in (step for insn in block.insns for step in insn.steps):
                if step.flags or step.flow is Flow.CALL:
                    asked = self._asks_result(held, step) or asks_zero(zero, low, step)
                does = as_chosen(step, asked) if step.op == "cmov" and asked else step
                held, zero = self._after_step(held, does), self._after_zero(zero, does)
                low = low.after_step(step)
            if block.exit == "return":
                if self._graph.machine.result not in held.places:
                    return True
            elif block.exit and not self._hands_on(held, block.last):
                return True
            condition = block.last.steps[-1].condition
            side = holds(asked, condition, {}) if asked and block.is_branch else None
            for following in block.next if side is None else (block.next[side],):
                key = (following, held, zero, low)
                if following >= 0 and key not in seen:
                    seen.add(key)
                    waiting.append(key)
            if len(seen) > _MAX_STATES:
                return True
        return False

    def is_given(self, held: Holders, slot: int) -> bool:
        """Return True if a slot may belong to a local variable that has its address used."""
        if self._locals is None:
            insns = (one for block in self._graph.blocks for one in block.insns)
            places = [
                held.slot(one.operands[1])
                for one in insns
                if one.op == "lea" and isinstance(one.operands[1], Mem)
            ]
            self._locals = sorted(one for one in places if one is not None)
        return any(start <= slot < start + LOCAL_BYTES for start in self._locals)

    def _after_zero(self, zero: Holders, insn: Insn) -> Holders:
        """Return where a 0 is after an instruction."""
        operands = insn.operands
        if insn.flow is Flow.CALL:
            slots = [one for one in zero.places if isinstance(one, int)]
            given = [one for one in slots if self.is_given(zero, one)]
            return zero.without((*self._graph.machine.clobbered, *given))
        if insn.op in ("xor", "sub") and len(set(operands)) == 1 and len(operands) > 1:
            is_whole = isinstance(operands[0], Reg) and operands[0].size >= INT
            return zero.also(insn.writes[0]) if is_whole and insn.writes else zero
        if insn.op != "mov" or len(operands) != 2 or zero.is_frame(insn):
            return zero.after_step(insn)
        target, source = operands
        where = zero.place_of(target)
        if where is None:
            return zero
        if isinstance(where, int):  # overlapping slots
            near = range(where - INT + 1, where + target.size)
            zero = zero.without(one for one in zero.places if one in near)
        return zero.also(where) if is_zero(zero, source, target.size) else zero.without((where,))

    def _asks_result(self, held: Holders, insn: Insn) -> Flags | None:
        """Return the comparison of an instruction that compares the result with a constant."""
        if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
            return None
        left, right = insn.compared
        if isinstance(left, Imm) or not self._has_result(held, left):
            return None
        low = self._result & MASK32
        is_error = low >> (8 * INT - 1)
        result = Node("const", value=low - (1 << 8 * INT) if is_error else self._result)
        if insn.op == "test":
            return Flags(insn, "test", result, result, left.size) if left == right else None
        if not isinstance(right, Imm):
            return None
        return Flags(insn, "cmp", result, Node("const", value=right.value), left.size)

    def _after_step(self, held: Holders, insn: Insn) -> Holders:
        operands = insn.operands
        if insn.flow is Flow.CALL:
            after = held.without(self._graph.machine.clobbered)
            return after.also(self._graph.machine.result) if self._hands_on(held, insn) else after
        if insn.flow is not Flow.NEXT:
            return held
        if insn.address == self._returned.address and insn.writes and insn.op != "cmov":
            made = self._returned.made in (Made.CONSTANT, Made.COMPUTED)
            return held.also(insn.writes[0]) if made else held.without(insn.writes)
        if insn.op in ("push", "pop"):
            return held.pushed(insn)
        if held.is_frame(insn):
            return held.moved(insn)
        if insn.op in ("mov", "movsx", "movzx") and len(operands) == 2:
            return self._moved(held, insn)
        makes = bool(insn.writes) and self._makes_same(held, insn)
        return held.also(insn.writes[0]) if makes else held.without(insn.writes)

    def _hands_on(self, held: Holders, insn: Insn) -> bool:
        """Return True if an instruction calls the function that returns the result unchanged."""
        handed = self._handed
        if handed is None or insn.address != handed.node.at:
            return False
        return handed.register in held.places

    def _makes_same(self, held: Holders, insn: Insn) -> bool:
        """Return True if an instruction makes the result's number without moving it."""
        operands = insn.operands
        if insn.op == "cmov":  # both sources are the result
            sources = operands[1:] if len(operands) > 2 else operands
            return all(self._has_result(held, one) for one in sources)
        if insn.op == "xor" and not self._result:
            return operands[0] == operands[1]
        return insn.op == "or" and self._result & MASK32 == MASK32 and _minus_one(operands)

    def _has_result(self, held: Holders, source: Operand) -> bool:
        """Return True if an operand holds the result's number, in all its bytes."""
        if isinstance(source, Imm):
            return is_result(source.value, self._result)
        if isinstance(source, Mem):
            slot = held.slot(source)
            return slot is not None and slot in held.places
        return source.name in held.places and source.size >= self._failure.size

    def _moved(self, held: Holders, insn: Insn) -> Holders:
        target, source = insn.operands
        has = self._has_result(held, source) and target.size >= self._failure.size
        place = target.name if isinstance(target, Reg) else None
        where: str | int | None = place
        if isinstance(target, Mem):
            where = held.slot(target)
        if where is None:
            return held
        return held.also(where) if has else held.without((where,))


def _minus_one(operands: Iterable[object]) -> bool:
    return any(isinstance(one, Imm) and one.value == -1 for one in operands)
