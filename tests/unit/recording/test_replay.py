# SPDX-License-Identifier: BSD-2-Clause
"""A replay shows what the live run showed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.recording.recordings import Replayed, record

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.settings import (
    BpfSettings,
    FilterSettings,
    OutputFormat,
    Settings,
    StackSettings,
    SymbolizeMode,
    ViewSettings,
)


@pytest.mark.parametrize(
    "settings",
    [
        Settings(),
        Settings(filters=FilterSettings(success=True)),
        Settings(filters=FilterSettings(allow_errors=frozenset({22}))),
        Settings(filters=FilterSettings(deny_errors=frozenset({0}), comms=("other",))),
        Settings(stacks=StackSettings(emit_addrs=True, unfiltered=True, dec_offs=True)),
        Settings(symbolize=SymbolizeMode.INLINES, bpf=BpfSettings(ringbuf_size=4096)),
        Settings(views=ViewSettings(call_stack=False, call_trace=True)),
        Settings(views=ViewSettings(call_trace=True, self_time=True, cpu=True, ascii=True)),
        Settings(views=ViewSettings(call_trace=True, format=OutputFormat.JSON)),
    ],
)
def test_a_replay_equals_its_live_run(tmp_path: Path, settings: Settings) -> None:
    path = tmp_path / "a.rsn"
    out, err = record(path, settings)
    replayed = Replayed(path)

    assert replayed.error is None
    assert replayed.out == out != ""
    assert replayed.err == err
    assert replayed.status == 0


def test_a_replay_elsewhere_prints_the_same_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.rsn"
    out, _ = record(path, utc_offset_s=-7 * 3600)
    monkeypatch.setenv("TZ", "Asia/Tokyo")

    assert Replayed(path).out == out
    assert out.startswith("15:13:30.000000 -> ")


def test_command_lines_may_hold_any_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    out, _ = record(path, command=("./x", "\udcff"))

    assert Replayed(path).out == out


def blocks(path: Path, **overrides: object) -> list[str]:
    """The threads whose sessions a replay shows."""
    replayed = Replayed(path, ReplayOverrides(**overrides))  # type: ignore[arg-type]
    assert replayed.error is None
    return [line.split("TID/PID ")[1][0] for line in replayed.out.splitlines() if "TID" in line]


@pytest.mark.parametrize(
    ("overrides", "threads"),
    [
        ({}, "789"),
        ({"success": False}, "78"),
        ({"allow_errors": frozenset({22})}, "8"),
        ({"allow_errors": frozenset({22}), "success": True}, "89"),
        ({"allow_errors": "any"}, "78"),
        ({"deny_errors": frozenset({0})}, "89"),
        ({"pids": (6, 9)}, "79"),
        ({"deny_pids": (6,)}, "89"),
        ({"comms": ("other",)}, "8"),
        ({"deny_comms": ("other",)}, "79"),
        ({"longer_ns": 1_000_000}, "8"),
    ],
)
def test_overrides_narrow_what_is_shown(
    tmp_path: Path, overrides: dict[str, object], threads: str
) -> None:
    path = tmp_path / "a.rsn"
    record(path)

    assert blocks(path, **overrides) == list(threads)


def test_error_filters_of_the_live_run_can_be_widened(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path, Settings(filters=FilterSettings(allow_errors=frozenset({22}))))

    assert blocks(path) == ["8"]
    assert blocks(path, allow_errors="any") == ["7", "8"]


def test_overrides_change_the_view(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path)

    assert "map_create+287" in Replayed(path, ReplayOverrides(dec_offs=True)).out
    assert " ffffffff8100211f map_create" in Replayed(path, ReplayOverrides(emit_addrs=True)).out
    assert ".c:" not in Replayed(path, ReplayOverrides(symbolize=SymbolizeMode.NONE)).out
    assert ".c:47" in Replayed(path, ReplayOverrides(symbolize=SymbolizeMode.AUTO)).out


BOTH = Settings(views=ViewSettings(call_trace=True))
STACK_ROW = "\n    73us [-ENOMEM]  __x64_sys_bpf+0x21"
TRACE_ROW = "\n← __x64_sys_bpf "


@pytest.mark.parametrize(
    ("overrides", "rows"),
    [
        (ReplayOverrides(), (TRACE_ROW, STACK_ROW)),
        (ReplayOverrides(call_trace=True), (TRACE_ROW,)),
        (ReplayOverrides(call_stack=True), (STACK_ROW,)),
        (ReplayOverrides(call_stack=True, call_trace=True), (TRACE_ROW, STACK_ROW)),
    ],
)
def test_a_view_that_was_captured_can_be_chosen(
    tmp_path: Path, overrides: ReplayOverrides, rows: tuple[str, ...]
) -> None:
    path = tmp_path / "a.rsn"
    record(path, BOTH)
    out = Replayed(path, overrides).out

    positions = [out.index(row) for row in rows]
    assert positions == sorted(positions)
    assert [row in out for row in (STACK_ROW, TRACE_ROW)].count(True) == len(rows)


def test_format_options_apply_at_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path, BOTH)

    more = ReplayOverrides(self_time=True, cpu=True)
    assert " DURATION     SELF  CPU\n" in Replayed(path, more).out
    assert "\n< __x64_sys_bpf " in Replayed(path, ReplayOverrides(ascii=True)).out
    as_json = Replayed(path, ReplayOverrides(format=OutputFormat.JSON)).out.splitlines()
    assert [json.loads(line)["type"] for line in as_json] == ["session"] * 2 + ["summary"]


def test_a_view_that_was_not_captured_leaves_the_one_that_was(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path)

    assert STACK_ROW in Replayed(path, ReplayOverrides(call_trace=True)).out


def test_a_number_of_sessions_ends_a_replay(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path)

    assert Replayed(path, ReplayOverrides(stop_count=2)).out.count("TID/PID") == 2


@pytest.mark.parametrize(
    ("live", "overrides", "note"),
    [
        (Settings(), ReplayOverrides(success=True), "recorded without -S"),
        (
            Settings(filters=FilterSettings(longer_ns=8_000_000)),
            ReplayOverrides(longer_ns=1),
            "no session shorter than 8 ms",
        ),
        (
            Settings(filters=FilterSettings(pids=(1, 2))),
            ReplayOverrides(pids=(3,)),
            "only the processes",
        ),
        (
            Settings(filters=FilterSettings(comms=("a",))),
            ReplayOverrides(comms=("b",)),
            "only the processes",
        ),
        (Settings(), ReplayOverrides(call_trace=True), "no call trace: it was recorded without -T"),
        (
            Settings(views=ViewSettings(call_stack=False, call_trace=True)),
            ReplayOverrides(call_stack=True),
            "no kernel stacks: it was recorded without -E",
        ),
        (Settings(), ReplayOverrides(interim=True), "recorded without -I"),
        (Settings(), ReplayOverrides(lbr=10), "recorded without -B"),
        (Settings(views=ViewSettings(lbr=10)), ReplayOverrides(lbr=6), "its -B"),
        (Settings(), ReplayOverrides(user_stack=True), "recorded without --user-stack"),
        (Settings(), ReplayOverrides(capture=True), "recorded without -A"),
    ],
)
def test_what_was_not_captured_is_said(
    tmp_path: Path, live: Settings, overrides: ReplayOverrides, note: str
) -> None:
    path = tmp_path / "a.rsn"
    record(path, live)

    assert note in Replayed(path, overrides).err
    assert "NOTE" not in Replayed(path).err


@pytest.mark.parametrize(
    ("held", "wanted", "note"),
    [
        (SymbolizeMode.NONE, SymbolizeMode.LINES, "no source lines"),
        (SymbolizeMode.NONE, SymbolizeMode.INLINES, "no source lines"),
        (SymbolizeMode.LINES, SymbolizeMode.INLINES, "without inlined functions"),
    ],
)
def test_source_lines_that_were_not_captured_are_said(
    tmp_path: Path, held: SymbolizeMode, wanted: SymbolizeMode, note: str
) -> None:
    path = tmp_path / "a.rsn"
    record(path, symbolize=held)

    assert note in Replayed(path, ReplayOverrides(symbolize=wanted)).err


def test_a_kernel_image_that_is_missing_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path)
    replayed = Replayed(path, ReplayOverrides(kernel_image=tmp_path / "vmlinux"))

    assert isinstance(replayed.error, InputError)
    assert "vmlinux" in str(replayed.error)


def test_a_kernel_image_that_is_none_is_said(tmp_path: Path) -> None:
    path = tmp_path / "a.rsn"
    record(path, build_id="00" * 20)
    image = tmp_path / "vmlinux"
    image.write_bytes(b"no ELF file")

    assert isinstance(Replayed(path, ReplayOverrides(kernel_image=image)).error, DataError)
