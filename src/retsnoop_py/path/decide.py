# SPDX-License-Identifier: BSD-2-Clause
"""Find the condition that decided the result of a failed call.

The deciding condition is the last conditional jump on the executed path that could have avoided the
result: from its other side, the code can still return another number. Later jumps could not have
avoided the failure: they clean up, check the stack protector, or test the error itself.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple

from retsnoop_py.path.asks import (
    asks,
    before_block,
    failing_edge,
)
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.conjunction import EarlierTests
from retsnoop_py.path.deduce import known_value
from retsnoop_py.path.definitions import failures_at
from retsnoop_py.path.failing_ways import FailingWays
from retsnoop_py.path.failure import Failure, is_error, is_result
from retsnoop_py.path.follow import Way
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Names
from retsnoop_py.path.loops import best_rejected, found_no_further
from retsnoop_py.path.origin import (
    Decided,
    Decision,
    Handed,
    Made,
    Returned,
    asks_the_unknown,
    chosen_of,
    chosen_operand,
    decided_by,
    failed_by,
    failure_of,
    is_settled,
    origin_of,
    outcome_of,
    went_well,
    with_zero,
)
from retsnoop_py.path.other_results import OtherResults
from retsnoop_py.path.otherwise import Otherwise
from retsnoop_py.path.values import Flags, Moment, Node, Run, evaluate
from retsnoop_py.session.paths import ALWAYS
from retsnoop_py.value import replace

__all__ = ["decide"]

#: The search from the other side of a jump gives up after this many states.
_MAX_STATES = 20_000
#: Why the kernel misses probes of blocks that ran, unless something else uses kprobes there.
_PROGRAMS_OFF = "as where bpf(2) reads or changes a map, with BPF programs off"
#: A function can only test results of these origins; it did not make them.
_TESTED = (Made.CALLEE, Made.MEMORY, Made.ARGUMENT)


def decide(graph: Graph, way: Way, failure: Failure, names: Names, handed: int = 0) -> Decision:
    """Return the condition that decided the failure of the call that took ``way``.

    ``handed`` is a number from 1, or 0. If it is not 0, the called function got the result as its
    ``handed``-th argument and returned it unchanged. The search then examines that argument.
    """
    if not way.blocks:
        return Decision(None, None, "none of its blocks was recorded")
    run = evaluate(graph, way, names)
    if not way.ends:
        return Decision(None, None, f"the end of its way was not seen ({_PROGRAMS_OFF})")
    run, given = _before_handed(graph, run, handed)
    returned, choice = origin_of(graph, way, run, failure)
    if returned.made is Made.UNKNOWN and way.is_cut:
        return Decision(None, None, "its result was made before the blocks that were kept")
    if returned.made is Made.UNKNOWN and way.gaps:
        return Decision(None, None, _missing(graph, way))
    if returned.is_either:
        return Decision(returned, None, "several conditions may have chosen it without a jump")
    otherwise = Otherwise(graph, way, run, failure, names, returned.node)
    search = _Search(graph, way, run, otherwise, returned, given)
    decided, unknown = search.decided(choice)
    if decided is not None:
        decided = search.of_elements(decided)
    if decided is not None and 0 <= decided.step < len(run.positions):
        decided = replace(decided, position=run.positions[decided.step])
    if decided is not None and returned.made is Made.CALLEE and decided.step < returned.step:
        decided = None  # the call itself does not explain the callee's result
    if decided is not None:
        tests = EarlierTests(graph, way, run, otherwise)
        decided = chosen_operand(tests.of(decided, search.is_about_result))
    if decided is None and unknown is None:
        unknown = _nothing_decides(returned, way)
    return Decision(returned, decided, unknown)


def _before_handed(graph: Graph, run: Run, handed: int) -> tuple[Run, Handed | None]:
    """Replace the result of ``run`` by the argument that the called function returned unchanged."""
    call = run.result
    if call.kind != "call" or not 0 < handed <= len(call.args):
        return run, None
    given = call.args[handed - 1]
    if given.kind == "unknown":
        return run, None
    register = graph.machine.arguments[handed - 1]
    return run._replace(result=given), Handed(call, register)


def _nothing_decides(returned: Returned, way: Way) -> str:
    if returned.made is Made.CALLEE:
        return f"it returns what {returned.callee or 'a called function'} gave it"
    if way.is_cut:
        return "what decided came before the blocks that were kept"
    if returned.made is Made.CONSTANT:
        return ALWAYS
    return "no conditional jump could have avoided it"


def _missing(graph: Graph, way: Way) -> str:
    """Return why blocks are missing in the middle of ``way``."""
    fault = "an access to memory faulted"
    if not graph.before[way.blocks[max(way.gaps)]]:
        return fault
    return f"blocks that ran were not seen ({_PROGRAMS_OFF}), or {fault}"


def _is_same_test(one: Flags, other: Flags) -> bool:
    """Return True if both comparisons compare the same values in the same way."""
    if (one.op, one.size) != (other.op, other.size) or one.left is not other.left:
        return False
    if one.right is other.right or (one.right is one.left and other.right is other.left):
        return True
    both = one.right.kind == other.right.kind == "const"
    return both and one.right.value == other.right.value


def _leaves(node: Node) -> Iterable[Node]:
    if node.kind == "op":
        for one in node.args:
            yield from _leaves(one)
    elif node.kind != "const":
        yield node


class _Settled(NamedTuple):
    """The jump that settled the outcome of a later jump, the one at the end of ``block``.

    ``number`` is its index in the run. ``open`` contains the blocks that lead to the later jump,
    and the blocks to which its other side would have led.
    """

    number: int
    block: int
    open: set[int]


class _Search:
    """The search for the deciding branch in a run."""

    def __init__(
        self,
        graph: Graph,
        way: Way,
        run: Run,
        otherwise: Otherwise,
        returned: Returned,
        handed: Handed | None = None,
    ) -> None:
        failure = otherwise.failure
        self._graph = graph
        self._way = way
        self._run = run
        self._otherwise = otherwise
        self._failure = failure
        self._result = failure.result
        self._returned = returned
        self._handed = handed
        #: The conditional moves that selected the result.
        self._chosen = chosen_of(run.result, failure)
        self._others = OtherResults(graph, failure, returned, handed)
        #: True once a jump was found after which an existing result was kept.
        self._is_stored = False
        self._failing = FailingWays(graph, returned)
        #: The jump that settled a later test; None until it is found.
        self._by: _Settled | None = None

    def decided(self, choice: Decided | None) -> tuple[Decided | None, str | None]:
        """Return the deciding condition, or None and the reason why it is unknown."""
        left = self._asked_of_call()
        if left is not None:
            return left, None
        is_unknown = choice is not None and asks_the_unknown(choice)
        if is_unknown and self._way.is_cut and not self._way.gaps:
            # the part before the cut may have settled this choice: prefer the jumps after the cut
            return self.last(None, choice)
        return self.last(choice)

    def last(
        self, choice: Decided | None, certain: Decided | None = None
    ) -> tuple[Decided | None, str | None]:
        """Return the last jump that could have avoided the result, or None and the reason.

        If no such jump exists, return ``certain``.
        """
        gap = max(self._way.gaps, default=-1)
        if gap >= 0 and choice is not None and asks_the_unknown(choice):
            return None, self._missing()
        for number, moment in reversed(list(enumerate(self._run.moments))):
            if choice is not None and moment.step < choice.step:
                return choice, None
            if moment.position < gap:
                return None, self._missing()
            if self._is_last(moment) and not self._leaves_here(moment):
                continue
            taken = self._taken(moment)
            if taken is None or self._is_open(number, taken):
                continue
            about = self.is_about_result(moment)
            if not (self._is_check(moment) if about else self._may_choose(moment)):
                continue
            if about or self._can_avoid(number, taken):
                if gap >= 0 and asks_the_unknown(moment):
                    return None, self._missing()  # the missing blocks may contain the deciding jump
                if not about and self._is_certain(moment, taken):
                    certain = certain or decided_by(moment, taken)
                    continue
                return self._decided_at(number, taken, about), None
        if choice is None and gap >= 0:
            return None, self._missing()
        return choice or certain, None

    def _decided_at(self, number: int, taken: bool, about: bool) -> Decided:
        """Return the decision by a jump, or by the earlier one that decided in its place."""
        moment = self._run.moments[number]
        before = None if about else self._asked_before(number, taken)
        decided = decided_by(moment, taken, about=about)
        if before is None:
            return decided
        return replace(decided_by(*before), also=(replace(decided, position=moment.position),))

    def of_elements(self, decided: Decided) -> Decided:
        """Return the decision; for a loop that rejected all elements, that of the best element."""
        moments = self._run.moments
        numbers = [at for at, one in enumerate(moments) if one is decided.moment]
        is_made = self._returned.made in (Made.CONSTANT, Made.COMPUTED)
        if not numbers or not is_made or decided.checks or self._way.gaps:
            return decided
        number = numbers[0]
        if self._leaves_loop(number):
            return replace(decided, ended=found_no_further(moments, number))
        found = best_rejected(
            self._graph, self._way, moments, number, self._rejects, self._loop_tests(number)
        )
        if found is None:
            return decided
        moment = moments[found.number]
        taken = self._taken(moment)
        if taken is None:
            return decided
        return replace(decided_by(moment, taken), elements=found.elements)

    def _loop_tests(self, decided: int) -> frozenset[int]:
        """Return the addresses of the jumps by which the path left loops.

        They found that there is no further element, so that they rejected none. Behind ``decided``,
        this may be the end of a loop in another loop, such as one that tries again.
        """
        return frozenset(
            moment.insn.address
            for at, moment in enumerate(self._run.moments)
            if self._leaves_loop(at, in_other=at >= decided)
        )

    def _leaves_loop(self, number: int, *, in_other: bool = True) -> bool:
        """Return True if a jump left a loop; ``in_other``: also one that runs again.

        Such a loop is part of another loop.
        """
        moment = self._run.moments[number]
        taken = self._taken(moment)
        if taken is None or moment.insn.flow is not Flow.BRANCH:
            return False
        if self._ends_loop(moment, taken):
            return True
        return in_other and any(
            one.insn.address == moment.insn.address and self._taken(one) not in (taken, None)
            for one in self._run.moments[:number]
        )

    def _rejects(self, number: int, head: int, behind: int) -> bool:
        """Return True if only a jump's other side may lead to success without block ``head``.

        It must also avoid the block ``behind``, unless that is the block of the jump itself.
        """
        is_own = self._way.blocks[self._run.moments[number].position] == behind
        if not self._may_succeed(number, {head} if is_own else {head, behind}):
            return False
        return not self._may_succeed(number, {head}, own=True)

    def _may_succeed(self, number: int, without: Collection[int], *, own: bool = False) -> bool:
        """Return True if a jump's other side may end in success without the blocks ``without``.

        ``own``: the same of the side to which it went.
        """
        moment = self._run.moments[number]
        taken = self._taken(moment)
        if taken is None or moment.insn.flow is not Flow.BRANCH or is_settled(moment):
            return False
        sides = self._graph.blocks[self._way.blocks[moment.position]].next
        other = sides[taken if own else not taken]
        if other < 0 or other in without:
            return False
        condition = moment.insn.condition
        held = self._holders(moment, (self._returned.node, *self._chosen))
        failed = failed_by(moment.flags, condition if taken == own else OPPOSITE.get(condition, ""))
        errors = self._holders(moment, (*self._errors_at(moment), *failed))
        failing = FailingWays(self._graph, self._returned, without=without)
        return failing.from_block(other, held, errors, is_stored=False) is None

    def _errors_at(self, moment: Moment) -> list[Node]:
        """Return the error constants in registers and stack slots when a jump runs."""
        kept = (*moment.regs.values(), *moment.slots.values())
        return [one for one in kept if one.kind == "const" and is_error(one.value)]

    def _asked_of_call(self) -> Decided | None:
        """Return the test of a callee's result, if that callee left the result in a variable."""
        node = self._returned.node
        if node.kind != "left":
            return None
        for moment in self._run.moments:
            taken = self._taken(moment)
            if taken is not None and moment.flags is not None and moment.flags.left is node.args[0]:
                return decided_by(moment, taken)
        return None

    def _missing(self) -> str:
        return _missing(self._graph, self._way)

    def _is_open(self, number: int, taken: bool) -> bool:
        """Return True if earlier jumps fixed a jump's outcome, or if it left open a settled jump.

        In the second case, the jump that settled the later one is the deciding jump.
        """
        if self._is_known(number):
            self._by = self._by or self._settled(number, taken)
            return True
        if self._by is None or number <= self._by.number:
            return False
        moment = self._run.moments[number]
        if self._offers(moment, taken) <= self._by.open:
            return True
        block = self._graph.blocks[self._way.blocks[moment.position]]
        if moment.insn.flow is not Flow.BRANCH or block.next[taken] < 0:
            return False
        # the jump excluded paths that do not reach the settled test
        behind = self._graph.reachable(block.next[taken], self._by.block) - {self._by.block}
        return any(self._graph.blocks[one].exit for one in behind)

    def _settled(self, number: int, taken: bool) -> _Settled | None:
        """Return the jump that settled a test of a constant before the result was made, or None.

        Example: ``timeo = noblock ? 0 : ...; if (!timeo) return -EAGAIN``. A jump before a counted
        loop does not settle the loop's test. A test on the way out comes after the result.
        """
        moment = self._run.moments[number]
        flags, block = moment.flags, self._way.blocks[moment.position]
        if self._returned.made is not Made.CONSTANT:
            return None
        if flags is None or moment.insn.flow is not Flow.BRANCH or not is_settled(moment):
            return None
        if self._returned.step < moment.step and self._is_certain(moment, taken):
            return None  # the test is on the way out
        operand = flags.insn.compared[0] if flags.insn.operands else None
        place = self._holders(moment, ()).place_of(operand) if operand is not None else None
        if isinstance(place, int):
            node = moment.slots.get(place)
        else:
            node = moment.regs.get(place) if place else None
        if node is None or node.kind != "const" or not self._can_avoid(number, taken):
            return None
        made = self._graph.insn_at(node.at)
        if made is None or made.op not in ("mov", "xor"):
            return None  # a loop counter
        offered = self._offers(moment, taken)
        for earlier in range(number - 1, -1, -1):
            before = self._run.moments[earlier]
            side = self._taken(before) if before.insn.flow is Flow.BRANCH else None
            index = self._way.blocks[before.position]
            if side is None or is_settled(before) or index in offered:
                continue
            other = self._graph.blocks[index].next[not side]
            held = self._holders(before, (node,))
            if other >= 0 and self._loses(other, held, node, block, flags.insn):
                return _Settled(earlier, block, offered | self._graph.leading_to(block))
        return None

    def _offers(self, moment: Moment, taken: bool) -> set[int]:
        """Return the blocks that could have run if a jump had gone the other way.

        After an indirect jump, these are all blocks. A conditional comparison leaves open both
        sides of the jump at the end of its block.
        """
        sides = self._graph.blocks[self._way.blocks[moment.position]].next
        if moment.insn.flow is Flow.BRANCH:
            sides = (sides[not taken],)
        if moment.insn.flow is Flow.INDIRECT or -1 in sides:
            return set(range(-1, len(self._graph.blocks)))
        return set().union(*[self._graph.reachable(side) for side in sides])

    def _loses(self, start: int, held: Holders, node: Node, end: int, compare: Insn) -> bool:
        """Return True if paths reach ``compare`` in block ``end``, and all lose the constant."""
        loses = False
        waiting = [(start, held)]
        seen = set(waiting)
        while waiting and len(seen) < _MAX_STATES:
            index, now = waiting.pop()
            block = self._graph.blocks[index]
            for insn in block.insns:
                if index == end and insn.address == compare.address:
                    if now.place_of(compare.compared[0]) in now.places:
                        return False
                    loses = True
                for step in insn.steps:
                    now = self._after_constant(now, step, node)
            for following in () if index == end else block.next:
                key = (following, now)
                if following >= 0 and key not in seen:
                    seen.add(key)
                    waiting.append(key)
        return loses

    def _after_constant(self, held: Holders, insn: Insn, node: Node) -> Holders:
        """Return where a constant is after an instruction, which may be the one that made it."""
        if insn.address == node.at and insn.writes:
            return held.also(insn.writes[0])
        if insn.flow is Flow.CALL:
            slots = [one for one in held.places if isinstance(one, int)]
            given = [one for one in slots if self._others.is_given(held, one)]
            return held.without((*self._graph.machine.clobbered, *given))
        return held.with_copies(insn, node.value)

    def _asked_before(self, number: int, taken: bool) -> tuple[Moment, bool] | None:
        """Return the earlier jump that decided, for a parameter in a duplicated switch.

        For ``switch (op) { case MOD: if (!found) ...`` after another test of ``found``, compilers
        make one switch per outcome of that test. MOD fails in the first switch and succeeds in the
        second. Then the earlier test of ``found`` is the reason, rather than ``op == MOD``.
        """
        moment = self._run.moments[number]
        flags = moment.flags
        if flags is None or flags.left.kind != "param" or flags.right.kind != "const":
            return None
        for before in reversed(self._run.moments[:number]):
            if before.insn.flow is not Flow.BRANCH or before.flags is None:
                return None
            if before.flags.left is flags.left:
                continue  # another case of the switch
            side = self._taken(before)
            if side is None or is_settled(before):
                return None
            block = self._graph.blocks[self._way.blocks[before.position]]
            own, other = block.next[side], block.next[not side]
            if own < 0 or other < 0:
                return None
            copies = self._copies(other, self._holders(before, (flags.left,)), moment, taken)
            copies -= self._graph.reachable(own)
            free = Holders(self._graph.machine, frozenset(), 0, None)
            known = any(self._others.reaches_other(one, free) for one in copies)
            return (before, side) if known else None
        return None

    def _holders(self, moment: Moment, nodes: Iterable[Node]) -> Holders:
        """Return the locations of values before a jump."""
        wanted = tuple(nodes)
        held = (
            place
            for places in (moment.regs, moment.slots)
            for place, one in places.items()
            if any(one is node for node in wanted)
        )
        machine = self._graph.machine
        top, frame = moment.regs.get(machine.stack), moment.regs.get(machine.frame)
        depth = top.value if top is not None and top.kind == "stack" else 0
        base = frame.value if frame is not None and frame.kind == "stack" else None
        return Holders(machine, frozenset(held), depth, base)

    def _copies(self, start: int, holders: Holders, moment: Moment, taken: bool) -> set[int]:
        """Return the blocks after other jumps with the same test as ``moment``, on its side."""
        assert moment.flags is not None
        condition = moment.insn.condition
        found = set()
        waiting = [(start, holders)]
        seen = set(waiting)
        while waiting and len(seen) < _MAX_STATES:
            index, held = waiting.pop()
            block, compared = self._graph.blocks[index], None
            for insn in block.insns:
                for step in insn.steps:
                    if step.flags:
                        compared = step if asks(step, held, moment.flags) else None
                held = held.after(insn)
            other = block.last.condition
            if compared and block.is_branch and other in (condition, OPPOSITE.get(condition)):
                found.add(block.next[taken if other == condition else not taken])
            for following in block.next:
                key = (following, held)
                if following >= 0 and held.places and key not in seen:
                    seen.add(key)
                    waiting.append(key)
        return {one for one in found if one >= 0}

    def _is_last(self, moment: Moment) -> bool:
        """Return True if the executed path ends in this jump."""
        is_jump = moment.insn.flow is Flow.BRANCH
        return is_jump and moment.position == len(self._way.blocks) - 1

    def _leaves_here(self, moment: Moment) -> bool:
        """Return True if the path leaves the function by this jump: a conditional tail call."""
        return self._graph.blocks[self._way.blocks[moment.position]].exit == "tail"

    def _taken(self, moment: Moment) -> bool | None:
        return outcome_of(self._graph, self._way, moment)

    def is_about_result(self, moment: Moment) -> bool:
        """Return True if a jump tests only the result, after the result was made."""
        flags = moment.flags
        if flags is None or moment.step < self._returned.step:
            return False
        sides = [one for one in (flags.left, flags.right) if one.kind != "const"]
        return bool(sides) and all(self._is_result(leaf) for one in sides for leaf in _leaves(one))

    def _is_result(self, node: Node) -> bool:
        """Return True if a value is the result, before or after a callee returned it unchanged."""
        handed = self._handed
        if node is self._returned.node or (handed is not None and node is handed.node):
            return True
        return node.kind == "select" and any(node is one for one in self._chosen)

    def _is_check(self, moment: Moment) -> bool:
        """Return True if a test of the result distinguishes failure from success.

        It is False for a test that distinguishes between errors, and for a constant in the code,
        which the function knew before.
        """
        flags = moment.flags
        if flags is None or self._returned.made not in _TESTED:
            return False
        if flags.op in ("test", "and", "or"):
            return flags.left is flags.right or flags.right.value in (-1, 0)
        return flags.right.kind == "const" and flags.right.value in (0, -1, -4095, -4096)

    def _may_choose(self, moment: Moment) -> bool:
        """Return True if a jump may have selected the result, and no earlier jump did.

        If other paths bring a success to this jump, the failure was selected before: the jump could
        only have replaced the failure.
        """
        if self._returned.made not in (Made.CONSTANT, Made.COMPUTED):
            return True
        # the last selected value counts; another register may hold a copy of the constant
        nodes = (*self._chosen, self._returned.node)
        each = (self._holders(moment, (node,)) for node in nodes)
        held = next((one for one in each if one.places), None)
        if moment.step <= self._returned.step or held is None:
            return True
        block = self._way.blocks[moment.position]
        address = moment.insn.address
        return failures_at(self._graph, held, block, address, self._failure) is not None

    def _is_certain(self, moment: Moment, taken: bool) -> bool:
        """Return True if the result existed before, and the other side would keep it or fail.

        At the end of a loop that stores an error, the loop's end does not explain the error: the
        next round would also return the error, or another one. If a callee returned the error
        before a retry was skipped, the retry does not explain it either. The success of another
        callee, for example one that notifies user space, explains a failure only if it ended a
        loop.
        """
        if self._returned.made is Made.CALLEE:
            return moment.step > self._returned.step
        if self._returned.made is not Made.CONSTANT or moment.insn.flow is not Flow.BRANCH:
            return False
        other = self._graph.blocks[self._way.blocks[moment.position]].next[not taken]
        places = [
            one
            for kept in (moment.regs, moment.slots)
            for one in kept.values()
            if self._is_result(one)
        ]
        condition = moment.insn.condition
        held = condition if taken else OPPOSITE.get(condition, "")
        is_well = went_well(moment.flags, held) and not self._ends_loop(moment, taken)
        if other < 0 or not (places or is_well):
            return False
        if places and self._is_handled(moment):
            return True
        flags = moment.flags
        tested = (flags.left,) if is_well and flags is not None and flags.size == INT else ()
        kept_there = self._failing.from_block(
            other,
            self._holders(moment, (self._returned.node, *self._chosen)),
            self._holders(moment, tested),
            is_stored=self._is_stored,
        )
        if kept_there is None:
            return False
        self._is_stored = self._is_stored or (kept_there and bool(places))
        return is_well or (self._is_stored and bool(places))

    def _ends_loop(self, moment: Moment, taken: bool) -> bool:
        """Return True if a jump left a loop, and its other side would have stayed in the loop."""
        block = self._graph.blocks[self._way.blocks[moment.position]]
        own, other = (block.next[side] for side in (taken, not taken))
        if own < 0 or other < 0:
            return False
        return block.index in self._graph.reachable(other) - self._graph.reachable(own)

    def _is_handled(self, moment: Moment) -> bool:
        """Return True if failures of other called functions also reach a jump.

        Then the jump selects how to handle a failure; it does not detect a failure. A failure that
        arrives through the jump itself does not count: that is a loop.
        """
        graph, own = self._graph, self._way.blocks[moment.position]
        held = self._holders(moment, (self._returned.node,))
        waiting = [(own, place, False) for place in held.places]
        seen = set(waiting)
        while waiting:
            index, place, is_failure = waiting.pop()
            block = graph.blocks[index]
            before, given = before_block(block, held, place)
            if given and is_failure and index in self._graph.reachable(graph.entry, own):
                return True
            if given or before is None:
                continue
            for behind in graph.before[index]:
                edge = failing_edge(graph.blocks[behind], index, held, before)
                key = (behind, before, is_failure or bool(edge))
                if behind != own and edge is not False and key not in seen:
                    seen.add(key)
                    waiting.append(key)
        return False

    def _can_avoid(self, number: int, taken: bool) -> bool:
        moment = self._run.moments[number]
        block = self._graph.blocks[self._way.blocks[moment.position]]
        following = self._way.blocks[moment.position + 1 : moment.position + 2]
        if moment.insn.flow is Flow.INDIRECT:
            others = [one for one in block.next if one not in following]
        elif moment.insn.flow is Flow.BRANCH:
            others = [block.next[0] if taken else block.next[1]]
        else:
            others = [block.index]  # it begins with the conditional comparison
        if others == [-1]:
            return bool(block.exit) and not taken  # a tail call may return any value
        condition = moment.insn.condition
        failure = failure_of(moment.flags, OPPOSITE.get(condition, "") if taken else condition)
        same = [
            one
            for places in (moment.regs, moment.slots)
            for one in places.values()
            if self._is_result(one)
            or one is failure
            or (one.kind == "const" and is_result(one.value, self._result))
        ]
        held, zeros = self._holders(moment, same), self._zeros(number)
        if not any(self._others.reaches_other(other, held, zeros) for other in others):
            return False
        return not self._is_same_otherwise(moment, taken)

    def _is_same_otherwise(self, moment: Moment, taken: bool) -> bool:
        """Return True if a jump's other side leads to the same result, all else equal."""
        is_made = self._returned.made in (Made.CONSTANT, Made.COMPUTED)
        if not is_made or moment.flags is None or moment.insn.flow is Flow.INDIRECT:
            return False
        if is_settled(moment):
            return False  # it compares constants: another jump selected them
        test = decided_by(moment, taken)
        return self._otherwise.is_same(moment.position, moment.flags, test.condition)

    def _zeros(self, number: int) -> tuple[Holders, Holders]:
        """Return where a 0 is before a jump: copies of 0, and values that a test found to be 0.

        The second part are the registers with a 0 in the lowest byte, such as a boolean's register.
        """
        moment, found = self._run.moments[number], set()
        for before in self._run.moments[:number]:
            flags, condition = before.flags, before.insn.condition
            if before.insn.flow is not Flow.BRANCH or flags is None or flags.size < INT:
                continue
            held = condition if self._taken(before) else OPPOSITE.get(condition, "")
            if held == "e" and with_zero(flags):
                found.add(flags.left)
        zero = [
            one
            for kept in (moment.regs, moment.slots)
            for one in kept.values()
            if one in found or (one.size >= INT and known_value(one, {}, INT) == 0)
        ]
        low = [one for one in moment.regs.values() if known_value(one, {}, 1) == 0]
        places = self._holders(moment, low)
        slots = [one for one in places.places if isinstance(one, int)]
        return self._holders(moment, zero), places.without(slots)

    def _is_known(self, number: int) -> bool:
        """Return True if earlier instructions determined how a jump came out."""
        return is_settled(self._run.moments[number]) or self._asked_again(number)

    def _asked_again(self, number: int) -> bool:
        """Return True if an earlier jump on the path made the same test and fixed the outcome.

        This requires that the other side of the earlier jump does not lead to this one. Otherwise
        this jump decides.
        """
        moment, graph, way = self._run.moments[number], self._graph, self._way.blocks
        flags, condition = moment.flags, moment.insn.condition
        if flags is None or moment.insn.flow is not Flow.BRANCH:
            return False
        for before in self._run.moments[:number]:
            if before.flags is None or before.insn.flow is not Flow.BRANCH:
                continue
            is_same = before.insn.condition in (condition, OPPOSITE.get(condition))
            if is_same and _is_same_test(before.flags, flags):
                taken = self._taken(before)
                other = -1 if taken is None else graph.blocks[way[before.position]].next[not taken]
                if other >= 0 and way[moment.position] not in self._graph.reachable(other):
                    return True
        return False
