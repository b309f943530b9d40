# SPDX-License-Identifier: BSD-2-Clause
"""Every failure of the workload is caught, with its errno and its deepest function."""

from __future__ import annotations

import errno
from fnmatch import fnmatchcase

import pytest
from tests.live.support import (
    SELECTION,
    WORKLOAD,
    Recording,
    errno_of,
    read_recording,
    trace,
)

from retsnoop_py.session.model import Session
from retsnoop_py.session.results import error_of
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine
from retsnoop_py.workload.cases import CASES, Case

BPF_CASES = [case for case in CASES if case.entry == "*_sys_bpf" and case.outcomes[0].errno]
OTHER_CASES = [case for case in CASES if case.entry != "*_sys_bpf" and case.outcomes[0].errno]


@pytest.fixture(scope="module")
def run(machine: Machine) -> tuple[Result, Recording]:
    """All cases under the tool, each once."""
    path = machine.share / "workload.rsn"
    result = trace(machine, *SELECTION, "-o", str(path), "--", *WORKLOAD, "--all")
    return result, read_recording(path)


def types_of(recording: Recording) -> dict[str, bool]:
    """Return the traced functions, and whether BTF has the type of each result."""
    return {one.name: bool(one.btf_id) for one in recording.header.functions}


def deepest_expected(case: Case, number: int, traced: dict[str, bool]) -> set[str]:
    """Return the possible deepest functions of a session of ``case`` with its errno.

    A function without a type is assumed to return an int, so NULL is not a failure.
    """
    found: set[str] = set()
    for outcome in case.outcomes:
        if outcome.errno == number:
            names = [name for name in outcome.deepest if name in traced]
            found |= set(names[: 1 if names and traced[names[0]] else 2])
    return found


def assert_ends_as_it_must(session: Session, case: Case, traced: dict[str, bool]) -> None:
    number = errno_of(session)
    assert number is not None, case.name
    deepest = deepest_expected(case, number, traced)
    last = session.calls[-1].function
    assert last.name in deepest, f"{case.name}: {last.name}, not {deepest}"
    assert error_of(last, session.calls[-1].result) in (0, number), case.name


def test_the_command_runs_and_its_status_is_ours(run: tuple[Result, Recording]) -> None:
    result, _ = run
    assert result.status == 0, result.err


def test_each_failing_bpf_call_is_reported_once_and_in_order(
    run: tuple[Result, Recording],
) -> None:
    _, recording = run
    traced = types_of(recording)
    sessions = [s for s in recording.sessions if s.calls[0].function.name.endswith("sys_bpf")]
    errors = [errno.errorcode.get(errno_of(s) or 0) for s in sessions]
    assert len(sessions) == len(BPF_CASES), errors
    for session, case in zip(sessions, BPF_CASES, strict=True):
        assert_ends_as_it_must(session, case, traced)


@pytest.mark.parametrize("case", OTHER_CASES, ids=lambda case: case.name)
def test_a_failure_outside_bpf_is_reported(case: Case, run: tuple[Result, Recording]) -> None:
    _, recording = run
    traced = types_of(recording)
    last_bpf = max(
        s.emit_ns for s in recording.sessions if s.calls[0].function.name.endswith("sys_bpf")
    )
    numbers = {outcome.errno for outcome in case.outcomes}
    sessions = [
        session
        for session in recording.sessions
        if fnmatchcase(session.calls[0].function.name, case.entry)
        and session.start_ns > last_bpf
        and errno_of(session) in numbers
    ]
    assert sessions, case.name
    assert_ends_as_it_must(sessions[0], case, traced)


def test_success_gives_nothing(run: tuple[Result, Recording]) -> None:
    _, recording = run
    assert all(session.is_error for session in recording.sessions)


def test_nothing_is_lost_and_no_session_is_incomplete(run: tuple[Result, Recording]) -> None:
    result, recording = run
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert "DROPPED" not in result.err


def test_each_session_is_a_block_on_stdout(run: tuple[Result, Recording]) -> None:
    result, recording = run
    headers = [line for line in result.out.splitlines() if " TID/PID " in line]
    assert len(headers) == len(recording.sessions)
    assert not [line for line in result.out.splitlines() if line != line.rstrip()]


def test_latencies_of_callers_include_their_callees(run: tuple[Result, Recording]) -> None:
    _, recording = run
    for session in recording.sessions:
        unstitched = [call.latency_ns for call in session.calls if not call.stitched]
        assert unstitched == sorted(unstitched, reverse=True)
        assert session.calls[0].latency_ns <= session.emit_ns - session.start_ns
