# SPDX-License-Identifier: BSD-2-Clause
"""Where a call made its result, and what is told of that and of the condition that decided it.

The result's node (:mod:`retsnoop_py.path.values`) tells where the number was made.
"""

from __future__ import annotations

from enum import Enum

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.computed import is_bit, outcomes
from retsnoop_py.path.deduce import known_value
from retsnoop_py.path.definitions import failures_at
from retsnoop_py.path.failure import Failure, is_error
from retsnoop_py.path.follow import Way
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Reg
from retsnoop_py.path.values import Flags, Moment, Node, Run
from retsnoop_py.value import Value, replace

__all__ = ["Decided", "Decision", "Made", "Returned", "origin_of"]


#: Conditional moves of each other's results that are looked through.
_MAX_DEPTH = 8


class Made(Enum):
    """How a result came to be."""

    #: A number in the code.
    CONSTANT = "constant"
    #: Computed, without a jump, of something that was compared: setcc, sbb, a sign bit.
    COMPUTED = "computed"
    #: What a function returned that was called.
    CALLEE = "callee"
    #: Read from memory.
    MEMORY = "memory"
    #: What the caller gave.
    ARGUMENT = "argument"
    UNKNOWN = "unknown"


class Returned(Value):
    """Where the result was made: at ``address``, by the ``step``-th instruction that ran.

    ``callee`` is the function that made it, None if its name is not known. ``ways``: so many
    blocks lead to the one that makes it, which the compiler may share between several returns.
    ``is_either``: several conditional moves may have chosen the number, and which one is not known.
    """

    made: Made
    address: int
    step: int
    node: Node
    callee: str | None = None
    ways: int = 1
    is_either: bool = False


class Decided(Value):
    """The deciding instruction: a conditional jump, or a cmov, setcc or shift in its place.

    ``flags`` is what it looked at, ``condition`` what held then. ``checks``: all it tested is the
    result that a called function had given.
    """

    address: int
    step: int
    condition: str
    flags: Flags | None
    moment: Moment | None = None
    taken: bool = False
    checks: bool = False
    position: int = -1
    #: Further tests that all held, as that of ``A`` in ``A && B``; first those made first.
    also: tuple[Decided, ...] = ()


class Decision(Value):
    """What is known of a failing call: where its result was made, and what decided.

    ``unknown`` says why something is missing.
    """

    returned: Returned | None
    decided: Decided | None
    unknown: str | None = None


def origin_of(
    graph: Graph, way: Way, run: Run, failure: Failure
) -> tuple[Returned, Decided | None]:
    """Where the result was made; what decided it there, if it was no jump."""
    node, choice, is_either = run.result, None, False
    while node.kind == "select":
        chooser = node
        node, picked = _selected(node, failure)
        is_either = is_either or (node.kind == "const" and _is_in_both(chooser, failure))
        kept = (chooser, node)
        if not is_settled(picked) and not _keeps_older(graph, way, run, kept, failure):
            choice = picked
    at = _block_of(way, run, node)
    ways = len(graph.before[at]) if at is not None else 1
    made, callee = Made.UNKNOWN, None
    match node.kind:
        case "const":
            made = Made.CONSTANT
            given = _known_to_be_given(graph, way, run, node)
            if given is not None:
                made, callee, node = Made.CALLEE, given.name, given
        case "call":
            made, callee = Made.CALLEE, node.name
        case "load" | "left":
            made = Made.MEMORY
        case "param":
            made = Made.ARGUMENT
        case "op" | "cond":
            made = Made.COMPUTED
            choice = _computed(node, failure.result) or choice
    return Returned(made, node.at, node.step, node, callee, ways, is_either), choice


def _is_in_both(chooser: Node, failure: Failure) -> bool:
    """Whether both sides of a conditional move may be the number, one of them by another choice."""
    is_choice = any(one.kind == "select" for one in chooser.args)
    return is_choice and all(_may_be(one, failure) for one in chooser.args)


def _may_be(node: Node, failure: Failure, depth: int = 0) -> bool:
    if node.kind == "select" and depth < _MAX_DEPTH:
        return any(_may_be(one, failure, depth + 1) for one in node.args)
    return node.kind == "const" and failure.is_it(node.value)


