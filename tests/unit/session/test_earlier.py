# SPDX-License-Identifier: BSD-2-Clause
"""The reports of a session that goes on: each tells of its calls what came since the last."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import KSTACK, facts, printing, raw_events, raw_session, symbols

from retsnoop_py.session.model import Event, EventKind, Events
from retsnoop_py.session.trace import Earlier, RowKind, Trace
from retsnoop_py.settings import FilterSettings, OutputFormat, Settings, ViewSettings

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


def shown(number: int, **views: object) -> str:
    out = io.StringIO()
    settings = Settings(views=ViewSettings(call_trace=True, interim=True, **views))
    pipeline = printing(facts(views=settings.views), settings, symbols(), out, err=io.StringIO())
    pipeline.feed(reports(number))
    pipeline.finish({})
    return out.getvalue()


@pytest.mark.parametrize("kind", [OutputFormat.TEXT, OutputFormat.JSON])
def test_ten_times_the_reports_are_ten_times_the_text(kind: OutputFormat) -> None:
    few, many = (len(shown(number, format=kind)) for number in (100, 1000))
    assert many < 10.5 * few


def test_no_event_is_decoded_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded = 0
    whole = Events.each

    def counting(self: Events) -> Iterator[Event]:
        nonlocal decoded
        decoded += len(self.seqs)
        return whole(self)

    monkeypatch.setattr(Events, "each", counting)
    text = shown(1000)
    assert text.count(" TID/PID ") == 1001
    assert text.count("↔ ") == 2000
    assert decoded == 4001


def test_text_and_json_say_how_much_was_told_before() -> None:
    assert shown(2).count("\n... 5 records told before ...\n") == 1
    assert shown(2).count("\n... 9 records told before ...\n") == 1
    lines = map(json.loads, shown(2, format=OutputFormat.JSON).splitlines())
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
