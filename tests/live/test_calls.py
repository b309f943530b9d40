# SPDX-License-Identifier: BSD-2-Clause
"""The call trace shows each call of a session once, where it happened, and no other."""

from __future__ import annotations

import re
import subprocess
from collections import Counter

import msgspec
import pytest
from tests.live.support import (
    FEW,
    PROGRAMS,
    PYTHON,
    TOOL,
    WORKLOAD,
    compiled,
    read_recording,
    system_call,
    trace,
)

from retsnoop_py.model.session import Entered, Line, Session, Summary
from retsnoop_py.session import model
from retsnoop_py.vm.machine import Machine

ROW = re.compile(r"^((?: {4})*)([→←↔]) (\w+)(?: +(\[.*\]) +([\d.]+)us)?$")
#: From C, so that nothing else of the process calls bpf(2).
CALLS = 127


def trees(text: str) -> list[list[tuple[int, str, str]]]:
    """Level, mark and function of each row, for each session."""
    found = []
    for block in text.split("\n\n\n"):
        rows = [row for line in block.splitlines() if (row := ROW.match(line))]
        if rows:
            found.append([(len(row[1]) // 4, row[2], row[3]) for row in rows])
    return found


def tree_of(session: model.Session) -> list[tuple[int, str, str]]:
    """The tree of calls each of which made no other traced call than the next one."""
    names = [call.function.name for call in session.calls]
    down = [(level, "→", name) for level, name in enumerate(names[:-1])]
    up = [(level, "←", name) for level, _, name in reversed(down)]
    return [*down, (len(names) - 1, "↔", names[-1]), *up]


def test_every_call_is_in_its_tree_with_the_time_that_the_stack_tells(machine: Machine) -> None:
    path = machine.share / "calls.rsn"
    burst = str(compiled(machine, "burst"))
    result = trace(machine, "-T", "-E", *FEW, "-o", str(path), "--", burst, "1", str(CALLS))
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert len(recording.sessions) == CALLS
    found = trees(result.out)
    assert len(found) == CALLS
    assert found == [tree_of(session) for session in recording.sessions]
    for block in result.out.split("\n\n\n")[:CALLS]:
        rows = [row for line in block.splitlines() if (row := ROW.match(line))]
        took = {row[3]: (row[4], int(float(row[5]))) for row in rows if row[5]}
        calls = re.findall(r"^..? +(\d+)us (\[.*?\]) +(\w+)", block, re.M)
        assert {name: (told, int(us)) for us, told, name in calls} == took


def test_a_trace_alone_is_of_all_calls_and_with_x_of_failures(machine: Machine) -> None:
    path = machine.share / "all-calls.rsn"
    names = ("bpf-prog-accepted", "bpf-map-key-size-array")
    live = trace(machine, "-T", *FEW, "-o", str(path), "--", *WORKLOAD, *names)
    assert live.status == 0, live.err
    entry = system_call(machine, "bpf")
    results = Counter(re.findall(rf"^[←↔] {entry} +\[(-?)", live.out, re.M))
    assert results["-"] >= 1
    assert results[""] >= 1
    assert "us [" not in live.out  # no stack
    again = subprocess.run([TOOL, "replay", str(path)], capture_output=True, check=True)
    assert again.stdout == live.stdout


@pytest.mark.one_kernel
def test_json_holds_what_was_traced_and_nothing_of_the_command(machine: Machine) -> None:
    burst = str(compiled(machine, "burst"))
    command = ("sh", "-c", f"echo noise; exec {burst} 1 {CALLS}")
    result = trace(machine, "-T", "-E", *FEW, "--format", "json", "--", *command)
    assert result.status == 0, result.err
    assert "noise" in result.err
    *sessions, summary = [msgspec.json.decode(line, type=Line) for line in result.out.splitlines()]
    assert isinstance(summary, Summary)
    assert summary.sessions == len(sessions) == CALLS
    assert not any(summary.lost.values())
    for session in sessions:
        assert isinstance(session, Session)
        assert session.trace is not None
        assert session.stack is not None
        calls = [row.call for row in session.stack if row.call]
        entered = [event for event in session.trace if isinstance(event, Entered)]
        assert [call.function for call in calls] == [event.function for event in entered]
        assert calls[0].result is not None
        assert calls[0].result.error == "EINVAL"


def test_a_return_whose_call_was_not_seen_is_told_and_leaves_no_gap(machine: Machine) -> None:
    """The trace has all records, so it does not report a missing record."""
    path = machine.share / "unhooked.rsn"
    tool = str(PROGRAMS / "unhooked_entry.py")
    options = ("--attach=kprobe", "-T", "-E", "-e", "*_sys_ioctl", "-a", "pipe_ioctl")
    names = ("-n", "pipe_ioctl", "-o", str(path))
    program = (PYTHON, str(PROGRAMS / "pipe_ioctl.py"), "3")
    result = machine.run([PYTHON, tool, *options, *names, "--", *program], timeout=180)
    assert result.status == 0, result.err
    assert "missing" not in result.out
    assert result.out.count("1 return without a call seen.") == 3
    for session in read_recording(path).sessions:
        assert [event.kind for event in session.events.each()] == [
            model.EventKind.ENTRY,
            model.EventKind.EXIT,
        ]
        assert (session.last_seq, session.lost_entries) == (2, 1)
