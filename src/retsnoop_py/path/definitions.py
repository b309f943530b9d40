# SPDX-License-Identifier: BSD-2-Clause
"""Which instructions may have made the value that a register or a stack slot has at a place.

They are found on all paths that lead there, not only on the executed one: where an error and
something else may arrive in the same register, the error was chosen before.
"""

from __future__ import annotations

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, Flow, Imm, Insn, Operand

__all__ = ["errors_at"]

_LARGEST_ERROR = 4095
#: Behind the last instruction of a block.
_END = 1 << 30
_MOVES = ("mov", "movsx", "movzx")

#: A place, and the step of the block's instructions before which it has the value.
_Point = tuple[int, int, "str | int"]


def errors_at(graph: Graph, held: Holders, block: int, address: int) -> frozenset[int] | None:
    """The errors of which a place of ``held`` has one before ``address`` in ``block``.

    These are constants from -4095 to -1. None if no place has an error on every path: values of
    other kinds may be one, but need not.
    """
    steps = [step for one in graph.blocks[block].insns for step in one.steps]
    at = next((n for n, step in enumerate(steps) if step.address == address), len(steps))
    for place in held.places:
        found = _errors(graph, held, (block, at, place))
        if found is not None:
            return found
    return None


def _errors(graph: Graph, held: Holders, start: _Point) -> frozenset[int] | None:
    waiting, seen = [start], {start}
    errors: set[int] = set()
    while waiting:
        found = _before(graph, held, waiting.pop(), errors)
        if found is None:
            return None
        for point in found:
            if point not in seen:
                seen.add(point)
                waiting.append(point)
    return frozenset(errors)


def _before(graph: Graph, held: Holders, point: _Point, errors: set[int]) -> list[_Point] | None:
    """Where the value was before a block's beginning or a choice; None if it may be no error."""
    index, at, place = point
    steps = [step for one in graph.blocks[index].insns for step in one.steps]
    for number in range(min(at, len(steps)) - 1, -1, -1):
        step = steps[number]
        if not _changes(held, step, place):
            continue
        sources = _sources(step)
        if sources is None:
            return None
        found: list[_Point] = []
        for source in sources:
            if isinstance(source, Imm):
                if not -_LARGEST_ERROR <= source.value < 0:
                    return None
                errors.add(source.value)
                continue
            where = held.place_of(source)
            if where is None or source.size < INT:
                return None
            found.append((index, number, where))
        return found
    if index == graph.entry:
        return None
    return [(one, _END, place) for one in graph.before[index]]


def _changes(held: Holders, step: Insn, place: str | int) -> bool:
    if step.flow is Flow.CALL:
        return place in held.machine.clobbered
    if isinstance(place, str):
        return place in step.writes
    is_store = bool(step.operands) and not step.writes and not step.flags
    return is_store and held.place_of(step.operands[0]) == place


def _sources(step: Insn) -> tuple[Operand, ...] | None:
    """The operands of which one is the value that an instruction makes; None for no such one."""
    operands = step.operands
    if step.op in _MOVES and len(operands) == 2:
        return operands[1:]
    if step.op == "cmov":
        return operands[-2:]
    if step.op == "or" and isinstance(operands[-1], Imm) and operands[-1].value == -1:
        return operands[-1:]
    return None
