# SPDX-License-Identifier: BSD-2-Clause
"""Where a call made its result, and which condition decided that it did.

The result's node (:mod:`retsnoop_py.path.values`) tells where the number was made. The deciding
branch is the last conditional jump on the way whose other side can still reach a return with
another number: jumps behind it - of cleaning up, of the stack protector, of tests of the error
itself - could not have avoided the failure any more.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.deduce import holds
from retsnoop_py.path.follow import Way
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import OPPOSITE, Flow, Imm, Insn, Mem, Names, Operand, Reg
from retsnoop_py.path.values import Flags, Moment, Node, Run, evaluate
from retsnoop_py.value import Value, replace

__all__ = ["Decided", "Decision", "Made", "Returned", "decide"]

#: Ways that are followed from the other side of a jump before it is said that nobody knows.
_MAX_STATES = 20_000
_MASK32 = 0xFFFFFFFF
#: Bytes of an int.
_INT = 4
#: Why the probes of blocks that ran are not hit, if nobody else uses kprobes there.
_PROGRAMS_OFF = "as where bpf(2) reads or changes a map, with BPF programs off"


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
    """

    made: Made
    address: int
    step: int
    node: Node
    callee: str | None = None
    ways: int = 1


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


class Decision(Value):
    """What is known of a failing call: where its result was made, and what decided.

    ``unknown`` says why something is missing.
    """

    returned: Returned | None
    decided: Decided | None
    unknown: str | None = None


#: What was made elsewhere is known here only by testing it.
_TESTED = (Made.CALLEE, Made.MEMORY, Made.ARGUMENT)


def decide(graph: Graph, way: Way, result: int, names: Names, handed: int = 0) -> Decision:
    """What decided that the call which took ``way`` returned ``result`` (raw, 64 bits).

    ``handed``: the function that gave the result had been given it as its ``handed``-th argument,
    from 1, so that argument is what is asked about; 0 where that is not so.
    """
    if not way.blocks:
        return Decision(None, None, "no block of it was seen to run")
    run = evaluate(graph, way, names)
    if not way.ends:
        return Decision(None, None, f"the end of its way was not seen ({_PROGRAMS_OFF})")
    run, given = _before_handed(graph, run, handed)
    returned, choice = _origin(graph, way, run, result)
    if returned.made is Made.UNKNOWN and way.is_cut:
        return Decision(None, None, "its result was made before the blocks that were kept")
    if returned.made is Made.UNKNOWN and way.gaps:
        return Decision(None, None, _missing(graph, way))
    decided, unknown = _Search(graph, way, run, result, returned, given).last(choice)
    if decided is not None and 0 <= decided.step < len(run.positions):
        decided = replace(decided, position=run.positions[decided.step])
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
        return "no conditional jump could have avoided it: it always returns this"
    return "no conditional jump could have avoided it"


def _missing(graph: Graph, way: Way) -> str:
    """Why blocks are missing in the middle of ``way``."""
    fault = "an access to memory faulted"
    if not graph.before[way.blocks[max(way.gaps)]]:
        return fault
    return f"blocks that ran were not seen ({_PROGRAMS_OFF}), or {fault}"


def _is_result(value: int, result: int) -> bool:
    """Whether ``value`` is what was returned; ints have 32 bits."""
    return value & _MASK32 == result & _MASK32 and (
        -(1 << 31) <= value < 1 << 32 or value & (1 << 64) - 1 == result & (1 << 64) - 1
    )


def _origin(graph: Graph, way: Way, run: Run, result: int) -> tuple[Returned, Decided | None]:
    """Where the result was made; what decided it there, if it was no jump."""
    node, choice = run.result, None
    while node.kind == "select":
        node, picked = _selected(node, result)
        if not _is_settled(picked):
            choice = picked
    at = _block_of(way, run, node)
    ways = len(graph.before[at]) if at is not None else 1
    made, callee = Made.UNKNOWN, None
    match node.kind:
        case "const":
            made = Made.CONSTANT
        case "call":
            made, callee = Made.CALLEE, node.name
        case "load":
            made = Made.MEMORY
        case "param":
            made = Made.ARGUMENT
        case "op" | "cond":
            made = Made.COMPUTED
            choice = _computed(node) or choice
    return Returned(made, node.at, node.step, node, callee, ways), choice


def _block_of(way: Way, run: Run, node: Node) -> int | None:
    if not 0 <= node.step < len(run.positions):
        return None
    return way.blocks[run.positions[node.step]]


