# SPDX-License-Identifier: BSD-2-Clause
"""Deduce the executed path of a call without block records, from its arguments and result.

Many functions that no probe may enter test their arguments first and fail. If the arguments are
known, each conditional jump has only one outcome, and this module follows the code. It stops at a
jump that depends on memory or on another function. The path is valid only if its result equals the
recorded result. Therefore a deduced path is the executed path.

If the called functions were traced, the calls and their results add facts. The module then looks at
all paths with these calls, in this order, and with this result. It reports the paths that have the
same deciding condition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Names, Reg
from retsnoop_py.path.values import (
    Flags,
    Moment,
    Node,
    State,
    run_block,
    state_at_entry,
    value_returned,
)

__all__ = [
    "Argument",
    "Behind",
    "Called",
    "Known",
    "deduce",
    "fitting",
    "holds",
    "known_value",
    "passed_values",
]

_LONG = 8
#: Maximum number of blocks in a path; a longer path is in a loop.
_MOST_BLOCKS = 64
_MAX_DEPTH = 16
#: Maximum number of paths, and how often a path may visit the same block.
_MOST_WAYS, _MOST_ROUNDS = 1000, 2
#: Known values: arguments by register, numbers behind arguments that are pointers, and results of
#: called functions by the step of the call.
Known = Mapping["str | int | Behind", "Argument"]
#: Outcomes of the tests on a path.
Held = Mapping[tuple[object, ...], bool]


class Argument(NamedTuple):
    """The value of an argument register: ``value``, signed or not, of ``size`` bytes."""

    value: int
    size: int


class Behind(NamedTuple):
    """A place in memory: ``offset`` bytes behind the argument in ``register``, a pointer."""

    register: str
    offset: int


class Called(NamedTuple):
    """A traced call: the function's name, and the ``size`` bytes that it returned."""

    name: str
    result: int
    size: int


def deduce(graph: Graph, names: Names, arguments: Known, result: int) -> Way | None:
    """Return the path of a call with ``arguments``, by register, that returned ``result``.

    Return None if the arguments do not determine the path. The call returned, so it did not take
    jumps from which no return can be reached, such as the jump of the stack protector.
    """
    blocks, returning, known = [graph.entry], _returning(graph), arguments
    state = state_at_entry(graph, names)
    while len(blocks) < _MOST_BLOCKS:
        block, moments = graph.blocks[blocks[-1]], list[Moment]()
        run_block(state, graph, Way(tuple(blocks)), len(blocks) - 1, moments)
        if _has_cuts(block):
            return None
        if state.is_changed:
            known = _without_memory(known)
        jump = block.last
        if jump.flow is Flow.BRANCH and block.next:
            taken = _taken(moments[-1], known) if moments else None
            sides = [one for one in block.next if one in returning]
            if taken is not None:
                following = block.next[1] if taken else block.next[0]
            elif len(sides) == 1 and -1 not in block.next:
                following = sides[0]
            else:
                return None
        elif block.exit:
            value = known_value(value_returned(state, block), known, INT)
            is_it = value is not None and _same(value, result)
            return Way(tuple(blocks)) if block.exit == "return" and is_it else None
        elif len(block.next) == 1:
            following = block.next[0]
        else:
            return None
        if following < 0:
            return None
        blocks.append(following)
    return None


class _Reached(NamedTuple):
    """A partial path: its blocks, the state before the last of them, known values.

    ``calls`` is the number of calls so far. ``held`` contains the outcomes of its tests. After an
    instruction that values do not model (``is_open``), each test may have either outcome.
    """

    blocks: tuple[int, ...]
    state: State
    known: Known
    calls: int = 0
    held: Held = MappingProxyType({})
    is_open: bool = False


