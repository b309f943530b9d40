# SPDX-License-Identifier: BSD-2-Clause
"""A followed function: its blocks, its probes, and the analysis of executed paths."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError, UnavailableError
from retsnoop_py.kernel.functions import Function, ResultKind
from retsnoop_py.path.blocks import Graph, cut
from retsnoop_py.path.decide import decide
from retsnoop_py.path.deduce import Called, Known, deduce, fitting, known_value
from retsnoop_py.path.failure import Failure
from retsnoop_py.path.follow import Way, follow
from retsnoop_py.path.insn import INT, Flow
from retsnoop_py.path.machines import machine_named
from retsnoop_py.path.names import Namer
from retsnoop_py.path.origin import Decided, Decision, Made, Returned
from retsnoop_py.path.parts import held_parts
from retsnoop_py.path.probes import BlockProbe, place_probes
from retsnoop_py.path.text import CodeSource, read_function
from retsnoop_py.path.variables import ReadVariables
from retsnoop_py.session.paths import Condition, Hit, Origin, Place
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.kernel.kallsyms import Symbol

__all__ = ["FunctionPaths", "read_paths"]

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
    ) -> tuple[Origin, tuple[Hit, ...]] | None:
        """Return the origin of a call without probe hits, and the values of its operands.

        ``arguments`` (by register) must determine the path; or ``arguments`` with ``calls``, which
        are the calls of ``traced`` functions. Return None if they do not. The condition has one hit
        for each of its tests.
        """
        try:
            found = self._deduced(arguments, result, calls, traced)
        except (DataError, IndexError, KeyError, ValueError):
            return None
        if not found:
            return None
        way, decision, _ = found[0]
        tests = _common([_tests_of(one.decided, known) for _, one, known in found if one.decided])
        decided = replace(tests[-1].test, also=tuple(one.test for one in tests[:-1]))
        numbers = {id(one.test): number for number, one in enumerate(tests)}
        numbers[id(decided)] = len(tests) - 1
        origin = self._origin((), way, decision)
        condition = self._condition(decided, lambda test: numbers[id(test)])
        return origin._replace(condition=condition), tuple(one.hit for one in tests)

    def _deduced(
        self, arguments: Known, result: int, calls: Sequence[Called], traced: Collection[str]
    ) -> list[tuple[Way, Decision, Known]]:
        """Return the possible paths, each with its decision and its known values.

        All of them have the same deciding condition. Return an empty list if they do not.
        """
        names = self._namer.name_of
        way = deduce(self.graph, names, arguments, result)
        ways = [(way, arguments)] if way is not None else []
        if not ways:
            ways = fitting(self.graph, names, arguments, result, calls, traced)
        found = [(way, self._decide(way, result), known) for way, known in ways]
        made = {one.returned.made if one.returned else None for _, one, _ in found}
        places = {
            (one.decided.address, one.decided.condition) if one.decided else None
            for _, one, _ in found
        }
        if not found or None in places or len(places) > 1 or not made <= _KNOWN:
            return []
        return found

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
    """Return True if ``one`` is ``x == 3``, and ``other`` is a test of the same ``x``."""
    flags, tested = one.flags, other.flags
    if flags is None or tested is None or flags.left is not tested.left:
        return False
    return one.condition == "e" and flags.op == "cmp" and flags.right.kind == "const"


def _joined(texts: Sequence[str]) -> str:
    """Return the conjunction of conditions, in C."""
    if len(texts) == 1:
        return texts[0]
    return " && ".join(f"({one})" if "||" in one else one for one in texts)
