# SPDX-License-Identifier: BSD-2-Clause
"""Reconstruct the executed blocks from probe hits."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence

from retsnoop_py.path.blocks import Graph
from retsnoop_py.value import Value

__all__ = ["Way", "follow"]


class Way(Value):
    """The executed blocks, in order, by index.

    ``gaps`` are positions in ``blocks`` without a jump from the block before: an access to memory
    faulted there, or hits were lost. ``is_cut``: earlier blocks were not kept. ``ends``: the last
    block leaves the function.
    """

    blocks: tuple[int, ...]
    gaps: frozenset[int] = frozenset()
    is_cut: bool = False
    ends: bool = True
    #: For each of ``blocks`` the index of its hit, -1 for an inserted block.
    hits: tuple[int, ...] = ()
    #: For each hit, True if the conditional comparison there was executed; else None or False.
    held: tuple[bool | None, ...] = ()
    #: For each hit, the target of a call or jump through a pointer there, else 0.
    targets: tuple[int, ...] = ()

    def target(self, position: int) -> int:
        """Return the target of the pointer call or jump in block ``position``; 0 if unknown."""
        hit = self.hits[position] if 0 <= position < len(self.hits) else -1
        return self.targets[hit] if 0 <= hit < len(self.targets) else 0

    def compared(self, position: int) -> bool | None:
        """Return True if the conditional comparison of the block at ``position`` was executed.

        Return None if that is unknown.
        """
        hit = self.hits[position] if position < len(self.hits) else -1
        return self.held[hit] if 0 <= hit < len(self.held) else None


def follow(
    graph: Graph,
    hits: Sequence[int],
    probed: Collection[int],
    *,
    is_cut: bool = False,
    held: Sequence[bool | None] = (),
    targets: Sequence[int] = (),
) -> Way:
    """Return the path from ``hits`` (indexes of blocks).

    Blocks not in ``probed`` have no probe, because the kernel rejects it. They are inserted where
    only they can have run. ``is_cut``: hits before the first were not kept. The function also sets
    it if no path leads from the entry to the first hit. ``held``, ``targets``: see Way.
    """
    hidden = frozenset(range(len(graph.blocks))) - frozenset(probed)
    steps: list[int] = []
    numbers: list[int] = []
    gaps = set()
    for number, index in enumerate(hits):
        if not steps:
            between = None if is_cut else _to_first(graph, index, hidden)
            is_cut = between is None
        else:
            between = _between(graph, steps[-1], lambda at, goal=index: at == goal, hidden)
            if between is None:
                gaps.add(len(steps))
        between = between or [index]
        steps += between
        numbers += [*[-1] * (len(between) - 1), number]
    if not steps:
        return Way((), ends=False, is_cut=is_cut)
    blocks = graph.blocks
    rest: list[int] | None = []
    if not blocks[steps[-1]].exit:
        rest = _between(
            graph, steps[-1], lambda at: bool(blocks[at].exit), hidden, stay_hidden=True
        )
    ends, behind = rest is not None, rest or []
    numbers += [-1] * len(behind)
    known = tuple(held), tuple(targets)
    return Way((*steps, *behind), frozenset(gaps), is_cut, ends, tuple(numbers), *known)


def _to_first(graph: Graph, index: int, hidden: frozenset[int]) -> list[int] | None:
    """Return the blocks from the entry to the first hit; None if there were earlier hits."""
    if index == graph.entry:
        return [index]
    if graph.entry not in hidden:
        return None
    way = _between(graph, graph.entry, lambda at: at == index, hidden)
    return [graph.entry, *way] if way else None


def _between(
    graph: Graph,
    start: int,
    is_goal: object,
    hidden: frozenset[int],
    *,
    stay_hidden: bool = False,
) -> list[int] | None:
    """Return the shortest path from ``start`` through hidden blocks to a goal, with the goal."""
    assert callable(is_goal)
    came: dict[int, int] = {}
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for following in graph.blocks[at].next:
            if following < 0 or following in came:
                continue
            if is_goal(following) and (following in hidden or not stay_hidden):
                way = [following]
                while at != start:
                    way.append(at)
                    at = came[at]
                return way[::-1]
            if following in hidden:
                came[following] = at
                waiting.append(following)
    return None
