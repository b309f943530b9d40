# SPDX-License-Identifier: BSD-2-Clause
"""The way of a call that nothing followed, where its arguments alone decide it.

Many a function that the kernel lets nobody probe looks at its arguments first and fails. Where
these are known, each conditional jump comes out one way: the code is followed as long as that can
be said, and what memory or another function says ends it. That the number at the end is what the
call returned is asked for, too. So what is told is what happened.

Where the functions that it called were traced, these and what they returned say more: of all ways
on which these functions are called, in this order, and that may end in this result, those are told
that come to one condition.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Names, Reg
from retsnoop_py.path.values import Flags, Moment, Node, evaluate

__all__ = ["Argument", "Called", "Known", "deduce", "fitting", "holds", "known_value"]

_MASK = (1 << 64) - 1
#: Blocks of a way; those of one that goes further are in a loop.
_MOST_BLOCKS = 64
_MAX_DEPTH = 16
#: Ways that are looked at, and how often one may come by the same block.
_MOST_WAYS, _MOST_ROUNDS = 1000, 2
#: What is known: arguments by register, what called functions gave by the step of the call.
Known = Mapping[str | int, "Argument"]
#: What was asked on a way, and how that came out.
Held = Mapping[tuple[object, ...], bool]


class Argument(NamedTuple):
    """What was given in a register: ``value``, signed or not, of ``size`` bytes."""

    value: int
    size: int


class Called(NamedTuple):
    """A call that was made: of which function, and the ``size`` bytes that it returned."""

    name: str
    result: int
    size: int


def deduce(graph: Graph, names: Names, arguments: Known, result: int) -> Way | None:
    """The way of a call with ``arguments``, by register, that returned ``result``.

    None where they do not decide it. That it returned is known, so a jump to where no return is
    was not taken: that of the stack protector.
    """
    blocks, returning = [graph.entry], _returning(graph)
    while len(blocks) < _MOST_BLOCKS:
        way = Way(tuple(blocks))
        block = graph.blocks[blocks[-1]]
        run = evaluate(graph, way, names)
        if _has_cuts(block):
            return None
        jump = block.last
        if jump.flow is Flow.BRANCH and block.next:
            taken = _taken(run.moments[-1], arguments) if run.moments else None
            sides = [one for one in block.next if one in returning]
            if taken is not None:
                following = block.next[1] if taken else block.next[0]
            elif len(sides) == 1 and -1 not in block.next:
                following = sides[0]
            else:
                return None
        elif block.exit:
            value = known_value(run.result, arguments)
            is_it = value is not None and _same(value, result)
            return way if block.exit == "return" and is_it else None
        elif len(block.next) == 1:
            following = block.next[0]
        else:
            return None
        if following < 0:
            return None
        blocks.append(following)
    return None


class _Reached(NamedTuple):
    """How far a way goes: its blocks, the number of their instructions, what is known there.

    ``calls`` is the number of calls that were made, ``held`` what its jumps were found to test.
    """

    blocks: tuple[int, ...]
    steps: int
    known: Known
    calls: int = 0
    held: Held = MappingProxyType({})


def fitting(
    graph: Graph,
    names: Names,
    arguments: Known,
    result: int,
    calls: Sequence[Called],
    traced: Collection[str],
) -> list[tuple[Way, Known]]:
    """All ways that a call may have taken which made ``calls`` and returned ``result``.

    With what is known on each. ``traced`` are the functions whose calls are among ``calls`` if they
    were made. Nothing, where there are too many ways, or parts of values matter.
    """
    returning = _returning(graph)
    found: list[tuple[Way, Known]] = []
    waiting = [_Reached((graph.entry,), 0, arguments)]
    seen = 0
    while waiting:
        seen += 1
        reached = _with_calls(graph, names, waiting.pop(), calls, traced)
        if reached is None:
            continue
        block, way = graph.blocks[reached.blocks[-1]], Way(reached.blocks)
        if seen > _MOST_WAYS or _has_cuts(block):
            return []
        run = evaluate(graph, way, names)
        value, rest = known_value(run.result, reached.known), calls[reached.calls :]
        if block.exit and _ends(block, value, result, rest, traced):
            found.append((way, reached.known))
        moment = run.moments[-1] if block.is_branch and run.moments else None
        for side, following in enumerate(block.next):
            held: Held | None = reached.held
            if moment is not None and len(block.next) > 1:
                held = _fits(moment, bool(side), reached)
            # what decides is not known, so a loop may end at any time
            is_open = moment is None or _taken(moment, reached.known) is None
            ends = is_open and reached.blocks.count(following) >= _MOST_ROUNDS
            if held is not None and following in returning and not ends:
                waiting.append(reached._replace(blocks=(*reached.blocks, following), held=held))
    return found


def _ends(
    block: Block, value: int | None, result: int, rest: Sequence[Called], traced: Collection[str]
) -> bool:
    """Whether a call may have ended in ``block`` with ``result``; ``rest``: calls still to come."""
    if block.exit == "return":
        return not rest and (value is None or _same(value, result))
    if block.callee in traced and [one.name for one in rest] != [block.callee]:
        return False
    return all(_same(one.result, result) for one in rest)


def _fits(moment: Moment, taken: bool, reached: _Reached) -> Held | None:
    """What is held of the tests of a way where a jump is ``taken``; None if it cannot be."""
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
    """What is the same of two tests of the same values."""
    return tuple((one.kind, one.name, one.step, one.value) for one in (flags.left, flags.right))


def _with_calls(
    graph: Graph, names: Names, reached: _Reached, calls: Sequence[Called], traced: Collection[str]
) -> _Reached | None:
    """With the calls that the last block makes; None if these were not made."""
    known, at, step = dict(reached.known), reached.calls, reached.steps
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
    return reached._replace(steps=step, known=known, calls=at)


def _returning(graph: Graph) -> set[int]:
    """The blocks from which a return, or a jump out of the function, can be reached."""
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
    """Whether a part of a register is made a whole one, which values here do not tell."""
    if insn.op not in ("movsx", "movzx") or len(insn.operands) < 2:
        return False
    source = insn.operands[1]
    return isinstance(source, Reg) and source.size < INT


def _same(value: int, result: int) -> bool:
    return (value ^ result) & 0xFFFFFFFF == 0


def _taken(moment: Moment, arguments: Known) -> bool | None:
    return None if moment.flags is None else holds(moment.flags, moment.insn.condition, arguments)


def known_value(node: Node, arguments: Known, size: int = 8, depth: int = 0) -> int | None:
    """The lower ``size`` bytes of a value, unsigned; None where the arguments do not say them."""
    found: int | None = None
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "const":
        found = node.value
    elif node.kind in ("param", "call"):
        given = arguments.get(node.step if node.kind == "call" else node.name or "")
        # what is above an int in a register is its sign, or zeros, or nobody knows
        if given and (size <= given.size or 0 <= given.value < 1 << (8 * given.size - 1)):
            found = given.value
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
    return None if found is None else int(found) & (1 << 8 * size) - 1


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
    """Whether ``condition`` holds of what was compared, if that can be said."""
    bits = flags.size * 8
    left = known_value(flags.left, arguments, flags.size, depth)
    right = known_value(flags.right, arguments, flags.size, depth)
    if flags.op in ("cmp", "sub") and flags.left is flags.right:
        left = right = 0  # whatever it is
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
    # of these no carry and no overflow comes
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