def _keeps_older(
    graph: Graph, way: Way, run: Run, choice: tuple[Node, Node], failure: Failure
) -> bool:
    """Whether a conditional move kept a failure that was chosen before.

    That is so where the register may have something else on other paths.
    """
    chooser, kept = choice
    index = _block_of(way, run, chooser)
    if index is None or kept.kind not in ("const", "select", "op", "cond"):
        return False
    insns = [one for one in graph.blocks[index].insns if one.address == chooser.at]
    moves = [step for one in insns for step in one.steps if step.op == "cmov"]
    if len(moves) != 1 or len(chooser.args) != 2:
        return False
    operands = moves[0].operands
    arms = (operands[1], operands[2] if len(operands) > 2 else operands[0])
    is_first = kept is chooser.args[0]
    arm = arms[0] if is_first else arms[1]
    if not isinstance(arm, Reg):
        return False
    held = Holders(graph.machine, frozenset((arm.name,)), 0, None)
    found = failures_at(graph, held, index, chooser.at, failure)
    # of two errors, one of several that were possible before was not made by this choice
    return found is None or (len(found) > 1 and _is_alike(chooser.args[is_first], failure))


def chosen_of(node: Node, failure: Failure) -> list[Node]:
    """The choices, last first, of which a result came out."""
    found = []
    while node.kind == "select":
        found.append(node)
        node, _ = _selected(node, failure)
    return found


def _known_to_be_given(graph: Graph, way: Way, run: Run, node: Node) -> Node | None:
    """The call that gave the error which is a number in the code here; None if none is known to.

    Where ``err`` has been found to be -ENOENT, compilers return that number in its place. Nothing
    that was called since was asked, and the function was called once: of a loop the end decides.
    """
    if not _is_error(node) or way.gaps or way.is_cut:
        return None
    insns = [one for index in way.blocks for one in graph.blocks[index].insns]
    asked: list[Flags] = []
    for moment in reversed(run.moments):
        flags = moment.flags
        if moment.step > node.step or flags is None:
            continue
        if flags.op != "cmp" or moment.insn.flow is not Flow.BRANCH:
            asked.append(flags)
            continue
        is_it = flags.left.kind == "call" and _is_error(flags.right)
        is_it = is_it and flags.right.value == node.value
        equal = {"e": True, "ne": False}.get(moment.insn.condition)
        if is_it and equal is not None and went(graph, way, moment) is equal:
            again = sum(one.address == flags.left.at for one in insns)
            since = any(_asks_call(one, moment.step) for one in asked)
            return flags.left if again == 1 and not since else None
        asked.append(flags)
    return None


def _asks_call(flags: Flags, since: int) -> bool:
    """Whether it compares what a function gave that was called behind the step ``since``."""
    waiting = [flags.left, flags.right]
    while waiting:
        node = waiting.pop()
        if node.step > since:  # what is older was made of what is older still
            if node.kind == "call":
                return True
            waiting += node.args
    return False


def went(graph: Graph, way: Way, moment: Moment) -> bool | None:
    """Whether a conditional jump was taken; None where both sides lead to the same block."""
    fall, target = graph.blocks[way.blocks[moment.position]].next
    if moment.position + 1 >= len(way.blocks):
        return True
    if fall == target:
        return None
    following = way.blocks[moment.position + 1]
    return following == target if following in (fall, target) else None


def _block_of(way: Way, run: Run, node: Node) -> int | None:
    if not 0 <= node.step < len(run.positions):
        return None
    return way.blocks[run.positions[node.step]]


