# SPDX-License-Identifier: BSD-2-Clause
"""A followed function: its blocks, its probes, and the analysis of executed paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError, UnavailableError
from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.decide import decide
from retsnoop_py.path.deduce import (
    Called,
    Known,
    deduce,
    fitting,
    known_value,
    passed_values,
)
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.follow import Way, follow
from retsnoop_py.path.insn import INT, Flow
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.names import Namer
from retsnoop_py.path.origin import Decided, Decision, Made, Returned
from retsnoop_py.path.otherwise import with_nothing
from retsnoop_py.path.parts import held_parts
from retsnoop_py.path.probes import BlockProbe, place_probes
from retsnoop_py.path.text import CodeSource, read_function
from retsnoop_py.path.variables import ReadVariables
from retsnoop_py.session.paths import Condition, Hit, Origin, Place
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.kallsyms import Symbol

__all__ = ["Deduced", "FunctionPaths", "read_paths"]

#: A value is not 0 if it is above such a number, or not below.
_ABOVE = {"a": 0, "g": 0, "ae": 1, "ge": 1}
#: The kinds of origin that confirm the recorded result.
_KNOWN = {Made.CONSTANT, Made.COMPUTED, Made.CALLEE}


def read_paths(
    facts: KernelFacts,
    function: Function,
    source: CodeSource,
    variables: ReadVariables | None = None,
) -> FunctionPaths:
    """Return the blocks of ``function``. Raises UnavailableError if its code cannot be read.

    ``variables`` returns the local variables at an address, if known.
    """
    machine = machine_named(facts.machine)
    symbols = facts.kallsyms
    hit = symbols.lookup(function.address)
    if hit is None or hit[1]:
        raise UnavailableError("it is not in /proc/kallsyms any more")
    symbol: Symbol = hit[0]
    code = read_function(symbol, symbols, source, machine)
    if code is None:
        raise UnavailableError(f"{source.name} does not have its code")

    first = {symbols.address_of(name): name for name in machine.first_names}

    @cache
    def name_of(address: int) -> str | None:
        if address in first:
            return first[address]
        found = symbols.lookup(address)
        if found and not found[1]:
            return found[0].name
        size = machine.veneer_size
        behind = machine.veneer(source.read(address, size), address) if size else None
        found = symbols.lookup(behind) if behind is not None else None
        return found[0].name if found and not found[1] else None

    namer = Namer(facts, function, name_of, machine, variables)
    return FunctionPaths(function, cut(code, machine, name_of, source.read), namer)


class FunctionPaths:
    """A function: its graph, the places of its probes, and the analysis of its paths."""

    def __init__(self, function: Function, graph: Graph, namer: Namer) -> None:
        self.function = function
        self.graph = graph
        self.probes = place_probes(graph)
        #: The attached probes, by block.
        self.probed: dict[int, BlockProbe] = {}
        self._namer = namer
        namer.learn(graph)

    def origin(
        self,
        hits: Sequence[int],
        result: int,
        *,
        is_cut: bool,
        held: Sequence[bool | None] = (),
        targets: Sequence[int] = (),
        handed: int = 0,
    ) -> Origin:
        """Return the origin of ``result`` on the path with these probe hits, in this order.

        For each hit, ``held`` is True if the conditional comparison there was executed, and
        ``targets`` is the target of a call through a pointer there, or 0. ``handed``: see
        :func:`decide`.
        """
        way = follow(self.graph, hits, self.probed, is_cut=is_cut, held=held, targets=targets)
        try:
            decision = self._decide(way, result, handed)
        except (DataError, IndexError, KeyError, ValueError) as error:
            decision = Decision(None, None, f"its code is not understood: {error}")
        blocks = tuple(self.graph.blocks[index].start for index in way.blocks)
        return self._origin(blocks, way, decision)

    def parameter(self, name: str) -> int | None:
        """Return the number of the argument register of a parameter, from 0; None if unknown."""
        register = self._namer.register_of(name)
        arguments = self.graph.machine.arguments
        return arguments.index(register) if register in arguments else None

    def member_offset(self, name: str, members: str) -> int | None:
        """Return the distance in bytes of ``->a.b`` behind the pointer in a parameter, or None."""
        return self._namer.member_offset(name, members)

    def numbers_behind(self, name: str) -> dict[str, tuple[int, int]]:
        """Return the numbers in the struct behind a parameter: offset and size by member name."""
        return self._namer.numbers_behind(name)

    def size_behind(self, function: str, argument: int) -> int:
        """Return the size in bytes of what a function's argument points to; 0 if unknown."""
        return self._namer.size_behind(function, argument)

    def name_of(self, address: int) -> str | None:
        """Return the name of the function at an address, or None."""
        return self._namer.name_of(address)

    def calls(self) -> set[str]:
        """Return the names of the functions that the function calls or jumps to."""
        insns = [one for block in self.graph.blocks for one in block.insns]
        targets = [one.target for one in insns if one.flow is Flow.CALL and one.target]
        named = (*map(self._namer.name_of, targets), *(one.callee for one in self.graph.blocks))
        return {name for name in named if name}

    def deduced(
        self,
        arguments: Known,
        result: int,
        calls: Sequence[Called] = (),
        traced: Collection[str] = (),
    ) -> Deduced | None:
        """Return the origin of a call without probe hits, and the values of its operands.

        All paths that ``arguments`` (by register) allow must have the same deciding condition, or
        return the result of the same function. ``calls`` are the calls of ``traced`` functions.
        Return None if several conditions are possible. The condition has one hit for each of its
        tests.
        """
        try:
            found = self._deduced(arguments, result, calls, traced)
        except (DataError, IndexError, KeyError, ValueError):
            return None
        if not found:
            return None
        way, decision, _ = found[0]
        origin = self._origin((), way, decision)
        passed = self._passed([(one.returned, known) for _, one, known in found])
        if decision.decided is None:
            return Deduced(origin, (), passed)
        tests = _common([_tests_of(one.decided, known) for _, one, known in found if one.decided])
        decided = replace(tests[-1].test, also=tuple(one.test for one in tests[:-1]))
        numbers = {id(one.test): number for number, one in enumerate(tests)}
        numbers[id(decided)] = len(tests) - 1
        condition = self._condition(decided, lambda test: numbers[id(test)])
        return Deduced(
            origin._replace(condition=condition), tuple(one.hit for one in tests), passed
        )

    def _deduced(
        self,
        arguments: Known,
        result: int,
        calls: Sequence[Called],
        traced: Collection[str],
    ) -> list[tuple[Way, Decision, Known]]:
        """Return the possible paths, each with its decision and its known values.

        All of them have the same deciding condition, or none and the same callee. Return an empty
        list if they do not.
        """
        names = self._namer.name_of
        way = deduce(self.graph, names, arguments, result)
        ways = [(way, arguments)] if way is not None else []
        if not ways:
            ways = fitting(self.graph, names, arguments, result, calls, traced)
        found: list[tuple[Way, Decision, Known]] = []
        ends: set[tuple[object, ...]] = set()
        for one, known in ways:
            decision = self._decide(one, result)
            returned, decided = decision.returned, decision.decided
            if returned is None or returned.made not in _KNOWN:
                return []
            if decided is not None:
                ends.add((decided.address, decided.condition))
            elif returned.callee is not None:
                ends.add((returned.callee,))
            else:
                return []
            if len(ends) > 1:
                return []
            found.append((one, decision, known))
        return found

    def passed_at(self, blocks: Sequence[int], result: int, arguments: Known) -> Known:
        """Return what is known of the arguments of the function that gave ``result``.

        ``blocks`` are the addresses of the executed blocks, ``arguments`` the known values of the
        call. The result is empty if no function gave it, or if blocks are missing.
        """
        found = [self.graph.at(address) for address in blocks]
        indexes = [one.index for one in found if one is not None]
        if not indexes or indexes[0] != self.graph.entry or len(indexes) < len(blocks):
            return {}
        if any(after not in self.graph.blocks[before].next for before, after in pairwise(indexes)):
            return {}
        try:
            returned = self._decide(Way(tuple(indexes)), result).returned
        except (DataError, IndexError, KeyError, ValueError):
            return {}
        return self._passed([(returned, arguments)])

    def _passed(self, each: Sequence[tuple[Returned | None, Known]]) -> Known:
        """Return the known arguments of the function that gave the result on all paths."""
        registers = self.graph.machine.arguments
        rows = [
            passed_values(one.node, registers, known)
            for one, known in each
            if one is not None and one.made is Made.CALLEE
        ]
        if not rows or len(rows) < len(each):
            return {}
        first, *others = rows
        return {key: one for key, one in first.items() if all(r.get(key) == one for r in others)}

    def _decide(self, way: Way, result: int, handed: int = 0) -> Decision:
        code, lost = self.graph.code, self.graph.lost
        if lost:
            return Decision(None, None, f"its code is not understood from {code.offset(lost)} on")
        failure = self._failure(result)
        return decide(self.graph, way, failure, self._namer.name_of, handed)

    def _failure(self, result: int) -> Failure:
        """Return the result register as the function's failure; a bool has one byte."""
        if self.function.result.kind is ResultKind.BOOL:
            return Failure(result & 0xFF, 1)
        return Failure(result)

    def _origin(self, blocks: tuple[int, ...], way: Way, decision: Decision) -> Origin:
        returned, decided = decision.returned, decision.decided
        return Origin(
            blocks,
            returned.made.value if returned else "unknown",
            returned.callee if returned else None,
            self._returned(returned) if returned else None,
            self._decided(decided) if decided else None,
            self._condition(decided, partial(self._hit_of, way)) if decided else None,
            decision.unknown,
            self._argument(returned) if returned else 0,
        )

    def _argument(self, returned: Returned) -> int:
        """Return the number of the argument that was the result, from 1; 0 if none was."""
        arguments, name = self.graph.machine.arguments, returned.node.name
        is_one = returned.made is Made.ARGUMENT and name in arguments
        return arguments.index(str(name)) + 1 if is_one else 0

    def _insn_text(self, address: int) -> str:
        insn = self.graph.insn_at(address)
        return insn.text if insn is not None else ""

    def _returned(self, returned: Returned) -> Place:
        shared = "shared" if returned.ways > 1 else ""
        return Place(returned.address, self._insn_text(returned.address), shared)

    def _decided(self, decided: Decided) -> Place:
        compare = decided.flags.insn if decided.flags else None
        text = self._insn_text(decided.address)
        if compare is not None and compare.address != decided.address:
            text = f"{compare.text}; {text}"
        note = "check" if decided.checks else "ended" if decided.ended else ""
        note = f"{decided.elements} elements" if decided.elements > 1 else note
        return Place(decided.address, text, note)

    def _condition(self, decided: Decided, hit_of: Callable[[Decided], int]) -> Condition:
        """Return the condition of all tests; ``hit_of`` returns the hit with a test's values."""
        own = self._namer.condition(decided).text
        operands = self._namer.operands(decided, hit_of(decided))
        texts: dict[str, None] = {}
        unnamed = 0
        for one in decided.also:
            if any(_implies(other, one) for other in (decided, *decided.also) if other is not one):
                continue
            text = self._namer.condition(one).text if own else ""
            unnamed += not text
            if text and text != own:
                texts[text] = None
                operands = (*self._namer.operands(one, hit_of(one)), *operands)
        text = _joined([*texts, own])
        taken = decided.taken if decided.moment else None
        return Condition(text, operands, taken, unnamed, decided.cases)

    def _hit_of(self, way: Way, decided: Decided) -> int:
        """Return the index of the hit at which the operands were read; -1 if they were not."""
        if decided.flags is None:
            return -1
        compare = decided.flags.insn.address
        for position in range(decided.position, -1, -1):
            index = way.blocks[position]
            block = self.graph.blocks[index]
            if block.start <= compare < block.last.end:
                probe = self.probed.get(index)
                at = probe.compare.address if probe and probe.compare else None
                return way.hits[position] if at == compare else -1
        return -1


