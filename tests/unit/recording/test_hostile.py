# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that somebody made to do harm: to a terminal, to memory, to patience."""

from __future__ import annotations

import json
import subprocess
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.fuzz import recordings as fuzz
from tests.fuzz.recordings import Frame, Shown
from tests.unit.session.records import KSTACK, facts, function, pack, raw_session, symbols

from retsnoop_py.api.why import why_recorded
from retsnoop_py.errors import DataError
from retsnoop_py.kernel.arguments.model import (
    Argument,
    ArgumentFacts,
    CallArguments,
    DataKind,
    DataType,
    Field,
    IntFlags,
    Role,
)
from retsnoop_py.recording.format import (
    FRAME_HEADER,
    FrameKind,
    checksum_of,
    encode_header,
    encode_symbols,
    encode_user_symbols,
)
from retsnoop_py.render.palette import Palette
from retsnoop_py.render.why import WhyPage
from retsnoop_py.render.why_reports import FORMATS
from retsnoop_py.session.stream_header import ModuleFacts
from retsnoop_py.settings import ArgSettings

GOLDEN = Path(__file__).parents[2] / "golden"
NAMES = ("6.12-args", "6.12-interim", "7.2-probes", "5.10-user")
#: A part of every string: the text itself may be worked on by slicing.
NASTY = "\x1b[31m\x9b2J\u202e\r\n\x00"
INT = DataType(DataKind.INT, 8, "long", flags=IntFlags.SIGNED)


def shown(path: Path, frames: list[Frame], view: str = "all") -> Shown:
    """The replay of a recording made of ``frames``, which has to end well or in a DataError."""
    path.write_bytes(fuzz.pack(frames))
    found = fuzz.shown(path, fuzz.VIEWS[view])
    assert fuzz.complaint(found) is None
    return found


def facts_frame(**changes: object) -> Frame:
    return Frame(FrameKind.FACTS, encode_header(facts(**changes)))


def session(**values: Any) -> Frame:
    return Frame(FrameKind.RECORDS, raw_session([(0, 1, -22, 9000)], flags=1, **values))


def end() -> Frame:
    return Frame(FrameKind.END, b'{"stats":{}}')


