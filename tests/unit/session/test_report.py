# SPDX-License-Identifier: BSD-2-Clause
"""Which branches of a session are shown."""

from __future__ import annotations

from tests.unit.session.records import ALLOC, FUNCTIONS, KSTACK, call, session, symbols

from retsnoop_py.session.model import Branch, BranchRecords, Session
from retsnoop_py.session.report import BranchView, view_branches
from retsnoop_py.settings import StackSettings, ViewSettings

#: Newest first: two of tracing, then into and out of the innermost traced function.
BRANCHES = (
    Branch(0xFFFFFFFFC0000010, 0xFFFFFFFFC0000020),
    Branch(KSTACK[2], 0xFFFFFFFFC0000010),
    Branch(ALLOC.address + 0x10, KSTACK[2]),
    Branch(KSTACK[0], ALLOC.address),
    Branch(KSTACK[1], KSTACK[0]),
)


def view(recorded: Session, *, unfiltered: bool = False, **views: object) -> BranchView:
    settings = ViewSettings(lbr=8, **views)
    found = view_branches(recorded, symbols(), settings, StackSettings(unfiltered=unfiltered))
    assert found is not None
    return found


def failed(*branches: Branch, error: int = 0) -> Session:
    return session(*map(call, FUNCTIONS), branches=BranchRecords(error, branches))


def numbers(found: BranchView) -> list[int]:
    return [row.number for row in found.rows]


def test_branches_of_tracing_are_left_out_and_the_others_keep_their_numbers() -> None:
    found = view(failed(*BRANCHES))

    assert numbers(found) == [4, 3, 2]
    assert found.relevant
    assert found.rows[-1].source.name == "array_map_alloc"
    assert found.rows[-1].target.name == "do_syscall_64"


def test_all_are_shown_on_request() -> None:
    assert numbers(view(failed(*BRANCHES), lbr_full=True)) == [4, 3, 2, 1, 0]
    assert numbers(view(failed(*BRANCHES), unfiltered=True)) == [4, 3, 2, 1, 0]


def test_the_limit_keeps_the_newest_of_those_that_are_shown() -> None:
    assert numbers(view(failed(*BRANCHES), lbr_max=2)) == [3, 2]
    assert numbers(view(failed(*BRANCHES), lbr_max=9)) == [4, 3, 2]


def test_without_a_relevant_one_all_are_shown() -> None:
    found = view(failed(*BRANCHES[:2]))

    assert numbers(found) == [1, 0]
    assert not found.relevant


def test_a_branch_to_the_function_is_relevant_too() -> None:
    assert numbers(view(failed(*BRANCHES[:2], *BRANCHES[3:]))) == [3, 2]


def test_no_branches_have_a_reason() -> None:
    lost = session(call("f"), dropped=1)

    assert view(failed(error=95)) == BranchView(error=95)
    assert view(lost) == BranchView(lost=True)
    assert view_branches(session(), symbols(), ViewSettings(lbr=8), StackSettings()) is None
