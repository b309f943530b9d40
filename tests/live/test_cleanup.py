# SPDX-License-Identifier: BSD-2-Clause
"""After every kind of end, a run leaves nothing in the kernel."""

from __future__ import annotations

import json
import re
import signal
import time
from typing import Any

import pytest
from tests.live.guest import PATIENCE
from tests.live.support import (
    FEW,
    PROGRAMS,
    PYTHON,
    TOOL,
    WORKLOAD,
    read_recording,
    start_trace,
    trace,
    wait_for,
)

from retsnoop_py.vm.errors import kernel_problems
from retsnoop_py.vm.machine import Machine

#: Enough single kprobes to take seconds to attach.
MANY = ("-v", "-K", "-e", "*_sys_bpf", "-a", "bpf_map_*", "-a", "array_map_*", "-a", "bpf_prog_*")


def leftovers(machine: Machine) -> dict[str, Any]:
    """Return the objects left now. RCU finishes the detaching, so programs may remain briefly."""
    result = machine.run([PYTHON, str(PROGRAMS / "leftovers.py")])
    found: dict[str, Any] = json.loads(result.out)
    return found


def assert_back_to(before: dict[str, Any], machine: Machine, patience: float = 60) -> None:
    deadline = time.monotonic() + PATIENCE * patience
    while (now := leftovers(machine)) != before:
        assert time.monotonic() < deadline, {k: (before[k], now[k]) for k in now}
        time.sleep(0.5)


def test_after_a_command_nothing_is_left(machine: Machine) -> None:
    before = leftovers(machine)
    result = trace(machine, *FEW, "--", *WORKLOAD, "bpf-map-bad-flags")
    assert result.status == 0
    assert re.search(r"^DONE in \d+ ms\.$", result.err, re.MULTILINE)
    assert_back_to(before, machine)


@pytest.mark.oldest_and_newest
def test_after_ctrl_c_nothing_is_left_and_the_status_is_0(machine: Machine) -> None:
    before = leftovers(machine)
    tracer = start_trace(machine, *FEW)
    tracer.send_signal(signal.SIGINT)
    result = tracer.wait(60)
    assert result.status == 0, result.err
    assert "Detaching..." in result.err
    assert_back_to(before, machine)


def test_ctrl_c_while_attaching_detaches_everything(machine: Machine) -> None:
    before = leftovers(machine)
    tracer = machine.start([TOOL, *MANY])
    wait_for(lambda: b"Attaching" in tracer.output()[1], tracer)
    tracer.send_signal(signal.SIGINT)
    result = tracer.wait(180)
    assert result.status == 130, result.err
    assert "Receiving data..." not in result.err
    assert "Traceback" not in result.err
    assert_back_to(before, machine)


@pytest.mark.oldest_and_newest
def test_ctrl_c_while_attaching_does_not_start_the_command(machine: Machine) -> None:
    marker = machine.share / "started"
    tracer = machine.start([TOOL, *MANY, "--", "touch", str(marker)])
    wait_for(lambda: b"Attaching" in tracer.output()[1], tracer)
    tracer.send_signal(signal.SIGINT)
    assert tracer.wait(180).status == 130
    assert not marker.exists()


@pytest.mark.parametrize("mechanism", [(), ("-K",)], ids=["best", "kprobe"])
def test_kill_9_leaves_nothing(mechanism: tuple[str, ...], machine: Machine) -> None:
    before = leftovers(machine)
    path = machine.share / "killed.rsn"
    tracer = start_trace(machine, *mechanism, *FEW, "-o", str(path))
    machine.run([*WORKLOAD, "bpf-map-bad-flags"])
    wait_for(lambda: b" TID/PID " in tracer.output()[0], tracer)
    tracer.send_signal(signal.SIGKILL)
    assert tracer.wait(60).status == 128 + signal.SIGKILL
    assert_back_to(before, machine, patience=60)
    recording = read_recording(path, cut=True)
    assert len(recording.sessions) == 1
    assert recording.stats is None


@pytest.mark.oldest_and_newest
def test_a_command_killed_by_a_signal_gives_128_and_its_number(machine: Machine) -> None:
    result = trace(machine, *FEW, "--", "sh", "-c", "kill -TERM $$")
    assert result.status == 128 + signal.SIGTERM


def test_a_thread_that_dies_inside_a_call_leaves_no_session(machine: Machine) -> None:
    """get_signal does not return when the signal kills."""
    path = machine.share / "died.rsn"
    options = ("-e", "get_signal", "-e", "*_sys_bpf", "-S", "-o", str(path))
    script = 'for i in 1 2 3 4 5 6 7; do sleep 60 & kill -9 $!; wait $!; done; exec "$@"'
    cases = (*WORKLOAD, "bpf-map-bad-flags")
    result = trace(machine, *options, "--", "sh", "-c", script, "sh", *cases)
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert len([session for session in recording.sessions if session.died]) == 7
    assert "NOTE: 7 threads exited inside a traced call." in result.err
    names = [session.calls[0].function.name for session in recording.sessions if not session.died]
    assert len([name for name in names if name.endswith("_sys_bpf")]) == 1


@pytest.mark.oldest_and_newest
def test_ctrl_c_reaches_the_command_and_its_end_is_ours(machine: Machine) -> None:
    before = leftovers(machine)
    tracer = start_trace(machine, *FEW, "--", "sh", "-c", "echo up >&2; exec sleep 60")
    wait_for(lambda: b"up\n" in tracer.output()[1], tracer)
    tracer.send_signal(signal.SIGINT)
    result = tracer.wait(60)
    assert result.status == 128 + signal.SIGINT, result.err
    assert "DONE in" in result.err
    assert_back_to(before, machine)


def test_the_kernel_log_is_clean(machine: Machine) -> None:
    assert kernel_problems(machine.kernel_log()) == []
