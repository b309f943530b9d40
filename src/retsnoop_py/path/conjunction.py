# SPDX-License-Identifier: BSD-2-Clause
"""Find the other tests of the deciding statement: ``A`` in ``A && B``, if ``B`` decided.

These tests are earlier branches. If one of them had come out otherwise, and all else had stayed
equal, the function could have returned what it returns if the deciding test comes out otherwise
(:mod:`retsnoop_py.path.otherwise`). Only tests may be between the two branches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.cases import is_case, named_cases
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow, Insn, Mem
from retsnoop_py.path.loops import Rounds
from retsnoop_py.path.origin import Decided, decided_by, is_settled, outcome_of
from retsnoop_py.path.otherwise import Avoided, Otherwise
from retsnoop_py.path.values import Flags, Moment, Node, Run
from retsnoop_py.value import replace

__all__ = ["EarlierTests"]

#: Maximum number of earlier tests that are printed with a condition.
_MOST = 5
_MAX_DEPTH = 12
#: From so many tests on, the cases that a value is not chose what the function does.
_MANY_CASES = 3
_RANGES = frozenset({"a", "ae", "b", "be", "g", "ge", "l", "le"})


class EarlierTests:
    """The earlier tests of the condition that decided the result of a call that took ``way``."""

    def __init__(self, graph: Graph, way: Way, run: Run, otherwise: Otherwise) -> None:
        self._graph = graph
        self._way = way
        self._run = run
        self._otherwise = otherwise

    def of(self, decided: Decided, is_about_result: Callable[[Moment], bool]) -> Decided:
        """Return ``decided`` with the tests before it, in the order of execution.

        ``is_about_result`` tells if a jump only tests the result.
        """
        is_given = decided.checks and bool(_calls(decided.flags))
        if is_given or decided.position < 0 or decided.flags is None:
            return decided
        own, position = _AvoidedBy(self._otherwise, decided), decided.position
        #: The case of a switch that compilers test behind the deciding test.
        later = [one for one in decided.also if one.step > decided.step]
        found = [
            one for one in decided.also if one not in later and own.is_avoided_by(one, position)
        ]
        earliest = found[0] if found else decided
        tested, passed = _calls(decided.flags), list(found)
        rounds = Rounds(self._graph, self._way.blocks)
        #: Another check is between. Before it, ``if (A) return 0`` is no part of the condition.
        is_apart = False
        for at in range(len(self._run.moments) - 1, -1, -1):
            moment = self._run.moments[at]
            if moment.step >= earliest.step or rounds.is_over(moment, decided):
                continue
            quiet = _is_quiet(self._graph, self._way, moment, position, tested)
            if len(found) >= _MOST or not quiet:
                break
            test = self._test(moment)
            passed = passed if test is None else [test, *passed]
            if test is None:
                continue
            if not own.is_avoided_by(test, test.position, must_join=is_apart):
                is_apart = True
                continue
            if not is_about_result(moment) and not _is_of_chosen(moment.flags):
                found.insert(0, test)
            tested |= _calls(moment.flags)
            position = moment.position
        others = [one for one in passed if not any(one is part for part in found)]
        cases = is_case(others, decided, self._otherwise.number)
        found = named_cases(found, passed, decided, self._otherwise.number)
        kept = [
            one
            for one in self._without_cases(found, decided)
            if one.flags is None
            or not self._otherwise.implies(
                decided.flags, decided.condition, one.flags, one.condition
            )
        ]
        return replace(decided, also=(*kept, *later), cases=cases)

    def _without_cases(self, found: Sequence[Decided], decided: Decided) -> Iterator[Decided]:
        """Leave out the tests that chose the case of a switch, or of several ``if (flags & ...)``.

        They tell which other cases it was not: several numbers that a value differs from, or many
        bits or ranges. Of the value that decided, all tests count.
        """
        compared = [self._differs_from(one) for one in found]
        excluding = [self._excludes(one) for one in found]
        own = {self._value(decided), *(self._differs_from(decided) or ())[:1]}
        for test, value, case in zip(found, compared, excluding, strict=True):
            is_case = value is not None and any(
                one is not None and one[0] == value[0] and one[1] != value[1] for one in compared
            )
            is_case = is_case or (case is not None and excluding.count(case) >= _MANY_CASES)
            if not is_case or case in own or (value is not None and value[0] in own):
                yield test

    def _excludes(self, test: Decided) -> int | None:
        """Return the value, as a number, of which a test excluded cases: numbers, a range, bits."""
        if test.flags is None:
            return None
        if test.condition in _RANGES and self._otherwise.compared(test.flags) is not None:
            return self._value(test)
        return self._otherwise.excludes(test.flags, test.condition)

    def _value(self, test: Decided) -> int | None:
        return None if test.flags is None else self._otherwise.value_of(test.flags)

    def _differs_from(self, test: Decided) -> tuple[int, int] | None:
        """Return a value, as a number, and the constant that it differs from by this test."""
        if test.condition != "ne" or test.flags is None:
            return None
        return self._otherwise.compared(test.flags)

    def _test(self, moment: Moment) -> Decided | None:
        """Return a jump or a conditional comparison with its outcome; None if it was settled."""
        taken = outcome_of(self._graph, self._way, moment)
        if taken is None or moment.insn.flow is Flow.INDIRECT or is_settled(moment):
            return None
        return replace(decided_by(moment, taken), position=moment.position)


class _AvoidedBy:
    """The results that the deciding test excluded. They are searched when they are needed."""

    def __init__(self, otherwise: Otherwise, decided: Decided) -> None:
        self._otherwise = otherwise
        self._decided = decided
        self._results: Avoided | None = None

    def is_avoided_by(self, test: Decided, position: int, *, must_join: bool = False) -> bool:
        """Return True if ``test``, in the block at ``position``, excluded one of them too.

        ``must_join``: the paths to a success must join before the function ends.
        """
        decided = self._decided
        if test.flags is None or decided.flags is None:
            return False
        if self._results is None:
            self._results = self._otherwise.avoided_by(
                decided.position, decided.flags, decided.condition
            )
        return self._otherwise.avoids(
            position, test.flags, test.condition, self._results, must_join=must_join
        )


def _calls(flags: Flags | None) -> set[int]:
    """Return the addresses of the calls with results that a comparison reads."""
    return {node.at for node in _parts(flags) if node.kind == "call"}


def _is_of_chosen(flags: Flags | None) -> bool:
    """Return True if a comparison reads a value that another condition chose.

    ``flags |= ...`` in an ``if`` makes such values. Nobody can read a condition of conditions.
    """
    return any(node.kind == "select" for node in _parts(flags))


def _parts(flags: Flags | None) -> Iterator[Node]:
    """Yield the values that a comparison reads; not those of which a call made another one."""
    waiting = [(one, 0) for one in (flags.left, flags.right)] if flags is not None else []
    while waiting:
        node, depth = waiting.pop()
        yield node
        if node.kind != "call" and depth < _MAX_DEPTH:
            waiting += [(one, depth + 1) for one in node.args]


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


def _only_tests(graph: Graph, step: Insn, tested: set[int]) -> bool:
    if step.flow is Flow.CALL:
        return step.address in tested
    to = step.operands[0] if step.operands else None
    if not isinstance(to, Mem) or step.op not in ("mov", "add", "sub", "and", "or", "xor", "xchg"):
        return step.flow is not Flow.INDIRECT
    return to.base in (graph.machine.stack, graph.machine.frame)
