# SPDX-License-Identifier: BSD-2-Clause
"""Find where a call made its result; records of results and deciding conditions.

The result's node (:mod:`retsnoop_py.path.values`) contains the place where the number was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.computed import is_bit, outcomes
from retsnoop_py.path.deduce import holds, known_value
from retsnoop_py.path.definitions import failures_at
from retsnoop_py.path.failure import Failure, is_error
from retsnoop_py.path.follow import Way
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Reg
from retsnoop_py.path.values import Flags, Moment, Node, Run
from retsnoop_py.value import Value, replace

__all__ = ["Decided", "Decision", "Handed", "Made", "Returned", "chosen_operand", "origin_of"]


#: Nested conditional moves that are followed.
_MAX_DEPTH = 8


class Made(Enum):
    """The origin of a result."""

    #: A number in the code.
    CONSTANT = "constant"
    #: Computed without a jump from a compared value: setcc, sbb, a sign bit.
    COMPUTED = "computed"
    #: Returned by a called function.
    CALLEE = "callee"
    #: Read from memory.
    MEMORY = "memory"
    #: Passed by the caller.
    ARGUMENT = "argument"
    UNKNOWN = "unknown"


class Returned(Value):
    """The origin of the result: the ``step``-th instruction that ran, at ``address``.

    ``callee`` is the function that made the result, or None if its name is unknown. ``ways`` is the
    number of blocks that lead to the block that made the result; compilers may share that block
    between several returns. ``is_either``: several conditional moves may have selected the number,
    and the analysis cannot decide between them.
    """

    made: Made
    address: int
    step: int
    node: Node
    callee: str | None = None
    ways: int = 1
    is_either: bool = False


class Handed(NamedTuple):
    """A call with the result ``node``, which returns its argument in ``register`` unchanged."""

    node: Node
    register: str


class Decided(Value):
    """The deciding instruction: a conditional jump, or a cmov, setcc or shift in its place.

    ``flags`` is the comparison, ``condition`` the condition that held. ``checks``: the instruction
    tested only the result of a called function.
    """

    address: int
    step: int
    condition: str
    flags: Flags | None
    moment: Moment | None = None
    taken: bool = False
    checks: bool = False
    position: int = -1
    #: Other tests that also held, such as ``A`` in ``A && B``, in the order of execution.
    also: tuple[Decided, ...] = ()
    #: The number of elements that a loop rejected, if this jump rejected one of them; else 0.
    elements: int = 0
    #: This jump left a loop because there was no further element: none of the elements matched.
    ended: bool = False
    #: Earlier tests compared the same value with other numbers, as a ``switch`` does.
    cases: bool = False


class Decision(Value):
    """The origin of a failing call's result, and the deciding condition.

    ``unknown`` explains why a part is missing.
    """

    returned: Returned | None
    decided: Decided | None
    unknown: str | None = None


def origin_of(
    graph: Graph, way: Way, run: Run, failure: Failure
) -> tuple[Returned, Decided | None]:
    """Return the result's origin, and the condition if an instruction without a jump decided."""
    node, choice, is_either = _unmasked(run.result, failure), None, False
    while node.kind == "select":
        chooser = node
        node, picked = _selected(node, failure)
        is_either = is_either or (node.kind == "const" and _is_in_both(chooser, failure))
        kept = (chooser, node)
        if not is_settled(picked) and not _keeps_older(graph, way, run, kept, failure):
            choice = picked
    node = _without_mask(graph, way, run, node, failure)
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
            choice = _computed(node, failure.result, _zeros(graph, way, run)) or choice
    return Returned(made, node.at, node.step, node, callee, ways, is_either), choice


def _unmasked(node: Node, failure: Failure) -> Node:
    """Return a value without masks that keep all bytes of the result."""
    whole = (1 << 8 * failure.size) - 1
    while node.kind == "op" and node.name == "&" and node.args[1].kind == "const":
        if node.args[1].value & whole != whole:
            break
        node = node.args[0]
    return node


def _without_mask(graph: Graph, way: Way, run: Run, node: Node, failure: Failure) -> Node:
    """Return the failure that ``failure | -test`` kept, because the test did not hold.

    This applies if the register may hold another value on other paths: an earlier condition
    selected the failure.
    """
    index = _block_of(way, run, node)
    if index is None or node.kind != "op" or node.name != "|":
        return node
    insns = [one for one in graph.blocks[index].insns if one.address == node.at]
    steps = [step for one in insns for step in one.steps if step.op == "or"]
    if len(steps) != 1:
        return node
    for kept, arm in zip(node.args, steps[0].operands[-2:], strict=False):
        if kept.kind != "const" or not failure.is_it(kept.value) or not isinstance(arm, Reg):
            continue
        held = Holders(graph.machine, frozenset((arm.name,)), 0, None)
        found = failures_at(graph, held, index, node.at, failure)
        if found is None or len(found) > 1:
            return kept
    return node


