# SPDX-License-Identifier: BSD-2-Clause
"""Find the deciding condition of a loop that rejected all elements.

``for each element: if (fits(element)) return success; return -ENOENT``: the last test of the last
element decides no more than the tests of the other elements. The element that passed the most tests
explains the failure best, so its rejection is the condition to report. It is a choice, not an
observation: :attr:`~retsnoop_py.path.origin.Decided.elements` is then larger than 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow
from retsnoop_py.path.values import Moment

__all__ = ["Rejected", "best_rejected"]

#: Maximum number of blocks that are examined as the start of a loop's round.
_MOST_HEADS = 24


class Rejected(NamedTuple):
    """The jump that rejected an element: the index of its moment; and the number of elements."""

    number: int
    elements: int


def best_rejected(
    graph: Graph,
    way: Way,
    moments: Sequence[Moment],
    decided: int,
    rejects: Callable[[int, int], bool],
) -> Rejected | None:
    """Return the rejection of the element that passed the most tests; None without such a loop.

    ``decided`` is the index of the deciding moment. ``rejects(number, head)`` tells if only the
    other side of a jump may lead to success without passing the block ``head``. A loop's round may
    begin with any of its blocks: compilers rotate loops. The right one gives the most rejections.
    """
    heads = _repeated(way.blocks[: moments[decided].position + 1])
    start = next((at for at, block in enumerate(way.blocks) if block in heads), 0)
    jumps = [
        at
        for at, one in enumerate(moments[:decided])
        if one.insn.flow is Flow.BRANCH and one.position >= start
    ]
    best: list[int] = []
    for head in heads:
        if rejects(decided, head):
            found = [at for at in jumps if rejects(at, head)]
            best = max(best, [*found, decided], key=len)
    if len(best) < 2:
        return None
    number, most = decided, 0
    for at in best:
        end = moments[at].position + 1
        tests = {one for one in way.blocks[start:end] if graph.blocks[one].is_branch}
        if len(tests) >= most:
            number, most = at, len(tests)
        start = end
    return Rejected(number, len(best))


def _repeated(blocks: Sequence[int]) -> list[int]:
    """Return the blocks that ran more than once, in the order of their first run."""
    counts: dict[int, int] = {}
    for block in blocks:
        counts[block] = counts.get(block, 0) + 1
    return [block for block, count in counts.items() if count > 1][:_MOST_HEADS]
