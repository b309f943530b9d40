# SPDX-License-Identifier: BSD-2-Clause
"""Detect tests in compiled code: for zero, for failure, for a certain number.

This module looks only at the code. It does not use the executed path.
"""

from __future__ import annotations

from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.deduce import holds
from retsnoop_py.path.failure import LARGEST_ERROR
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, Flow, Imm, Insn, Mem, Operand, Reg
from retsnoop_py.path.values import Flags, Node

#: Operations that write their whole destination without reading it.
_PLAIN_TARGETS = ("mov", "movzx", "movsx", "lea", "pop", "set")


def is_zero(zero: Holders, source: Operand, size: int) -> bool:
    """Return True if ``size`` bytes of an operand are 0 according to ``zero``."""
    if isinstance(source, Imm):
        return not source.value and size >= INT
    most = INT if isinstance(source, Mem) else zero.machine.word
    return zero.place_of(source) in zero.places and INT <= min(source.size, size) <= most


def asks_zero(zero: Holders, low: Holders, insn: Insn) -> Flags | None:
    """Return the comparison if an instruction compares a known 0 with a constant; else None."""
    if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
        return None
    left, right = insn.compared
    is_low = isinstance(left, Reg) and left.size == 1 and not left.high and left.name in low.places
    if isinstance(left, Imm) or not (is_low or is_zero(zero, left, left.size)):
        return None
    nothing = Node("const")
    if insn.op == "test":
        return Flags(insn, "test", nothing, nothing, left.size)
    if not isinstance(right, Imm):
        return None
    return Flags(insn, "cmp", nothing, Node("const", value=right.value), left.size)


def as_chosen(insn: Insn, asked: Flags) -> Insn:
    """Return a conditional move as a plain move if ``asked`` decides its condition."""
    held = holds(asked, insn.condition, {})
    if held is None:
        return insn
    target, new, *old = insn.operands
    return insn._replace(op="mov", operands=(target, new if held else (old or [target])[0]))


def asks(insn: Insn, held: Holders, flags: Flags) -> bool:
    """Return True if an instruction compares a value in ``held`` with the constant of ``flags``."""
    if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
        return False
    left, right = insn.compared
    place = held.slot(left) if isinstance(left, Mem) else getattr(left, "name", None)
    if place not in held.places:
        return False
    if insn.op == "test" or flags.op == "test":
        return insn.op == flags.op and left == right and flags.left is flags.right
    return isinstance(right, Imm) and right.value == flags.right.value


def asks_for_failure(given: Holders, insn: Insn) -> bool:
    """Return True if an instruction tests whether a value in ``given`` is an error.

    It compares an int with 0, or a pointer with the lowest error pointer.
    """
    if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
        return False
    left, right = insn.compared
    if isinstance(left, Imm) or given.place_of(left) not in given.places:
        return False
    if insn.op == "test":
        return left == right and left.size == INT
    if not isinstance(right, Imm):
        return False
    if left.size == INT:
        return not right.value
    return right.value in (-LARGEST_ERROR, -LARGEST_ERROR - 1)


def asks_for_sign(given: Holders, insn: Insn, block: Block) -> bool:
    """Return True if an instruction and the jump of its block test whether a value is negative."""
    if insn.op != "test" or len(insn.operands) < 2 or insn.compared[0] != insn.compared[1]:
        return False
    is_sign = block.last.steps[-1].condition in ("s", "ns", "l", "ge")
    return is_sign and given.place_of(insn.compared[0]) in given.places


def failing_side(block: Block) -> int | None:
    """Return the side of a block's jump that a failure takes; None for other conditions."""
    if not block.is_branch:
        return None
    sides = dict.fromkeys(("ne", "s", "l", "a", "ae"), 1)
    sides |= dict.fromkeys(("e", "ns", "ge", "be", "b"), 0)
    return sides.get(block.last.steps[-1].condition)


def failing_edge(block: Block, to: int, held: Holders, place: str | int) -> bool | None:
    """Return True if a block tests ``place`` for failure, and a failure leads to block ``to``.

    Return False if a success leads there; None if the block does not test for failure.
    """
    if not block.is_branch:
        return None
    before, given = before_block(block, held, place)
    places = frozenset(() if before is None else (before,))
    now, asked = Holders(held.machine, places, held.depth, held.frame), False
    for insn in (step for one in block.insns for step in one.steps):
        if insn.flags or insn.flow is Flow.CALL:
            asked = asks_for_failure(now, insn) or asks_for_sign(now, insn, block)
        now = now.with_copies(insn)
        if given and insn.flow is Flow.CALL:
            now = now.also(held.machine.result)
    side = failing_side(block) if asked else None
    if side is None:
        return None
    return block.next[side] == to


def before_block(block: Block, held: Holders, place: str | int) -> tuple[str | int | None, bool]:
    """Return the location at a block's beginning of the value in ``place`` at its end.

    The location is None if the block makes the value. The second result is True if the value is the
    result of a function that the block calls.
    """
    machine, now = held.machine, place
    for insn in (step for one in reversed(block.insns) for step in reversed(one.steps)):
        if insn.flow is Flow.CALL:
            if now == machine.result:
                return None, True
            if now in machine.clobbered:
                return None, False
        elif machine.stack in insn.writes or insn.op in ("push", "pop"):
            return None, False
        elif insn.op in ("mov", "movsx") and len(insn.operands) == 2:
            target, source = insn.operands
            if held.place_of(target) == now:
                where = held.place_of(source)
                if where is None or min(target.size, source.size) < INT:
                    return None, False
                now = where
        elif now in insn.writes:
            return None, False
    return now, False


def _reads(graph: Graph, block: Block) -> tuple[frozenset[str], frozenset[str]]:
    """Return the registers that a block reads before it writes them, and those that it writes."""
    machine = graph.machine
    read: set[str] = set()
    written: set[str] = set()
    for insn in (step for one in block.insns for step in one.steps):
        sources = insn.operands[1:] if insn.op in _PLAIN_TARGETS else insn.operands
        targets = [one for one in insn.operands[:1] if isinstance(one, Mem)]
        names = {one.name for one in sources if isinstance(one, Reg)}
        for one in (*sources, *targets):
            if isinstance(one, Mem):
                names |= {name for name in (one.base, one.at) if name}
        if insn.flow is Flow.CALL:
            names |= set(machine.arguments)
        read |= names - written
        written |= set(machine.clobbered if insn.flow is Flow.CALL else insn.writes)
    if block.exit:
        read |= {machine.result, *machine.arguments} - written
    return frozenset(read), frozenset(written)


def read_behind(graph: Graph) -> list[frozenset[str]]:
    """Return the registers that each block, or a block behind it, may read."""
    uses = [_reads(graph, block) for block in graph.blocks]
    found = [read for read, _ in uses]
    waiting = list(range(len(found)))
    while waiting:
        at = waiting.pop()
        read, written = uses[at]
        behind = (found[one] for one in graph.blocks[at].next if one >= 0)
        now = read.union(*behind) - (written - read)
        if now != found[at]:
            found[at] = now
            waiting += graph.before[at]
    return found
