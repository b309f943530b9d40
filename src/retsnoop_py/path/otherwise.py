# SPDX-License-Identifier: BSD-2-Clause
"""Results that a function could have returned if one test had come out otherwise.

The search follows the code from the test on, with the values of the executed path. All else stays
equal: a test that the executed path made has the same outcome wherever the code makes it again, as
compilers copy tests, and called functions do not change its operands. A test that the executed path
did not make may have either outcome.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from itertools import product
from typing import Any, NamedTuple

from retsnoop_py.path.asks import read_behind
from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.computed import is_bit, is_sign, numbers
from retsnoop_py.path.deduce import holds
from retsnoop_py.path.failure import LARGEST_ERROR, Failure
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import INT, OPPOSITE, Flow, Insn, Names
from retsnoop_py.path.origin import chosen_facts, went, with_zero
from retsnoop_py.path.values import Flags, Moment, Node, Run, State, apply, state_before

__all__ = ["Avoided", "Otherwise", "with_nothing"]

#: The searches for a call give up after so many blocks. A block is searched with so many states.
_MOST_BLOCKS, _MOST_STATES = 20_000, 24
#: Deeper expressions are unknown values: a walk through a list has no end.
_MAX_DEPTH = 12
#: The lowest error pointer, as compilers compare it.
_ERRORS = (-LARGEST_ERROR, -LARGEST_ERROR - 1)

#: A test without its outcome: an operation, its size, and the values that it compares.
_Key = tuple[object, ...]
#: Outcomes of tests, and the known bits of values. A test that came out in different ways has the
#: outcome None.
_Facts = Mapping[_Key, Any]


class Outcome(NamedTuple):
    """A result: its ``kind``, and ``what`` value it has.

    ``kind`` is ``same`` for the result of the call, ``failure`` for another failure, or ``other``.
    """

    kind: str
    what: object


class Avoided(NamedTuple):
    """Results that the test in ``block`` excluded, and blocks on paths to successes.

    ``through`` are those blocks that did not run. Blocks that leave the function are not among
    them: all paths may join there.
    """

    results: frozenset[Outcome]
    through: frozenset[int]
    block: int


#: A search ended before it had looked at all places.
_GAVE_UP = Outcome("gave up", None)
#: A search followed only some of the paths.
_SOME = Outcome("some", None)


class _Bits(NamedTuple):
    """A test: the bits of ``mask`` of the value with this number are equal to ``value``, or not."""

    number: int
    mask: int
    value: int
    is_equal: bool

    @property
    def key(self) -> _Key:
        """Return the key of the value's known bits among the outcomes: mask, and what they are."""
        return ("bits", self.number)


_NO_BITS = (0, 0)


class _At(NamedTuple):
    """A place in the code with the values there: the ``insn``-th instruction of ``block``.

    Places may share a state: whoever changes it copies it. ``assumed`` are the outcomes of tests on
    the path from the changed test to this place, ``path`` its blocks. In a further round of a loop,
    the tests of the executed path do not count.
    """

    block: int
    insn: int
    state: State
    assumed: _Facts
    path: frozenset[int]


