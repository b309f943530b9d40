# SPDX-License-Identifier: BSD-2-Clause
"""Which condition decided that a call made the result that it returned.

It is the last conditional jump on the way whose other side can still reach a return with another
number: jumps behind it - of cleaning up, of the stack protector, of tests of the error itself -
could not have avoided the failure any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from retsnoop_py.path.asks import (
    as_chosen,
    asks,
    asks_zero,
    before_block,
    failing_edge,
    is_zero,
)
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.conjunction import tests_before
from retsnoop_py.path.deduce import holds, known_value
from retsnoop_py.path.definitions import failures_at
from retsnoop_py.path.failing_ways import FailingWays
from retsnoop_py.path.failure import MASK32, Failure, is_error, is_result
from retsnoop_py.path.follow import Way
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Imm, Insn, Mem, Names, Operand, Reg
from retsnoop_py.path.origin import (
    Decided,
    Decision,
    Made,
    Returned,
    asks_the_unknown,
    chosen_of,
    failure_of,
    is_settled,
    origin_of,
    went,
    went_well,
    with_zero,
)
from retsnoop_py.path.values import LOCAL_BYTES, Flags, Moment, Node, Run, evaluate
from retsnoop_py.session.paths import ALWAYS
from retsnoop_py.value import replace

__all__ = ["decide"]

#: Ways that are followed from the other side of a jump before it is said that nobody knows.
_MAX_STATES = 20_000
#: Why the probes of blocks that ran are not hit, if nobody else uses kprobes there.
_PROGRAMS_OFF = "as where bpf(2) reads or changes a map, with BPF programs off"
#: What was made elsewhere is known here only by testing it.
_TESTED = (Made.CALLEE, Made.MEMORY, Made.ARGUMENT)


def decide(graph: Graph, way: Way, failure: Failure, names: Names, handed: int = 0) -> Decision:
    """What decided that the call which took ``way`` failed so.

    ``handed``: the function that gave the result had been given it as its ``handed``-th argument,
    from 1, so that argument is what is asked about; 0 where that is not so.
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
    search = _Search(graph, way, run, failure, returned, given)
    decided, unknown = search.decided(choice)
    if decided is not None and 0 <= decided.step < len(run.positions):
        decided = replace(decided, position=run.positions[decided.step])
    if decided is not None:
        decided = replace(decided, also=search.also(decided))
    if decided is not None and returned.made is Made.CALLEE and decided.step < returned.step:
        decided = None  # that it was called is no reason for what it gave
    if decided is None and unknown is None:
        unknown = _nothing_decides(returned, way)
    return Decision(returned, decided, unknown)


class _Handed(NamedTuple):
    """A call, whose result is ``node``, that gives back what it is given in ``register``."""

    node: Node
    register: str


def _before_handed(graph: Graph, run: Run, handed: int) -> tuple[Run, _Handed | None]:
    """``run`` with the argument for its result that the called function just gave back."""
    call = run.result
    if call.kind != "call" or not 0 < handed <= len(call.args):
        return run, None
    given = call.args[handed - 1]
    if given.kind == "unknown":
        return run, None
    register = graph.machine.arguments[handed - 1]
    return run._replace(result=given), _Handed(call, register)


def _nothing_decides(returned: Returned, way: Way) -> str:
    if returned.made is Made.CALLEE:
        return f"it returns what {returned.callee or 'a called function'} gave it"
    if way.is_cut:
        return "what decided came before the blocks that were kept"
    if returned.made is Made.CONSTANT:
        return ALWAYS
    return "no conditional jump could have avoided it"


def _missing(graph: Graph, way: Way) -> str:
    """Why blocks are missing in the middle of ``way``."""
    fault = "an access to memory faulted"
    if not graph.before[way.blocks[max(way.gaps)]]:
        return fault
    return f"blocks that ran were not seen ({_PROGRAMS_OFF}), or {fault}"


