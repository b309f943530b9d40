# SPDX-License-Identifier: BSD-2-Clause
"""-S, -x, -X, -p, -n, -N and -L report exactly the selected sessions."""

from __future__ import annotations

import errno
import signal
from pathlib import Path

import pytest
from tests.live.support import (
    FEW,
    PYTHON,
    SELECTION,
    WORKLOAD,
    errno_of,
    read_recording,
    start_trace,
    trace,
    wait_for,
)

from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.one_kernel

CASES = ("bpf-map-bad-flags", "bpf-map-value-size-array", "bpf-prog-accepted")


def results(text: str) -> list[str]:
    """The result shown on the first row of each block that has one."""
    blocks = text.split(" TID/PID ")[1:]
    return [block.split("[", 1)[1].split("]", 1)[0] for block in blocks]


def test_failures_alone_are_reported_by_default(machine: Machine) -> None:
    shown = results(trace(machine, *FEW, "--", *WORKLOAD, *CASES).out)
    assert shown == ["-EINVAL", "-E2BIG"]


def test_success_stacks_add_successes(machine: Machine) -> None:
    shown = results(trace(machine, *FEW, "-S", "--", *WORKLOAD, *CASES).out)
    assert shown[:2] == ["-EINVAL", "-E2BIG"]
    assert len(shown) == 3
    assert not shown[2].startswith("-E")


def test_allowing_keeps_and_denying_drops_an_error(machine: Machine) -> None:
    kept = trace(machine, *FEW, "-x", "E2BIG", "--", *WORKLOAD, *CASES)
    assert results(kept.out) == ["-E2BIG"]
    dropped = trace(machine, *FEW, "-X", "E2BIG", "--", *WORKLOAD, *CASES)
    assert results(dropped.out) == ["-EINVAL"]


def test_longer_reports_what_lasted_that_long(machine: Machine) -> None:
    path = machine.share / "longer.rsn"
    cases = ("bpf-map-bad-flags", "long-sleep")
    options = ("-e", "*_sys_bpf", "-e", "*_sys_nanosleep", "-S", "-L", "150", "-o", str(path))
    assert trace(machine, *options, "--", *WORKLOAD, *cases).status == 0
    sessions = read_recording(path).sessions
    assert len(sessions) == 1
    assert sessions[0].calls[0].function.name.endswith("_sys_nanosleep")
    assert sessions[0].calls[0].latency_ns >= 200_000_000


def test_comm_filters_choose_by_thread_name(machine: Machine) -> None:
    name = Path(PYTHON).resolve().name[:15]
    comm = machine.run([PYTHON, "-c", "print(open('/proc/self/comm').read().strip())"]).out.strip()
    assert name.startswith(comm) or comm.startswith("python")
    case = (*WORKLOAD, "bpf-map-bad-flags")
    assert results(trace(machine, *FEW, "-n", comm, "-N", "somebody", "--", *case).out) == [
        "-EINVAL"
    ]
    assert results(trace(machine, *FEW, "-n", "somebody", "--", *case).out) == []
    assert results(trace(machine, *FEW, "-N", comm, "--", *case).out) == []


def test_a_pid_filter_chooses_by_process(machine: Machine) -> None:
    """Two processes make the same call; only one process is selected."""
    path, go = machine.share / "pid.rsn", machine.share / "go"
    waiting = f'while ! test -e {go}; do sleep 0.1; done; exec "$@"'
    script = ["sh", "-c", f"echo $$; {waiting}", "sh", *WORKLOAD, "bpf-map-bad-flags"]
    one, other = machine.start(script), machine.start(script)
    wait_for(lambda: one.output()[0].endswith(b"\n"), one)
    pid = int(one.output()[0])
    tracer = start_trace(machine, *FEW, "-p", str(pid), "-o", str(path))
    go.touch()
    assert one.wait(60).status == other.wait(60).status == 0
    tracer.send_signal(signal.SIGINT)
    assert tracer.wait(60).status == 0
    sessions = read_recording(path).sessions
    assert [(session.tgid, errno_of(session)) for session in sessions] == [(pid, errno.EINVAL)]


def test_an_execve_in_the_middle_of_a_session_does_not_harm_it(machine: Machine) -> None:
    """The thread's name changes inside the call; the filter was checked at its start."""
    path = machine.share / "execve.rsn"
    options = ("-e", "*_sys_execve", "-S", "-n", "sh", "-o", str(path))
    result = trace(machine, *options, "--", "sh", "-c", "/bin/true; exec /bin/true")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert [errno_of(session) for session in recording.sessions] == [None, None]
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats


def test_both_transports_say_the_same(machine: Machine) -> None:
    seen = []
    for transport in ("ringbuf", "perfbuf"):
        path = machine.share / f"{transport}.rsn"
        options = (*SELECTION, "-C", f"bpf.transport={transport}", "-o", str(path))
        cases = ("bpf-map-bad-flags", "bpf-map-too-large", "mount-unknown")
        assert trace(machine, *options, "--", *WORKLOAD, *cases).status == 0
        recording = read_recording(path)
        seen.append(
            [
                [(call.function.name, call.result & 0xFFFFFFFF) for call in session.calls]
                for session in recording.sessions
                if session.calls[0].function.name != "do_sys_openat2"
            ]
        )
    assert seen[0] == seen[1]
    assert len(seen[0]) == 3
