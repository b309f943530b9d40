# SPDX-License-Identifier: BSD-2-Clause
"""Sessions as objects: those that their JSON encodes, and the text of the command."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import msgspec
import pytest

import retsnoop_py as rs
from retsnoop_py.model import session as to

GOLDEN = Path(__file__).parents[2] / "golden"
RECORDINGS = sorted(path.stem for path in GOLDEN.glob("*.rsn"))


#: The parts of a session that its JSON has under the same names.
PARTS = (
    *("start_ns", "end_ns", "tid", "pid", "thread", "process", "cpu", "failed", "report", "died"),
    *("trace", "stack", "branches", "user_stack", "namespace", "lost", "warnings"),
    *("origin", "paths", "said"),
)


@pytest.mark.parametrize("name", RECORDINGS)
def test_parts_are_the_objects_of_json_and_text_is_what_the_command_writes(name: str) -> None:
    text = []
    for session in rs.replay(GOLDEN / f"{name}.rsn"):
        told = msgspec.json.decode(rs.render.json(session), type=to.Session)
        assert session.record == told
        assert {part: getattr(session, part) for part in PARTS} == {
            part: getattr(told, part) for part in PARTS
        }
        if told.stack is not None:
            assert list(session.calls) == [row.call for row in told.stack if row.call is not None]
        assert datetime.fromisoformat(told.start) == session.start
        assert datetime.fromisoformat(told.end) == session.end
        text.append(rs.render.text(session))
    assert "".join(text) == (GOLDEN / f"{name}.txt").read_text()
    assert text


def test_addresses_and_registers_are_numbers_and_their_keys_are_those_of_json() -> None:
    func = rs.Func("f", "0xffffffff81000000", "m")
    assert (func.address, func.label) == (0xFFFFFFFF81000000, "f [m]")
    assert rs.Result("0xffffffffffffffea", "-EINVAL", -22, "EINVAL").raw == -22
    assert rs.Result("0xffffffea", "-EINVAL", -22, "EINVAL").raw == 0xFFFFFFEA
    text = msgspec.json.encode(func)
    assert json.loads(text) == {"name": "f", "address": "0xffffffff81000000", "module": "m"}
    assert msgspec.json.decode(text, type=rs.Func) == func


def test_the_kind_of_an_event_is_its_word_in_json() -> None:
    kinds = set()
    for session in rs.replay(GOLDEN / "6.12-probes.rsn"):
        for event in session.trace or ():
            kinds.add(event.kind)
            assert json.loads(msgspec.json.encode(event))["event"] == event.kind
    assert kinds >= {"entry", "exit", "probe"}


def test_a_call_leads_to_the_traced_function() -> None:
    recorded = rs.replay(GOLDEN / "6.12.rsn")
    for session in recorded:
        for call in session.calls:
            function = session.traced(call.function)
            assert function in recorded.functions
            assert (function.name, function.address) == (call.function.name, call.function.address)


def test_a_session_tells_its_error_and_its_calls() -> None:
    failed = [one for one in rs.replay(GOLDEN / "6.12.rsn") if one.failed]
    assert failed
    for session in failed:
        assert session.error == session.calls[0].error is not None
        assert session.error in repr(session)
        assert session.traced(session.calls[0].function).is_entry
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
    names = {function.name for function in recorded.functions}
    assert {call.function.name for session in every for call in session.calls} <= names


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
