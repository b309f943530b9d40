# SPDX-License-Identifier: BSD-2-Clause
"""Find out which of its own arguments a function passes to a function that it calls.

The search goes backward from the call over all paths, not only the executed one: each instruction
that may have set the register of an argument must have copied the same value there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator
from functools import cached_property
from typing import NamedTuple, Protocol

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Operand, Reg, user_copy
from retsnoop_py.path.values import LOCAL_BYTES

__all__ = ["Callees", "Copied", "FromUser", "Local", "Own", "call_before", "passed", "tail_calls"]

#: Behind the last step of a block.
_END = 1 << 30
#: The search gives up after this many places.
_MAX_PLACES = 2000
#: Depth of pointers that are followed.
_MAX_LOADS = 3
_MOVES = ("mov", "movsx", "movzx")
#: How often an address of a local variable is copied from register to register.
_MOST_COPIES = 3
#: How many blocks and copies are followed from the use of such an address back to where it was set.
_MOST_FOLLOWED = 12
#: A register that may point to more places may point to any place above the lowest one.
_MOST_ADDRESSES = 8
#: The bits of a number that are compared: it may be an int.
_INT = 0xFFFFFFFF


class Own(NamedTuple):
    """An argument of the function, by number from 0, or memory that it points to.

    ``loads`` are the offsets of the pointers that lead there, in bytes. ``add`` is a number that
    was added to the value.
    """

    argument: int
    loads: tuple[int, ...] = ()
    add: int = 0


class Local(NamedTuple):
    """An address on the stack: its distance from the stack pointer at the function's entry."""

    offset: int


class Copied(NamedTuple):
    """The address of a local variable that a function filled from the address ``source``."""

    source: Own


class FromUser(NamedTuple):
    """A number that the function read from the user's memory at the address ``source``."""

    source: Own


#: What a search found: also a constant. None stands for anything else.
Value = Own | Local | FromUser | int | None
#: A place before a step of a block, and the register or stack slot with the value there.
_Place = tuple[int, int, "str | Local"]


def tail_calls(graph: Graph, callee: str) -> list[Insn]:
    """Return the jumps with which a function ends in another one."""
    return [one.last for one in graph.blocks if one.exit == "tail" and one.callee == callee]


def call_before(graph: Graph, address: int) -> Insn | None:
    """Return the call that returns to ``address``, or None."""
    block = graph.at(address - 1)
    found = [one for one in block.insns if one.end == address] if block is not None else []
    return found[-1] if found and found[-1].flow is Flow.CALL else None


class Callees(Protocol):
    """What the search knows about called functions."""

    def name_of(self, address: int) -> str | None:
        """Return the name of the function at an address, or None."""

    def size_behind(self, function: str, argument: int) -> int:
        """Return the size in bytes of what a function's argument points to; 0 if unknown."""


def passed(
    graph: Graph,
    call: Insn,
    argument: int,
    callees: Callees,
    *,
    value: int | None = None,
    member: int | None = None,
) -> Own | Copied | FromUser | None:
    """Return what a call passes as its argument number ``argument``, from 0.

    With ``member``: what it passes at this distance in bytes behind that argument, a pointer, if
    the function set it in a struct of its own; else the pointer. ``value`` is what the call passed,
    if known: paths that pass another constant did not run. Return None if that is unknown, or if it
    is no argument of the function.
    """
    search = _Search(graph, callees)
    found = search.argument_of(call, argument, None if member is not None else value)
    if not isinstance(found, Local):
        return None if isinstance(found, int) else found
    sources = set()
    for block in graph.blocks:
        for one in block.insns:
            numbers = search.user_copy(one)
            if numbers is not None and search.argument_of(one, numbers[0]) == found:
                sources.add(search.argument_of(one, numbers[1]))
    if sources:
        source = sources.pop()
        return Copied(source) if isinstance(source, Own) and not sources else None
    if member is None:
        return None
    inside = search.stored_at(call, Local(found.offset + member), value)
    return inside if isinstance(inside, (Own, FromUser)) else None