class Otherwise:
    """The search for other results of a call that took ``way`` and returned ``failure``."""

    def __init__(
        self, graph: Graph, way: Way, run: Run, failure: Failure, names: Names, made: Node
    ) -> None:
        self._graph = graph
        self._way = way
        self.failure = failure
        self._left = _MOST_BLOCKS
        #: The blocks that ran.
        self._ran = frozenset(way.blocks)
        self._names = names
        self._made = made
        self._numbers: dict[_Key, int] = {}
        self._known: dict[Node, int] = {}
        self._read: list[frozenset[str]] | None = None
        self._facts: dict[_Key, Any] = {}
        #: The values that the tests of the executed path read, and the result.
        self._tested: set[int] = set()
        #: The last stores in memory before those values were read.
        self._memories: set[int] = set()
        self._note_tested(made)
        for moment in run.moments:
            held = self._held(moment)
            if moment.flags is not None:
                self._note_tested(moment.flags.left)
                self._note_tested(moment.flags.right)
            if held is not None and moment.flags is not None:
                self._add(self._facts, moment.flags, held)
        for flags, condition in chosen_facts(run.result, failure):
            self._add(self._facts, flags, condition)

    def avoided_by(self, position: int, flags: Flags, condition: str) -> Avoided:
        """Return the results that ``condition`` in the block at ``position`` excluded.

        These are the successes, or only other failures. Return nothing if the search gave up.
        """
        found = list(self._each(position, flags, condition))
        kinds = {one.kind for one, _ in found}
        best = "other" if "other" in kinds else "failure"
        kept = [] if "gave up" in kinds else [row for row in found if row[0].kind == best]
        through = [path for one, path in kept if one.kind == "other"]
        results = {one for one, _ in kept}
        if "some" in kinds and best == "other" and results:
            results.add(Outcome("other", 0))  # most functions return 0 if they succeed
        block = self._way.blocks[position]
        return Avoided(frozenset(results), frozenset().union(*through) - self._ran, block)

    def avoids(
        self,
        position: int,
        flags: Flags,
        condition: str,
        avoided: Avoided,
        *,
        must_join: bool = False,
    ) -> bool:
        """Return True if a test excluded one of the results that another test excluded.

        Two successes are the same if the paths to them join before the function ends, or if they
        are the same value and not ``must_join``. If the search did not follow all paths, it is
        enough that one of them joined. A path to the other test does not count: there, this test
        only chose the values that the other one compares.
        """
        own = avoided.block if avoided.block not in self._way.blocks[:position] else -1
        are_successes, is_shared = any(one.kind == "other" for one in avoided.results), False
        for one, path in self._each(position, flags, condition, own) if avoided.results else ():
            if own in path and one.kind == "other":
                continue
            is_shared |= one in avoided.results and not (must_join and are_successes)
            is_shared |= one.kind in ("other", "some") and bool(path & avoided.through)
            if are_successes and is_shared:
                return True
            if one == _GAVE_UP or (one.kind == "other" and not are_successes):
                return False
        return is_shared

    def is_same(self, position: int, flags: Flags, condition: str) -> bool:
        """Return True if the call had returned the same if ``condition`` had not held."""
        found = self._each(position, flags, condition)
        kinds = (one.kind for one, _ in found if one is not _SOME)
        first = next(kinds, None)
        return first == "same" and all(kind == "same" for kind in kinds)

    def _each(
        self, position: int, flags: Flags, condition: str, other: int = -1
    ) -> Iterator[tuple[Outcome, frozenset[int]]]:
        """Yield the possible results if ``condition`` had not held in the block at ``position``.

        With each result, yield the blocks of a path to it: of one through the block ``other``, and
        of one that avoids it. The search goes on only while the caller asks. ``_GAVE_UP`` is the
        last if it has no end. ``_SOME`` is the last, with all blocks, if it did not follow some
        paths.
        """
        facts = dict(self._facts)
        key, outcome = self._test(flags, condition)
        facts[key] = not outcome
        self._add_bits(facts, flags, OPPOSITE.get(condition, ""))
        start = state_before(self._graph, self._way, self._names, position)
        before = frozenset(self._way.blocks[:position]) - {self._way.blocks[position]}
        # rounds of loops have different values: the short paths come first
        waiting = deque([_At(self._way.blocks[position], 0, start, {}, before)])
        found: set[tuple[Outcome, bool]] = set()
        seen: dict[int, set[_Key]] = {}
        while waiting:
            now = waiting.popleft()
            if not now.insn:
                if self._is_seen(now, seen):
                    continue
                self._left -= 1
            if self._left <= 0:
                yield _GAVE_UP, frozenset()
                return
            is_again = not now.insn and now.block in now.path
            now = now._replace(assumed={}) if is_again else now
            for one in self._after(now, {} if now.block in now.path else facts):
                if not isinstance(one, Outcome):
                    waiting.append(one)
                elif (one, other in now.path) not in found:
                    found.add((one, other in now.path))
                    yield one, now.path
        if any(len(states) >= _MOST_STATES for states in seen.values()):
            yield _SOME, frozenset(seen)

    def _is_seen(self, now: _At, seen: dict[int, set[_Key]]) -> bool:
        """Return True if a search was at this place in this state, or often enough; record it.

        Only blocks where paths join: the state at any other block follows from an earlier one.
        """
        if len(self._graph.before[now.block]) == 1:
            return False
        states, state = seen.setdefault(now.block, set()), self._state(now)
        if state in states or len(states) >= _MOST_STATES:
            return True
        states.add(state)
        return False

    # -- the code --

    def _after(self, now: _At, facts: _Facts) -> Iterator[_At | Outcome]:
        """Yield the places after the rest of a block, and the results if it leaves the function."""
        block, state, assumed = self._graph.blocks[now.block], now.state.copy(), now.assumed
        state.compared, state.target = None, 0
        for number in range(now.insn, len(block.insns)):
            insn, before = block.insns[number], state.flags
            for step in insn.steps:
                state.insn = step
                if step.op == "ccmp":
                    executed = self._holds(state.flags, step.condition, facts, assumed)
                    if executed is None:
                        yield from self._either(now, number, state, step)
                        return
                    state.compared = executed
                if step.flow is not Flow.BRANCH:
                    apply(state, self._as_known(state, step, facts, assumed))
            if insn.flow is Flow.BRANCH:
                yield from self._sides(now, state, before, facts)
                return
        if block.exit == "return":
            yield from self._returned(state, facts, assumed)
        elif block.exit:
            yield Outcome("other", ("tail", block.callee))
        for following in block.next:
            yield _At(following, 0, state, assumed, now.path | {now.block})

    def _either(self, now: _At, number: int, state: State, step: Insn) -> Iterator[_At]:
        """Yield the places after a conditional comparison that may or may not be executed."""
        for condition in (step.condition, OPPOSITE.get(step.condition, "")):
            after = state.copy()
            after.compared = condition == step.condition
            apply(after, step)
            assumed = self._assuming(now.assumed, state.flags, condition)
            yield _At(now.block, number + 1, after, assumed, now.path)

    def _sides(
        self, now: _At, state: State, before: Flags | None, facts: _Facts
    ) -> Iterator[_At | Outcome]:
        """Yield the sides of a conditional jump that are possible.

        ``before`` are the flags behind the jump: a jump that compares leaves them as they were.
        """
        block, path = self._graph.blocks[now.block], now.path | {now.block}
        condition = block.last.steps[-1].condition
        flags, state.flags = state.flags, before
        taken = self._holds(flags, condition, facts, now.assumed)
        for side, following in enumerate(block.next):
            if taken is not None and taken != bool(side):
                continue
            held = condition if side else OPPOSITE.get(condition, "")
            if following < 0:
                yield Outcome("other", ("tail", block.callee))
                continue
            assumed = now.assumed
            if taken is None:
                assumed = self._assuming(assumed, flags, held)
            yield _At(following, 0, state, assumed, path)

    def _as_known(self, state: State, step: Insn, facts: _Facts, assumed: _Facts) -> Insn:
        """Return a conditional move or a setcc as a plain instruction if its condition is known."""
        if step.op not in ("cmov", "set"):
            return step
        held = self._holds(state.flags, step.condition, facts, assumed)
        if held is None:
            return step
        target, *sources = step.operands
        if step.op == "set":
            state.write(target, state.const(int(held), target.size))
            return step._replace(op="nop", writes=())
        new, *old = sources
        return step._replace(op="mov", operands=(target, new if held else (old or [target])[0]))

    def _returned(self, state: State, facts: _Facts, assumed: _Facts) -> Iterator[Outcome]:
        waiting = [state.reg(self._graph.machine.result)]
        while waiting:
            node = waiting.pop()
            if node.kind == "select":
                held = self._holds(node.flags, node.name or "", facts, assumed)
                waiting += node.args if held is None else [node.args[not held]]
                continue
            yield from self._outcomes(node, facts, assumed)

    def _outcomes(self, node: Node, facts: _Facts, assumed: _Facts) -> Iterator[Outcome]:
        number, size = self.number(node), self.failure.size
        if any(kept.get(("zero", number, size)) for kept in (assumed, facts)):
            node = Node("const")
        found = numbers(self._settled(node, facts, assumed))
        if found and any(kept.get(("zero", number, size)) is False for kept in (assumed, facts)):
            found -= {0}
        is_made = number == self.number(self._made)
        if is_made and found == numbers(self._settled(node, self._facts, assumed)):
            yield Outcome("same", None)  # the changed test is no part of the value
        elif found is not None:
            yield from map(self._of_number, found)
        else:
            is_failure = self.failure.is_error and any(
                self._fails(kept, number) for kept in (assumed, facts)
            )
            yield Outcome("failure" if is_failure else "other", ("value", number))

    def _of_number(self, value: int) -> Outcome:
        """Return the outcome for the lower 32 bits of a result."""
        bits = 8 * self.failure.size
        value &= (1 << bits) - 1
        if (value ^ self.failure.result) & (1 << bits) - 1 == 0:
            return Outcome("same", None)
        signed = value - (1 << bits) if value >> (bits - 1) else value
        return Outcome("failure" if self.failure.is_alike(signed) else "other", value)

    def _settled(self, node: Node, facts: _Facts, assumed: _Facts, depth: int = 0) -> Node:
        """Return an expression with the outcomes of its tests, as far as they are known."""
        if node.kind == "cond":
            held = self._holds(node.flags, node.name or "", facts, assumed)
            return node if held is None else Node("const", value=int(held), size=node.size)
        if is_bit(node) or is_sign(node):
            tested, name = (node, "zero") if is_bit(node) else (node.args[0], "negative")
            keys = [(name, self.number(tested), size) for size in (node.size, INT, 8)]
            held = next((k[key] for k in (assumed, facts) for key in keys if key in k), None)
            number = int(not held) if name == "zero" else -int(bool(held))
            return node if held is None else Node("const", value=number, size=node.size)
        if node.kind != "op" or depth > _MAX_DEPTH:
            return node
        args = tuple(self._settled(one, facts, assumed, depth + 1) for one in node.args)
        return Node("op", node.step, node.at, name=node.name, args=args, size=node.size)

    def _fails(self, facts: _Facts, number: int) -> bool:
        """Return True if a test found that a value is an error."""
        if facts.get(("zero", number, INT)) is False or facts.get(("negative", number, INT)):
            return True
        tests = product(("a", "ae"), map(self._constant, _ERRORS))
        return any(facts.get(("cmp", number, 8, one, above)) for above, one in tests)

    # -- tests --

    def _held(self, moment: Moment) -> str | None:
        """Return the condition that held at a jump or a conditional comparison."""
        condition = moment.insn.condition
        if moment.insn.flow is Flow.BRANCH:
            taken = went(self._graph, self._way, moment)
        else:
            taken = self._way.compared(moment.position)
        if taken is None:
            return None
        return condition if taken else OPPOSITE.get(condition)

    def _holds(
        self, flags: Flags | None, condition: str, facts: _Facts, assumed: _Facts, depth: int = 0
    ) -> bool | None:
        """Return the outcome of a test; None if either outcome is possible."""
        if flags is None or depth > _MAX_DEPTH:
            return None
        if flags.op == "nzcv":
            return of_flags(condition, flags.left.value)
        held = holds(flags, condition, {})
        if held is None:
            held = self._by_bits(flags, condition, facts, assumed)
        if held is not None:
            return held
        key, outcome = self._test(flags, condition)
        for kept in (assumed, facts):
            held = kept.get(key)
            if held is not None:
                return bool(held) == outcome
        tested, _ = with_nothing(flags)
        if tested is not None and condition in ("e", "ne") and tested.kind == "cond":
            inner = self._holds(tested.flags, tested.name or "", facts, assumed, depth + 1)
            return None if inner is None else inner == (condition == "ne")
        for kept in (assumed, facts):
            if kept.get(("zero", self.number(flags.left), flags.size)):
                return holds(flags._replace(left=Node("const")), condition, {})
        # who asks if a call's result is negative takes other results than 0 for errors
        is_of_call = key[0] == "negative" and tested is not None and tested.kind == "call"
        sizes = (INT, 8) if is_of_call else ()
        zeros = [kept.get(("zero", key[1], size)) for kept in (assumed, facts) for size in sizes]
        return outcome if False in zeros else None

    def _by_bits(self, flags: Flags, condition: str, facts: _Facts, assumed: _Facts) -> bool | None:
        """Return the outcome of a test of bits that other tests found; None if it is open."""
        test = self._bits(flags, condition)
        if test is None:
            return None
        known, value = facts.get(test.key, _NO_BITS)
        newer, newest = assumed.get(test.key, _NO_BITS)
        known, value = (known | newer) & test.mask, value & ~newer | newest
        if (value ^ test.value) & known:
            return not test.is_equal
        return test.is_equal if known == test.mask else None

    def implies(self, flags: Flags, condition: str, other: Flags, held: str) -> bool:
        """Return True if bits that one test found leave another test only one outcome."""
        one, two = self._bits(flags, condition), self._bits(other, held)
        if one is None or two is None or one.number != two.number:
            return False
        if one.is_equal:
            differs = (one.value ^ two.value) & one.mask & two.mask
            return not two.is_equal if differs else two.is_equal and not two.mask & ~one.mask
        is_part = not one.mask & ~two.mask and not one.value and not two.value
        return is_part and not two.is_equal

    def _bits(self, flags: Flags, condition: str) -> _Bits | None:
        """Return a test for equality as a test of a value's bits."""
        is_equal = {"e": True, "ne": False}.get(condition)
        tested, size = with_nothing(flags)
        value = 0
        if flags.op == "bt" and flags.right.kind == "const" and condition in ("b", "ae"):
            bit = 1 << flags.right.value % (8 * flags.size)
            return _Bits(self.number(flags.left), bit, 0, condition == "ae")
        if tested is None and flags.op in ("cmp", "sub") and flags.right.kind == "const":
            tested, size, value = flags.left, flags.size, flags.right.value
        if is_equal is None or tested is None:
            return None
        mask = (1 << 8 * size) - 1
        if tested.kind == "op" and tested.name == "&" and tested.args[1].kind == "const":
            mask &= tested.args[1].value
            tested = tested.args[0]
        if value & (1 << 8 * size) - 1 & ~mask:
            return None
        if tested.kind == "op" and tested.name == "~":
            tested, value = tested.args[0], ~value
        return _Bits(self.number(tested), mask, value & mask, is_equal)

    def excludes(self, flags: Flags, condition: str) -> int | None:
        """Return the value (``value_of``) that a test found not to be a number, or without bits."""
        test = self._bits(flags, condition)
        if test is None:
            return None
        is_whole = test.mask == (1 << 8 * flags.size) - 1
        is_excluding = not test.is_equal if is_whole else test.is_equal == (not test.value)
        return self.value_of(flags) if is_excluding else None

    def value_of(self, flags: Flags) -> int | None:
        """Return a number for the value that is compared with a constant, without its mask."""
        test = self._bits(flags, "e") or self._bits(flags, "b")
        if test is not None:
            return test.number
        compared = self.compared(flags)
        return None if compared is None else compared[0]

    def compared(self, flags: Flags) -> tuple[int, int] | None:
        """Return what is compared with a constant, as a number for equal values, and the constant.

        None if it is another comparison.
        """
        tested, _ = with_nothing(flags)
        if tested is not None:
            return self.number(tested), 0
        if flags.op not in ("cmp", "sub") or flags.right.kind != "const":
            return None
        return self.number(flags.left), flags.right.value

    def _test(self, flags: Flags, condition: str) -> tuple[_Key, bool]:
        """Return a test without its outcome, and the outcome if ``condition`` holds."""
        opposite = OPPOSITE.get(condition, condition)
        tested, size = with_nothing(flags)
        if tested is not None and condition in ("e", "ne"):
            return ("zero", self.number(tested), size), condition == "e"
        if tested is not None and condition in ("s", "ns", "l", "ge"):
            return ("negative", self.number(tested), size), condition in ("s", "l")
        left, right = self.number(flags.left), self.number(flags.right)
        op, least = {"sub": "cmp"}.get(flags.op, flags.op), min(condition, opposite)
        return (op, left, flags.size, right, least), condition == least

    def _add(self, facts: dict[_Key, Any], flags: Flags, condition: str) -> None:
        """Add the outcome of a test, and of the tests whose outcomes it compares with 0."""
        key, outcome = self._test(flags, condition)
        facts[key] = outcome if facts.get(key, outcome) is outcome else None
        self._add_bits(facts, flags, condition)
        tested, _ = with_nothing(flags)
        if tested is None or condition not in ("e", "ne"):
            return
        waiting = [tested]
        while waiting:
            node = waiting.pop()
            if node.kind == "cond" and node.flags is not None:
                held = node.name or ""
                self._add(facts, node.flags, held if condition == "ne" else OPPOSITE.get(held, ""))
            elif node.kind == "op" and node.name == "|" and condition == "e":
                waiting += node.args

    def _add_bits(self, facts: dict[_Key, Any], flags: Flags, condition: str) -> None:
        """Add the bits that a test found, in place of what other tests found about them."""
        test = self._bits(flags, condition)
        if test is None:
            return
        known, value = facts.get(test.key, _NO_BITS)
        known, value = known & ~test.mask, value & ~test.mask
        if test.is_equal:
            known, value = known | test.mask, value | test.value
        elif not test.mask & test.mask - 1:  # one bit has only one other value
            known, value = known | test.mask, value | test.value ^ test.mask
        facts[test.key] = known, value

    def _assuming(self, assumed: _Facts, flags: Flags | None, condition: str) -> _Facts:
        if flags is None or not condition:
            return assumed
        after = dict(assumed)
        self._add(after, flags, condition)
        return after

    # -- values --

    def _note_tested(self, node: Node, depth: int = 0) -> None:
        number = self.number(node)
        if number not in self._tested and depth < _MAX_DEPTH:
            self._tested.add(number)
            self._memories.add(node.memory)
            for one in node.args:
                self._note_tested(one, depth + 1)

    def number(self, node: Node, depth: int = 0) -> int:
        """Return a number for a value. Equal values of different paths have the same number."""
        number = self._known.get(node)
        if number is None:
            number = self._numbers.setdefault(self._key(node, depth), len(self._numbers))
            self._known[node] = number
        return number

    def _key(self, node: Node, depth: int) -> _Key:
        if depth > _MAX_DEPTH:
            return ("deep", node.at)
        inner = tuple(self.number(one, depth + 1) for one in node.args)
        match node.kind:
            case "const" | "stack":
                own: _Key = (node.value,)
            case "param" | "current":
                own = (node.name,)
            case "load":
                own = (node.value, node.size, node.name, node.memory, inner)
            case "op":
                own = (node.name, node.size, inner)
            case "cond" | "select" if node.flags is not None:
                own = (*self._test(node.flags, node.name or ""), inner)
            case _:  # a call, or an unknown value
                own = (node.at, node.name, node.value)
        return (node.kind, *own)

    def _constant(self, value: int) -> int:
        return self.number(Node("const", value=value))

    def _state(self, now: _At) -> _Key:
        """Return what distinguishes the paths to the start of a block."""
        state, read = now.state, self._read_in(now.block)
        own: dict[object, int] = {}
        live_regs = sorted(name for name in state.regs if name in read)
        regs = {name: self._own(state.regs[name], own) for name in live_regs}
        slots = {at: self._own(one, own) for at, one in sorted(state.slots.items())}
        live = {*regs.values(), *slots.values()}
        assumed = frozenset(
            (_renamed(k, own), v)
            for k, v in now.assumed.items()
            if own.get(k[1], k[1]) in live and k[0] != "bits"
        )
        flags = state.flags
        asked = None if flags is None else _renamed(self._test(flags, "e")[0], own)
        is_read = self._reads_flags(now.block)
        return (
            frozenset(regs.items()),
            frozenset(slots.items()),
            assumed,
            asked if is_read else None,
            state.memory if state.memory in self._memories else -1,
            now.block in now.path,
        )

    def _own(self, node: Node, own: dict[object, int]) -> int:
        """Return the number of a value in a state.

        Paths that differ only in values that no test of the executed path reads are the same.
        """
        number = self.number(node)
        if node.kind in ("const", "stack", "param") or number in self._tested:
            return number
        return own.setdefault(number, -1 - len(own))

    def _reads_flags(self, index: int) -> bool:
        """Return True if a block uses the flags from before the block."""
        for step in (step for insn in self._graph.blocks[index].insns for step in insn.steps):
            if step.condition:
                return True
            if step.flags or step.flow is Flow.CALL:
                return False
        return False

    def _read_in(self, index: int) -> frozenset[str]:
        """Return the registers that a block, or a block behind it, may read."""
        if self._read is None:
            self._read = read_behind(self._graph)
        return self._read[index]


