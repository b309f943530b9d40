# SPDX-License-Identifier: BSD-2-Clause
"""Find the deciding condition of a loop that rejected all elements.

``for each element: if (fits(element)) return success; return -ENOENT``: the last test of the last
element decides no more than the tests of the other elements. The element that passed the most tests
explains the failure best, so its rejection is the condition to report. It is a choice, not an
observation: :attr:`~retsnoop_py.path.origin.Decided.elements` is then larger than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow
from retsnoop_py.path.values import Moment

__all__ = ["Rejected", "best_rejected"]

#: Maximum number of nested or successive loops that are examined.
_MOST_LOOPS = 8


class Rejected(NamedTuple):
    """The jump that rejected an element: the index of its moment; and the number of elements."""

    number: int
    elements: int


def best_rejected(
    graph: Graph,
    way: Way,
    moments: Sequence[Moment],
    decided: int,
    may_succeed: Callable[[int, int], bool],
) -> Rejected | None:
    """Return the rejection of the element that passed the most tests; None without such a loop.

    ``decided`` is the index of the deciding moment. ``may_succeed(number, head)`` tells if the
    other side of a jump leads to success without passing the block ``head``. A loop rejects its
    elements if each round has such a jump.
    """
    last = moments[decided].position
    for starts in _loops(way.blocks, last):
        head = way.blocks[starts[0]]
        if not may_succeed(decided, head):
            continue
        best, most = decided, 0
        for start, end in zip(starts, (*starts[1:], last + 1), strict=True):
            number = _rejection(moments, start, end, head, may_succeed)
            if number is None:
                break
            tests = {
                way.blocks[at] for at in range(start, end) if graph.blocks[way.blocks[at]].is_branch
            }
            if len(tests) >= most:
                best, most = number, len(tests)
        else:
            return Rejected(decided if best > decided else best, len(starts))
    return None


def _loops(blocks: Sequence[int], last: int) -> Iterator[list[int]]:
    """Yield the positions of each loop's first block before ``last``, the outermost loop first."""
    places: dict[int, list[int]] = {}
    for at, block in enumerate(blocks[: last + 1]):
        places.setdefault(block, []).append(at)
    found = 0
    for starts in places.values():
        if len(starts) > 1 and found < _MOST_LOOPS:
            found += 1
            yield starts


def _rejection(
    moments: Sequence[Moment],
    start: int,
    end: int,
    head: int,
    may_succeed: Callable[[int, int], bool],
) -> int | None:
    """Return the last jump of a round, from ``start`` to ``end``, that rejected its element."""
    for number in range(len(moments) - 1, -1, -1):
        moment = moments[number]
        is_jump = start <= moment.position < end and moment.insn.flow is Flow.BRANCH
        if is_jump and may_succeed(number, head):
            return number
    return None
