# SPDX-License-Identifier: BSD-2-Clause
"""A run reacts to the first, second and last signal, in each phase."""

from __future__ import annotations

import json
import re
import shlex
import signal
import time

import pytest
from tests.live.support import FEW, PROGRAMS, PYTHON, TOOL, compiled, start_trace, trace, wait_for

from retsnoop_py.vm.machine import Machine

CALLS = 4_000


@pytest.mark.oldest_and_newest
def test_the_first_signal_detaches_and_the_second_drops_what_nobody_reads(
    machine: Machine,
) -> None:
    workload = f"{compiled(machine, 'burst')} 2 {CALLS // 2}"
    script = [PYTHON, str(PROGRAMS / "stuck_reader.py"), str(int(signal.SIGTERM)), workload]
    result = machine.run([*script, TOOL, *FEW, "-C", "bpf.drain-seconds=0"], timeout=180)
    assert result.status == 0, result.err
    done = json.loads(result.out)
    assert (done["detached"], done["ended"], done["status"]) == (1, 2, 0), done
    assert re.search(r"^DONE in \d+ ms\.$", done["err"], re.MULTILINE)
    told = re.search(r"^DISCARDED RECORDS: +(\d+) ", done["err"], re.MULTILINE)
    assert told is not None, done["err"]
    shown, discarded = done["out"].count(" TID/PID "), int(told[1])
    # The output has some of the sessions that were being written when the signal came.
    assert shown > 0
    assert discarded <= CALLS <= shown + discarded


@pytest.mark.oldest_and_newest
@pytest.mark.parametrize("end", ["--for 3s", "kill -TERM"])
def test_a_trace_ends_although_nobody_reads_what_waits(machine: Machine, end: str) -> None:
    """The pipe is full: only the time limit ends the write, and what waits is counted."""
    options, kill = (end, "") if end.startswith("--for") else ("", f"{end} $tracer")
    script = f"""
        mkfifo /tmp/unread; exec 3<>/tmp/unread
        {shlex.join([TOOL, *FEW])} -C bpf.drain-seconds=1 {options} >/tmp/unread 2>/tmp/said &
        tracer=$!
        until grep -q 'Receiving data' /tmp/said; do sleep 0.1; done
        {compiled(machine, "burst")} 2 {CALLS // 2} >/dev/null
        {kill}
        wait $tracer; echo $?; cat /tmp/said >&2; rm /tmp/unread"""
    result = machine.run(["bash", "-c", script], timeout=180)
    assert result.out == "0\n", result.err
    told = re.search(r"^DISCARDED RECORDS: +(\d+) +they waited for over 1 s", result.err, re.M)
    assert told is not None, result.err
    assert 0 < int(told[1]) <= CALLS
    assert re.search(r"^DONE in \d+ ms\.$", result.err, re.M)


@pytest.mark.one_kernel
def test_a_command_that_ignores_signals_is_left_alone_by_the_second(machine: Machine) -> None:
    script = "trap '' TERM; echo ready >&2; while :; do sleep 1; done"
    tracer = start_trace(machine, *FEW, "--", "sh", "-c", script)
    wait_for(lambda: b"ready" in tracer.output()[1], tracer)
    for _ in range(2):
        tracer.send_signal(signal.SIGTERM)
        time.sleep(1)
    result = tracer.wait(60)
    assert result.status == 128 + signal.SIGTERM
    told = re.search(r"the command \(process (\d+)\) still runs after .*: kill -9 \1", result.err)
    assert told is not None, result.err
    machine.run(["kill", "-9", told[1]])


@pytest.mark.one_kernel
def test_an_interrupt_ends_a_trace_that_a_script_runs_in_the_background(machine: Machine) -> None:
    script = f"""
        {TOOL} {" ".join(f"'{word}'" for word in FEW)} 2>/tmp/said & tracer=$!
        until grep -q 'Receiving data' /tmp/said; do sleep 0.1; done
        kill -INT $tracer
        wait $tracer; echo $?"""
    assert machine.run(["sh", "-c", script], timeout=60).out == "0\n"
    assert trace(machine, *FEW, "--", "true").status == 0


@pytest.mark.one_kernel
def test_what_ctrl_c_looks_like_on_a_terminal(machine: Machine) -> None:
    result = machine.run([PYTHON, str(PROGRAMS / "ctrl_c.py"), TOOL, *FEW], timeout=60)
    shown = result.out.replace("\r\n", "\n")
    begin = shown.index("Receiving data...")
    took = re.search(r"DONE in \d+ ms\.", shown)
    assert took is not None, shown
    seen = "No call of an entry function was seen."
    assert shown[begin:] == f"Receiving data...\n^C\nDetaching...\n{seen}\n{took[0]}\nstatus 0\n"


@pytest.mark.one_kernel
def test_what_neither_memory_nor_a_file_may_hold_is_counted(machine: Machine) -> None:
    limits = ("-C", "bpf.queue-size=100000", "-C", "bpf.spool-size=0")
    burst = (str(compiled(machine, "burst")), "2", str(CALLS // 2))
    result = trace(machine, *FEW, *limits, "--", *burst)
    assert result.status == 0, result.err
    assert "reached its limit; allow more than 0 bytes with -C bpf.spool-size" in result.err
    told = re.search(r"^UNREAD RECORDS: +(\d+) ", result.err, re.MULTILINE)
    assert told is not None, result.err
    assert result.out.count(" TID/PID ") + int(told[1]) == CALLS


@pytest.mark.one_kernel
def test_each_call_is_told_in_one_of_the_interim_reports(machine: Machine) -> None:
    probe = ("-J", "kprobe:array_map_alloc_check")
    burst = (str(compiled(machine, "burst")), "1", "100")
    result = trace(machine, "-T", "-I", "-E", *FEW, *probe, "--", *burst)
    assert result.status == 0, result.err
    assert result.out.count("◎ kprobe:array_map_alloc_check") == 100
    assert result.out.count(" TID/PID ") == 200
    assert result.out.count(" records told before ...") == 100
    assert result.out.count("→ map_create") == 100
    assert result.out.count("← map_create") == 100
