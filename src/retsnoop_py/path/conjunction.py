# SPDX-License-Identifier: BSD-2-Clause
"""Find the other tests of the deciding statement: ``A`` in ``A && B``, if ``B`` decided.

These tests are earlier branches. Their other side has the same target as the other side of the
deciding branch, or it leads to success and never to the deciding branch, as in
``if (A) { if (B) return -EACCES; ...}``. Only tests may be between the two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.failure import is_error
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow, Imm, Insn, Mem, Reg
from retsnoop_py.path.origin import Decided, is_settled, went
from retsnoop_py.path.values import Flags, Moment, Run

__all__ = ["has_copy", "tests_before"]

#: Maximum number of earlier tests that are printed with a condition.
_MOST = 3
_MAX_DEPTH = 12
#: Maximum number of blocks with further tests of a condition.
_MOST_BLOCKS = 12
_OPPOSITES = {"ne": "e", "ae": "b", "ns": "s", "no": "o", "a": "be", "ge": "l", "g": "le"}


def tests_before(
    graph: Graph, way: Way, run: Run, last: Decided, encloses: Callable[[int, int], bool]
) -> Iterator[tuple[int, bool]]:
    """Yield the index of each earlier test, last first, and True if its jump was taken.

    ``encloses(number, block)`` tells if the other side of a jump may end in success, and never
    leads to ``block``.
    """
    ends = _ends(graph, way, last)
    if ends is None:
        return
    tested = _calls(last.flags)
    position, found = last.position, 0
    number = next((n for n, one in enumerate(run.moments) if one.step >= last.step), None)
    for at in range((len(run.moments) if number is None else number) - 1, -1, -1):
        moment = run.moments[at]
        if found >= _MOST or not _is_quiet(graph, way, moment, position, tested):
            return
        if is_settled(moment):
            continue
        taken = _leads_to(graph, way, moment, ends)
        if taken is None and encloses(at, way.blocks[position]):
            taken = went(graph, way, moment)
        if taken is None:
            return
        yield at, taken
        found += 1
        tested |= _calls(moment.flags)
        position = moment.position
        ends = ends._replace(own=ends.own | {way.blocks[position]})


class _Ends(NamedTuple):
    """The targets of a condition.

    ``other`` is the target if the condition does not hold; ``own`` are the blocks of its tests.
    ``compare`` is the comparison that decided.
    """

    other: int
    own: frozenset[int]
    compare: Insn | None


def _ends(graph: Graph, way: Way, last: Decided) -> _Ends | None:
    """Return the sides of a jump, or the block behind a conditional move."""
    if not 0 <= last.position < len(way.blocks):
        return None
    block = graph.blocks[way.blocks[last.position]]
    if last.moment is not None:
        taken = went(graph, way, last.moment)
        if taken is None:
            return None
        other = _behind(graph, block.next[not taken])
        own = (block.index, _behind(graph, block.next[taken]))
    else:
        other = _behind(graph, block.next[0]) if len(block.next) == 1 else None
        own = (block.index, None)
    if other is None:
        return None
    compare = last.flags.insn if last.flags is not None else None
    return _Ends(other, frozenset(one for one in own if one is not None and one != other), compare)


def _behind(graph: Graph, index: int) -> int | None:
    """Return the first block from ``index`` on that does more than load registers and jump."""
    for _ in range(_MAX_DEPTH):
        if index < 0:
            return None
        block = graph.blocks[index]
        if len(block.next) != 1 or not all(map(_only_loads, block.insns)):
            return index
        index = block.next[0]
    return index


def _only_loads(insn: Insn) -> bool:
    """Return True if an instruction jumps, does nothing, or loads a register from memory."""
    if insn.op == "nop" or insn.flow is Flow.JUMP:
        return True
    is_move = insn.op == "mov" and insn.flow is Flow.NEXT and len(insn.operands) == 2
    return is_move and isinstance(insn.operands[0], Reg) and isinstance(insn.operands[1], Mem)


def _leads_to(graph: Graph, way: Way, moment: Moment, ends: _Ends) -> bool | None:
    """Return the outcome of a test if its other side leads to the condition's other side.

    Return None if the other side of the test leads elsewhere.
    """
    block = graph.blocks[way.blocks[moment.position]]
    if moment.insn.flow is Flow.BRANCH:
        taken = went(graph, way, moment)
        if taken is None or not _only_leads(graph, block.next[not taken], ends):
            return None
        return taken
    if moment.insn.op != "ccmp" or not way.compared(moment.position):
        return None
    constant = moment.insn.operands[0]
    if not block.is_branch or not isinstance(constant, Imm):
        return None
    side = _of_flags(block.last.steps[-1].condition, constant.value)
    return True if side is not None and _behind(graph, block.next[side]) == ends.other else None


def _only_leads(graph: Graph, start: int, ends: _Ends) -> bool:
    """Return True if only further tests lead from a block to the other side, and nowhere else.

    A copy of the deciding test must not be among them: it would decide there, too.
    """
    first = _behind(graph, start)
    waiting, seen, found = [first], {first}, False
    while waiting and len(seen) < _MOST_BLOCKS:
        at = waiting.pop()
        if at is None:
            return False
        if at == ends.other:
            found = True
        elif at not in ends.own:
            block = graph.blocks[at]
            steps = [step for one in block.insns for step in one.steps]
            is_test = block.is_branch and not any(map(_makes_error, steps))
            if not is_test or not all(_only_tests(graph, one, set()) for one in steps):
                return False
            if ends.compare is not None and any(_is_copy(one, ends.compare) for one in steps):
                return False
            new = {_behind(graph, one) for one in block.next} - seen
            seen |= new
            waiting += new
    return found and not waiting


def has_copy(graph: Graph, block: int, others: Collection[int]) -> bool:
    """Return True if one of the blocks ``others`` makes the same comparison as ``block``."""
    own = [step for one in graph.blocks[block].insns for step in one.steps if step.flags]
    found = (step for at in others for one in graph.blocks[at].insns for step in one.steps)
    return any(_is_copy(step, own[-1]) for step in found) if own else False


def _is_copy(one: Insn, other: Insn) -> bool:
    return bool(one.operands) and (one.op, one.operands) == (other.op, other.operands)


def _of_flags(condition: str, number: int) -> bool | None:
    """Return True if a condition holds for arm64's flags as a number: N, Z, C, V in bits 3 to 0."""
    n, z, c, v = (bool(number >> at & 1) for at in (3, 2, 1, 0))
    held = {
        "e": z,
        "b": not c,
        "s": n,
        "o": v,
        "be": not c or z,
        "l": n != v,
        "le": z or n != v,
    }.get(_OPPOSITES.get(condition, condition))
    return None if held is None else held != (condition in _OPPOSITES)


