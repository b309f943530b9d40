# SPDX-License-Identifier: BSD-2-Clause
"""Recordings that are cut, changed, foreign or from the future."""

from __future__ import annotations

import zlib
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.unit.recording.recordings import Replayed, record
from tests.unit.session.records import facts, failing_session

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.recording.format import (
    FRAME_HEADER,
    FrameKind,
    encode_end,
    encode_header,
    encode_symbols,
    file_header,
    pack_frame,
)
from retsnoop_py.recording.reader import read_frames

FACTS = pack_frame(FrameKind.FACTS, encode_header(facts()))
RECORDS = pack_frame(FrameKind.RECORDS, failing_session())
END = pack_frame(FrameKind.END, encode_end({}, {}))


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, str]:
    """A good recording and its output."""
    path = tmp_path_factory.mktemp("whole") / "a.rsn"
    out, _ = record(path)
    return path.read_bytes(), out


def replay_of(path: Path, data: bytes) -> Replayed:
    path.write_bytes(data)
    return Replayed(path)


def is_damage(replayed: Replayed) -> bool:
    return isinstance(replayed.error, DataError) and replayed.error.exit_status == 65


def sampled(length: int) -> list[int]:
    """Every place near both ends, and each fifth between them: one takes a millisecond."""
    ends = [*range(min(length, 100)), *range(max(0, length - 100), length)]
    return sorted({*ends, *range(0, length, 5)})


def test_a_cut_recording_shows_what_is_there_and_one_error(
    tmp_path: Path, whole: tuple[bytes, str]
) -> None:
    data, out = whole
    shown = set()
    for length in sampled(len(data)):
        replayed = replay_of(tmp_path / "a.rsn", data[:length])
        assert is_damage(replayed), length
        assert out.startswith(replayed.out)
        shown.add(replayed.out.count("TID/PID"))
    assert shown == {0, 1, 3}


def test_the_byte_where_it_was_cut_is_named(tmp_path: Path, whole: tuple[bytes, str]) -> None:
    ends = [frame.offset for frame in read_frames(_written(tmp_path, whole[0]))]
    replayed = replay_of(tmp_path / "b.rsn", whole[0][: ends[-1] + 3])

    assert f"b.rsn is damaged at byte {ends[-1]}: it ends in the middle" in str(replayed.error)
    assert replayed.out == whole[1]


def test_a_run_that_was_killed_leaves_all_but_its_end(
    tmp_path: Path, whole: tuple[bytes, str]
) -> None:
    end = [frame.offset for frame in read_frames(_written(tmp_path, whole[0]))][-1]
    replayed = replay_of(tmp_path / "b.rsn", whole[0][:end])

    assert replayed.out == whole[1]
    assert "the run was killed" in str(replayed.error)


def test_every_flipped_bit_is_found(tmp_path: Path, whole: tuple[bytes, str]) -> None:
    data, out = whole
    for position in sampled(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1 << position % 8
        replayed = replay_of(tmp_path / "a.rsn", bytes(changed))
        assert is_damage(replayed), position
        assert out.startswith(replayed.out)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200), st.sampled_from([b"", file_header(), file_header() + FACTS]))
def test_random_bytes_are_a_data_error(tmp_path: Path, data: bytes, start: bytes) -> None:
    assert is_damage(replay_of(tmp_path / "a.rsn", start + data))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.sampled_from(FrameKind), st.binary(max_size=200), st.booleans())
