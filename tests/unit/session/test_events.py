# SPDX-License-Identifier: BSD-2-Clause
"""Events and parts out of raw records, whole and damaged."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import (
    EVENTS,
    FUNCTIONS,
    KSTACK,
    LAYOUTS,
    facts,
    pack,
    printing,
    raw_events,
    raw_session,
    symbols,
    traced_session,
)

from retsnoop_py.errors import DataError
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.events import EventDecoder
from retsnoop_py.session.layouts import Layout
from retsnoop_py.session.model import NO_EVENTS, EventKind, Events, Session
from retsnoop_py.session.parts import PartStore
from retsnoop_py.settings import FilterSettings, OutputFormat, Settings, ViewSettings

PART, EVENT = len(pack("rsn_part")), len(pack("rsn_event"))
BEHIND = struct.Struct("<HBB")


def collected(*records: bytes, layouts: Sequence[Layout] = LAYOUTS) -> list[Session]:
    collector = Collector(FUNCTIONS, layouts)
    sessions = collector.feed(b"".join(records))
    return sessions + list(collector.rest())


def decoded(data: bytes) -> Events:
    return EventDecoder(LAYOUTS, len(FUNCTIONS)).decode(data)[0]


def test_events_come_with_their_session() -> None:
    (session,) = collected(traced_session())

    assert [(e.kind, e.depth, e.id, e.seq) for e in session.events.each()] == [
        (kind, depth, number, seq) for seq, (kind, depth, number, _) in enumerate(EVENTS, 1)
    ]
    assert session.events.results[-1] == -12
    assert session.events.times_ns[-1] - session.events.times_ns[0] == 5000


def test_parts_of_one_session_are_put_together_and_of_others_not() -> None:
    first, second = EVENTS[:4], EVENTS[4:]
    (session,) = collected(
        raw_events(10, 7, *first),
        raw_events(10, 8, *first),
        raw_events(11, 7, *first),
        raw_events(10, 7, *second, first=5),
        raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=2, last_seq=6),
    )

    assert session.events.seqs == (1, 2, 3, 4, 5, 6)


def test_a_session_waits_for_parts_that_come_after_it() -> None:
    record = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=2, last_seq=6)
    parts = raw_events(10, 7, *EVENTS[:4]), raw_events(10, 7, *EVENTS[4:], first=5)
    collector = Collector(FUNCTIONS, LAYOUTS)

    assert collector.feed(parts[0] + record) == []
    assert collector.feed(parts[1])[0].events.seqs == (1, 2, 3, 4, 5, 6)


def test_a_session_whose_parts_never_come_is_told_at_the_end() -> None:
    record = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=2, last_seq=6)
    (session,) = collected(raw_events(10, 7, *EVENTS[:4]), record)

    assert session.events.seqs == (1, 2, 3, 4)


def test_a_session_that_is_not_reported_leaves_nothing() -> None:
    ignored = raw_session([], start_ts=10, tid=7, flags=8)
    again = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, last_seq=6)
    (session,) = collected(raw_events(10, 7, *EVENTS), ignored, again)

    assert session.events == NO_EVENTS


def test_each_record_of_a_session_has_the_events_since_the_one_before() -> None:
    interim = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=1, last_seq=4, flags=16)
    last = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=2, last_seq=6)
    found = collected(
        raw_events(10, 7, *EVENTS[:4]), interim, raw_events(10, 7, *EVENTS[4:], first=5), last
    )

    assert [session.events.seqs for session in found] == [(1, 2, 3, 4), (5, 6)]


def test_many_events_are_decoded_in_pieces() -> None:
    told = [(EventKind.PROBE, 1, 9, number) for number in range(1000)]
    events = decoded(raw_events(10, 7, *told)[PART:])

    assert events.results == tuple(range(1000))
    assert events.seqs == tuple(range(1, 1001))


def test_items_of_an_unknown_kind_are_passed_over() -> None:
    one, two = (raw_events(10, 7, event)[PART:] for event in EVENTS[:2])
    other = BEHIND.pack(40, 99, 0) + bytes(36)

    assert decoded(one + other + two).ids == (0, 1)
    assert decoded(other).ids == ()


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (BEHIND.pack(0, 1, 0) + bytes(28), "an event of 0 bytes does not fit"),
        (BEHIND.pack(64, 1, 0) + bytes(28), "an event of 64 bytes does not fit"),
        (BEHIND.pack(8, 1, 0) + bytes(4), "8 bytes are too few for an event"),
        (raw_events(1, 1, (EventKind.ENTRY, 1, 3, 0))[PART:], "a function that is not traced"),
    ],
)
def test_damage_is_told(data: bytes, why: str) -> None:
    with pytest.raises(DataError, match=why):
        decoded(data)


def test_parts_of_sessions_that_go_on_take_no_more_than_their_share() -> None:
    store = PartStore(max_bytes=100)
    for tid in range(3):
        store.add_events((tid, 1), bytes(40))
    assert store.dropped == 1
    assert [store.get((tid, 1)).event_bytes for tid in range(3)] == [40, 40, 0]
    store.take((0, 1))
    store.add_events((2, 1), bytes(40))
    assert (store.dropped, len(store.take((2, 1)).take_events())) == (1, 40)
    # what was decoded takes no room any more
    store.release(store.get((1, 1)), 40)
    store.add_events((3, 1), bytes(100))
    store.add_events((3, 1), bytes(1))
    assert store.dropped == 2


@given(st.binary(max_size=200))
def test_any_bytes_are_events_or_damage(data: bytes) -> None:
    try:
        events = decoded(data)
    except DataError:
        return
    assert len({len(column) for column in events}) == 1
    assert all(number < len(FUNCTIONS) for kind, number in _calls(events))


def _calls(events: Events) -> list[tuple[int, int]]:
    pairs = zip(events.kinds, events.ids, strict=True)
    return [(kind, number) for kind, number in pairs if kind != EventKind.PROBE]


STREAM = traced_session() + raw_session(
    [(0, 1, 3, 1000)], KSTACK[:1], start_ts=99, tid=8, last_seq=4, parts=1
)
DAMAGE = st.lists(
    st.tuples(st.integers(0, len(STREAM) - 1), st.integers(0, 255)), min_size=1, max_size=6
)


@given(DAMAGE, st.integers(0, len(STREAM)), st.sampled_from(OutputFormat))
def test_a_damaged_stream_is_shown_up_to_the_damage(
    damage: list[tuple[int, int]], end: int, form: OutputFormat
) -> None:
    stream = bytearray(STREAM)
    for position, value in damage:
        stream[position] = value
    views = ViewSettings(call_trace=True, self_time=True, cpu=True, format=form)
    settings = Settings(filters=FilterSettings(success=True), views=views)
    out = io.StringIO()
    pipeline = printing(facts(views=views), settings, symbols(), out, err=io.StringIO())
    with suppress(DataError):
        pipeline.feed(bytes(stream[:end]))
    with suppress(DataError):
        pipeline.finish({})
    lines = out.getvalue().split("\n")

    assert all(line == line.rstrip() for line in lines)
    if form is OutputFormat.JSON:
        assert all(json.loads(line)["type"] for line in lines[:-1])
