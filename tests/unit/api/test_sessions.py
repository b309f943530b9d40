# SPDX-License-Identifier: BSD-2-Clause
"""Sessions as values: the same as their JSON, and text that is that of the command."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import retsnoop_py as rs
from retsnoop_py.kernel.functions import Function

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDINGS = sorted(path.stem for path in GOLDEN.glob("*.rsn"))


def without_none(**fields: Any) -> dict[str, Any]:
    """What JSON has of these fields: those that are not their default."""
    return {name: value for name, value in fields.items() if value not in (None, False, (), [])}


def func(function: Function) -> dict[str, Any]:
    address = hex(function.address)
    return without_none(name=function.name, address=address, module=function.module)


def result(one: rs.Result) -> dict[str, Any]:
    return {
        "raw": hex(one.raw & (1 << 64) - 1),
        "text": one.text,
        **({} if one.value is None else {"value": one.value}),
        **({} if one.error is None else {"error": one.error}),
    }


def arguments(given: tuple[rs.Argument, ...] | None) -> dict[str, Any]:
    if given is None:
        return {}
    told = [
        {
            "name": one.name,
            "text": one.text,
            **({} if one.value is None else {"value": one.value}),
            **({"type": one.type} if one.type else {}),
        }
        for one in given
    ]
    return {"arguments": told}


def frame(one: rs.Frame, symbol: str = "module") -> dict[str, Any]:
    source = [
        without_none(function=s.function, file=s.file)
        | ({"line": s.line} if s.line else {})
        | ({"column": s.column} if s.column else {})
        for s in one.source
    ]
    return {
        "address": hex(one.address),
        **({} if one.symbol is None else {"symbol": one.symbol}),
        **({"offset": one.offset} if one.offset else {}),
        **({symbol: one.module} if one.module else {}),
        **({"source": source} if source else {}),
        **({"hidden": True} if one.hidden else {}),
    }


def call(one: rs.Call) -> dict[str, Any]:
    told: dict[str, Any] = {"function": func(one.function), "seq": one.seq}
    if one.result is not None:
        told |= {"result": result(one.result), "duration_ns": one.duration_ns}
    flags = without_none(stitched=one.stitched, interrupt=one.interrupt)
    return told | flags | arguments(one.arguments)


def entry(one: rs.StackEntry) -> dict[str, Any]:
    found = {} if one.call is None else {"call": call(one.call)}
    return found | ({} if one.frame is None else {"frame": frame(one.frame)})


def event(one: rs.Event) -> dict[str, Any]:
    if one.kind in ("missing", "told_before"):
        return {"event": one.kind, "records": one.records}
    told = {
        "event": one.kind,
        "seq": one.seq,
        "time_ns": one.time_ns,
        "depth": one.depth,
        "cpu": one.cpu,
        **({} if one.function is None else {"function": func(one.function)}),
        **({} if one.probe is None else {"probe": one.probe}),
        **({} if one.result is None else {"result": result(one.result)}),
        **({} if one.duration_ns is None else {"duration_ns": one.duration_ns}),
        **({} if one.self_ns is None else {"self_ns": one.self_ns}),
        **({"interrupt": True} if one.interrupt else {}),
    }
    return told | arguments(one.arguments)


def as_json(session: rs.Session) -> dict[str, Any]:
    """The JSON of a session made of its values."""
    told: dict[str, Any] = {
        "type": "session",
        "version": 1,
        "start_ns": session.start_ns,
        "end_ns": session.end_ns,
        "tid": session.tid,
        "pid": session.pid,
        "thread": session.thread,
        "process": session.process,
        "cpu": session.cpu,
        "failed": session.failed,
        **({} if session.report == "final" else {"report": session.report}),
        **({"died": True} if session.died else {}),
        **({} if session.trace is None else {"trace": list(map(event, session.trace))}),
        **({} if session.stack is None else {"stack": list(map(entry, session.stack))}),
    }
    if session.user_stack is not None:
        told["user_stack"] = [frame(one, "file") for one in session.user_stack]
    if session.warnings:
        told["warnings"] = list(session.warnings)
    lost = {k: v for k, v in session.lost._asdict().items() if v}
    if session.lost.missed_inside is not None:
        lost["missed_inside"] = func(session.lost.missed_inside)
    return told | {"lost": lost}


@pytest.mark.parametrize("name", RECORDINGS)
def test_values_are_those_of_json_and_text_is_what_the_command_writes(name: str) -> None:
    recorded = rs.replay(GOLDEN / f"{name}.rsn")
    text = []
    for session in recorded:
        told = json.loads(rs.render.json(session))
        start, end = told.pop("start"), told.pop("end")
        assert told == as_json(session)
        assert datetime.fromisoformat(start) == session.start
        assert datetime.fromisoformat(end) == session.end
        text.append(rs.render.text(session))
    assert "".join(text) == (GOLDEN / f"{name}.txt").read_text()
    assert text


def test_a_session_tells_its_error_and_its_calls() -> None:
    failed = [one for one in rs.replay(GOLDEN / "6.12.rsn") if one.failed]
    assert failed
    for session in failed:
        assert session.error == session.calls[0].error is not None
        assert session.error in repr(session)
        assert session.calls[0].function.is_entry
    fine = [one for one in rs.replay(GOLDEN / "6.12.rsn") if not one.failed]
    assert fine
    assert {session.error for session in fine} == {None}


def test_a_recording_can_be_gone_over_again_and_options_change_it() -> None:
    recorded = rs.replay(GOLDEN / "6.12.rsn", allow_errors="EINVAL", success_stacks=False)
    errors = [session.error for session in recorded]
    assert errors
    assert len(list(recorded)) == len(errors)
    every = list(rs.replay(GOLDEN / "6.12.rsn"))
    assert len(errors) < len(every)
    assert len(list(rs.replay(GOLDEN / "6.12.rsn", count=2))) == 2
    assert recorded.kernel.startswith("6.12")
    assert {call.function for session in every for call in session.calls} <= set(recorded.functions)


def test_what_a_recording_does_not_have_is_told() -> None:
    recorded = rs.replay(GOLDEN / "6.12.rsn", arguments=True)
    assert recorded.notes == ("the recording contains no arguments: it was recorded without -A",)


def test_a_damaged_recording_gives_what_it_has_and_then_the_error(tmp_path: Path) -> None:
    whole = (GOLDEN / "6.12.rsn").read_bytes()
    (tmp_path / "cut.rsn").write_bytes(whole[:-40])
    found = []
    with pytest.raises(rs.DataError, match="ends in the middle of a frame"):
        found.extend(rs.replay(tmp_path / "cut.rsn"))
    assert found
    with pytest.raises(rs.InputError, match="cannot read"):
        rs.replay(tmp_path / "none.rsn")