class Deduced(NamedTuple):
    """The origin of a call's result, and a hit with the operands for each test of its condition.

    ``passed``: what is known of the arguments of the function that gave the result.
    """

    origin: Origin
    hits: tuple[Hit, ...]
    passed: Known


class _Deduced(NamedTuple):
    """A test of a deduced condition, and its operands."""

    test: Decided
    hit: Hit


def _tests_of(decided: Decided, known: Known) -> list[_Deduced]:
    """Return the tests of a condition that held, the deciding one last."""
    tests = (*decided.also, replace(decided, also=()))
    return [_Deduced(part, _hit(part, known)) for one in tests for part in held_parts(one, known)]


def _common(each: Sequence[list[_Deduced]]) -> list[_Deduced]:
    """Return the tests that all possible paths made; values that differ count as unread."""
    first, *others = each
    by_test = [{_key(one): one.hit for one in tests} for tests in others]
    return [
        one._replace(hit=_same_values(one.hit, [hits[_key(one)] for hits in by_test]))
        for one in first
        if all(_key(one) in hits for hits in by_test)
    ]


def _key(one: _Deduced) -> tuple[int, str]:
    return one.test.address, one.test.condition


def _hit(test: Decided, known: Known) -> Hit:
    """Return the operands of a test as a hit."""
    flags = test.flags
    sides = (flags.left, flags.right) if flags is not None else ()
    size = flags.size if flags is not None else INT
    values = [known_value(one, known, size) for one in sides]
    unread = sum(1 << side for side, value in enumerate(values) if value is None)
    return Hit(0, unread, *[value or 0 for value in (*values, None, None)[:2]])


def _same_values(hit: Hit, others: Sequence[Hit]) -> Hit:
    left = any(one.unread & 1 or one.left != hit.left for one in others)
    right = any(one.unread & 2 or one.right != hit.right for one in others)
    return hit._replace(unread=hit.unread | left | right << 1)


def _implies(one: Decided, other: Decided) -> bool:
    """Return True if ``one`` is a test such as ``x == 3`` or ``x > 3``, which implies ``other``."""
    flags, tested = one.flags, other.flags
    if flags is None or tested is None or flags.op != "cmp" or flags.right.kind != "const":
        return False
    if one.condition == "e":
        return flags.left is tested.left
    least = _ABOVE.get(one.condition)
    if least is None or flags.right.value < least or other.condition != "ne":
        return False
    value, size = with_nothing(tested)
    return value is flags.left and size >= flags.size


def _joined(texts: Sequence[str]) -> str:
    """Return the conjunction of conditions, in C."""
    if len(texts) == 1:
        return texts[0]
    return " && ".join(f"({one})" if "||" in one else one for one in texts)