def fitting(
    graph: Graph,
    names: Names,
    arguments: Known,
    result: int,
    calls: Sequence[Called] = (),
    traced: Collection[str] = (),
) -> list[tuple[Way, Known]]:
    """Return all paths that a call with ``calls`` and ``result`` may have taken.

    Each path comes with its known values. ``traced`` are the functions that would appear in
    ``calls`` if they had been called. Return an empty list if there are too many paths.
    """
    returning = _returning(graph)
    found: list[tuple[Way, Known]] = []
    waiting = [_Reached((graph.entry,), state_at_entry(graph, names), arguments)]
    seen = 0
    while waiting:
        seen += 1
        if seen > _MOST_WAYS:
            return []
        reached = _with_calls(graph, names, waiting.pop(), calls, traced)
        if reached is None:
            continue
        block, way = graph.blocks[reached.blocks[-1]], Way(reached.blocks)
        moments: list[Moment] = []
        run_block(reached.state, graph, way, len(reached.blocks) - 1, moments)
        is_open = reached.is_open or _has_cuts(block)
        known = _without_memory(reached.known) if reached.state.is_changed else reached.known
        reached = reached._replace(is_open=is_open, known=known)
        if block.exit:
            value = known_value(value_returned(reached.state, block), known, INT)
            rest = calls[reached.calls :]
            if _ends(block, None if is_open else value, result, rest, traced):
                found.append((way, {} if is_open else known))
        moment = moments[-1] if block.is_branch and moments else None
        for side, following in enumerate(block.next):
            held: Held | None = reached.held
            if moment is not None and len(block.next) > 1 and not is_open:
                held = _fits(moment, bool(side), reached)
            # the deciding value is unknown, so a loop may end at any time
            may_end = moment is None or is_open or _taken(moment, known) is None
            ends = may_end and reached.blocks.count(following) >= _MOST_ROUNDS
            if held is not None and following in returning and not ends:
                blocks = (*reached.blocks, following)
                after = reached._replace(blocks=blocks, held=held, state=reached.state.copy())
                waiting.append(after)
    return found


def _ends(
    block: Block, value: int | None, result: int, rest: Sequence[Called], traced: Collection[str]
) -> bool:
    """Return True if a call may have ended in ``block`` with ``result``; ``rest``: calls left."""
    if block.exit == "return":
        return not rest and (value is None or _same(value, result))
    if block.callee in traced and [one.name for one in rest] != [block.callee]:
        return False
    return all(_same(one.result, result) for one in rest)


def _fits(moment: Moment, taken: bool, reached: _Reached) -> Held | None:
    """Return the outcomes of tests if a jump is ``taken``; None if that is impossible."""
    if moment.flags is None:
        return reached.held
    if _taken(moment, reached.known) not in (taken, None):
        return None
    condition = moment.insn.condition
    opposite = OPPOSITE.get(condition, condition)
    holds = taken if condition < opposite else not taken
    key = (min(condition, opposite), moment.flags.op, moment.flags.size, *_identity(moment.flags))
    if reached.held.get(key, holds) != holds:
        return None
    return {**reached.held, key: holds}


def _identity(flags: Flags) -> tuple[object, ...]:
    """Return a key that is equal for tests of the same values."""
    return tuple((one.kind, one.name, one.step, one.value) for one in (flags.left, flags.right))


def _with_calls(
    graph: Graph, names: Names, reached: _Reached, calls: Sequence[Called], traced: Collection[str]
) -> _Reached | None:
    """Return the state after the calls of the last block; None if the calls do not match."""
    known, at, step = dict(reached.known), reached.calls, reached.state.step
    for insn in graph.blocks[reached.blocks[-1]].insns:
        if insn.flow is Flow.CALL:
            name = names(insn.target) if insn.target else None
            following = calls[at] if at < len(calls) else None
            if name in traced:
                if following is None or following.name != name:
                    return None
                if following.size:
                    known[step] = Argument(following.result, following.size)
                at += 1
        step += 1
    return reached._replace(known=known, calls=at)


def _without_memory(known: Known) -> dict[str | int | Behind, Argument]:
    """Return the known values that are not in memory."""
    return {key: one for key, one in known.items() if not isinstance(key, Behind)}


def _returning(graph: Graph) -> set[int]:
    """Return the blocks from which a return, or a jump out of the function, can be reached."""
    waiting = [one.index for one in graph.blocks if one.exit or -1 in one.next]
    found = set(waiting)
    while waiting:
        for before in graph.before[waiting.pop()]:
            if before not in found:
                found.add(before)
                waiting.append(before)
    return found


def _has_cuts(block: Block) -> bool:
    return any(_cuts(step) for insn in block.insns for step in insn.steps)


def _cuts(insn: Insn) -> bool:
    """Return True if part of a register is extended to a whole one; values do not model this."""
    if insn.op not in ("movsx", "movzx") or len(insn.operands) < 2:
        return False
    source = insn.operands[1]
    return isinstance(source, Reg) and source.size < INT


def _same(value: int, result: int) -> bool:
    return (value ^ result) & 0xFFFFFFFF == 0


def _taken(moment: Moment, arguments: Known) -> bool | None:
    return None if moment.flags is None else holds(moment.flags, moment.insn.condition, arguments)


