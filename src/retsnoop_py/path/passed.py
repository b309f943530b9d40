# SPDX-License-Identifier: BSD-2-Clause
"""Find out which of its own arguments a function passes to a function that it calls.

The search goes backward from the call over all paths, not only the executed one: each instruction
that may have set the register of an argument must have copied the same value there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Operand, Reg

__all__ = ["Copied", "Local", "Own", "call_before", "passed"]

#: Behind the last step of a block.
_END = 1 << 30
#: The search gives up after this many places.
_MAX_PLACES = 2000
#: Depth of pointers that are followed.
_MAX_LOADS = 3
_MOVES = ("mov", "movsx", "movzx")


class Own(NamedTuple):
    """An argument of the function, by number from 0, or memory that it points to.

    ``loads`` are the offsets of the pointers that lead there, in bytes. ``add`` is a number that
    was added to the value.
    """

    argument: int
    loads: tuple[int, ...] = ()
    add: int = 0


class Local(NamedTuple):
    """The address of a local variable: the register that it is relative to, and the distance."""

    base: str
    offset: int


class Copied(NamedTuple):
    """The address of a local variable that a function filled from the address ``source``."""

    source: Own


#: What a search found. None stands for anything else.
Value = Own | Local | None
#: A place before a step of a block, and the register or stack slot with the value there.
_Place = tuple[int, int, "str | Local"]


def call_before(graph: Graph, address: int) -> Insn | None:
    """Return the call that returns to ``address``, or None."""
    block = graph.at(address - 1)
    found = [one for one in block.insns if one.end == address] if block is not None else []
    return found[-1] if found and found[-1].flow is Flow.CALL else None


def passed(
    graph: Graph, call: Insn, argument: int, name_of: Callable[[int], str | None]
) -> Own | Copied | None:
    """Return what a call passes as its argument number ``argument``, from 0.

    ``name_of`` returns the name of a called function. Return None if that is unknown, or if it is
    no argument of the function.
    """
    search = _Search(graph)
    found = search.argument_of(call, argument)
    if not isinstance(found, Local):
        return found
    sources = set()
    for block in graph.blocks:
        for one in block.insns:
            name = name_of(one.target) if one.flow is Flow.CALL and one.target else None
            if name and "copy_" in name and "from_user" in name:
                numbers = (0, 2) if "struct" in name else (0, 1)
                if search.argument_of(one, numbers[0]) == found:
                    sources.add(search.argument_of(one, numbers[1]))
    source = sources.pop() if len(sources) == 1 else None
    return Copied(source) if isinstance(source, Own) else None


class _Search:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._steps = [
            [step for one in block.insns for step in one.steps] for block in graph.blocks
        ]
        self._frames = self._found_frames()
        self._left = _MAX_PLACES

    def argument_of(self, call: Insn, number: int) -> Value:
        """Return the value of an argument at a call."""
        block = self._graph.at(call.address)
        arguments = self._graph.machine.arguments
        if block is None or number >= len(arguments):
            return None
        steps = self._steps[block.index]
        at = next((n for n, one in enumerate(steps) if one.address == call.address), None)
        self._left = _MAX_PLACES
        return None if at is None else self._value(block.index, at, arguments[number], 0)

    def _value(self, block: int, at: int, where: str | Local, loads: int) -> Value:
        """Return the value in ``where`` before a step, if it is the same on all paths."""
        waiting: list[_Place] = [(block, at, where)]
        seen = set(waiting)
        found: set[Value] = set()
        while waiting and len(found) < 2:
            self._left -= 1
            if self._left < 0:
                return None
            index, before, place = waiting.pop()
            number = self._last_change(index, before, place)
            following: list[_Place] = []
            if number is not None:
                value, copied = self._made(index, number, place, loads)
                if copied is None:
                    found.add(value)
                else:
                    following.append(copied)
            else:
                following += [(one, _END, place) for one in self._graph.before[index]]
                if index == self._graph.entry:
                    found.add(self._at_entry(place))
            waiting += [one for one in following if one not in seen]
            seen.update(following)
        return found.pop() if len(found) == 1 else None

    def _at_entry(self, place: str | Local) -> Value:
        arguments = self._graph.machine.arguments
        return Own(arguments.index(place)) if place in arguments else None

    def _last_change(self, block: int, at: int, place: str | Local) -> int | None:
        """Return the last step before ``at`` in a block that changes ``place``, or None."""
        steps = self._steps[block]
        for number in range(min(at, len(steps)) - 1, -1, -1):
            if self._changes(steps[number], place):
                return number
        return None

    def _changes(self, step: Insn, place: str | Local) -> bool:
        machine = self._graph.machine
        if isinstance(place, str):
            if step.flow is Flow.CALL:
                return place in machine.clobbered
            return place in step.writes
        if step.op in ("push", "pop") and place.base == machine.stack:
            return True
        if place.base in step.writes:
            return True
        target = step.operands[0] if step.operands else None
        is_store = isinstance(target, Mem) and step.op not in ("cmp", "test", "bt")
        return is_store and self._local_of(target) == place

    def _made(
        self, block: int, number: int, place: str | Local, loads: int
    ) -> tuple[Value, _Place | None]:
        """Return the value that a step made, or the place that it was copied from."""
        step = self._steps[block][number]
        target = step.operands[0] if step.operands and step.flow is not Flow.CALL else None
        if target is None or isinstance(place, Local) != isinstance(target, Mem):
            return None, None
        sum_ = _sum_of(step)
        if sum_ is not None:
            return self._address(block, number, *sum_, loads), None
        if step.op not in _MOVES:
            return None, None
        source = step.operands[-1]
        where: str | Local | None = self._local_of(source)
        if where is None and isinstance(source, Reg) and not source.high:
            where = source.name
        if isinstance(where, str) and where in self._frames:
            return Local(where, 0), None
        if where is not None:
            return None, (block, number, where)
        return self._loaded(block, number, source, loads), None

    def _loaded(self, block: int, number: int, source: Operand, loads: int) -> Own | None:
        """Return what a step reads from memory, if an argument points there."""
        is_plain = isinstance(source, Mem) and source.base and not source.at and not source.segment
        if not is_plain or loads >= _MAX_LOADS:
            return None
        assert isinstance(source, Mem)
        base = self._value(block, number, str(source.base), loads + 1)
        if not isinstance(base, Own):
            return None
        return Own(base.argument, (*base.loads, base.add + source.disp))

    def _address(self, block: int, number: int, base: str, add: int, loads: int) -> Value:
        """Return the value of the sum of a register and a number."""
        if base in self._frames:
            return Local(base, add)
        if loads >= _MAX_LOADS:
            return None
        found = self._value(block, number, base, loads + 1)
        return found._replace(add=found.add + add) if isinstance(found, Own) else None

    def _local_of(self, operand: Operand | None) -> Local | None:
        """Return the local variable of a memory operand relative to the stack or frame pointer."""
        if not isinstance(operand, Mem) or operand.at or operand.segment:
            return None
        return Local(operand.base, operand.disp) if operand.base in self._frames else None

    def _found_frames(self) -> tuple[str, ...]:
        """Return the stack pointer, and the frame pointer if the function has one."""
        machine = self._graph.machine
        for step in self._steps[self._graph.entry]:
            is_set = step.op in ("mov", "add") and machine.frame in step.writes
            if is_set and any(
                isinstance(one, Reg) and one.name == machine.stack for one in step.operands
            ):
                return machine.stack, machine.frame
        return (machine.stack,)


def _sum_of(step: Insn) -> tuple[str, int] | None:
    """Return the register and the number that a step adds up, or None."""
    operands = step.operands
    if step.op == "lea" and isinstance(operands[1], Mem):
        source = operands[1]
        is_plain = source.base and not source.at and not source.segment
        return (source.base, source.disp) if source.base and is_plain else None
    if step.op in ("inc", "dec") and isinstance(operands[0], Reg):
        return operands[0].name, 1 if step.op == "inc" else -1
    if step.op not in ("add", "sub") or len(operands) < 2:
        return None
    base, by = step.compared
    if not isinstance(base, Reg) or not isinstance(by, Imm):
        return None
    return base.name, by.value if step.op == "add" else -by.value
