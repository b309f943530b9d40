# SPDX-License-Identifier: BSD-2-Clause
"""Parts of sessions, in any order, and sessions that are reported before their end."""

from __future__ import annotations

import pytest
from tests.unit.session.records import (
    EVENTS,
    FUNCTIONS,
    LAYOUTS,
    failing_session,
    raw_branches,
    raw_events,
    raw_user_stack,
    session_part,
)

from retsnoop_py.session.collector import Collector
from retsnoop_py.session.filters import SessionFilter
from retsnoop_py.session.model import Branch, BranchRecords, Session, SessionKind
from retsnoop_py.settings import FilterSettings
from retsnoop_py.symbolize.frames import UserAddress

START = 10_000_000_000
STITCH, PROBE, IGNORED = 16, 32, 8
BUILD_ID = "ab" * 20


def collect(*records: bytes) -> list[Session]:
    collector = Collector(FUNCTIONS, LAYOUTS)
    return [*collector.feed(b"".join(records)), *collector.rest()]


def test_branches_are_those_of_the_next_record() -> None:
    first, last = collect(
        raw_branches((1, 2), (3, 4)),
        failing_session(flags=1 | STITCH, parts=1),
        failing_session(parts=1),
    )

    assert first.branches == BranchRecords(0, (Branch(1, 2), Branch(3, 4)))
    assert last.branches is None


def test_a_cpu_that_gave_no_branches_says_why() -> None:
    (session,) = collect(raw_branches(error=2), failing_session(parts=1))

    assert session.branches == BranchRecords(2)


def test_a_user_stack_is_that_of_all_reports_of_the_session() -> None:
    frames = ((1, BUILD_ID, 0x1234), (2, "", 0x7F0012345678), (0, "", 0))
    sessions = collect(
        raw_user_stack(*frames),
        failing_session(flags=PROBE, parts=1),
        failing_session(parts=1),
    )

    expected = (UserAddress(BUILD_ID, 0x1234), UserAddress("", 0x7F0012345678))
    assert [session.user_stack for session in sessions] == [expected, expected]


@pytest.mark.parametrize("kind", [3, 4])
def test_what_is_no_whole_entry_is_left_out(kind: int) -> None:
    (session,) = collect(session_part(kind, b"\1" * 47, 1), failing_session(parts=1))

    assert len(session.branches.branches if session.branches else session.user_stack) == 1


@pytest.mark.parametrize(
    ("flags", "kind"), [(1, SessionKind.FINAL), (17, SessionKind.STITCH), (32, SessionKind.PROBE)]
)
def test_a_record_tells_why_it_was_sent(flags: int, kind: SessionKind) -> None:
    (session,) = collect(failing_session(flags=flags, depth=1))

    assert session.kind is kind


def test_reports_of_one_session_wait_for_their_own_parts() -> None:
    events = raw_events(START, 7, *EVENTS[:3]), raw_events(START, 7, *EVENTS[3:], first=4)
    sessions = collect(
        failing_session(flags=1 | STITCH, depth=1, parts=1, last_seq=3),
        failing_session(parts=2),
        *events,
    )

    assert [session.kind for session in sessions] == [SessionKind.STITCH, SessionKind.FINAL]
    assert [len(session.events.seqs) for session in sessions] == [3, len(EVENTS) - 3]


def test_what_is_still_missing_at_the_end_is_done_without() -> None:
    sessions = collect(
        failing_session(flags=1 | STITCH, parts=1), failing_session(parts=2), raw_branches((1, 2))
    )

    assert [session.branches is None for session in sessions] == [False, True]


def test_parts_of_an_ignored_session_are_forgotten() -> None:
    sessions = collect(
        raw_branches((1, 2)), failing_session(flags=IGNORED), failing_session(parts=1)
    )

    assert [session.branches for session in sessions] == [None]


@pytest.mark.parametrize(
    ("flags", "settings", "reported"),
    [
        (STITCH, FilterSettings(), False),
        (STITCH, FilterSettings(success=True), True),
        (PROBE, FilterSettings(), True),
        (PROBE, FilterSettings(deny_errors=frozenset({12})), True),
        (PROBE, FilterSettings(deny_pids=(6,)), False),
        (PROBE, FilterSettings(longer_ns=200_000), False),
        (1 | STITCH, FilterSettings(deny_errors=frozenset({12})), False),
    ],
)
def test_filters_of_errors_do_not_concern_hits_of_probes(
    flags: int, settings: FilterSettings, reported: bool
) -> None:
    (session,) = collect(failing_session(flags=flags, depth=0))

    assert SessionFilter(settings).accepts(session) is reported
    assert not SessionFilter(settings, interim=False).accepts(session)
