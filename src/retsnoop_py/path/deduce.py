# SPDX-License-Identifier: BSD-2-Clause
"""The way of a call that nothing followed, where its arguments alone decide it.

Many a function that the kernel lets nobody probe looks at its arguments first and fails. Where
these are known, each conditional jump comes out one way: the code is followed as long as that can
be said, and what memory or another function says ends it. That the number at the end is what the
call returned is asked for, too. So what is told is what happened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow, Insn, Names, Reg
from retsnoop_py.path.values import Flags, Moment, Node, evaluate

__all__ = ["Argument", "deduce", "known_value"]

_MASK = (1 << 64) - 1
#: Blocks of a way; those of one that goes further are in a loop.
_MOST_BLOCKS = 64
_MAX_DEPTH = 16
#: Bytes of an int.
_INT = 4


class Argument(NamedTuple):
    """What was given in a register: ``value``, signed or not, of ``size`` bytes."""

    value: int
    size: int


def deduce(
    graph: Graph, names: Names, arguments: Mapping[str, Argument], result: int
) -> Way | None:
    """The way of a call with ``arguments``, by register, that returned ``result``.

    None where they do not decide it. That it returned is known, so a jump to where no return is
    was not taken: that of the stack protector.
    """
    blocks, returning = [graph.entry], _returning(graph)
    while len(blocks) < _MOST_BLOCKS:
        way = Way(tuple(blocks))
        block = graph.blocks[blocks[-1]]
        run = evaluate(graph, way, names)
        if any(_cuts(step) for insn in block.insns for step in insn.steps):
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


def _cuts(insn: Insn) -> bool:
    """Whether a part of a register is made a whole one, which values here do not tell."""
    if insn.op not in ("movsx", "movzx") or len(insn.operands) < 2:
        return False
    source = insn.operands[1]
    return isinstance(source, Reg) and source.size < _INT


def _same(value: int, result: int) -> bool:
    return (value ^ result) & 0xFFFFFFFF == 0


def _taken(moment: Moment, arguments: Mapping[str, Argument]) -> bool | None:
    return None if moment.flags is None else _holds(moment.flags, moment.insn.condition, arguments)


def known_value(
    node: Node, arguments: Mapping[str, Argument], size: int = 8, depth: int = 0
) -> int | None:
    """The lower ``size`` bytes of a value, unsigned; None where the arguments do not say them."""
    found: int | None = None
    if depth > _MAX_DEPTH:
        return None
    if node.kind == "const":
        found = node.value
    elif node.kind == "param":
        given = arguments.get(node.name or "")
        # what is above an int in a register is its sign, or zeros, or nobody knows
        if given and (size <= given.size or 0 <= given.value < 1 << (8 * given.size - 1)):
            found = given.value
    elif node.kind in ("cond", "select") and node.flags is not None:
        held = _holds(node.flags, node.name or "", arguments, depth + 1)
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


def _holds(
    flags: Flags, condition: str, arguments: Mapping[str, Argument], depth: int = 0
) -> bool | None:
    """Whether ``condition`` holds of what was compared, if that can be said."""
    bits = flags.size * 8
    left = known_value(flags.left, arguments, flags.size, depth)
    right = known_value(flags.right, arguments, flags.size, depth)
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
