# SPDX-License-Identifier: BSD-2-Clause
"""The branches that led to a failure, without those that tracing itself took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.model import Session
from retsnoop_py.session.stacks import is_frame_of
from retsnoop_py.settings import StackSettings, ViewSettings
from retsnoop_py.symbolize.frames import Resolved, Symbolizer


class BranchRow(NamedTuple):
    """One branch; ``number`` is its place among what the CPU kept, 0 for the newest."""

    number: int
    source: Resolved
    target: Resolved


class BranchView(NamedTuple):
    """The branches to show, oldest first.

    ``error`` is the errno where the CPU gave none, ``lost``: they were taken and did not arrive.
    ``relevant`` is False where none touches the innermost traced function, so that all are there.
    """

    rows: tuple[BranchRow, ...] = ()
    error: int = 0
    lost: bool = False
    relevant: bool = True


def resolve_branches(session: Session, symbolizer: Symbolizer) -> list[BranchRow]:
    """All branches of the session, newest first."""
    branches = session.branches.branches if session.branches is not None else ()
    return [
        BranchRow(
            number,
            symbolizer.resolve(branch.source, is_return=False),
            symbolizer.resolve(branch.target, is_return=False),
        )
        for number, branch in enumerate(branches)
    ]


def view_branches(
    session: Session, symbolizer: Symbolizer, views: ViewSettings, stacks: StackSettings
) -> BranchView | None:
    """What to show of the session's branches; None if it has none and none are missing.

    The newest up to the first that leaves or reaches the innermost traced function are those of
    tracing: left out, unless the settings ask for everything.
    """
    records = session.branches
    if records is None:
        return BranchView(lost=True) if session.dropped else None
    if records.error:
        return BranchView(error=records.error)
    rows = resolve_branches(session, symbolizer)
    first: int | None = 0
    if session.calls and not (views.lbr_full or stacks.unfiltered):
        first = _first_of(rows, session.calls[-1].function)
    shown = rows[first or 0 :][: views.lbr_max]
    return BranchView(tuple(reversed(shown)), relevant=first is not None)


def _first_of(rows: Sequence[BranchRow], function: Function) -> int | None:
    for row in rows:
        if is_frame_of(function, row.source) or is_frame_of(function, row.target):
            return row.number
    return None
