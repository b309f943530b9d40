# SPDX-License-Identifier: BSD-2-Clause
"""Find the instructions that may have made the value of a register or a stack slot.

The search covers all paths that lead to a place, not only the executed one. If a failure and
another value may arrive in the same register, an earlier condition selected the failure.
"""

from __future__ import annotations

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import Flow, Imm, Insn, Operand

__all__ = ["failures_at"]

#: Behind the last instruction of a block.
_END = 1 << 30
_MOVES = ("mov", "movsx", "movzx")

#: A block, the step in it before which a location has the value, and the location.
_Point = tuple[int, int, "str | int"]


def failures_at(
    graph: Graph, held: Holders, block: int, address: int, failure: Failure
) -> frozenset[int] | None:
    """Return the constants that a location of ``held`` may have before ``address`` in ``block``.

    All constants are failures like the result. Return None if no location has a failure on every
    path; values of other kinds may be failures or not.
    """
    steps = [step for one in graph.blocks[block].insns for step in one.steps]
    at = next((n for n, step in enumerate(steps) if step.address == address), len(steps))
    for place in held.places:
        found = _Definitions(graph, held, failure).of((block, at, place))
        if found is not None:
            return found
    return None


class _Definitions:
    """The constants that reach a location, provided that all are failures."""

    def __init__(self, graph: Graph, held: Holders, failure: Failure) -> None:
        self._graph = graph
        self._held = held
        self._failure = failure
        self._found: set[int] = set()

    def of(self, start: _Point) -> frozenset[int] | None:
        """Return the constants at a location; None if another value may be there."""
        waiting, seen = [start], {start}
        while waiting:
            points = self._before(waiting.pop())
            if points is None:
                return None
            for point in points:
                if point not in seen:
                    seen.add(point)
                    waiting.append(point)
        return frozenset(self._found)

    def _before(self, point: _Point) -> list[_Point] | None:
        """Return where the value was before the block or a choice; None if it is not a failure."""
        index, at, place = point
        steps = [step for one in self._graph.blocks[index].insns for step in one.steps]
        for number in range(min(at, len(steps)) - 1, -1, -1):
            if self._changes(steps[number], place):
                return self._made(index, number, steps[number])
        if index == self._graph.entry:
            return None
        return [(one, _END, place) for one in self._graph.before[index]]

    def _made(self, index: int, number: int, step: Insn) -> list[_Point] | None:
        """Return the locations of the values from which a step may have made its value."""
        sources = _sources(step)
        if sources is None:
            return None
        found: list[_Point] = []
        for source in sources:
            if isinstance(source, Imm):
                if not self._failure.is_alike(source.value):
                    return None
                self._found.add(source.value)
                continue
            where = self._held.place_of(source)
            if where is None or source.size < self._failure.size:
                return None
            found.append((index, number, where))
        return found

    def _changes(self, step: Insn, place: str | int) -> bool:
        if step.flow is Flow.CALL:
            return place in self._held.machine.clobbered
        if isinstance(place, str):
            return place in step.writes
        is_store = bool(step.operands) and not step.writes and not step.flags
        return is_store and self._held.place_of(step.operands[0]) == place


def _sources(step: Insn) -> tuple[Operand, ...] | None:
    """Return the operands of which an instruction copies one; None for other instructions."""
    operands = step.operands
    if step.op in _MOVES and len(operands) == 2:
        return operands[1:]
    if step.op == "cmov":
        return operands[-2:]
    if step.op == "or" and isinstance(operands[-1], Imm) and operands[-1].value == -1:
        return operands[-1:]
    if step.op in ("xor", "sub") and len(operands) == 2 and operands[0] == operands[1]:
        return (Imm(0, operands[0].size),)
    return None