def _is_in_both(chooser: Node, failure: Failure) -> bool:
    """Return True if both sides of a cmov may be the number, and one of the sides is a cmov."""
    is_choice = any(one.kind == "select" for one in chooser.args)
    return is_choice and all(_may_be(one, failure) for one in chooser.args)


def _may_be(node: Node, failure: Failure, depth: int = 0) -> bool:
    if node.kind == "select" and depth < _MAX_DEPTH:
        return any(_may_be(one, failure, depth + 1) for one in node.args)
    return node.kind == "const" and failure.is_it(node.value)


def _keeps_older(
    graph: Graph, way: Way, run: Run, choice: tuple[Node, Node], failure: Failure
) -> bool:
    """Return True if a conditional move kept a failure that was selected before.

    This is the case if the register may hold another value on other paths.
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
    # this move did not make the error if several errors were possible before
    return found is None or (len(found) > 1 and _is_alike(chooser.args[is_first], failure))


def chosen_operand(decided: Decided) -> Decided:
    """Return a decision without operands that a conditional move chose, if only one fits.

    ``own ?: limit`` is compared with ``limit``: ``own < limit`` cannot hold for ``limit`` itself.
    """
    flags = decided.flags
    if flags is None:
        return decided
    for node in (flags.left, flags.right):
        if node.kind != "select" or node.flags is None:
            continue
        is_left = node is flags.left
        tests = [
            flags._replace(left=arm) if is_left else flags._replace(right=arm) for arm in node.args
        ]
        fits = [holds(one, decided.condition, {}) is not False for one in tests]
        if fits[0] == fits[1]:
            continue
        condition = node.name or ""
        held = condition if fits[0] else OPPOSITE.get(condition, "")
        test = Decided(_asked_at(node), node.step, held, node.flags, position=decided.position)
        return replace(decided, flags=tests[0 if fits[0] else 1], also=(*decided.also, test))
    return decided


def chosen_of(node: Node, failure: Failure) -> list[Node]:
    """Return the conditional moves that selected a result, last first."""
    found = []
    while node.kind == "select":
        found.append(node)
        node, _ = _selected(node, failure)
    return found


def chosen_facts(node: Node, failure: Failure) -> Iterator[tuple[Flags, str]]:
    """Yield the comparisons and conditions by which conditional moves selected a result."""
    while node.kind == "select":
        chooser = node
        node, _ = _selected(node, failure)
        if chooser.flags is not None and node in chooser.args:
            held = chooser.name or ""
            is_new = node is chooser.args[0]
            yield chooser.flags, held if is_new else OPPOSITE.get(held, "")
    for test, is_held in outcomes(node, failure.result) or ():
        decided = _test(test, is_held)
        if decided.flags is not None:
            yield decided.flags, decided.condition


def _known_to_be_given(graph: Graph, way: Way, run: Run, node: Node) -> Node | None:
    """Return the call that returned the error if the code has the error as a constant, or None.

    If ``err`` was found to be -ENOENT, compilers return the constant in its place. The call
    qualifies if the code tested no later call's result and made the call once. In a loop, the end
    of the loop decides.
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
    """Return True if the comparison uses the result of a call after the step ``since``."""
    waiting = [flags.left, flags.right]
    while waiting:
        node = waiting.pop()
        if node.step > since:  # older nodes have only older arguments
            if node.kind == "call":
                return True
            waiting += node.args
    return False


def went(graph: Graph, way: Way, moment: Moment) -> bool | None:
    """Return True if a conditional jump was taken; None if both sides lead to the same block."""
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
    """Return the side of a cmov that matches the result, and the condition if the cmov decided."""
    new, old = node.args
    condition = node.name or ""
    fits = [one.kind != "const" or failure.is_it(one.value) for one in (new, old)]
    if fits[0] == fits[1]:
        # both sides match: prefer a constant to an unknown value
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
    """Return the address of the comparison. The choice itself may have the return's line."""
    return node.flags.insn.address if node.flags is not None else node.at


def failure_of(flags: Flags | None, condition: str) -> Node | None:
    """Return the result of a called function that failed according to ``condition``, or None.

    Returning that result instead would also be a failure. For an int, any number except 0 is a
    failure. This does not apply to pointers and booleans.
    """
    if flags is None or condition not in ("ne", "s", "l") or flags.left.kind != "call":
        return None
    if condition == "ne" and flags.size != INT:
        return None
    return flags.left if with_zero(flags) else None