def _selected(node: Node, failure: Failure) -> tuple[Node, Decided | None]:
    """Which side of a cmov was taken, by the number that came out; and that this decided."""
    new, old = node.args
    condition = node.name or ""
    fits = [one.kind != "const" or failure.is_it(one.value) for one in (new, old)]
    if fits[0] == fits[1]:
        # both would do: a constant says more than what is not known
        fits = [one.kind == "const" for one in (new, old)]
        if fits[0] == fits[1]:
            return Node("unknown", node.step, node.at), None
    if not fits[0]:
        condition = OPPOSITE.get(condition, "")
    chosen, other = (new, old) if fits[0] else (old, new)
    if failure_of(node.flags, OPPOSITE.get(condition, "")) is other:
        return chosen, None
    is_later = node.flags is not None and node.flags.left.step > chosen.step
    both_fail = _is_alike(chosen, failure) and _is_alike(other, failure)
    if both_fail and is_later and went_well(node.flags, condition):
        return chosen, None
    at = _asked_at(node)
    return chosen, Decided(at, node.step, condition, node.flags, taken=fits[0])


def _asked_at(node: Node) -> int:
    """Where what a result was chosen by was compared: the choice may have the return's line."""
    return node.flags.insn.address if node.flags is not None else node.at


def failure_of(flags: Flags | None, condition: str) -> Node | None:
    """What a called function gave, where ``condition`` says that it had failed.

    To return that instead is to fail as well. Of an int, any number but 0 is a failure; of a
    pointer, or a yes or no, that is none.
    """
    if flags is None or condition not in ("ne", "s", "l") or flags.left.kind != "call":
        return None
    if condition == "ne" and flags.size != INT:
        return None
    return flags.left if with_zero(flags) else None


def went_well(flags: Flags | None, held: str) -> bool:
    """Whether what ``held`` is that a called function did not fail."""
    if flags is None or held not in ("e", "ns", "ge") or flags.left.kind != "call":
        return False
    return flags.size >= INT and with_zero(flags)


def with_zero(flags: Flags) -> bool:
    """Whether a value was compared with 0."""
    if flags.op == "test":
        return flags.left is flags.right
    return flags.op == "cmp" and flags.right.kind == "const" and not flags.right.value


def _is_error(node: Node) -> bool:
    """Whether a value is an error's number in the code."""
    return node.kind == "const" and is_error(node.value)


def _is_alike(node: Node, failure: Failure) -> bool:
    """Whether a value is a number in the code that is a failure as the result is."""
    return node.kind == "const" and failure.is_alike(node.value)


def _computed(node: Node, result: int) -> Decided | None:
    """The comparison of which a result was computed without a jump, the last of several."""
    tests = [_test(one, held) for one, held in outcomes(node, result) or []]
    tests = [one for one in tests if not is_settled(one)]
    if not tests:
        return None
    *also, last = tests
    # a jump in between chose whether it is computed at all
    return replace(last, also=tuple(also), step=max(last.step, node.step))


def _test(node: Node, held: bool) -> Decided:
    """A test as a comparison that came out so."""
    if node.kind == "cond":
        condition = node.name or ""
        condition = condition if held else OPPOSITE.get(condition, "")
        return Decided(_asked_at(node), node.step, condition, node.flags)
    zero = Node("const", node.step, node.at, value=0)
    if is_bit(node):
        left, right = node.args
        flags = Flags(Insn(node.at, 0, "and", "and"), "test", left, right, node.size)
        return Decided(node.at, node.step, "ne" if held else "e", flags)
    size = 4 if node.args[1].value == 31 else 8
    flags = Flags(Insn(node.at, 0, "sar", "sar"), "cmp", node.args[0], zero, size)
    return Decided(node.at, node.step, "l" if held else "ge", flags)


def is_settled(test: Moment | Decided | None) -> bool:
    """Whether constants were compared: on this way it could not go elsewhere.

    What was counted up is such a constant, so that of a counted loop, and of what is tried a
    number of times, not the count decides but what was asked last.
    """
    flags = test.flags if test is not None else None
    if flags is None:
        return False
    sides = (flags.left, flags.right)
    return all(known_value(one, {}, flags.size) is not None for one in sides)


def asks_the_unknown(test: Moment | Decided) -> bool:
    """Whether it compared what is not known, as what was kept over a gap."""
    waiting = [test.flags.left, test.flags.right] if test.flags is not None else []
    while waiting:
        node = waiting.pop()
        if node.kind == "unknown":
            return True
        waiting += node.args
    return test.flags is None
