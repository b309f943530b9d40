# SPDX-License-Identifier: BSD-2-Clause
"""Trees of calls out of events: whole ones, such with holes, and of sessions that go on."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import (
    KSTACK,
    facts,
    printing,
    raw_events,
    raw_session,
    session,
    symbols,
)

from retsnoop_py.session.model import Earlier, Event, EventKind, Events, RowKind, Trace, Tracer
from retsnoop_py.settings import FilterSettings, OutputFormat, Settings, ViewSettings

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


#: ``flags`` of a record: a chain of calls is about to be forgotten.
STITCH = 16


@st.composite
def call_trees(draw: st.DrawFn) -> list[Event]:
    """Calls and returns of a session, a microsecond apart; it may still be running."""
    events: list[Event] = []
    running: list[int] = []
    for goes_down in draw(st.lists(st.booleans(), min_size=1, max_size=40)):
        seq = len(events) + 1
        if goes_down or not running:
            running.append(draw(st.integers(0, 2)))
            event = Event(EventKind.ENTRY, len(running), 0, running[-1], seq, seq * 1000, 0)
        else:
            depth = len(running)
            event = Event(EventKind.EXIT, depth, 0, running.pop(), seq, seq * 1000, seq)
        events.append(event)
    return events


def told(trace: Trace) -> Iterator[tuple[int, int, int | None, int | None]]:
    """Every event of a trace by its number: kind, duration and own time."""
    seqs = trace.events.seqs
    for row in trace.shape.rows:
        if row.kind is RowKind.LEAF:
            assert row.began is not None
            yield seqs[row.began], RowKind.ENTRY, None, None
        if row.kind is not RowKind.EARLIER:
            kind = RowKind.EXIT if row.kind is RowKind.LEAF else row.kind
            yield seqs[row.event], kind, trace.duration_ns(row), trace.self_ns(row)


@given(call_trees(), st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)))
def test_reports_together_tell_what_one_report_tells(
    events: list[Event], cuts: list[int], late: list[int]
) -> None:
    """``late``: how many events were there already when a report was made of fewer."""
    whole = list(told(Earlier().trace(Events.of(events), len(events))))
    earlier, found, arrived = Earlier(), [], 0
    ends = [*sorted(min(cut, len(events)) for cut in cuts), len(events)]
    for end, more in zip(ends, [*late, *([0] * len(ends))], strict=False):
        here = max(arrived, min(end + more, len(events)))
        count = len(found)
        trace = earlier.trace(Events.of(events[arrived:here]), end)
        first = trace.shape.rows[0] if trace.shape.rows else None
        assert (first.missing if first and first.kind is RowKind.EARLIER else 0) == count
        found += told(trace)
        arrived = here
    assert found == whole


def test_a_hole_between_two_reports_is_told_once() -> None:
    events = [Event(EventKind.ENTRY, depth, 0, 0, depth, depth, 0) for depth in range(1, 9)]
    earlier = Earlier()
    first = earlier.trace(Events.of(events[:2]), 4)
    second = earlier.trace(Events.of(events[5:]), 8)
    assert [row.missing for row in first.shape.rows if row.kind is RowKind.GAP] == [2]
    assert [row.missing for row in second.shape.rows if row.kind is RowKind.GAP] == [1]


def reports(number: int) -> bytes:
    """A session that is reported so often, each time after two more calls."""
    found = raw_events(10, 7, (EventKind.ENTRY, 1, 0, 0))
    for index in range(number):
        one = ((EventKind.ENTRY, 2, 1, 0), (EventKind.EXIT, 2, 1, -12))
        seq = 2 + 4 * index
        found += raw_events(10, 7, *one, *one, first=seq)
        row = (0, 1, 0, 10)
        last = {"last_seq": seq + 3, "parts": index + 2, "flags": STITCH | 1, "depth": 1}
        found += raw_session([row], KSTACK, start_ts=10, tid=7, **last)
    last = {"last_seq": 1 + 4 * number, "parts": number + 1, "flags": 1}
    return found + raw_session([(0, 1, -12, 10)], start_ts=10, tid=7, **last)


def shown_since(number: int, **views: object) -> str:
    out = io.StringIO()
    settings = Settings(views=ViewSettings(call_trace=True, interim=True, **views))
    pipeline = printing(facts(views=settings.views), settings, symbols(), out, err=io.StringIO())
    pipeline.feed(reports(number))
    pipeline.finish({})
    return out.getvalue()


@pytest.mark.parametrize("kind", [OutputFormat.TEXT, OutputFormat.JSON])
def test_ten_times_the_reports_are_ten_times_the_text(kind: OutputFormat) -> None:
    few, many = (len(shown_since(number, format=kind)) for number in (100, 1000))
    assert many < 10.5 * few


def test_no_event_is_decoded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    whole = Events.each

    def counting(self: Events) -> Iterator[Event]:
        nonlocal decoded
        decoded += len(self.seqs)
        return whole(self)

    monkeypatch.setattr(Events, "each", counting)
    text = shown_since(1000)
    assert text.count(" TID/PID ") == 1001
    assert text.count("↔ ") == 2000
    assert decoded == 4001


def test_text_and_json_say_how_much_was_told_before() -> None:
    assert shown_since(2).count("\n... 5 records told before ...\n") == 1
    assert shown_since(2).count("\n... 9 records told before ...\n") == 1
    lines = map(json.loads, shown_since(2, format=OutputFormat.JSON).splitlines())
    first = [line["trace"][0] for line in lines if line["type"] == "session"]
    assert [event["event"] for event in first] == ["entry", "told_before", "told_before"]
    assert [event.get("records") for event in first] == [None, 5, 9]


def test_what_a_report_that_is_not_shown_would_have_told_the_next_one_tells() -> None:
    out = io.StringIO()
    settings = Settings(views=ViewSettings(call_trace=True), filters=FilterSettings())
    pipeline = printing(facts(), settings, symbols(), out, err=io.StringIO())
    pipeline.feed(reports(3))
    assert out.getvalue().count(" TID/PID ") == 1
    assert out.getvalue().count("↔ ") == 6
    assert "told before" not in out.getvalue()
