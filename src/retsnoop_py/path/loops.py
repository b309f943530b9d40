# SPDX-License-Identifier: BSD-2-Clause
"""Find the deciding condition of a loop that rejected all elements.

``for each element: if (fits(element)) return success; return -ENOENT``: the last test of the last
element decides no more than the tests of the other elements. The element that passed the most tests
explains the failure best, so its rejection is the condition to report. It is a choice, not an
observation: :attr:`~retsnoop_py.path.origin.Decided.elements` is then larger than 1.

The test for a further element rejects no element. If it decided, none of the elements matched. That
is an observation.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from retsnoop_py.path.blocks import Graph
from retsnoop_py.path.follow import Way
from retsnoop_py.path.insn import Flow
from retsnoop_py.path.origin import Decided
from retsnoop_py.path.values import Flags, Moment, Node

__all__ = ["Rejected", "Rounds", "best_rejected", "found_no_further"]

#: Maximum number of blocks that are examined as the start of a loop's round.
_MOST_HEADS = 24
_MAX_DEPTH = 6
_MASK = (1 << 64) - 1
#: Values that are the same if they were computed in the same way.
_EXPRESSIONS = frozenset({"const", "param", "load", "op", "stack", "current"})


class Rejected(NamedTuple):
    """The jump that rejected an element: the index of its moment; and the number of elements."""

    number: int
    elements: int


def best_rejected(
    graph: Graph,
    way: Way,
    moments: Sequence[Moment],
    decided: int,
    rejects: Callable[[int, int, int], bool],
    loop_tests: Collection[int],
) -> Rejected | None:
    """Return the rejection of the element that passed the most tests; None without such a loop.

    ``decided`` is the index of the deciding moment. ``rejects(number, head, block)`` tells if only
    the other side of a jump may lead to success without passing the block ``head``, and if it may
    also avoid ``block``. The jumps at the addresses ``loop_tests`` test for a further element. A
    loop's round may begin with any of its blocks: compilers rotate loops. The right one gives the
    most rejections.

    If the other side of an earlier jump leads to success only through the deciding test, that test
    is behind the loop: the jump rejected nothing.
    """
    own = way.blocks[moments[decided].position]
    heads = _repeated(way.blocks[: moments[decided].position + 1])
    start = next((at for at, block in enumerate(way.blocks) if block in heads), 0)
    jumps = [
        at
        for at, one in enumerate(moments[:decided])
        if one.insn.flow is Flow.BRANCH
        and one.position >= start
        and one.insn.address not in loop_tests
    ]
    best: list[int] = []
    for head in heads:
        if rejects(decided, head, -1):
            found = [at for at in jumps if rejects(at, head, own)]
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


class Rounds:
    """The rounds of loops on a path of ``blocks``."""

    def __init__(self, graph: Graph, blocks: Sequence[int]) -> None:
        self._graph = graph
        self._blocks = blocks
        #: For each position, the first block of the loop of which a further round begins there.
        self._begins: dict[int, int] = {}
        self._from = len(blocks)

    def is_over(self, moment: Moment, decided: Decided) -> bool:
        """Return True if a jump belongs to a round of a loop that ended before ``decided``.

        The test for a further element does not belong to a round.
        """
        block, position = self._blocks[moment.position], decided.position
        if decided.ended and self._is_in_loop_of(self._blocks[position], block):
            return True
        self._learn(moment.position)
        return any(
            self._is_in_loop_of(head, block) and self._dominates(head, block)
            for at, head in self._begins.items()
            if moment.position < at <= position
        )

    def _learn(self, start: int) -> None:
        """Find the beginnings of rounds from the position ``start`` on."""
        for at in range(start, self._from):
            before, block = self._blocks[at - 1] if at else -1, self._blocks[at]
            if before >= 0 and block in self._blocks[:at] and self._dominates(block, before):
                self._begins[at] = block
        self._from = min(self._from, start)

    def _dominates(self, block: int, other: int) -> bool:
        """Return True if all paths to the block ``other`` pass ``block``."""
        graph = self._graph
        return block in (other, graph.entry) or other not in graph.reachable(graph.entry, block)

    def _is_in_loop_of(self, block: int, other: int) -> bool:
        """Return True if a path leads from each of two blocks to the other one."""
        return other in self._graph.reachable(block) and block in self._graph.reachable(other)


def _repeated(blocks: Sequence[int]) -> list[int]:
    """Return the blocks that ran more than once, in the order of their first run."""
    counts: dict[int, int] = {}
    for block in blocks:
        counts[block] = counts.get(block, 0) + 1
    return [block for block, count in counts.items() if count > 1][:_MOST_HEADS]


def found_no_further(moments: Sequence[Moment], decided: int) -> bool:
    """Return True if the test ``decided``, by which a loop ended, found no further element.

    Such a test compares a cursor: a counter, or a pointer to the next element. If the loop compared
    the cursor with another value too, either test may be that for a further element.
    """
    last = moments[decided].flags
    if last is None:
        return False
    chain = {decided: last}
    for at in range(decided - 1, -1, -1):
        flags = moments[at].flags
        if flags is not None and _cursor_side(last, flags) is not None:
            chain[at] = last = flags
    if len(chain) == 1:
        return False
    side = _cursor_side(chain[max(chain)], chain[max(one for one in chain if one != decided)])
    cursors = [one.right if side else one.left for one in chain.values()]
    others = [moments[at].flags for at in range(min(chain), decided) if at not in chain]
    return not any(one is not None and _reads(one, cursors) for one in others)


def _reads(flags: Flags, cursors: Sequence[Node]) -> bool:
    """Return True if a test compares one of the ``cursors``."""
    sides = (flags.left, flags.right)
    return any(
        side is one if one.kind == "const" else _is_alike(side, one)
        for side in sides
        for one in cursors
    )


def _cursor_side(later: Flags, earlier: Flags) -> int | None:
    """Return the side of a test with a cursor: 0 for the left one; None if the test has none."""
    if (later.op, later.size) != (earlier.op, earlier.size):
        return None
    if later.left is later.right:
        is_same = earlier.left is earlier.right
        return 0 if is_same and _advances(later.left, earlier.left) else None
    if _is_alike(later.right, earlier.right):
        return 0 if _advances(later.left, earlier.left) else None
    is_right = _is_alike(later.left, earlier.left) and _advances(later.right, earlier.right)
    return 1 if is_right else None


def _advances(later: Node, earlier: Node) -> bool:
    """Return True if a cursor moved: by a number, or to the element that a pointer leads to."""
    base, offset = _without_offset(later)
    old, before = _without_offset(earlier)
    if later.kind == earlier.kind == "const":
        return later.value != earlier.value
    if _is_alike(base, old):
        return offset != before
    behind = base.args[0] if base.kind == "load" and base.args else None
    return behind is not None and _is_alike(_without_offset(behind)[0], old)


def _without_offset(node: Node) -> tuple[Node, int]:
    """Return the value to which a number was added, and that number."""
    offset = 0
    while node.kind == "op" and node.name in ("+", "-") and node.args[1].kind == "const":
        by = node.args[1].value
        offset, node = offset + (by if node.name == "+" else -by) & _MASK, node.args[0]
    return node, offset


def _is_alike(one: Node, other: Node, depth: int = 0) -> bool:
    """Return True if two values are the same expression, read at any time."""
    if one is other:
        return True
    if depth > _MAX_DEPTH or one.kind not in _EXPRESSIONS or len(one.args) != len(other.args):
        return False
    if (one.kind, one.name, one.value) != (other.kind, other.name, other.value):
        return False
    return all(_is_alike(a, b, depth + 1) for a, b in zip(one.args, other.args, strict=True))
