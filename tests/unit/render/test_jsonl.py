# SPDX-License-Identifier: BSD-2-Clause
"""JSON lines: what they hold, and their schema."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import msgspec
from tests.unit.session.records import (
    FUNCTIONS,
    KSTACK,
    facts,
    failing_session,
    printing,
    raw_events,
    raw_session,
    symbols,
    traced_session,
)

from retsnoop_py.cli.manual import json_schema
from retsnoop_py.model.session import Line
from retsnoop_py.session.model import EventKind
from retsnoop_py.settings import FilterSettings, OutputFormat, Settings, SymbolizeMode, ViewSettings

ROOT = Path(__file__).parents[3]


def written(
    *batches: bytes,
    out: io.TextIOBase | None = None,
    stats: dict[str, int] | None = None,
    **views: bool,
) -> list[dict[str, Any]]:
    """The objects that a run with these records writes."""
    target = out or io.StringIO()
    settings = Settings(
        filters=FilterSettings(success=True),
        views=ViewSettings(format=OutputFormat.JSON, **views),
    )
    pipeline = printing(
        facts(symbolize=SymbolizeMode.INLINES, views=settings.views, machine="x86_64"),
        settings,
        symbols(),
        target,  # type: ignore[arg-type]
        err=io.StringIO(),
    )
    for batch in batches:
        pipeline.feed(batch)
    pipeline.finish(stats or {})
    target.seek(0)
    lines = target.read().splitlines()
    for line in lines:
        msgspec.json.decode(line, type=Line)
    return [json.loads(line) for line in lines]


def test_a_process_in_a_container_has_its_ids_there_as_well() -> None:
    inside = {"ns_tid": 3, "ns_tgid": 2, "pid_ns": 4026532201}
    session, same, _ = written(
        failing_session(**inside), failing_session(**(inside | {"ns_tid": 7, "ns_tgid": 6}))
    )
    assert (session["tid"], session["pid"]) == (7, 6)
    assert session["namespace"] == {"inode": 4026532201, "tid": 3, "pid": 2}
    assert "namespace" not in same


def test_a_session_holds_raw_values_and_what_they_mean() -> None:
    first, last = written(traced_session(), call_trace=True)

    assert first["type"] == "session"
    assert (first["start"], first["end"]) == (
        "2023-11-14T23:13:30.000000000+01:00",
        "2023-11-14T23:13:30.000100000+01:00",
    )
    assert (first["start_ns"], first["end_ns"]) == (10_000_000_000, 10_000_100_000)
    assert (first["tid"], first["pid"]) == (7, 6)
    assert (first["thread"], first["process"], first["failed"]) == ("worker", "loader", True)
    assert last == {
        "type": "summary",
        "version": 1,
        "sessions": 1,
        "lost": dict.fromkeys(
            (
                *("records_unknown", "parts_dropped", "bare_stacks", "sessions_died"),
                *("sessions_abandoned", "sessions_running", "sessions_missing_calls"),
            ),
            0,
        ),
        "kernel": "6.12.107",
        "machine": "x86_64",
    }


def test_the_stack_has_addresses_symbols_sources_and_calls() -> None:
    outer, middle, _, inner = written(traced_session())[0]["stack"]

    assert outer == {
        "frame": {
            "address": hex(KSTACK[2]),
            "symbol": "do_syscall_64",
            "offset": 0x87,
            "source": [
                {"function": "do_syscall_64", "file": "arch/x86/entry/common.c", "line": 78},
                {"function": "do_syscall_x64", "file": "arch/x86/entry/common.c", "line": 47},
            ],
        }
    }
    assert middle["call"] == {
        "function": {"name": "__x64_sys_bpf", "address": hex(FUNCTIONS[0].address)},
        "seq": 0,
        "result": {
            "raw": "0xfffffffffffffff4",
            "text": "-ENOMEM",
            "value": -12,
            "error": "ENOMEM",
        },
        "duration_ns": 73_000,
    }
    assert inner["call"]["result"] == {"raw": "0x0", "text": "NULL", "error": "NULL"}
    assert "frame" not in inner


def test_the_trace_has_every_event() -> None:
    (first, _) = written(traced_session(), call_stack=False, call_trace=True)

    assert "stack" not in first
    assert [(e["event"], e["seq"], e["depth"], e["function"]["name"]) for e in first["trace"]] == [
        ("entry", 1, 1, "__x64_sys_bpf"),
        ("entry", 2, 2, "map_create"),
        ("entry", 3, 3, "array_map_alloc"),
        ("exit", 4, 3, "array_map_alloc"),
        ("exit", 5, 2, "map_create"),
        ("exit", 6, 1, "__x64_sys_bpf"),
    ]
    assert first["trace"][5] == {
        "event": "exit",
        "seq": 6,
        "time_ns": 10_000_005_000,
        "depth": 1,
        "cpu": 0,
        "function": {"name": "__x64_sys_bpf", "address": hex(FUNCTIONS[0].address)},
        "result": {"raw": "0xfffffffffffffff4", "text": "-ENOMEM", "value": -12, "error": "ENOMEM"},
        "duration_ns": 5000,
        "self_ns": 2000,
    }


def test_what_is_missing_is_told() -> None:
    head = {"start_ts": 5, "tid": 7, "last_seq": 4, "parts": 1, "dropped": 1, "flags": 3}
    part = raw_events(5, 7, (EventKind.ENTRY, 1, 0, 0), (EventKind.PROBE, 1, 3, 0))
    first, last = written(
        part + raw_session([(0, 1, 0, 5)], depth=1, **head),
        stats={"sessions_dropped": 3, "lost_memory": 0},
        call_trace=True,
    )

    assert [event["event"] for event in first["trace"]] == ["entry", "probe", "missing"]
    assert first["trace"][1]["probe"] == "probe 3"
    assert first["trace"][2] == {"event": "missing", "records": 2}
    assert first["died"]
    assert first["lost"] == {"records": 1}
    assert len(first["warnings"]) == 2
    assert "result" not in first["stack"][0]["call"]
    assert last["lost"]["sessions_dropped"] == 3
    assert last["lost"]["lost_memory"] == 0
    assert any("DROPPED SAMPLES" in text for text in last["warnings"])


def test_outputs_that_are_not_utf_8_get_escapes() -> None:
    record = raw_session([(0, 1, 0, 5)], task_comm="日\U0001f600".encode())
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")

    assert written(record)[0]["thread"] == "日\U0001f600"
    assert written(record, out=latin)[0]["thread"] == "日\U0001f600"
    latin.seek(0)
    assert "\\u65e5\\ud83d\\ude00" in latin.read()


def test_the_schema_is_that_of_the_types() -> None:
    """``python -m retsnoop_py.cli.manual json-schema > docs/json-schema.json`` makes it anew."""
    assert (ROOT / "docs/json-schema.json").read_text() == json_schema()