def _calls(flags: Flags | None) -> set[int]:
    """Return the addresses of the calls with results that a comparison reads."""
    waiting = [(one, 0) for one in (flags.left, flags.right)] if flags is not None else []
    found = set()
    while waiting:
        node, depth = waiting.pop()
        if node.kind == "call":
            found.add(node.at)
        elif depth < _MAX_DEPTH:
            waiting += [(one, depth + 1) for one in node.args]
    return found


def _is_quiet(graph: Graph, way: Way, moment: Moment, end: int, tested: set[int]) -> bool:
    """Return True if only tested calls happen between a test and the block at ``end``."""
    if any(moment.position < gap <= end for gap in way.gaps):
        return False
    insns = [
        step
        for at in range(moment.position + 1, end + 1)
        for one in graph.blocks[way.blocks[at]].insns
        for step in one.steps
    ]
    return all(_only_tests(graph, step, tested) for step in insns)


def _makes_error(step: Insn) -> bool:
    """Return True if an instruction makes an error: another condition is the reason for it."""
    last = step.operands[-1] if step.operands else None
    if step.op not in ("mov", "or") or not isinstance(last, Imm):
        return False
    return is_error(last.value)


def _only_tests(graph: Graph, step: Insn, tested: set[int]) -> bool:
    if step.flow is Flow.CALL:
        return step.address in tested
    to = step.operands[0] if step.operands else None
    if not isinstance(to, Mem) or step.op not in ("mov", "add", "sub", "and", "or", "xor", "xchg"):
        return step.flow is not Flow.INDIRECT
    return to.base in (graph.machine.stack, graph.machine.frame)