@pytest.mark.parametrize("view", fuzz.VIEWS)
@pytest.mark.parametrize("name", NAMES)
def test_nothing_a_terminal_obeys_gets_out_of_a_recording(
    name: str, view: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.rsn"
    path.write_bytes(fuzz.changed_strings(GOLDEN / f"{name}.rsn", NASTY))
    found = fuzz.shown(path, fuzz.VIEWS[view])

    assert found.error is None
    assert fuzz.complaint(found) is None
    assert "\\u202e" in found.out
    assert "one more" in found.err
    assert [line for line in found.err.split("\n") if line.startswith("one more")] == []


@pytest.mark.parametrize("name", [path.stem for path in sorted(GOLDEN.glob("*.rsn"))])
def test_nothing_a_terminal_obeys_gets_into_the_answer_of_why(name: str, tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    path.write_bytes(fuzz.changed_strings(GOLDEN / f"{name}.rsn", NASTY))
    found = why_recorded(path)

    pages = [WhyPage(Palette(), verbose=verbose).lines(found) for verbose in (False, True)]
    pages += [form(found) for form in FORMATS.values()]
    for line in (line for page in pages for line in page):
        # a page inside of XML is one text
        assert [part for part in line.split("\n") if not part.isprintable()] == []
    assert "\\u202e" in "".join(WhyPage(Palette()).lines(found))


def test_names_in_an_error_are_safe_for_a_terminal(tmp_path: Path) -> None:
    broken = json.loads(facts_frame().payload)
    broken["layouts"][0]["name"] = f"rsn_slot{NASTY}"
    found = shown(tmp_path / "a.rsn", [Frame(FrameKind.FACTS, json.dumps(broken).encode())])

    assert "struct" in found.err


def test_json_says_the_same_with_every_character_escaped(tmp_path: Path) -> None:
    frames = [facts_frame(machine=NASTY), session(), end()]
    found = shown(tmp_path / "a.rsn", frames, "json")

    assert json.loads(found.out.splitlines()[-1])["machine"] == NASTY


#: Texts by which files would be found elsewhere than where the kernel's are.
ELSEWHERE = ("../../home/u/proj", "/", "..", ".", "a/../b", "x" * 65, NASTY, "6.12\n", "\u0664.1")


@pytest.mark.parametrize("text", ELSEWHERE)
def test_a_release_a_module_and_a_build_id_are_names_and_no_paths(
    text: str, tmp_path: Path
) -> None:
    modules = [
        [True, resolved._replace(module=text)] for resolved in map(symbols().resolve, KSTACK)
    ]
    programs = [[(text, 0, 16), symbols().resolve(KSTACK[0])]]
    starts = {
        "release": [facts_frame(release=text)],
        "build id": [facts_frame(build_id=text)],
        "module name": [facts_frame(modules=(ModuleFacts(text),))],
        "module name ": [facts_frame(functions=(function("f", module=text),))],
        "build id ": [facts_frame(modules=(ModuleFacts("ext4", 0, text),))],
        "module name  ": [facts_frame(), Frame(FrameKind.SYMBOLS, encode_symbols(modules))],
        "build id  ": [facts_frame(), Frame(FrameKind.USER_SYMBOLS, encode_user_symbols(programs))],
    }
    for what, frames in starts.items():
        found = shown(tmp_path / "a.rsn", [*frames, session(), end()])
        assert isinstance(found.error, DataError), what
        assert what.strip() in found.error.message
        assert "makes no sense" in found.error.message


def test_releases_modules_and_build_ids_of_kernels_are_read(tmp_path: Path) -> None:
    for release in ("6.12.57+deb13-amd64", "5.15.90.1-microsoft-standard-WSL2", "7.0-rc1~x_y", ""):
        modules = (ModuleFacts("8021q", 1, "00" * 20), ModuleFacts("__builtin__ftrace", 2, None))
        frame = facts_frame(release=release, modules=modules, build_id="0a" * 20)
        assert shown(tmp_path / "a.rsn", [frame, session(), end()]).error is None


@pytest.mark.parametrize("seed", range(4))
def test_mutants_of_real_recordings_do_no_harm(seed: int) -> None:
    assert fuzz.run(150, seed) == []


@settings(max_examples=40, deadline=None)
@given(st.integers(1000, 1 << 32))
def test_any_mutant_does_no_harm(seed: int) -> None:
    assert fuzz.run(1, seed) == []


@pytest.mark.parametrize("kind", [FrameKind.FACTS, FrameKind.SYMBOLS, FrameKind.WARNING])
def test_a_frame_that_decompresses_to_a_thousandfold_is_damage(
    kind: FrameKind, tmp_path: Path
) -> None:
    path, small = tmp_path / "a.rsn", zlib.compress(bytes(64 << 20))
    head = FRAME_HEADER.pack(kind | 0x80, len(small), checksum_of(kind | 0x80, small))
    path.write_bytes(fuzz.pack([facts_frame(), session()] if kind > 1 else []) + head + small)
    found = fuzz.shown(path, fuzz.VIEWS["all"])

    assert (tmp_path / "a.rsn").stat().st_size < 100_000
    assert isinstance(found.error, DataError)
    assert "cut or too large" in found.error.message
    assert found.out.count("TID/PID") == (kind > 1)


def test_many_small_bombs_come_to_a_large_one(tmp_path: Path) -> None:
    bombs = [Frame(FrameKind.WARNING, b" " * 700_000)] * 100
    found = shown(tmp_path / "a.rsn", [facts_frame(), session(), *bombs])

    assert isinstance(found.error, DataError)
    assert "too large" in found.error.message
    assert found.out.count("TID/PID") == 1


#: A process of its own: what else goes on in that of the tests shall not be short of memory.
IN_8_MIB = """
import sys
from retsnoop_py.cli.main import main
from retsnoop_py.recording import replay
replay._MEMORY = 8 << 20
sys.exit(main(["replay", sys.argv[1]]))
"""


def test_objects_that_take_more_memory_than_a_replay_may_are_refused(tmp_path: Path) -> None:
    # a JSON list of empty lists: two bytes become a tuple of fields
    names = ",".join(["[8,0]"] * 400_000)
    raw = json.loads(facts_frame().payload)
    raw["arguments"] = {"functions": [], "probes": [], "types": []}
    text = json.dumps(raw).replace('"types": []', f'"types": [{names}]')
    path = tmp_path / "a.rsn"
    path.write_bytes(fuzz.pack([Frame(FrameKind.FACTS, text.encode()), session(), end()]))
    argv = [sys.executable, "-c", IN_8_MIB, str(path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)

    assert done.returncode == DataError.exit_status, done
    assert "too much memory" in done.stderr


def test_names_are_no_longer_than_a_live_run_has_them(tmp_path: Path) -> None:
    many = [
        (is_return, resolved._replace(name="x" * 1_000_000))
        for is_return in (True, False)
        for resolved in map(symbols().resolve, KSTACK)
    ]
    frames = [
        facts_frame(),
        Frame(FrameKind.SYMBOLS, encode_symbols(many)),
        Frame(
            FrameKind.RECORDS,
            raw_session([(0, 1, -22, 9)], KSTACK * 30, flags=1),
        ),
        end(),
    ]
    found = shown(tmp_path / "a.rsn", frames)

    assert found.error is None
    assert len(found.out) < 2_000_000


def test_records_that_wait_cost_as_much_as_they_are_many(tmp_path: Path) -> None:
    count = 16_000
    waiting = raw_session([(0, 1, -22, 9)], flags=1 | 16, parts=count + 1) * count
    part = pack("rsn_part", type=2, size=len(pack("rsn_part")), start_ts=0, tid=0) * count
    frames = [facts_frame(), Frame(FrameKind.RECORDS, waiting + part), end()]
    found = shown(tmp_path / "a.rsn", frames)

    assert found.error is None


def _nested(depth: int) -> tuple[DataType, ...]:
    """Types of which each has two of the next, at the same place."""
    pairs = (
        DataType(DataKind.UNION, 8, fields=(Field("a", 0, number + 1), Field("b", 0, number + 1)))
        for number in range(depth)
    )
    return (*pairs, INT)


def _with_argument(types: tuple[DataType, ...]) -> list[Frame]:
    """A recording with one captured argument of type 0, eight bytes of ones."""
    arguments = ArgumentFacts((CallArguments((Argument("value", Role.VALUE, 0),)),), (), types)
    value = b"\xff" * 8
    head = pack("rsn_args")
    item = pack("rsn_arg", value=8, data=0)
    size = len(head) + -(-len(item) // 8) * 8 + 8
    events = pack("rsn_args", size=size, kind=4, cnt=1, id=0, seq=1) + item.ljust(8, b"\0") + value
    part = pack("rsn_part", type=2, size=len(pack("rsn_part")) + len(events), tid=5, start_ts=7)
    record = raw_session([(0, 1, -22, 9)], flags=1, tid=5, start_ts=7, parts=1)
    return [
        facts_frame(arguments=arguments, args=ArgSettings(capture=True)),
        Frame(FrameKind.RECORDS, part + events + record),
        end(),
    ]


@pytest.mark.parametrize("view", fuzz.VIEWS)
def test_types_that_hold_two_of_the_next_are_cut(view: str, tmp_path: Path) -> None:
    small = shown(tmp_path / "a.rsn", _with_argument(_nested(2)), view)
    assert small.out.count("-1") >= 4
    found = shown(tmp_path / "a.rsn", _with_argument(_nested(36)), view)

    assert found.error is None
    assert "value" in found.out
    assert len(found.out) < 2_000_000


@pytest.mark.parametrize(
    "field", [Field("x", 0, 1, -3), Field("x", -8, 1), Field("x", 0, 1, 1 << 40)]
)
def test_a_member_at_an_impossible_place_is_damage(field: Field, tmp_path: Path) -> None:
    types = (DataType(DataKind.STRUCT, 8, fields=(field,)), INT)
    found = shown(tmp_path / "a.rsn", _with_argument(types))

    assert isinstance(found.error, DataError)
    assert "makes no sense" in found.error.message


@pytest.mark.parametrize("size", [-1, 1 << 60])
def test_a_type_of_an_impossible_size_is_damage(size: int, tmp_path: Path) -> None:
    found = shown(tmp_path / "a.rsn", _with_argument((DataType(DataKind.ARRAY, size),)))

    assert isinstance(found.error, DataError)


@pytest.mark.parametrize(
    "changes",
    [
        {"realtime_offset_ns": 1 << 63},
        {"realtime_offset_ns": -(1 << 63)},
        {"utc_offset_s": 1 << 40},
    ],
)
@pytest.mark.parametrize("view", ["all", "json"])
def test_a_clock_that_nobody_has_is_damage(
    changes: dict[str, int], view: str, tmp_path: Path
) -> None:
    raw = json.loads(facts_frame().payload) | changes
    found = shown(tmp_path / "a.rsn", [Frame(FrameKind.FACTS, json.dumps(raw).encode())], view)

    assert isinstance(found.error, DataError)
    assert "clock" in found.error.message


@pytest.mark.parametrize("start", [0, (1 << 63) - 1, (1 << 64) - 1])
@pytest.mark.parametrize("offset", [(1 << 63) - 1, 1 - (1 << 63)])
@pytest.mark.parametrize("view", ["all", "json"])
def test_every_time_that_fits_its_field_is_shown(
    start: int, offset: int, view: str, tmp_path: Path
) -> None:
    frames = [facts_frame(realtime_offset_ns=offset), session(start_ts=start, emit_ts=start), end()]

    assert shown(tmp_path / "a.rsn", frames, view).error is None


def test_more_calls_than_any_stack_has_are_damage(tmp_path: Path) -> None:
    deep = raw_session([(0, 1, -22, 9)] * 3000, (1,) * 5000, flags=1)
    found = shown(tmp_path / "a.rsn", [facts_frame(), Frame(FrameKind.RECORDS, deep), end()])

    assert isinstance(found.error, DataError)


def test_the_helper_finds_what_it_looks_for(tmp_path: Path) -> None:
    assert fuzz.complaint(Shown("a\x1bb", "", None)) is not None
    assert fuzz.complaint(Shown("", "\u202e", None)) is not None
    assert fuzz.complaint(Shown("", "", ValueError("x"))) is not None
    assert fuzz.complaint(Shown("a\n", "b\n", DataError("x"))) is None
    first, second = fuzz.Mutator(5), fuzz.Mutator(5)
    assert first.next() == second.next()