def _selected(node: Node, result: int) -> tuple[Node, Decided | None]:
    """Which side of a cmov was taken, by the number that came out; and that this decided."""
    new, old = node.args
    condition = node.name or ""
    fits = [one.kind != "const" or _is_result(one.value, result) for one in (new, old)]
    if fits[0] == fits[1]:
        # both would do: a constant says more than what is not known
        fits = [one.kind == "const" for one in (new, old)]
        if fits[0] == fits[1]:
            return Node("unknown", node.step, node.at), None
    if not fits[0]:
        condition = OPPOSITE.get(condition, "")
    chosen, other = (new, old) if fits[0] else (old, new)
    if _failure_of(node.flags, OPPOSITE.get(condition, "")) is other:
        return chosen, None
    at = _asked_at(node)
    return chosen, Decided(at, node.step, condition, node.flags, taken=fits[0])


def _asked_at(node: Node) -> int:
    """Where what a result was chosen by was compared: the choice may have the return's line."""
    return node.flags.insn.address if node.flags is not None else node.at


def _failure_of(flags: Flags | None, condition: str) -> Node | None:
    """What a called function gave, where ``condition`` says that it had failed.

    To return that instead is to fail as well. Of an int, any number but 0 is a failure; of a
    pointer, or a yes or no, that is none.
    """
    if flags is None or condition not in ("ne", "s", "l") or flags.left.kind != "call":
        return None
    if condition == "ne" and flags.size != _INT:
        return None
    of_itself = flags.op == "test" and flags.left is flags.right
    with_zero = flags.op == "cmp" and flags.right.kind == "const" and not flags.right.value
    return flags.left if of_itself or with_zero else None


def _computed(node: Node) -> Decided | None:
    """The comparison of which a result was computed without a jump."""
    if node.kind == "cond":
        return Decided(_asked_at(node), node.step, node.name or "", node.flags)
    if node.kind == "op":
        if node.name == "sar" and node.args[1].kind == "const" and node.args[1].value in (31, 63):
            # all bits are the sign
            zero = Node("const", node.step, node.at, value=0)
            size = 4 if node.args[1].value == 31 else 8
            insn = Insn(node.at, 0, "sar", "sar")
            flags = Flags(insn, "cmp", node.args[0], zero, size)
            return Decided(node.at, node.step, "l", flags)
        for one in node.args:
            found = _computed(one)
            if found:
                return found
    return None


def _is_settled(test: Moment | Decided | None) -> bool:
    """Whether constants were compared: on this way it could not go elsewhere.

    What was counted up is such a constant, so that of a counted loop, and of what is tried a
    number of times, not the count decides but what was asked last.
    """
    flags = test.flags if test is not None else None
    return flags is not None and flags.left.kind == "const" and flags.right.kind == "const"


def _asks_the_unknown(test: Moment | Decided) -> bool:
    """Whether it compared what is not known, as what was kept over a gap."""
    waiting = [test.flags.left, test.flags.right] if test.flags is not None else []
    while waiting:
        node = waiting.pop()
        if node.kind == "unknown":
            return True
        waiting += node.args
    return test.flags is None


def _leaves(node: Node) -> Iterable[Node]:
    if node.kind == "op":
        for one in node.args:
            yield from _leaves(one)
    elif node.kind != "const":
        yield node