class _Search:
    def __init__(self, graph: Graph, callees: Callees) -> None:
        self._graph = graph
        self._callees = callees
        #: By block: the steps that change each register, and those that change the stack.
        self._registers: dict[int, dict[str, list[int]]] = {}
        self._stack: dict[int, list[tuple[int, int, int]]] = {}
        self._steps = [
            [step for one in block.insns for step in one.steps] for block in graph.blocks
        ]
        #: Before each step of a block that can be reached: the distances of the stack pointer and
        #: of the frame pointer.
        self._frames = self._found_frames()
        self._left = _MAX_PLACES

    def argument_of(self, call: Insn, number: int, value: int | None = None) -> Value:
        """Return the value of an argument at a call, which passed ``value`` if that is known."""
        registers = self._graph.machine.arguments
        if number < len(registers):
            return self._at(call, registers[number], value)
        frame = self._frame_at(call)
        if frame is None:
            return None
        beyond = self._graph.machine.word * (number - len(registers))
        return self._at(call, Local(frame.depth + beyond), value)

    def stored_at(self, call: Insn, place: Local, value: int | None) -> Value:
        """Return what is at a place on the stack when a call runs."""
        return self._at(call, place, value)

    def user_copy(self, call: Insn) -> tuple[int, int] | None:
        """Return the numbers of the arguments to and from if a call copies data of the user."""
        is_direct = call.flow is Flow.CALL and call.target
        return user_copy(self._callees.name_of(call.target)) if is_direct else None

    def _at(self, insn: Insn, where: str | Local, value: int | None = None) -> Value:
        """Return the value in ``where`` before an instruction."""
        found = self._step_of(insn)
        if found is None:
            return None
        self._left = _MAX_PLACES
        return self._value(*found, where, 0, value)

    def _step_of(self, insn: Insn) -> tuple[int, int] | None:
        """Return the block and the step of an instruction; None if no path leads there."""
        block = self._graph.at(insn.address)
        if block is None or block.index not in self._frames:
            return None
        steps = enumerate(self._steps[block.index])
        return next(((block.index, n) for n, one in steps if one.address == insn.address), None)

    def _frame_at(self, insn: Insn) -> Holders | None:
        found = self._step_of(insn)
        return self._frames[found[0]][found[1]] if found is not None else None

    def _value(
        self, block: int, at: int, where: str | Local, loads: int, known: int | None = None
    ) -> Value:
        """Return the value in ``where`` before a step, if it is the same on all paths.

        Paths with another constant than ``known`` do not count.
        """
        waiting: list[_Place] = [(block, at, where)]
        seen = set(waiting)
        found: set[Value] = set()
        while waiting and (len(found) < 2 or _same_data(found)):
            self._left -= 1
            if self._left < 0:
                return None
            index, before, place = waiting.pop()
            if index not in self._frames:
                continue  # no path from the entry leads here
            number = self._last_change(index, before, place)
            following: list[_Place] = []
            if number is not None:
                value, copied = self._made(index, number, place, loads)
                is_other = isinstance(value, int) and known is not None and (value ^ known) & _INT
                if copied is not None:
                    following.append(copied)
                elif not is_other:
                    found.add(value)
            else:
                following += [(one, _END, place) for one in self._graph.before[index]]
                if index == self._graph.entry:
                    found.add(self._at_entry(place))
            waiting += [one for one in following if one not in seen]
            seen.update(following)
        return found.pop() if len(found) == 1 else _same_data(found)

    def _at_entry(self, place: str | Local) -> Value:
        machine = self._graph.machine
        if isinstance(place, str):
            return Own(machine.arguments.index(place)) if place in machine.arguments else None
        number, rest = divmod(place.offset - machine.call_pushes, machine.word)
        return Own(len(machine.arguments) + number) if number >= 0 and not rest else None

    def _last_change(self, block: int, at: int, place: str | Local) -> int | None:
        """Return the last step before ``at`` in a block that changes ``place``, or None."""
        if isinstance(place, str):
            steps = self._registers_in(block).get(place, ())
            number = bisect_left(steps, at)
            return steps[number - 1] if number else None
        for number, low, high in reversed(self._stack_in(block)):
            if number < at and low <= place.offset < high:
                return number
        return None

    def _registers_in(self, block: int) -> dict[str, list[int]]:
        """Return the steps of a block that change each register."""
        if block not in self._registers:
            found = self._registers[block] = {}
            for number, step in enumerate(self._steps[block]):
                is_call = step.flow is Flow.CALL
                read = self._user_read(step) if is_call else None
                for register in (read or self._graph.machine.clobbered) if is_call else step.writes:
                    found.setdefault(register, []).append(number)
        return self._registers[block]

    def _stack_in(self, block: int) -> list[tuple[int, int, int]]:
        """Return the steps of a block that change the stack, each with begin and end."""
        if block not in self._stack:
            found = self._stack[block] = []
            for number, step in enumerate(self._steps[block]):
                if step.flow is Flow.CALL or step.text.startswith("rep "):
                    found.extend((number, *part) for part in self._given_away(block, number))
                elif (stored := self._stored(block, number)) is not None:
                    size = step.operands[0].size if step.op != "push" else self._graph.machine.word
                    found.append((number, stored.offset, stored.offset + max(size, 1)))
        return self._stack[block]

    def _given_away(self, block: int, number: int) -> Iterator[tuple[int, int]]:
        """Yield the parts of the stack that a call or a string instruction may change."""
        step = self._steps[block][number]
        is_call = step.flow is Flow.CALL
        name = self._callees.name_of(step.target) if is_call and step.target else None
        registers = self._graph.machine.arguments if is_call else ("rdi",)
        copied = user_copy(name)
        for argument, register in enumerate(registers):
            addresses = self._addresses_in(block, number, register)
            if len(addresses) > _MOST_ADDRESSES:
                yield min(addresses), _END
                continue
            if not addresses:
                continue
            size = self._callees.size_behind(name, argument) if name else 0
            if copied is not None and copied[0] == argument:
                length = self._set_in_block(block, number, registers[3 - sum(copied)])
                size = (_constant_of(length) if length is not None else 0) or 0
            for address in addresses:
                yield address, address + (size or LOCAL_BYTES)

    def _addresses_in(self, block: int, number: int, register: str) -> set[int]:
        """Return the places on the stack that a register may point to before a step.

        Where several blocks come before, all steps of the function count.
        """
        at = number
        for _ in range(_MOST_FOLLOWED):
            found = self._number_in_block(block, at, register)
            if found is None:
                before = self._graph.before[block]
                if block == self._graph.entry and not before:
                    return set()  # an argument points to the caller's stack
                is_joined = block == self._graph.entry or len(before) != 1
                if is_joined or before[0] not in self._frames:
                    break
                block, at = before[0], _END
                continue
            step, at = self._steps[block][found], found
            sum_ = _sum_of(step)
            base, add = sum_ if sum_ is not None else ("", 0)
            source = step.operands[-1] if step.operands else None
            if sum_ is None and step.op == "mov" and isinstance(source, Reg):
                base = source.name
            if not base:
                return set()
            pointed = self._pointed(block, found, base, add)
            if pointed is not None:
                return {pointed.offset}
            if add:
                return {one + add for one in self._addresses.get(base, ())}
            register = base
        return self._addresses.get(register, set())

    def _number_in_block(self, block: int, at: int, register: str) -> int | None:
        """Return the last step before ``at`` in a block that writes a register, or None."""
        steps = self._steps[block]
        for number in range(min(at, len(steps)) - 1, -1, -1):
            step = steps[number]
            is_call = step.flow is Flow.CALL
            if register in (self._graph.machine.clobbered if is_call else step.writes):
                return number
        return None

    def _set_in_block(self, block: int, at: int, register: str) -> Insn | None:
        number = self._number_in_block(block, at, register)
        step = self._steps[block][number] if number is not None else None
        return step if step is not None and step.operands and step.flow is Flow.NEXT else None

    @cached_property
    def _addresses(self) -> dict[str, set[int]]:
        """Return the places on the stack that each register points to anywhere in the function."""
        found: dict[str, set[int]] = {}
        copies: list[tuple[str, str, int]] = []
        for block in self._frames:
            for number, step in enumerate(self._steps[block]):
                target = step.operands[0] if step.operands else None
                if not isinstance(target, Reg) or step.flow is not Flow.NEXT:
                    continue
                source = step.operands[-1]
                is_copy = step.op == "mov" and isinstance(source, Reg)
                sum_ = (source.name, 0) if is_copy and isinstance(source, Reg) else _sum_of(step)
                if sum_ is None:
                    continue
                pointed = self._pointed(block, number, *sum_)
                if pointed is not None:
                    found.setdefault(target.name, set()).add(pointed.offset)
                else:
                    copies.append((target.name, *sum_))
        for _ in range(_MOST_COPIES):
            for target_name, base, add in copies:
                for one in tuple(found.get(base, ())) if target_name != base else ():
                    found.setdefault(target_name, set()).add(one + add)
        return found

    def _user_read(self, step: Insn) -> tuple[str, str] | None:
        """Return the registers of value and address if a call reads a number of the user."""
        rows = self._graph.machine.user_reads
        name = self._callees.name_of(step.target) if rows and step.target else None
        found = (row for row in rows if name and name.startswith(row[0]))
        return next(((value, address) for _, value, address in found), None)

    def _stored(self, block: int, number: int) -> Local | None:
        """Return the place on the stack that a step writes, or None."""
        step = self._steps[block][number]
        if step.op == "push":
            return Local(self._frames[block][number].depth - self._graph.machine.word)
        target = step.operands[0] if step.operands else None
        is_store = isinstance(target, Mem) and step.op not in ("cmp", "test", "bt")
        return self._local_of(block, number, target) if is_store else None

    def _made(
        self, block: int, number: int, place: str | Local, loads: int
    ) -> tuple[Value, _Place | None]:
        """Return the value that a step made, or the place that it was copied from."""
        step = self._steps[block][number]
        if step.flow is Flow.CALL:
            return self._read_of_user(block, number, place, loads), None
        target = step.operands[0] if step.operands else None
        is_store = step.op == "push" or isinstance(target, Mem)
        if target is None or isinstance(place, Local) != is_store:
            return None, None
        if is_store and self._stored(block, number) != place:
            return None, None  # a part of a wider number
        sum_ = _sum_of(step)
        if sum_ is not None:
            return self._address(block, number, *sum_, loads), None
        source = step.operands[-1]
        constant = _constant_of(step)
        if constant is not None or step.op not in (*_MOVES, "push"):
            return constant, None
        where: str | Local | None = self._local_of(block, number, source)
        if where is None and isinstance(source, Reg) and not source.high:
            where = source.name
        if isinstance(where, str) and (address := self._pointed(block, number, where)):
            return address, None
        if where is not None:
            return None, (block, number, where)
        return self._loaded(block, number, source, loads), None

    def _read_of_user(
        self, block: int, number: int, place: str | Local, loads: int
    ) -> FromUser | None:
        """Return the number of the user that a call read, if its address is an argument."""
        step = self._steps[block][number]
        read, copied = self._user_read(step), self.user_copy(step)
        if loads >= _MAX_LOADS:
            return None
        source: Value = None
        if read is not None and place == read[0]:
            source = self._value(block, number, read[1], loads + 1)
        elif copied is not None and isinstance(place, Local):
            registers = self._graph.machine.arguments
            if self._addresses_in(block, number, registers[copied[0]]) == {place.offset}:
                source = self._value(block, number, registers[copied[1]], loads + 1)
        return FromUser(source) if isinstance(source, Own) else None

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
        pointed = self._pointed(block, number, base, add)
        if pointed is not None or loads >= _MAX_LOADS:
            return pointed
        found = self._value(block, number, base, loads + 1)
        return found._replace(add=found.add + add) if isinstance(found, Own) else None

    def _local_of(self, block: int, number: int, operand: Operand | None) -> Local | None:
        """Return the place of a memory operand of a step on the stack, or None."""
        slot = self._frames[block][number].slot(operand) if isinstance(operand, Mem) else None
        return Local(slot) if slot is not None else None

    def _pointed(self, block: int, number: int, register: str, add: int = 0) -> Local | None:
        """Return the address in a register that is the stack or frame pointer before a step."""
        return self._local_of(block, number, Mem(register, None, 1, add, 0))

    def _found_frames(self) -> dict[int, list[Holders]]:
        start = Holders(self._graph.machine, frozenset(), 0, None)
        waiting = [(self._graph.entry, start)]
        found: dict[int, list[Holders]] = {}
        while waiting:
            index, now = waiting.pop()
            if index in found:
                continue
            found[index] = []
            for step in self._steps[index]:
                found[index].append(now)
                now = now.after_step(step)
            waiting += [(one, now) for one in self._graph.blocks[index].next if one >= 0]
        return found


def _same_data(values: Collection[Value]) -> FromUser | None:
    """Return the user's number if the other values are the kernel's copy of it, as of sockptr_t."""
    read = [one for one in values if isinstance(one, FromUser)]
    if len(read) != 1 or len(values) != 2:
        return None
    source = read[0].source
    copy = Own(source.argument, (*source.loads, source.add))
    return read[0] if copy in values else None


def _constant_of(step: Insn) -> int | None:
    """Return the constant that a step writes, or None."""
    source = step.operands[-1]
    if step.op == "xor":
        return 0 if all(one == source for one in step.operands) else None
    if not isinstance(source, Imm):
        return None
    if step.op == "or":
        return -1 if source.value == -1 else None
    return source.value if step.op in (*_MOVES, "push") else None


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
