# SPDX-License-Identifier: BSD-2-Clause
"""Trees of calls out of events, whole ones and such with holes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import session

from retsnoop_py.session.model import Event, EventKind, Events
from retsnoop_py.session.trace import RowKind, Trace, Tracer

SIGNS = {"→": EventKind.ENTRY, "←": EventKind.EXIT, "◎": EventKind.PROBE}
SHOWN = {
    RowKind.ENTRY: "→",
    RowKind.EXIT: "←",
    RowKind.PROBE: "◎",
    RowKind.LEAF: "↔",
    RowKind.GAP: "‼",
}


def events(text: str, lost: Sequence[int] = ()) -> list[Event]:
    """``→a →b ←b ←a``: one event each microsecond, those numbered in ``lost`` left out."""
    depth, found = 0, []
    for seq, (sign, name) in enumerate((word for word in text.split()), 1):
        depth += sign == "→"
        event = Event(SIGNS[sign], depth, 0, ord(name) - ord("a"), seq, seq * 1000, seq)
        depth -= sign == "←"
        if seq not in lost:
            found.append(event)
    return found


def trace(text: str, lost: Sequence[int] = (), last_seq: int | None = None) -> Trace:
    last = len(text.split()) if last_seq is None else last_seq
    return Tracer().trace(session(events=Events.of(events(text, lost)), last_seq=last))


def shown(subject: Trace) -> str:
    """Each row with the time it took, and how much of it was its own."""
    words = []
    for row in subject.shape.rows:
        word = SHOWN[row.kind] + (
            str(row.missing) if row.kind is RowKind.GAP else chr(ord("a") + row.id)
        )
        if row.kind in (RowKind.EXIT, RowKind.LEAF):
            total, own = subject.duration_ns(row), subject.self_ns(row)
            word += ":" + "/".join("?" if ns is None else str(ns // 1000) for ns in (total, own))
        words.append(word)
    return " ".join(words)


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("→a ←a", "↔a:1/1"),
        ("→a →b ←b ←a", "→a ↔b:1/1 ←a:3/2"),
        ("→a →b →c ←c ←b →d ←d ←a", "→a →b ↔c:1/1 ←b:3/2 ↔d:1/1 ←a:7/3"),
        ("→a ◎b ←a", "→a ◎b ←a:2/2"),
        ("→a →a ←a ←a", "→a ↔a:1/1 ←a:3/2"),
    ],
)
def test_calls_and_returns_become_a_tree(text: str, rows: str) -> None:
    assert shown(trace(text)) == rows


@pytest.mark.parametrize(
    ("text", "lost", "rows"),
    [
        # the call of c is not known to be the one that returns: it may be the second of two
        ("→a →b →c ←c →c ←c ←b ←a", (4, 5), "→a →b →c ‼2 ←c:?/? ←b:5/? ←a:7/?"),
        # the call of b may only be another one if at least three are missing
        ("→a →b →c ←c ←b →b ←b ←a", (4, 5), "→a →b →c ‼2 ↔b:1/1 ←a:7/?"),
        ("→a →b ←b →b ←b →b ←b ←a", (3, 4), "→a →b ‼2 ←b:?/? ↔b:1/1 ←a:7/?"),
        ("→a →b ←b ←a", (1,), "‼1 ↔b:1/1 ←a:?/?"),
        ("→a →b ←b ←a", (4,), "→a ↔b:1/1 ‼1"),
        ("→a →b ←b ←a", (1, 2, 3, 4), "‼4"),
        ("→a →b →c ←c ←b ←a", (3,), "→a →b ‼1 ←c:?/? ←b:3/? ←a:5/?"),
    ],
)
def test_what_a_gap_makes_uncertain_is_not_told(text: str, lost: Sequence[int], rows: str) -> None:
    assert shown(trace(text, lost)) == rows


def test_a_call_whose_return_was_missed_makes_only_its_own_time_unknown() -> None:
    whole = Events.of([*events("→a →b →c"), Event(2, 1, 0, 0, 4, 4000, 0)])
    subject = Tracer().trace(session(events=whole, last_seq=4))

    assert shown(subject) == "→a →b →c ←a:3/?"


def test_an_interim_record_shows_no_more_than_it_tells_of() -> None:
    assert shown(trace("→a →b ←b →c ←c ←a", last_seq=3)) == "→a ↔b:1/1"


def test_parts_in_another_order_are_put_in_order() -> None:
    whole = events("→a →b ←b →c ←c ←a")
    subject = Tracer().trace(session(events=Events.of(whole[3:] + whole[:3]), last_seq=6))

    assert shown(subject) == "→a ↔b:1/1 ↔c:1/1 ←a:5/3"


def test_equal_trees_share_their_shape() -> None:
    tracer = Tracer()
    told = events("→a →b ←b ←a")
    first = tracer.trace(session(events=Events.of(told), last_seq=4))
    moved = Events.of(e._replace(time_ns=e.time_ns * 3) for e in told)
    second = tracer.trace(session(events=moved, last_seq=4))

    assert first.shape is second.shape
    assert shown(second) == "→a ↔b:3/3 ←a:9/6"


EVENTS = st.builds(
    Event,
    st.sampled_from([1, 2, 3]),
    st.integers(0, 70),
    st.integers(0, 3),
    st.integers(0, 2),
    st.integers(0, 60),
    st.integers(0, 1 << 64),
    st.integers(-(1 << 63), (1 << 63) - 1),
)


@given(st.lists(EVENTS, max_size=30), st.integers(0, 60))
def test_any_events_have_rows_that_add_up_to_the_last_one(found: list[Event], last: int) -> None:
    subject = Tracer().trace(session(events=Events.of(found), last_seq=last))
    told = [row for row in subject.shape.rows if row.kind is not RowKind.GAP]
    missing = sum(row.missing for row in subject.shape.rows)

    assert all(row.missing > 0 for row in subject.shape.rows if row.kind is RowKind.GAP)
    assert len(subject.events.seqs) == len({e.seq for e in found if 0 < e.seq <= last})
    assert len(told) + sum(row.kind is RowKind.LEAF for row in told) == len(subject.events.seqs)
    assert missing + len(subject.events.seqs) == last