def _is_same_test(one: Flags, other: Flags) -> bool:
    """Whether the very values were compared, in the same way."""
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
    """The jump, by its number, that settled how a later one came out, which ends ``block``.

    ``open`` are the blocks that lead to that one, and those that it would have led to otherwise.
    """

    number: int
    block: int
    open: set[int]


class _Search:
    """The search for the deciding branch of one run."""

    def __init__(
        self,
        graph: Graph,
        way: Way,
        run: Run,
        failure: Failure,
        returned: Returned,
        handed: _Handed | None = None,
    ) -> None:
        self._graph = graph
        self._way = way
        self._run = run
        self._failure = failure
        self._result = failure.result
        self._returned = returned
        self._handed = handed
        #: What the result was moved into where something else might have been.
        self._chosen = chosen_of(run.result, failure)
        #: Where local variables begin whose addresses are used, once that was asked.
        self._locals: list[int] | None = None
        #: Whether a jump was found behind which the result that was there was kept.
        self._is_stored = False
        self._failing = FailingWays(graph, returned)
        #: What settled a later test, once that was found.
        self._by: _Settled | None = None

    def decided(self, choice: Decided | None) -> tuple[Decided | None, str | None]:
        """The condition that decided; or why it cannot be told."""
        left = self._asked_of_call()
        if left is not None:
            return left, None
        is_unknown = choice is not None and asks_the_unknown(choice)
        if is_unknown and self._way.is_cut and not self._way.gaps:
            # how that came out may have been known: what is asked behind the cut goes first
            return self.last(None, choice)
        return self.last(choice)

    def last(
        self, choice: Decided | None, certain: Decided | None = None
    ) -> tuple[Decided | None, str | None]:
        """The last one that could have avoided the result; or why it cannot be told.

        ``certain`` is what is told if there is none.
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
            about = self._is_about_result(moment)
            if not (self._is_check(moment) if about else self._may_choose(moment)):
                continue
            if about or self._can_avoid(number, taken):
                if gap >= 0 and asks_the_unknown(moment):
                    return None, self._missing()  # which jump decides may be for those to say
                if not about and self._is_certain(moment, taken):
                    certain = certain or _decided(moment, taken)
                    continue
                before = None if about else self._asked_before(number, taken)
                return _decided(*(before or (moment, taken)), about=about), None
        if choice is None and gap >= 0:
            return None, self._missing()
        return choice or certain, None

    def also(self, decided: Decided) -> tuple[Decided, ...]:
        """The tests of the same statement in front of the one that decided, first those made first.

        Each of them could have avoided the result as well.
        """
        moments, found = self._run.moments, decided.also
        if decided.checks or decided.position < 0:
            return found
        for at, taken in tests_before(self._graph, self._way, self._run, decided):
            if decided.moment is None and self._has_error_at(moments[at]):
                continue  # its other side may lead to that one
            if self._can_avoid(at, taken) and not self._is_about_result(moments[at]):
                one = _decided(moments[at], taken)
                found = (replace(one, position=moments[at].position), *found)
        return found

    def _has_error_at(self, moment: Moment) -> bool:
        """Whether a constant that is an error is held as a jump runs."""
        kept = (*moment.regs.values(), *moment.slots.values())
        return any(one.kind == "const" and is_error(one.value) for one in kept)

    def _asked_of_call(self) -> Decided | None:
        """The test of what a function gave that left the result in a local variable."""
        node = self._returned.node
        if node.kind != "left":
            return None
        for moment in self._run.moments:
            taken = self._taken(moment)
            if taken is not None and moment.flags is not None and moment.flags.left is node.args[0]:
                return _decided(moment, taken)
        return None

    def _missing(self) -> str:
        return _missing(self._graph, self._way)

    def _is_open(self, number: int, taken: bool) -> bool:
        """Whether a jump went where it had to go, or kept open what a later one was settled not to.

        Then it is the jump which settled that one that counts.
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
        # other ways were left that do not come to the settled test
        behind = self._reachable(block.next[taken], self._by.block) - {self._by.block}
        return any(self._graph.blocks[one].exit for one in behind)

    def _settled(self, number: int, taken: bool) -> _Settled | None:
        """What settled a test of a constant behind which the result was made, if a jump did.

        As ``timeo = noblock ? 0 : ...; if (!timeo) return -EAGAIN``. Of a counted loop no jump in
        front of it did, and of what is asked on the way out the result was there before.
        """
        moment = self._run.moments[number]
        flags, block = moment.flags, self._way.blocks[moment.position]
        if self._returned.made is not Made.CONSTANT:
            return None
        if flags is None or moment.insn.flow is not Flow.BRANCH or not is_settled(moment):
            return None
        if self._returned.step < moment.step and self._is_certain(moment, taken):
            return None  # it is on the way out
        operand = flags.insn.compared[0] if flags.insn.operands else None
        place = self._holders(moment, ()).place_of(operand) if operand is not None else None
        if isinstance(place, int):
            node = moment.slots.get(place)
        else:
            node = moment.regs.get(place) if place else None
        if node is None or node.kind != "const" or not self._can_avoid(number, taken):
            return None
        made = self._insn_at(node.at)
        if made is None or made.op not in ("mov", "xor"):
            return None  # it was counted
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
                return _Settled(earlier, block, offered | self._leading_to(block))
        return None

    def _leading_to(self, block: int) -> set[int]:
        """The blocks behind which one may come."""
        waiting, found = [block], {block}
        while waiting:
            new = set(self._graph.before[waiting.pop()]) - found
            found |= new
            waiting += new
        return found

    def _insn_at(self, address: int) -> Insn | None:
        block = self._graph.at(address)
        return next((one for one in block.insns if one.address == address), None) if block else None

    def _offers(self, moment: Moment, taken: bool) -> set[int]:
        """The blocks that may have run, had a jump gone the other way; behind an indirect one, all.

        A conditional comparison leaves both sides open of the jump that its block ends in.
        """
        sides = self._graph.blocks[self._way.blocks[moment.position]].next
        if moment.insn.flow is Flow.BRANCH:
            sides = (sides[not taken],)
        if moment.insn.flow is Flow.INDIRECT or -1 in sides:
            return set(range(-1, len(self._graph.blocks)))
        return set().union(*[self._reachable(side) for side in sides])

    def _loses(self, start: int, held: Holders, node: Node, end: int, compare: Insn) -> bool:
        """Whether ways from a block come to ``compare``, in ``end``, and all without a constant."""
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
        """Where a constant is behind an instruction, which may be the one that made it."""
        if insn.address == node.at and insn.writes:
            return held.also(insn.writes[0])
        if insn.flow is Flow.CALL:
            slots = [one for one in held.places if isinstance(one, int)]
            given = [one for one in slots if self._is_given(held, one)]
            return held.without((*self._graph.machine.clobbered, *given))
        return held.with_copies(insn, node.value)

    def _asked_before(self, number: int, taken: bool) -> tuple[Moment, bool] | None:
        """The jump that decided where a parameter chose the case, and the case was asked before.

        Of ``switch (op) { case MOD: if (!found) ...`` behind another test of ``found`` compilers
        make a switch for each outcome of that: one in which MOD fails, and one in which it does
        not. Then ``op == MOD`` is no reason, but the jump in front that chose between the two.
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
            copies -= self._reachable(own)
            free = Holders(self._graph.machine, frozenset(), 0, None)
            known = any(self._reaches_other(one, free) for one in copies)
            return (before, side) if known else None
        return None

    def _holders(self, moment: Moment, nodes: Iterable[Node]) -> Holders:
        """Where values are, before a jump."""
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
        """The blocks behind other jumps that ask the same as ``moment``, where it holds too."""
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

    def _reachable(self, start: int, without: int = -1) -> set[int]:
        """All blocks that may run once ``start`` does; by no way that goes on behind another."""
        waiting, seen = [start], {start}
        while waiting:
            index = waiting.pop()
            for following in self._graph.blocks[index].next if index != without else ():
                if following >= 0 and following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return seen

    def _is_last(self, moment: Moment) -> bool:
        """Whether the way ends in this jump."""
        is_jump = moment.insn.flow is Flow.BRANCH
        return is_jump and moment.position == len(self._way.blocks) - 1

    def _leaves_here(self, moment: Moment) -> bool:
        """Whether the way leaves the function by this very jump: a conditional tail call."""
        return self._graph.blocks[self._way.blocks[moment.position]].exit == "tail"

    def _taken(self, moment: Moment) -> bool | None:
        """Whether a jump was taken; None where both sides lead to the same block.

        Of a conditional comparison: whether it was made.
        """
        if moment.insn.flow is Flow.INDIRECT:
            return True
        if moment.insn.flow is not Flow.BRANCH:
            return self._way.compared(moment.position)
        return went(self._graph, self._way, moment)

    def _is_about_result(self, moment: Moment) -> bool:
        """Whether all that a jump tests is the result, after it was made."""
        flags = moment.flags
        if flags is None or moment.step < self._returned.step:
            return False
        sides = [one for one in (flags.left, flags.right) if one.kind != "const"]
        return bool(sides) and all(self._is_result(leaf) for one in sides for leaf in _leaves(one))

    def _is_result(self, node: Node) -> bool:
        """Whether a value is the result, before or after it was handed on."""
        handed = self._handed
        if node is self._returned.node or (handed is not None and node is handed.node):
            return True
        return node.kind == "select" and any(node is one for one in self._chosen)

    def _is_check(self, moment: Moment) -> bool:
        """Whether a test of the result asks if it is a failure, and not which.

        Of a number in the code that has been known before.
        """
        flags = moment.flags
        if flags is None or self._returned.made not in _TESTED:
            return False
        if flags.op in ("test", "and", "or"):
            return flags.left is flags.right or flags.right.value in (-1, 0)
        return flags.right.kind == "const" and flags.right.value in (0, -1, -4095, -4096)

    def _may_choose(self, moment: Moment) -> bool:
        """Whether a jump may have chosen the result, and an earlier one has not.

        Where other paths bring something else than a failure to a jump behind the result, the
        failure was chosen before. This jump only might have replaced it.
        """
        if self._returned.made not in (Made.CONSTANT, Made.COMPUTED):
            return True
        # what was chosen last goes on; of the constant itself another register may have a copy
        nodes = (*self._chosen, self._returned.node)
        each = (self._holders(moment, (node,)) for node in nodes)
        held = next((one for one in each if one.places), None)
        if moment.step <= self._returned.step or held is None:
            return True
        block = self._way.blocks[moment.position]
        address = moment.insn.address
        return failures_at(self._graph, held, block, address, self._failure) is not None

    def _is_certain(self, moment: Moment, taken: bool) -> bool:
        """Whether the result was there before, and the other side would have kept it or failed.

        An error that is stored and returned at the end of a loop is not that of the loop's end:
        to go on is to return it later, if not what fails next. What a called function gave was
        there already when another try was not made. And that a called function did well, as one
        that tells user space, is no reason for a failure, unless it ended a loop.
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
        """Whether a jump left a loop that would have come to it again on its other side."""
        block = self._graph.blocks[self._way.blocks[moment.position]]
        own, other = (block.next[side] for side in (taken, not taken))
        if own < 0 or other < 0:
            return False
        return block.index in self._reachable(other) - self._reachable(own)

    def _is_handled(self, moment: Moment) -> bool:
        """Whether other failures come to a jump as well, those of functions that were called.

        Then it is asked there what is to be done about one, and not whether it is one. What comes
        there by the jump itself does not count: that is a loop.
        """
        graph, own = self._graph, self._way.blocks[moment.position]
        held = self._holders(moment, (self._returned.node,))
        waiting = [(own, place, False) for place in held.places]
        seen = set(waiting)
        while waiting:
            index, place, is_failure = waiting.pop()
            block = graph.blocks[index]
            before, given = before_block(block, held, place)
            if given and is_failure and index in self._reachable(graph.entry, own):
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
            return bool(block.exit) and not taken  # a tail call gives what it likes
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
        return any(self._reaches_other(other, held, zeros) for other in others)

    def _reaches_other(
        self, start: int, holders: Holders, zeros: tuple[Holders, Holders] | None = None
    ) -> bool:
        """Whether some way from a block reaches a return with another number.

        ``zeros`` are the places that hold 0 there, and those whose lowest byte is 0, as far as
        that is known.
        """
        nothing = Holders(holders.machine, frozenset(), holders.depth, holders.frame)
        waiting = [(start, holders, *(zeros or (nothing, nothing)))]
        seen = set(waiting)
        while waiting:
            index, held, zero, low = waiting.pop()
            block, asked = self._graph.blocks[index], None
            for step in (step for insn in block.insns for step in insn.steps):
                if step.flags or step.flow is Flow.CALL:
                    asked = self._asks_result(held, step) or asks_zero(zero, low, step)
                does = as_chosen(step, asked) if step.op == "cmov" and asked else step
                held, zero = self._after_step(held, does), self._after_zero(zero, does)
                low = low.after_step(step)
            if block.exit == "return":
                if self._graph.machine.result not in held.places:
                    return True
            elif block.exit and not self._hands_on(held, block.last):
                return True
            condition = block.last.steps[-1].condition
            side = holds(asked, condition, {}) if asked and block.is_branch else None
            for following in block.next if side is None else (block.next[side],):
                key = (following, held, zero, low)
                if following >= 0 and key not in seen:
                    seen.add(key)
                    waiting.append(key)
            if len(seen) > _MAX_STATES:
                return True
        return False

    def _zeros(self, number: int) -> tuple[Holders, Holders]:
        """Where a 0 is, before a jump: what was copied so far, and what was found to be one.

        And the registers whose lowest byte is 0, as that of a yes or no.
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
        """Whether how a jump came out was known before."""
        return is_settled(self._run.moments[number]) or self._asked_again(number)

    def _asked_again(self, number: int) -> bool:
        """Whether a jump asks what another one on the way has asked, and is known to come out so.

        That is where the other side of that one does not lead here: else it is here that it counts.
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
                if other >= 0 and way[moment.position] not in self._reachable(other):
                    return True
        return False

    def _after_zero(self, zero: Holders, insn: Insn) -> Holders:
        """Where a 0 is behind an instruction."""
        operands = insn.operands
        if insn.flow is Flow.CALL:
            slots = [one for one in zero.places if isinstance(one, int)]
            given = [one for one in slots if self._is_given(zero, one)]
            return zero.without((*self._graph.machine.clobbered, *given))
        if insn.op in ("xor", "sub") and len(set(operands)) == 1 and len(operands) > 1:
            is_whole = isinstance(operands[0], Reg) and operands[0].size >= INT
            return zero.also(insn.writes[0]) if is_whole and insn.writes else zero
        if insn.op != "mov" or len(operands) != 2 or zero.is_frame(insn):
            return zero.after_step(insn)
        target, source = operands
        where = zero.place_of(target)
        if where is None:
            return zero
        if isinstance(where, int):  # what overlaps
            near = range(where - INT + 1, where + target.size)
            zero = zero.without(one for one in zero.places if one in near)
        return zero.also(where) if is_zero(zero, source, target.size) else zero.without((where,))

    def _is_given(self, held: Holders, slot: int) -> bool:
        """Whether a slot may be a part of a local variable whose address is used."""
        if self._locals is None:
            insns = (one for block in self._graph.blocks for one in block.insns)
            places = [
                held.slot(one.operands[1])
                for one in insns
                if one.op == "lea" and isinstance(one.operands[1], Mem)
            ]
            self._locals = sorted(one for one in places if one is not None)
        return any(start <= slot < start + LOCAL_BYTES for start in self._locals)

    def _asks_result(self, held: Holders, insn: Insn) -> Flags | None:
        """What an instruction compares, if that is the result with a constant: how is known."""
        if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
            return None
        left, right = insn.compared
        if isinstance(left, Imm) or not self._has_result(held, left):
            return None
        low = self._result & MASK32
        is_error = low >> (8 * INT - 1)
        result = Node("const", value=low - (1 << 8 * INT) if is_error else self._result)
        if insn.op == "test":
            return Flags(insn, "test", result, result, left.size) if left == right else None
        if not isinstance(right, Imm):
            return None
        return Flags(insn, "cmp", result, Node("const", value=right.value), left.size)

    def _after_step(self, held: Holders, insn: Insn) -> Holders:
        operands = insn.operands
        if insn.flow is Flow.CALL:
            after = held.without(self._graph.machine.clobbered)
            return after.also(self._graph.machine.result) if self._hands_on(held, insn) else after
        if insn.flow is not Flow.NEXT:
            return held
        if insn.address == self._returned.address and insn.writes and insn.op != "cmov":
            made = self._returned.made in (Made.CONSTANT, Made.COMPUTED)
            return held.also(insn.writes[0]) if made else held.without(insn.writes)
        if insn.op in ("push", "pop"):
            return held.pushed(insn)
        if held.is_frame(insn):
            return held.moved(insn)
        if insn.op in ("mov", "movsx", "movzx") and len(operands) == 2:
            return self._moved(held, insn)
        makes = bool(insn.writes) and self._makes_same(held, insn)
        return held.also(insn.writes[0]) if makes else held.without(insn.writes)

    def _hands_on(self, held: Holders, insn: Insn) -> bool:
        """Whether an instruction calls what gives back the result that it is given."""
        handed = self._handed
        if handed is None or insn.address != handed.node.at:
            return False
        return handed.register in held.places

    def _makes_same(self, held: Holders, insn: Insn) -> bool:
        """Whether an instruction makes the very number without moving it."""
        operands = insn.operands
        if insn.op == "cmov":  # of two that are the result, either
            sources = operands[1:] if len(operands) > 2 else operands
            return all(self._has_result(held, one) for one in sources)
        if insn.op == "xor" and not self._result:
            return operands[0] == operands[1]
        return insn.op == "or" and self._result & MASK32 == MASK32 and _minus_one(operands)

    def _has_result(self, held: Holders, source: Operand) -> bool:
        """Whether an operand is the result's number, in all its bytes."""
        if isinstance(source, Imm):
            return is_result(source.value, self._result)
        if isinstance(source, Mem):
            slot = held.slot(source)
            return slot is not None and slot in held.places
        return source.name in held.places and source.size >= self._failure.size

    def _moved(self, held: Holders, insn: Insn) -> Holders:
        target, source = insn.operands
        has = self._has_result(held, source) and target.size >= self._failure.size
        place = target.name if isinstance(target, Reg) else None
        where: str | int | None = place
        if isinstance(target, Mem):
            where = held.slot(target)
        if where is None:
            return held
        return held.also(where) if has else held.without((where,))


def _decided(moment: Moment, taken: bool, *, about: bool = False) -> Decided:
    """What a jump decides that was, or was not, taken; ``about``: as it tested the result."""
    condition = moment.insn.condition
    held = condition if taken else OPPOSITE.get(condition, "")
    jump = moment if moment.insn.flow is Flow.BRANCH else None
    return Decided(_place(moment), moment.step, held, moment.flags, jump, taken, about)


def _place(moment: Moment) -> int:
    """The address whose line is that of a condition.

    Compilers give a jump on several conditions the line of one, and each conditional comparison
    that of its own.
    """
    compare = moment.flags.insn if moment.flags is not None else None
    if compare is not None and "ccmp" in (compare.op, moment.insn.op):
        return compare.address
    return moment.insn.address


def _minus_one(operands: Iterable[object]) -> bool:
    return any(isinstance(one, Imm) and one.value == -1 for one in operands)
