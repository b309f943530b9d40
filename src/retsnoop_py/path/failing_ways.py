# SPDX-License-Identifier: BSD-2-Clause
"""Find out if all paths from a place in a function end in failures of any kind."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from retsnoop_py.path.asks import asks_for_failure, asks_for_sign, failing_side, read_behind
from retsnoop_py.path.blocks import Block, Graph
from retsnoop_py.path.failure import is_error
from retsnoop_py.path.holders import Holders
from retsnoop_py.path.insn import INT, Flow, Imm, Insn, Operand
from retsnoop_py.path.origin import Returned

__all__ = ["FailingWays"]

#: The search gives up after this many states.
_MAX_STATES = 20_000
#: Maximum number of calls with results that are tracked separately.
_MOST_GIVEN = 4


class _Failing(NamedTuple):
    """A reachable block, and the locations of values at its start.

    ``made`` is the result, ``failed`` any other failure, ``given`` the result of each call.
    """

    block: int
    made: Holders
    failed: Holders
    given: tuple[Holders, ...]

    def only(self, read: Collection[str]) -> _Failing:
        """Return the state without registers that no later instruction reads."""
        made, failed, *given = (
            one.without(
                [place for place in one.places if isinstance(place, str) and place not in read]
            )
            for one in (self.made, self.failed, *self.given)
        )
        return _Failing(self.block, made, failed, tuple(one for one in given if one.places))


class FailingWays:
    """The paths in a function's ``graph`` that end in failures; ``returned`` is such a failure.

    Paths through the blocks ``without`` do not count.
    """

    def __init__(self, graph: Graph, returned: Returned, *, without: Collection[int] = ()) -> None:
        self._graph = graph
        self._returned = returned
        self._without = {-1, *without}
        #: States from which all paths end in failures.
        self._only_fail: set[_Failing] = set()
        #: The result of :meth:`_read_in` for each block; None until it is computed.
        self._read: list[frozenset[str]] | None = None

    def from_block(
        self, start: int, made: Holders, failed: Holders, *, is_stored: bool
    ) -> bool | None:
        """Return True if a path from a block ends in the result, provided that all end in failures.

        Return None if a path may end in another value. ``made`` holds the result there, ``failed``
        another failure. ``is_stored``: paths from states of earlier calls end in the result.
        """
        none = Holders(made.machine, frozenset(), made.depth, made.frame)
        waiting = [_Failing(start, made, failed, ())]
        seen = {waiting[0]}
        returns_it = False
        while waiting:
            now = waiting.pop()
            block = self._graph.blocks[now.block]
            now, asked, is_known = self._through(now, block, none)
            if block.exit:
                returns = self._graph.machine.result
                if block.exit != "return" or returns not in now.made.places | now.failed.places:
                    return None
                returns_it = returns_it or returns in now.made.places
            failing = failing_side(block) if asked.places or is_known else None
            for side, following in enumerate(block.next):
                if following in self._without or (is_known and failing not in (None, side)):
                    continue
                after = now._replace(block=following)
                if side == failing:
                    after = after._replace(failed=now.failed.joined(asked))
                after = after.only(self._read_in(following))
                if after in self._only_fail:
                    returns_it = returns_it or is_stored
                elif after not in seen:
                    seen.add(after)
                    waiting.append(after)
            if len(seen) > _MAX_STATES:
                return None
        self._only_fail |= seen
        return returns_it

    def _through(
        self, now: _Failing, block: Block, none: Holders
    ) -> tuple[_Failing, Holders, bool]:
        """Return the state at the end of a block, and the value that its last comparison tests.

        The last result is True if the comparison tests a known failure.
        """
        asked, is_known = none, False
        for step in (step for insn in block.insns for step in insn.steps):
            if step.flags or step.flow is Flow.CALL:
                tested = _tested(none, step)
                asked = next((one for one in now.given if asks_for_failure(one, step)), none)
                if not asked.places and asks_for_sign(tested, step, block):
                    asked = tested
                is_known = any(asks_for_failure(one, step) for one in (now.made, now.failed))
            now = self._after(now, step)
        return now, asked, is_known

    def _read_in(self, index: int) -> frozenset[str]:
        """Return the registers that a block, or a block behind it, may read."""
        if self._read is None:
            self._read = read_behind(self._graph)
        return self._read[index]

    def _after(self, now: _Failing, insn: Insn) -> _Failing:
        """Return the state after an instruction."""
        result, every = self._graph.machine.result, (now.made, now.failed, *now.given)
        where: str | int | None = None
        if insn.flow is Flow.CALL:
            every = tuple(one.without(self._graph.machine.clobbered) for one in every)
            only = Holders(now.made.machine, frozenset((result,)), now.made.depth, now.made.frame)
            every = (*every, only)
        elif insn.op == "cmov":
            where = insn.writes[0]
            every = _either(every, where, insn.operands[-2:])
        elif (
            insn.op not in ("mov", "movsx", "movzx")
            or len(insn.operands) != 2
            or now.made.is_frame(insn)
        ):
            every = tuple(one.after_step(insn) for one in every)
            where = insn.writes[0] if insn.writes else None
        else:
            target, source = insn.operands
            where = now.made.place_of(target)
            if where is None:
                return now
            is_whole = min(target.size, source.size) >= INT
            every = tuple(
                one.also(where)
                if is_whole and one.place_of(source) in one.places
                else one.without((where,))
                for one in every
            )
            if isinstance(source, Imm) and is_error(source.value):
                every = (every[0], every[1].also(where), *every[2:])
        made, failed, *given = every
        if insn.address == self._returned.address and where is not None:
            made = made.also(where)
        kept = [one for one in given if one.places]
        return _Failing(now.block, made, failed, tuple(kept[-_MOST_GIVEN:]))


def _tested(none: Holders, step: Insn) -> Holders:
    """Return the location of the value that an instruction tests: if negative, it is an error."""
    place = none.place_of(step.compared[0]) if step.op == "test" and step.operands else None
    return none if place is None else none.also(place)


def _either(
    every: tuple[Holders, ...], where: str, values: tuple[Operand, ...]
) -> tuple[Holders, ...]:
    """Return the state after a write of either of two values: the properties of both values.

    If the values are the result and another failure, the written value may be the result, and is a
    failure in either case.
    """
    are = [[one.place_of(value) in one.places for one in every] for value in values]
    is_made = [held[0] for held in are]
    fails = [
        held[0] or held[1] or (isinstance(value, Imm) and is_error(value.value))
        for held, value in zip(are, values, strict=True)
    ]
    both = [all(held) for held in zip(*are, strict=True)]
    if all(fails):
        both[0] = any(is_made)
        both[1] = not both[0]
    return tuple(
        one.also(where) if held else one.without((where,))
        for one, held in zip(every, both, strict=True)
    )
