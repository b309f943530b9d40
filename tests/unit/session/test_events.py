# SPDX-License-Identifier: BSD-2-Clause
"""Events, captured arguments and other parts out of raw records, whole and damaged."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import (
    EVENTS,
    FUNCTIONS,
    KSTACK,
    LAYOUTS,
    captured_item,
    facts,
    failing_session,
    pack,
    printing,
    raw_branches,
    raw_events,
    raw_part,
    raw_session,
    raw_user_stack,
    session_part,
    symbols,
    traced_session,
)

from retsnoop_py.errors import DataError
from retsnoop_py.session import collector as collector_module
from retsnoop_py.session import pipeline, repeats
from retsnoop_py.session.collector import Collector, RecordType, SessionFlags
from retsnoop_py.session.events import EventDecoder, Items, PartStore
from retsnoop_py.session.layouts import Layout
from retsnoop_py.session.model import (
    MESSAGE_BYTES,
    NO_EVENTS,
    Branch,
    BranchRecords,
    Captured,
    CapturedValue,
    EventKind,
    Events,
    KernelMessage,
    Session,
    SessionKind,
)
from retsnoop_py.session.pipeline import SessionFilter
from retsnoop_py.session.report import Written
from retsnoop_py.settings import FilterSettings, OutputFormat, Settings, ViewSettings
from retsnoop_py.symbolize.frames import UserAddress

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


def said(text: bytes, source: int = 1) -> bytes:
    return raw_part(text, RecordType.MESSAGE, start_ts=10, tid=7, cnt=source)


def test_what_the_kernel_said_comes_with_the_session_it_was_said_in() -> None:
    (session,) = collected(
        said(b"\x013EXT4-fs: bad magic\n"),
        raw_part(b"of another\0", RecordType.MESSAGE, start_ts=10, tid=8, cnt=1),
        raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=4, last_seq=6),
        said(b"Unknown device type\0", 2),
        said(b"e tmpfs: Unknown parameter 'x'\n\0", 3),
        said(b"from the future \xff", 9),
    )

    assert session.said == (
        KernelMessage("printk", "EXT4-fs: bad magic"),
        KernelMessage("netlink", "Unknown device type"),
        KernelMessage("fs_context", "tmpfs: Unknown parameter 'x'"),
        KernelMessage("9", r"from the future \xff"),
    )


def test_a_message_that_was_cut_says_so() -> None:
    record = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=1)
    (session,) = collected(said(b"x" * MESSAGE_BYTES), record)

    assert session.said[0].text == "x" * MESSAGE_BYTES + "..."


def test_of_very_many_messages_the_first_and_the_last_stay() -> None:
    record = raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=50)
    (session,) = collected(*[said(b"%d" % number) for number in range(50)], record)

    texts = [message.text for message in session.said]
    assert texts == [str(number) for number in (*range(16), *range(34, 50))]
    assert [(one.text, one.left_out) for one in session.said if one.left_out] == [("34", 18)]


def test_a_message_is_told_with_the_first_record_after_it() -> None:
    first, second = collected(
        said(b"early"),
        raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=1, flags=SessionFlags.STITCH),
        said(b"late"),
        raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=2),
    )

    assert [one.text for one in first.said] == ["early"]
    assert [one.text for one in second.said] == ["late"]


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


def test_events_take_no_more_than_their_share_and_the_oldest_go_first() -> None:
    store = PartStore(max_bytes=100)
    for tid in range(3):
        store.add_events((tid, 1), bytes(40))
    assert store.dropped == 1
    assert [store.get((tid, 1)).event_bytes for tid in range(3)] == [0, 40, 40]
    assert [store.get((tid, 1)).forgotten for tid in range(3)] == [1, 0, 0]
    # the one that something came for last stays
    store.add_events((1, 1), bytes(10))
    store.add_events((3, 1), bytes(50))
    assert [store.get((tid, 1)).event_bytes for tid in range(4)] == [0, 50, 0, 50]
    # what was decoded takes no room any more
    store.release(store.get((3, 1)), 50)
    store.add_events((1, 1), bytes(50))
    assert store.dropped == 2
    # one alone that would need more than there is loses what comes last
    store.add_events((1, 1), bytes(1))
    assert (store.dropped, store.get((1, 1)).forgotten) == (3, 1)
    assert len(store.take((1, 1)).take_events()) == 100


def test_sessions_whose_record_was_lost_do_not_keep_the_events_of_later_ones_out() -> None:
    store = PartStore(max_bytes=1 << 20)
    for tid in range(300):
        store.add_events((tid, 1), bytes(4096))
    found = []
    for start in range(2, 10_002):
        key = (1000, start)
        store.add_events(key, bytes(800))
        found.append(len(store.take(key).take_events()))
    assert found == [800] * 10_000
    assert store.dropped == 300 - (1 << 20) // 4096 + 1


def test_of_too_many_sessions_the_longest_silent_one_goes_and_is_counted() -> None:
    store = PartStore(max_open=3)
    active = (0, 1)
    for tid in range(1, 6):
        store.add_events(active, bytes(8))
        store.add_events((tid, 1), bytes(8))
    assert [store.get((tid, 1)).event_bytes for tid in range(6)] == [40, 0, 0, 0, 8, 8]
    assert store.dropped == 3


def test_a_session_that_lost_events_here_is_incomplete(monkeypatch: pytest.MonkeyPatch) -> None:
    part = raw_events(10, 7, *EVENTS[:4])
    monkeypatch.setattr(collector_module, "PartStore", lambda: PartStore(len(part)))
    (session,) = collected(
        part,
        raw_events(10, 8, *EVENTS[:4]),
        raw_session([(0, 0, 0, 1)], start_ts=10, tid=7, parts=1, last_seq=4),
    )

    assert (session.events, session.dropped) == (NO_EVENTS, 1)


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


VALUES = (
    CapturedValue(b"\5" + bytes(7)),
    CapturedValue(b"\1" * 8, b"text\0"),
    CapturedValue(bytes(8)),
    CapturedValue(b"\2" * 8, b"", 14),
    CapturedValue(b"", b"", 28),
    CapturedValue(b"\3" * 16),
)


def test_values_come_back_as_they_were_captured() -> None:
    item = captured_item(VALUES, id=2, seq=7)
    assert Items(LAYOUTS).read(item) == (7, Captured(4, 2, VALUES))


def test_no_values() -> None:
    assert Items(LAYOUTS).read(captured_item((), id=1, seq=3)) == (3, Captured(4, 1, ()))


@given(st.data())
def test_a_damaged_item_is_an_error_or_read(data: st.DataObject) -> None:
    item = bytearray(captured_item(VALUES, id=2, seq=7))
    for _ in range(data.draw(st.integers(1, 4))):
        item[data.draw(st.integers(0, len(item) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(item)))
    try:
        Items(LAYOUTS).read(bytes(item[:cut]))
    except DataError:
        pass


def test_a_session_has_what_was_captured_at_its_events() -> None:
    head = {"start_ts": 10_000_000_000, "tid": 7}
    part = raw_part(captured_item(VALUES, id=0, seq=1) + captured_item((), id=1, seq=2), **head)
    (session,) = Collector(FUNCTIONS, LAYOUTS).feed(part + failing_session(parts=1))
    assert session.args == {1: Captured(4, 0, VALUES), 2: Captured(4, 1, ())}


def test_a_cut_item_in_a_part_is_damage() -> None:
    item = captured_item(VALUES, id=0, seq=1)
    short = struct.pack("<H", 24) + item[2:24]
    part = raw_part(short, start_ts=10_000_000_000, tid=7)
    with pytest.raises(DataError, match="do not fit"):
        Collector(FUNCTIONS, LAYOUTS).feed(part + failing_session(parts=1))


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


@pytest.mark.parametrize("views", [ViewSettings(), ViewSettings(call_trace=True)])
def test_a_message_among_sessions_that_repeat_is_told_of_its_own(
    views: ViewSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those that C writes by a template have none: whose are told is the same without templates."""
    batch = b"".join(many(number) for number in range(64))
    plain = printed(batch, views)
    monkeypatch.setattr(pipeline, "_MANY", 1)
    monkeypatch.setattr(repeats, "_PAUSE", 0)
    template, used = repeats.Repeats.split, []

    def spied(self: repeats.Repeats, part: memoryview) -> Iterator[Written | tuple[int, int]]:
        for piece in template(self, part):
            used.append(isinstance(piece, Written))
            yield piece

    monkeypatch.setattr(repeats.Repeats, "split", spied)
    assert printed(batch, views) == plain
    assert any(used)
    assert plain.count("the kernel said: ") == 8
    assert [f"the kernel said: in {number}\n" in plain for number in range(0, 64, 8)] == [True] * 8


def many(number: int) -> bytes:
    """One of many sessions that differ in times only; in each eighth something is said."""
    start, parts = 10_000_000_000 + number * 1000, b""
    if number % 8 == 0:
        parts = raw_part(b"in %d" % number, RecordType.MESSAGE, start_ts=start, tid=7, cnt=1)
    parts += raw_events(start, 7, *EVENTS)
    cnt = 1 + (number % 8 == 0)
    return parts + failing_session(start_ts=start, emit_ts=start + 900, parts=cnt, last_seq=6)


def printed(batch: bytes, views: ViewSettings) -> str:
    """What is printed of a batch, the same each of several times."""
    out = io.StringIO()
    made = printing(facts(views=views), Settings(views=views), symbols(), out)
    made.feed(batch)
    first = out.getvalue()
    for times in range(2, 5):
        made.feed(batch)
        assert out.getvalue() == first * times
    return first
