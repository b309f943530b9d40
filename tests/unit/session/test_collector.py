# SPDX-License-Identifier: BSD-2-Clause
"""Raw records to sessions."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import (
    FUNCTIONS,
    HEADER,
    KSTACK,
    LAYOUTS,
    enumerators,
    failing_session,
    pack,
    raw_events,
    raw_session,
)

from retsnoop_py.errors import DataError
from retsnoop_py.session.collector import Collector, RecordType, SessionFlags, comm_text
from retsnoop_py.session.layouts import Layout, Member, layout_named
from retsnoop_py.session.model import MESSAGE_BYTES, EventKind, MessageSource


def collector() -> Collector:
    return Collector(FUNCTIONS, LAYOUTS)


def test_a_record_becomes_a_session_with_its_calls_and_its_stack() -> None:
    (session,) = collector().feed(failing_session())

    assert (session.tid, session.tgid) == (7, 6)
    assert (session.task_comm, session.proc_comm) == ("worker", "loader")
    assert (session.start_ns, session.emit_ns) == (10_000_000_000, 10_000_100_000)
    assert session.is_error
    assert not session.died
    assert session.kstack == KSTACK
    assert [call.function.name for call in session.calls] == [f.name for f in FUNCTIONS]
    assert [call.result for call in session.calls] == [-12, 0xFFFFFFF4, 0]
    assert all(call.finished and not call.stitched for call in session.calls)


def test_calls_below_the_depth_are_unfinished_and_those_from_the_stitch_on_stitched() -> None:
    (session,) = collector().feed(failing_session(depth=1, stitch_pos=2, flags=2))

    assert [call.finished for call in session.calls] == [False, True, True]
    assert [call.stitched for call in session.calls] == [False, False, True]
    assert session.died
    assert not session.is_error


def test_ids_of_a_pid_namespace_stand_beside_the_kernels() -> None:
    inside = failing_session(ns_tid=3, ns_tgid=2, pid_ns=4026532201, proc_tgid=12)
    (session,) = collector().feed(inside)
    assert (session.tid, session.tgid) == (7, 6)
    assert (session.ns_tid, session.ns_tgid, session.pid_ns) == (3, 2, 4026532201)
    assert session.proc_tgid == 12
    assert session.has_other_ids
    for same in ({}, {"ns_tid": 7, "ns_tgid": 6, "pid_ns": 4026532201}):
        (session,) = collector().feed(failing_session(**same))
        assert not session.has_other_ids


def test_records_from_before_pid_namespaces_were_told_can_be_read() -> None:
    record = failing_session(ns_tid=3, ns_tgid=2)
    new = layout_named(LAYOUTS, "rsn_session")
    names = [member.name for member in new.members]
    added = names.index("ns_tid")
    old = Layout("rsn_session", new.members[added].offset, new.members[:added])
    size = old.size + len(record) - new.size
    short = struct.pack("<II", 1, size) + record[8 : old.size] + record[new.size :]
    layouts = tuple(old if layout.name == "rsn_session" else layout for layout in LAYOUTS)
    (session,) = Collector(FUNCTIONS, layouts).feed(short)
    assert (session.tid, session.ns_tid, session.has_other_ids) == (7, 0, False)
    assert session.kstack == KSTACK


def test_losses_are_kept() -> None:
    (session,) = collector().feed(
        failing_session(dropped=1, too_deep=2, lost_exits=3, lost_entries=4)
    )

    losses = (session.dropped, session.too_deep, session.lost_exits, session.lost_entries)
    assert losses == (1, 2, 3, 4)


def test_records_of_unknown_types_are_skipped_and_counted() -> None:
    unknown = struct.pack("<II5s3x", 99, 13, b"abcde")
    subject = collector()

    assert len(subject.feed(unknown + failing_session() + unknown + failing_session())) == 2
    assert subject.skipped == 2


def test_a_record_may_be_longer_than_what_is_known_of_it() -> None:
    (session,) = collector().feed(raw_session([(0, 0, 0, 0)], extra=b"from a later version"))

    assert len(session.calls) == 1


@pytest.mark.parametrize(
    "record",
    [
        b"\1\0\0",
        struct.pack("<II", 1, 4),
        struct.pack("<II", 1, 4096),
        struct.pack("<II", 1, 16) + bytes(8),
        failing_session(slot_cnt=900),
        failing_session(kstack_cnt=900),
        raw_session([(3, 0, 0, 0)]),
    ],
    ids=["short", "tiny", "cut", "headless", "slots", "stack", "function"],
)
def test_a_malformed_record_ends_the_batch_at_its_byte(record: bytes) -> None:
    good = failing_session()
    sessions = collector().sessions(good + record)

    assert next(sessions).tid == 7
    with pytest.raises(DataError, match=f"at byte {len(good)} "):
        next(sessions)


@given(st.binary(max_size=600))
def test_random_bytes_give_sessions_or_a_data_error(data: bytes) -> None:
    try:
        collector().feed(data)
    except DataError:
        pass


@given(st.integers(0, len(failing_session()) - 1), st.integers(0, 255))
def test_a_changed_byte_gives_sessions_or_a_data_error(position: int, value: int) -> None:
    data = bytearray(failing_session() * 2)
    data[position] = value
    try:
        collector().feed(data)
    except DataError:
        pass


@given(st.lists(st.integers(0, 3), max_size=12), st.integers(1, 2000))
def test_parts_of_a_batch_end_between_records_and_lose_nothing(
    sizes: list[int], limit: int
) -> None:
    batch = b"".join(raw_session([(0, 0, 0, 0)] * size, KSTACK) for size in sizes)
    subject = collector()
    parts = list(subject.split(batch, limit))

    assert b"".join(parts) == batch
    assert sum(len(subject.feed(part)) for part in parts) == len(sizes)


def test_a_malformed_rest_is_one_part() -> None:
    good = failing_session()
    parts = list(collector().split(good + b"\1\0\0\0\3\0\0\0" + good, 1))

    assert [len(part) for part in parts] == [len(good), len(good) + 8]


def test_layouts_with_other_offsets_and_more_members_decode_the_same() -> None:
    session = layout_named(LAYOUTS, "rsn_session")
    moved = Layout(
        "rsn_session",
        session.size + 24,
        (
            *session.members[:2],
            Member("node", 8, "I"),
            *(Member(m.name, m.offset + 16, m.code) for m in session.members[2:]),
        ),
    )
    slot = Layout(
        "rsn_slot",
        32,
        tuple(
            Member(name, offset, code)
            for name, offset, code in [
                ("latency", 0, "Q"),
                ("result", 8, "q"),
                ("seq", 20, "I"),
                ("func_id", 24, "I"),
            ]
        ),
    )
    values = {m.name: b"" if m.code == "16s" else 0 for m in moved.members}
    values |= {"type": 1, "size": moved.size + slot.size, "slot_cnt": 1, "tid": 5, "node": 3}
    record = moved.format().pack(*values.values()) + slot.format().pack(9000, -5, 4, 1)

    (decoded,) = Collector(FUNCTIONS, (moved, slot)).feed(record)

    assert decoded.tid == 5
    (call,) = decoded.calls
    assert (call.function, call.seq, call.result, call.latency_ns) == (FUNCTIONS[1], 4, -5, 9000)


def test_a_struct_older_than_a_loss_counter_had_no_such_loss() -> None:
    old = tuple(
        Layout(
            layout.name,
            layout.size,
            tuple(m for m in layout.members if m.name != "lost_entries"),
        )
        for layout in LAYOUTS
    )

    (session,) = Collector(FUNCTIONS, old).feed(failing_session(lost_entries=3, lost_exits=2))

    assert (session.lost_entries, session.lost_exits) == (0, 2)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: None if m.name == "slot_cnt" else m, "no member slot_cnt"),
        (lambda m: Member("tid", m.offset, "4s") if m.name == "tid" else m, "wrong type"),
        (lambda m: Member("tid", 1 << 40, "I") if m.name == "tid" else m, "pass its size"),
        (lambda m: Member("tid", m.offset, "9999999I") if m.name == "tid" else m, "no sense"),
    ],
)
def test_layouts_that_cannot_be_are_refused(change: object, message: str) -> None:
    session = layout_named(LAYOUTS, "rsn_session")
    members = tuple(filter(None, map(change, session.members)))  # type: ignore[arg-type]
    broken = Layout("rsn_session", session.size, members)

    with pytest.raises(DataError, match=message):
        Collector(FUNCTIONS, (broken, LAYOUTS[0]))


def test_a_missing_layout_is_named() -> None:
    with pytest.raises(DataError, match="rsn_slot"):
        Collector(FUNCTIONS, LAYOUTS[1:])


def test_counters_are_read_by_name() -> None:
    stats = layout_named(LAYOUTS, "rsn_stats")
    raw = pack("rsn_stats", sessions_dropped=3, tree_overflow=1)

    counters = stats.unpack(raw)

    assert counters["sessions_dropped"] == 3
    assert counters["tree_overflow"] == 1
    with pytest.raises(DataError, match="needs"):
        stats.unpack(raw[:-1])


def test_the_enums_are_those_of_the_header() -> None:
    assert {f"RSN_RECORD_{t.name}": t.value for t in RecordType} == enumerators("rsn_record_type")
    flags = {f"RSN_SESSION_{f.name}": f.value for f in SessionFlags}
    assert flags == enumerators("rsn_session_flags")
    sources = {f"RSN_MESSAGE_{s.name}": s.value for s in MessageSource}
    assert sources == enumerators("rsn_message_source")
    assert f"RSN_MESSAGE_BYTES = {MESSAGE_BYTES}," in HEADER
    assert "struct rsn_session {" in HEADER


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"bash\0\0", "bash"),
        (b"exactly-15-byte", "exactly-15-byte"),
        ("grün\0x".encode(), "grün"),
        (b"cut\xe2\x8c", "cut\\xe2\\x8c"),
        (b"\0", ""),
    ],
)
def test_comms_end_at_the_first_nul_and_may_hold_any_byte(raw: bytes, text: str) -> None:
    assert comm_text(raw) == text


def test_calls_of_an_interrupt_are_told_apart_from_the_threads() -> None:
    record = raw_session(
        [(0, 1, 0, 10), (1, 2, 0, 20), (2, 3, 0, 30)], depth=3, interrupt_pos=1, flags=32
    )
    (found,) = Collector(FUNCTIONS, LAYOUTS).feed(record)
    assert [call.interrupt for call in found.calls] == [False, True, True]


def test_layouts_from_before_interrupts_were_told_apart_have_none() -> None:
    def renamed(layout: Layout, old: str, new: str) -> Layout:
        members = [
            Member(new if member.name == old else member.name, member.offset, member.code)
            for member in layout.members
        ]
        return Layout(layout.name, layout.size, tuple(members), layout.order)

    names = {"rsn_session": ("interrupt_pos", "more"), "rsn_event": ("flags", "unused")}
    before = [renamed(one, *names.get(one.name, ("", ""))) for one in LAYOUTS]
    part = raw_events(10, 7, (EventKind.ENTRY, 1, 0, 0), (EventKind.EXIT, 1, 0, 0))
    record = raw_session([(0, 1, 0, 10)], start_ts=10, tid=7, parts=1, last_seq=2, interrupt_pos=1)
    (found,) = Collector(FUNCTIONS, before).feed(part + record)
    assert not any(call.interrupt for call in found.calls)
    assert found.events.flags == (0, 0)