def _renamed(key: _Key, own: Mapping[object, int]) -> _Key:
    """Return a test with the numbers that values have in a state."""
    return tuple(own.get(one, one) if at in (1, 3) else one for at, one in enumerate(key))


def with_nothing(flags: Flags) -> tuple[Node | None, int]:
    """Return the value that a comparison compares with 0, and its size in bytes; else None."""
    left, right, size = flags.left, flags.right, flags.size
    if with_zero(flags) or flags.op == "result":
        return left, size
    symbol = {"test": "&", "and": "&", "or": "|", "xor": "^", "add": "+"}.get(flags.op)
    if symbol is None:
        return None, size
    if left is right and symbol in "&|":
        return left, size
    if left.kind == "const":
        left, right = right, left
    mask = right.value & (1 << 8 * size) - 1 if right.kind == "const" and symbol == "&" else 0
    whole = {(1 << 8 * size) - 1: size for size in (1, 2, 4, 8)}.get(mask)
    if whole:
        return left, whole
    return Node("op", name=symbol, args=(left, right), size=size), size


def of_flags(condition: str, number: int) -> bool | None:
    """Return True if a condition holds for arm64's flags as a number: N, Z, C, V in bits 3 to 0."""
    n, z, c, v = (bool(number >> at & 1) for at in (3, 2, 1, 0))
    held = {"e": z, "b": not c, "s": n, "o": v, "be": not c or z, "l": n != v, "le": z or n != v}
    if condition in held:
        return held[condition]
    opposite = held.get(OPPOSITE.get(condition, ""))
    return None if opposite is None else not opposite
