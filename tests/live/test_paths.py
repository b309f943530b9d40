# SPDX-License-Identifier: BSD-2-Clause
"""Following calls block by block, when things go wrong: kills, load, refusals."""

from __future__ import annotations

import json
import signal
import time

import pytest
from tests.live.support import TOOL, WORKLOAD, compiled, series, start_trace, trace
from tests.live.test_cleanup import assert_back_to, leftovers

from retsnoop_py.vm.errors import kernel_problems
from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

CHECK = "array_map_alloc_check"
#: Seconds in a guest; much longer than it takes, for the machine may be busy.
ATTACH_LIMIT = 180.0
THREADS, CALLS = 4, 250


def large(machine: Machine) -> str:
    """A function of hundreds of blocks, which every bpf(2) goes through where there is one."""
    return "__sys_bpf" if series(machine) >= (5, 14) else "bpf_check"


@pytest.mark.parametrize("at_once", [False, True], ids=["attached", "while attaching"])
def test_kill_9_leaves_no_probe(machine: Machine, at_once: bool) -> None:
    before = leftovers(machine)
    if at_once:
        tracer = machine.start([TOOL, "--path", large(machine)])
        events = "/sys/kernel/debug/tracing/kprobe_events"
        seen = machine.run(["sh", "-c", f"until grep -q rsnoop {events}; do sleep 0.1; done"])
        assert seen.status == 0
    else:
        tracer = start_trace(machine, "--path", large(machine))
        assert len(leftovers(machine)["events"]) > 50
    tracer.send_signal(signal.SIGKILL)
    assert tracer.wait(60).status == 128 + signal.SIGKILL
    assert_back_to(before, machine, patience=120)


@pytest.mark.slow
def test_each_of_a_thousand_calls_under_load_is_told(machine: Machine) -> None:
    before = leftovers(machine)
    problems = kernel_problems(machine.kernel_log())
    burst = (str(compiled(machine, "burst")), str(THREADS), str(CALLS))
    options = ("--path", large(machine), "--path", CHECK, "--format", "json")
    result = trace(machine, *options, "--", *burst, timeout=400)
    assert result.status == 0, result.err
    told = [json.loads(line) for line in result.out.splitlines()]
    sessions = [one for one in told if one["type"] == "session"]
    assert len(sessions) == THREADS * CALLS, result.err
    assert not [one for one in sessions if one["lost"]]
    for session in sessions:
        ways = {way["function"]["name"]: way for way in session["paths"]}
        assert ways.keys() - {"__sys_bpf"} == {CHECK}
        (operand,) = ways[CHECK]["decided"]["operands"]
        assert operand["value"] == 8, ways[CHECK]
        if large(machine) == "__sys_bpf":
            way = ways["__sys_bpf"]
            assert (way["made"], way["callee"]) == ("callee", "map_create"), way
    assert kernel_problems(machine.kernel_log()) == problems
    assert_back_to(before, machine, patience=120)


@pytest.mark.slow
def test_of_many_threads_in_followed_calls_each_is_told_or_counted(machine: Machine) -> None:
    """They sleep in them at the same time; some have no room, where there are 512 others."""
    sleepers = str(compiled(machine, "sleepers"))
    calls = ("-e", "*_sys_nanosleep", "-a", "do_nanosleep", "--path", "do_nanosleep", "-T", "-S")
    # Linux 7.x preempts threads in programs of fentry; kretprobes hook 256 calls at a time
    is_many = series(machine) == (6, 12)
    threads, mechanism = (700, "-F") if is_many else (100, "--attach=kprobe_events")
    asleep = ("--", sleepers, str(threads), "4")
    result = trace(machine, mechanism, *calls, "--format", "json", *asleep)
    assert result.status == 0, result.err
    told = [json.loads(line) for line in result.out.splitlines()]
    sessions = [one for one in told if one["type"] == "session"]
    assert len(sessions) == threads
    ways = [way for session in sessions for way in session.get("paths", ())]
    unfollowed = told[-1]["lost"]["sessions_unfollowed"]
    assert len(ways) + unfollowed == threads
    assert {way["path"][0]["offset"] for way in ways} == {0}
    assert (unfollowed > 0) == (threads > 512)
    if unfollowed:
        assert f"UNFOLLOWED SAMPLES:  {unfollowed}" in result.err


def test_a_large_function_is_attached_in_seconds(machine: Machine) -> None:
    begin = time.monotonic()
    result = trace(machine, "--path", large(machine), "--", "true")
    took = time.monotonic() - begin
    assert result.status == 0, result.err
    print(f"{machine.release}: {large(machine)} followed and let go of in {took:.1f} s")
    assert took < ATTACH_LIMIT


def test_a_function_of_too_many_blocks_is_traced_but_not_followed(machine: Machine) -> None:
    options = ("--path", CHECK, "--max-blocks", "3", "--", *WORKLOAD, "bpf-map-bad-flags")
    result = trace(machine, *options)
    assert result.status == 0, result.err
    assert f"{CHECK} has " in result.err
    assert "more than 3; use --max-blocks " in result.err
    assert CHECK in result.out
    assert "because" not in result.out


def test_what_cannot_be_read_is_said(machine: Machine) -> None:
    """A kernel without /proc/kcore, or one that keeps root from reading it."""
    place = "/run/no-kcore"
    hide = f"import socket; socket.socket(socket.AF_UNIX).bind('{place}')"
    script = f'python3 -c "{hide}" && mount --bind {place} /proc/kcore'
    assert machine.run(["sh", "-c", script]).status == 0
    try:
        workload = ("--", *WORKLOAD, "bpf-map-bad-flags")
        result = trace(machine, "--path", CHECK, *workload)
        assert result.status == 69, (result.status, result.err)
        assert "/proc/kcore cannot be read: " in result.err
        assert "Traceback" not in result.err
        if series(machine) == (6, 12):
            vmlinux = ensure("6.12", debug=True).vmlinux
            result = trace(machine, "--path", CHECK, "-k", str(vmlinux), *workload)
            assert result.status == 0, result.err
            assert "because (attr->map_flags" in result.out
    finally:
        machine.run(["umount", "/proc/kcore"])
        machine.run(["rm", "-f", place])


def test_the_kernel_log_is_clean(machine: Machine) -> None:
    assert kernel_problems(machine.kernel_log()) == []
