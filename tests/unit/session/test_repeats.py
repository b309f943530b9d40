# SPDX-License-Identifier: BSD-2-Clause
"""C writes repeated sessions only of records that have the layout it was compiled for."""

from __future__ import annotations

import errno
import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fuzz.recordings import Frame
from tests.fuzz.recordings import pack as pack_frames
from tests.unit.session.records import LAYOUTS, facts, pack, raw_session

from retsnoop_py.errors import DataError
from retsnoop_py.libbpf.repeat import Kind, Piece, Writer
from retsnoop_py.recording.format import FrameKind, encode_header
from retsnoop_py.session.layouts import Layout, Member, layout_named
from retsnoop_py.session.repeats import check_layouts, own_layouts
from retsnoop_py.value import replace

NAMES = tuple(layout.name for layout in own_layouts())
#: Sessions before which no template is made (pipeline._MANY), and some more.
MANY = 600
TEMPLATE = ([Piece(Kind.TEXT, -1, False, 0, 5)], [], b"known")


def test_c_is_compiled_with_the_records_of_bpf() -> None:
    assert NAMES == ("rsn_session", "rsn_slot", "rsn_event", "rsn_part")
    for own in own_layouts():
        assert own == layout_named(LAYOUTS, own.name)
    check_layouts(LAYOUTS)


def changed(layout: Layout, at: int, member: Member) -> Layout:
    members = (*layout.members[:at], member, *layout.members[at + 1 :])
    return replace(layout, members=members)


def variants(layout: Layout) -> list[Layout]:
    """Layouts that differ from ``layout`` in one thing."""
    found = [replace(layout, order=">"), replace(layout, size=layout.size + 8)]
    found += [replace(layout, size=layout.size - 8), replace(layout, members=layout.members[1:])]
    for at, member in enumerate(layout.members):
        for code in "bBhHiIqQ":
            found.append(changed(layout, at, member._replace(code=code)))
        found.append(changed(layout, at, member._replace(offset=member.offset + 1)))
        found.append(changed(layout, at, member._replace(name="else")))
    return [one for one in found if one != layout]


@pytest.mark.parametrize("name", NAMES)
def test_records_of_any_other_layout_are_left_to_python(name: str) -> None:
    others = tuple(layout for layout in LAYOUTS if layout.name != name)
    for variant in variants(layout_named(LAYOUTS, name)):
        with pytest.raises(DataError):
            check_layouts((variant, *others))
    with pytest.raises(DataError):
        check_layouts(others)


def wide_slot_count() -> Layout:
    """A session whose ``slot_cnt`` is as wide as a product of C: 2^61 slots are of 0 bytes."""
    layout = layout_named(LAYOUTS, "rsn_session")
    names = [member.name for member in layout.members]
    at = names.index("slot_cnt")
    dropped = {"stitch_pos", "kstack_cnt", "dropped", "too_deep"}
    wide = [
        member._replace(offset=80, code="Q") if index == at else member
        for index, member in enumerate(layout.members)
        if member.name not in dropped
    ]
    tail = layout.size
    wide += [Member(name, tail + 8 * index, "I") for index, name in enumerate(sorted(dropped))]
    return Layout("rsn_session", tail + 32, tuple(wide))


@pytest.mark.parametrize("order", [(), ("--format", "json")])
def test_a_recording_with_wider_fields_does_no_harm_in_c(
    order: tuple[str, ...], tmp_path: Path
) -> None:
    wide = wide_slot_count()
    layouts = (wide, *(layout for layout in LAYOUTS if layout.name != wide.name))
    values = {m.name: b"x" if m.code.endswith("s") else 0 for m in wide.members}
    made = []
    for number in range(MANY):
        last = number > MANY // 2
        values |= {"type": 1, "size": wide.size, "start_ts": 7, "emit_ts": 9, "tid": 5, "tgid": 5}
        values |= {"slot_cnt": 1 << 61 if last else 0}
        made.append(wide.format().pack(*values.values()))
    frames = [
        Frame(FrameKind.FACTS, encode_header(facts(layouts=layouts))),
        *(Frame(FrameKind.RECORDS, b"".join(made[at : at + 50])) for at in range(0, MANY, 50)),
        Frame(FrameKind.END, json.dumps({"stats": {}}).encode()),
    ]
    path = tmp_path / "wide.rsn"
    path.write_bytes(pack_frames(frames))
    argv = [sys.executable, "-m", "retsnoop_py", "replay", "-S", *order, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode == DataError.exit_status, done.stderr
    assert "malformed record" in done.stderr


def test_c_reads_no_more_slots_than_a_record_has_room_for() -> None:
    writer = Writer(by_process=False, clock=0)
    good = raw_session([(0, 1, -22, 9000)] * 3, (1, 2), flags=1)
    assert writer.learn(good, *TEMPLATE) == 0
    # behind the slots of which there are three, two words of stack
    for slots in (4, 5, 64, 0x7FFF, 0xFFFF):
        record = raw_session([(0, 1, -22, 9000)] * 3, (1, 2), flags=1, slot_cnt=slots)
        assert writer.learn(record, *TEMPLATE) == -errno.EINVAL
        found = writer.run(memoryview(record * 4), 16)
        assert (found.text, found.candidates, found.unknown) == (b"", [], 4 * len(record))
    assert writer.run(memoryview(good), 16).text == b"known"


@pytest.mark.parametrize("more", [1, 8, 31, 33])
def test_c_takes_a_part_only_of_whole_events(more: int) -> None:
    writer = Writer(by_process=False, clock=0)
    events = pack("rsn_event", size=32, kind=1, depth=1) + bytes(more)
    size = len(pack("rsn_part")) + len(events)
    part = pack("rsn_part", type=2, size=size, tid=5, start_ts=7) + events
    part += bytes(-len(part) % 8)
    session = raw_session([(0, 1, -22, 9)], flags=1, tid=5, start_ts=7, parts=1)
    assert writer.learn(part + session, *TEMPLATE) == -errno.EINVAL


@pytest.mark.parametrize("clock", [(1 << 63) - 1, -(1 << 63)])
def test_c_leaves_times_that_no_clock_has_to_python(clock: int) -> None:
    writer = Writer(by_process=False, clock=clock)
    record = raw_session([(0, 1, -22, 9000)], flags=1, start_ts=1 << 54, emit_ts=1 << 54)
    pieces = [Piece(Kind.TIME6, -1, False, 0, 0)]
    assert writer.learn(record, pieces, [], b"") == 0
    found = writer.run(memoryview(record), 0)
    assert (found.text, found.word) == (b"", None)


def test_c_adds_results_of_any_value() -> None:
    writer = Writer(by_process=False, clock=0)
    record = raw_session([(0, 1, 0, 9)])
    # the result of the first slot, subtracted: the number behind the five of the session
    assert writer.learn(record, [Piece(Kind.NUMBER, -1, False, 0, 1)], [-6], b"") == 0
    for result in (-(1 << 63), (1 << 63) - 1):
        found = writer.run(memoryview(raw_session([(0, 1, result, 9)])), 0)
        (wrapped,) = struct.unpack("<q", struct.pack("<Q", -result % (1 << 64)))
        assert found.text == str(wrapped).encode()