def known_value(node: Node, arguments: Known, size: int = 8, depth: int = 0) -> int | None:
    """Return the lower ``size`` bytes of a value, unsigned; None if the arguments do not say."""
    found: int | None = None
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "const":
        found = node.value
    elif node.kind in ("param", "call"):
        given = arguments.get(node.step if node.kind == "call" else node.name or "")
        # the bits above an int in a register are its sign, zeros, or undefined
        if given and (size <= given.size or 0 <= given.value < 1 << (8 * given.size - 1)):
            found = given.value
    elif node.kind == "load" and not node.name and node.args:
        base = node.args[0]
        there = Behind(base.name or "", node.value) if base.kind == "param" else None
        given = arguments.get(there) if there is not None else None
        if given and node.size <= given.size:
            found = given.value & (1 << 8 * node.size) - 1
    elif node.kind in ("cond", "select") and node.flags is not None:
        held = holds(node.flags, node.name or "", arguments, depth + 1)
        if held is not None and node.kind == "select":
            found = known_value(node.args[0 if held else 1], arguments, size, depth + 1)
        else:
            found = held
    elif node.kind == "op":
        values = [known_value(one, arguments, node.size, depth + 1) for one in node.args]
        known = [one for one in values if one is not None]
        found = _operation(node, known) if len(known) == len(values) else None
    if found is None or (node.kind in ("load", "op") and _may_be_extended(node, int(found), size)):
        return None
    return int(found) & (1 << 8 * size) - 1


def _may_be_extended(node: Node, value: int, size: int) -> bool:
    """Return True for a negative value of fewer bytes: a move extends it by its sign, or zeros."""
    return node.size < size and bool(value >> (8 * node.size - 1) & 1)


def passed_values(call: Node, registers: Sequence[str], known: Known) -> Known:
    """Return what is known of the arguments of a function, from the ``call`` of it.

    ``registers`` are the argument registers, ``known`` the known values of the caller. Numbers in
    memory are left out if it may have changed before the call.
    """
    known = _without_memory(known) if call.memory else known
    found: dict[str | int | Behind, Argument] = {}
    for register, node in zip(registers, call.args, strict=False):
        for size in (_LONG, INT):
            value = known_value(node, known, size)
            if value is not None:
                found[register] = Argument(value, size)
                break
        pointer, distance = node, 0
        if node.kind == "op" and node.name == "+" and node.args[1].kind == "const":
            pointer, distance = node.args[0], node.args[1].value
        for key, one in known.items() if pointer.kind == "param" else ():
            if isinstance(key, Behind) and key.register == pointer.name:
                found[Behind(register, key.offset - distance)] = one
    return found


def _operation(node: Node, values: list[int]) -> int | None:
    bits = node.size * 8
    mask = (1 << bits) - 1
    left, right = values[0] & mask, values[-1] & mask
    by = right % bits
    found = {
        "+": left + right,
        "-": left - right,
        "&": left & right,
        "|": left | right,
        "^": left ^ right,
        "*": left * right,
        "<<": left << by,
        ">>": left >> by,
        "sar": _signed(left, bits) >> by,
        "~": ~left,
        "neg": -left,
    }.get(node.name or "")
    return None if found is None else found & mask


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def holds(flags: Flags, condition: str, arguments: Known, depth: int = 0) -> bool | None:
    """Return True if ``condition`` holds for the comparison; None if that is unknown."""
    bits = flags.size * 8
    left = known_value(flags.left, arguments, flags.size, depth)
    right = known_value(flags.right, arguments, flags.size, depth)
    if flags.op in ("cmp", "sub") and flags.left is flags.right:
        left = right = 0  # equal, for any value
    if left is None or right is None:
        return None
    if flags.op == "bt":
        bit = bool(left >> (right % bits) & 1)
        return {"b": bit, "ae": not bit}.get(condition)
    if flags.op in ("cmp", "sub"):
        first, second = _signed(left, bits), _signed(right, bits)
        return _compared(condition, left, right, first, second, _signed(left - right, bits) < 0)
    if flags.op in ("test", "and"):
        found = left & right
    elif flags.op == "or":
        found = left | right
    else:
        return None
    # these operations clear carry and overflow
    value = _signed(found, bits)
    return _compared(condition, found, 0, value, 0, value < 0)


def _compared(
    condition: str,
    left: int,
    right: int,
    first: int,
    second: int,
    negative: bool,
) -> bool | None:
    return {
        "e": left == right,
        "ne": left != right,
        "b": left < right,
        "ae": left >= right,
        "a": left > right,
        "be": left <= right,
        "l": first < second,
        "ge": first >= second,
        "g": first > second,
        "le": first <= second,
        "s": negative,
        "ns": not negative,
    }.get(condition)