def failed_by(flags: Flags | None, condition: str) -> tuple[Node, ...]:
    """Return the values that are errors according to ``condition``: negative numbers, results."""
    failure = failure_of(flags, condition)
    if failure is not None:
        return (failure,)
    is_negative = flags is not None and condition in ("s", "l") and with_zero(flags)
    return (flags.left,) if flags is not None and is_negative else ()


def went_well(flags: Flags | None, held: str) -> bool:
    """Return True if ``held`` means that a called function did not fail."""
    if flags is None or held not in ("e", "ns", "ge") or flags.left.kind != "call":
        return False
    return flags.size >= INT and with_zero(flags)


def with_zero(flags: Flags) -> bool:
    """Return True if a value was compared with 0."""
    if flags.op == "test":
        return flags.left is flags.right
    return flags.op == "cmp" and flags.right.kind == "const" and not flags.right.value


def _is_error(node: Node) -> bool:
    """Return True if a value is a constant error number."""
    return node.kind == "const" and is_error(node.value)


def _is_alike(node: Node, failure: Failure) -> bool:
    """Return True if a value is a constant that is the same kind of failure as the result."""
    return node.kind == "const" and failure.is_alike(node.value)


def _zeros(graph: Graph, way: Way, run: Run) -> list[Node]:
    """Return the values that jumps found to be 0."""
    found = []
    for moment in run.moments:
        flags, condition = moment.flags, moment.insn.condition
        if moment.insn.flow is not Flow.BRANCH or flags is None or not with_zero(flags):
            continue
        held = condition if went(graph, way, moment) else OPPOSITE.get(condition)
        found += [flags.left] if held == "e" and flags.size >= INT else []
    return found


def _computed(node: Node, result: int, zeros: Sequence[Node]) -> Decided | None:
    """Return the last comparison from which a result was computed without a jump, or None.

    A jump settled the bits of ``zeros``.
    """
    bits = [
        (one, held)
        for one, held in outcomes(node, result) or []
        if not (is_bit(one) and any(one.args[0] is zero for zero in zeros))
    ]
    tests = [_test(one, held) for one, held in bits]
    tests = [one for one in tests if not is_settled(one)]
    if not tests:
        return None
    *also, last = tests
    # a jump in between selected whether the value is computed at all
    return replace(last, also=tuple(also), step=max(last.step, node.step))


def _test(node: Node, held: bool) -> Decided:
    """Return a test as a comparison with the outcome ``held``."""
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
    """Return True if constants were compared: on this path, the outcome was fixed.

    A counter of a loop or of retries is such a constant. The count does not decide then, but the
    last test before it does.
    """
    flags = test.flags if test is not None else None
    if flags is None:
        return False
    sides = (flags.left, flags.right)
    return all(known_value(one, {}, flags.size) is not None for one in sides)


def asks_the_unknown(test: Moment | Decided) -> bool:
    """Return True if a comparison uses an unknown value, such as a value from before a gap."""
    waiting = [test.flags.left, test.flags.right] if test.flags is not None else []
    while waiting:
        node = waiting.pop()
        if node.kind == "unknown":
            return True
        waiting += node.args
    return test.flags is None


def outcome_of(graph: Graph, way: Way, moment: Moment) -> bool | None:
    """Return True if a jump was taken; None if both sides lead to the same block.

    For a conditional comparison, return True if the comparison was executed.
    """
    if moment.insn.flow is Flow.INDIRECT:
        return True
    if moment.insn.flow is not Flow.BRANCH:
        return way.compared(moment.position)
    return went(graph, way, moment)


def decided_by(moment: Moment, taken: bool, *, about: bool = False) -> Decided:
    """Return the decision by a jump; ``about``: the jump tested the result."""
    condition = moment.insn.condition
    held = condition if taken else OPPOSITE.get(condition, "")
    jump = moment if moment.insn.flow is Flow.BRANCH else None
    return Decided(_place(moment), moment.step, held, moment.flags, jump, taken, about)


def _place(moment: Moment) -> int:
    """Return the address that has the source line of a condition.

    For a combined condition, compilers give the jump the line of one part only. Each conditional
    comparison has the line of its own part.
    """
    compare = moment.flags.insn if moment.flags is not None else None
    if compare is not None and "ccmp" in (compare.op, moment.insn.op):
        return compare.address
    return moment.insn.address