def test_frames_that_are_whole_but_make_no_sense_are_a_data_error(
    tmp_path: Path, kind: FrameKind, payload: bytes, compressed: bool
) -> None:
    frame = pack_frame(kind | (0x80 if compressed else 0), payload)
    replayed = replay_of(tmp_path / "a.rsn", file_header() + FACTS + frame + END)

    assert replayed.error is None or is_damage(replayed)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_facts_that_make_no_sense_are_a_data_error(tmp_path: Path, data: st.DataObject) -> None:
    values = msgspec.json.decode(encode_header(facts()))
    where: object = values
    while True:
        keys = list(where) if isinstance(where, dict) else list(range(len(where)))  # type: ignore[arg-type]
        key = data.draw(st.sampled_from(keys))
        inner = where[key]  # type: ignore[index]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.booleans()):
            break
        where = inner
    where[key] = data.draw(  # type: ignore[index]
        st.none() | st.booleans() | st.integers(-1, 1 << 63) | st.text(max_size=3) | st.just([])
    )
    frame = pack_frame(FrameKind.FACTS, msgspec.json.encode(values))
    replayed = replay_of(tmp_path / "a.rsn", file_header() + frame + RECORDS + END)

    assert replayed.error is None or is_damage(replayed)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is not a retsnoop-py recording: it is empty"),
        (b"\x7fELF", "is not a retsnoop-py recording"),
        (b"#!/bin/sh\necho some text\n", "is not a retsnoop-py recording"),
        (file_header().replace(b"\r\n", b"\n"), "is not a retsnoop-py recording"),
        (file_header()[:10], "damaged at byte 10"),
        (file_header(), "damaged at byte 16: it ends here"),
        (file_header() + RECORDS, "damaged at byte 16: it does not start with the facts"),
        (file_header() + FACTS + END + b"x", "there is data after its end"),
        (file_header() + FRAME_HEADER.pack(3, 1 << 31, 0), "length is impossible"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, data: bytes, message: str) -> None:
    replayed = replay_of(tmp_path / "a.rsn", data)

    assert is_damage(replayed)
    assert message in str(replayed.error)
    assert replayed.out == ""


def test_a_later_format_says_what_to_do(tmp_path: Path) -> None:
    replayed = replay_of(tmp_path / "a.rsn", file_header(version=2) + b"anything")

    assert isinstance(replayed.error, DataError)
    assert "format version 2" in replayed.error.message
    assert replayed.error.hint is not None


def test_frames_of_unknown_kinds_are_skipped(tmp_path: Path) -> None:
    unknown = pack_frame(77, b"from a later version")
    replayed = replay_of(tmp_path / "a.rsn", file_header() + FACTS + unknown + RECORDS + END)

    assert replayed.error is None
    assert "TID/PID 7/6" in replayed.out


def test_addresses_without_a_symbol_stay_addresses(tmp_path: Path) -> None:
    symbols = pack_frame(FrameKind.SYMBOLS, encode_symbols([]))
    replayed = replay_of(tmp_path / "a.rsn", file_header() + FACTS + symbols + RECORDS + END)

    assert "0xffffffff81001021\n" in replayed.out


def test_a_bomb_does_not_take_the_memory(tmp_path: Path) -> None:
    squeezed = zlib.compressobj(9)
    bomb = b"".join(squeezed.compress(bytes(1 << 20)) for _ in range(257)) + squeezed.flush()
    replayed = replay_of(
        tmp_path / "a.rsn", file_header() + FACTS + pack_frame(FrameKind.RECORDS | 0x80, bomb)
    )

    assert is_damage(replayed)


def test_a_malformed_record_is_told_by_the_byte_of_its_frame(tmp_path: Path) -> None:
    bad = pack_frame(FrameKind.RECORDS, failing_session() + b"\1\0\0\0\1\0\0\0")
    replayed = replay_of(tmp_path / "a.rsn", file_header() + FACTS + bad + END)

    assert f"damaged at byte {16 + len(FACTS)}: malformed record" in str(replayed.error)
    assert replayed.out.count("TID/PID") == 1


@pytest.mark.parametrize("name", ["missing.rsn", "."])
def test_a_file_that_cannot_be_read_is_an_input_error(tmp_path: Path, name: str) -> None:
    error = Replayed(tmp_path / name).error

    assert isinstance(error, InputError)
    assert error.exit_status == 66


def _written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "whole.rsn"
    path.write_bytes(data)
    return path