class _Search:
    """The search for the deciding branch of one run."""

    def __init__(
        self,
        graph: Graph,
        way: Way,
        run: Run,
        result: int,
        returned: Returned,
        handed: _Handed | None = None,
    ) -> None:
        self._graph = graph
        self._way = way
        self._run = run
        self._result = result
        self._returned = returned
        self._handed = handed

    def last(self, choice: Decided | None) -> tuple[Decided | None, str | None]:
        """The last one that could have avoided the result; or why it cannot be told."""
        gap = max(self._way.gaps, default=-1)
        if gap >= 0 and choice is not None and _asks_the_unknown(choice):
            return None, self._missing()
        for number, moment in reversed(list(enumerate(self._run.moments))):
            if choice is not None and moment.step < choice.step:
                return choice, None
            if moment.position < gap:
                return None, self._missing()
            if self._is_last(moment) and not self._leaves_here(moment):
                continue
            taken = self._taken(moment)
            if taken is None or _is_settled(moment):
                continue
            about = self._is_about_result(moment)
            if about and not self._is_check(moment):
                continue
            if about or self._can_avoid(moment, taken):
                if gap >= 0 and _asks_the_unknown(moment):
                    return None, self._missing()  # which jump decides may be for those to say
                last = moment
                if not about:
                    last, taken = self._asked_before(number, taken) or (moment, taken)
                condition = last.insn.condition
                held = condition if taken else OPPOSITE.get(condition, "")
                jump = last if last.insn.flow is Flow.BRANCH else None
                decided = Decided(_place(last), last.step, held, last.flags, jump, taken, about)
                return decided, None
        if choice is None and gap >= 0:
            return None, self._missing()
        return choice, None

    def _missing(self) -> str:
        return _missing(self._graph, self._way)

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
            if side is None or _is_settled(before):
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
                        compared = step if _asks(step, held, moment.flags) else None
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

    def _reachable(self, start: int) -> set[int]:
        """All blocks that may run once ``start`` does."""
        waiting, seen = [start], {start}
        while waiting:
            for following in self._graph.blocks[waiting.pop()].next:
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
        block = self._graph.blocks[self._way.blocks[moment.position]]
        fall, target = block.next
        if moment.position + 1 >= len(self._way.blocks):
            return True
        if fall == target:
            return None
        following = self._way.blocks[moment.position + 1]
        return following == target if following in (fall, target) else None

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
        return node is self._returned.node or (handed is not None and node is handed.node)

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

    def _can_avoid(self, moment: Moment, taken: bool) -> bool:
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
        failure = _failure_of(moment.flags, OPPOSITE.get(condition, "") if taken else condition)
        same = [
            one
            for places in (moment.regs, moment.slots)
            for one in places.values()
            if self._is_result(one)
            or one is failure
            or (one.kind == "const" and _is_result(one.value, self._result))
        ]
        held = self._holders(moment, same)
        return any(self._reaches_other(other, held) for other in others)

    def _reaches_other(self, start: int, holders: Holders) -> bool:
        """Whether some way from a block reaches a return with another number."""
        waiting = [(start, holders)]
        seen = set(waiting)
        while waiting:
            index, held = waiting.pop()
            block, asked = self._graph.blocks[index], None
            for step in (step for insn in block.insns for step in insn.steps):
                if step.flags or step.flow is Flow.CALL:
                    asked = self._asks_result(held, step)
                held = self._after_step(held, step)
            if block.exit == "return":
                if self._graph.machine.result not in held.places:
                    return True
            elif block.exit and not self._hands_on(held, block.last):
                return True
            condition = block.last.steps[-1].condition
            side = holds(asked, condition, {}) if asked and block.is_branch else None
            for following in block.next if side is None else (block.next[side],):
                key = (following, held)
                if following >= 0 and key not in seen:
                    seen.add(key)
                    waiting.append(key)
            if len(seen) > _MAX_STATES:
                return True
        return False

    def _asks_result(self, held: Holders, insn: Insn) -> Flags | None:
        """What an instruction compares, if that is the result with a constant: how is known."""
        if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
            return None
        left, right = insn.compared
        if isinstance(left, Imm) or not self._has_result(held, left):
            return None
        low = self._result & _MASK32
        is_error = low >> (8 * _INT - 1)
        result = Node("const", value=low - (1 << 8 * _INT) if is_error else self._result)
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
        return insn.op == "or" and self._result & _MASK32 == _MASK32 and _minus_one(operands)

    def _has_result(self, held: Holders, source: Operand) -> bool:
        """Whether an operand is the result's number, in no less than 32 bits."""
        if isinstance(source, Imm):
            return _is_result(source.value, self._result)
        if isinstance(source, Mem):
            slot = held.slot(source)
            return slot is not None and slot in held.places
        return source.name in held.places and source.size >= 4

    def _moved(self, held: Holders, insn: Insn) -> Holders:
        target, source = insn.operands
        has = self._has_result(held, source) and target.size >= 4
        place = target.name if isinstance(target, Reg) else None
        where: str | int | None = place
        if isinstance(target, Mem):
            where = held.slot(target)
        if where is None:
            return held
        return held.also(where) if has else held.without((where,))


def _asks(insn: Insn, held: Holders, flags: Flags) -> bool:
    """Whether an instruction compares what ``held`` has with the constant of ``flags``."""
    if insn.op not in ("cmp", "test") or len(insn.operands) < 2:
        return False
    left, right = insn.compared
    place = held.slot(left) if isinstance(left, Mem) else getattr(left, "name", None)
    if place not in held.places:
        return False
    if insn.op == "test" or flags.op == "test":
        return insn.op == flags.op and left == right and flags.left is flags.right
    return isinstance(right, Imm) and right.value == flags.right.value


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
