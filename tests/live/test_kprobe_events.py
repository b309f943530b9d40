# SPDX-License-Identifier: BSD-2-Clause
"""Kprobe events with many probes, and the settings restored after them and single kprobes."""

from __future__ import annotations

import errno
import re
import signal
import time
from collections.abc import Callable

import pytest
from tests.live.support import (
    FEW,
    PROGRAMS,
    PYTHON,
    TOOL,
    WORKLOAD,
    compiled,
    errno_of,
    read_recording,
    start_trace,
    trace,
    wait_for,
)

from retsnoop_py.vm.command import Command
from retsnoop_py.vm.errors import kernel_problems
from retsnoop_py.vm.machine import Machine

FORCED = "--attach=kprobe_events"
#: Enough single kprobes that the tool changes rcu_expedited.
SINGLE = ("-K", "-e", "*_sys_bpf", "-a", "array_map_*", "-a", "bpf_map_*")
EVENTS = "/sys/kernel/tracing/kprobe_events"
EXPEDITED = "/sys/kernel/rcu_expedited"

pytestmark = [pytest.mark.oldest_and_newest, pytest.mark.usefixtures("normal_rcu")]


def shell(machine: Machine, script: str) -> str:
    result = machine.run(["sh", "-c", script])
    assert result.status == 0, result.err
    return result.out.strip()


def become(condition: Callable[[], bool], timeout: float = 120) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


def expedited(machine: Machine) -> str:
    return shell(machine, f"cat {EXPEDITED}")


def events(machine: Machine) -> list[str]:
    return shell(machine, f"cat {EVENTS}").splitlines()


def test_failures_are_caught_those_in_modules_too(machine: Machine) -> None:
    path = machine.share / "events.rsn"
    machine.run(["modprobe", "dummy"])
    functions = (*FEW, "-e", "dummy_validate[dummy]")
    script = f"{' '.join(WORKLOAD)} bpf-map-bad-flags && {PYTHON} {PROGRAMS}/bad_link.py"
    result = trace(machine, FORCED, "-v", *functions, "-o", str(path), "--", "sh", "-c", script)
    assert result.status == 0, result.err
    assert re.search(r"Total \d+ kernel functions attached by kprobe_events in", result.err)
    recording = read_recording(path)
    assert [errno_of(s) for s in recording.sessions] == [errno.EINVAL, errno.EADDRNOTAVAIL]
    assert recording.sessions[0].calls[-1].function.name == "array_map_alloc_check"
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert events(machine) == []


def test_a_function_the_kernel_refuses_is_left_out_with_the_reason(machine: Machine) -> None:
    """Without debugfs it is not known beforehand which functions kprobes may not touch."""
    path = machine.share / "refused.rsn"
    select = (*FEW, "-a", "dump_kprobe", "-o", str(path))
    cases = (*WORKLOAD, "bpf-map-bad-flags")
    hidden = ["unshare", "-m", "sh", "-c", 'umount -l /sys/kernel/debug && exec "$@"', "sh"]
    told = ("-v", "--debug", "multi-kprobe")
    result = machine.run([*hidden, TOOL, FORCED, *told, *select, "--", *cases], timeout=180)
    assert result.status == 0, result.err
    for said in ("refused by kprobe_events", "left out"):
        assert re.search(rf"^Function 'dump_kprobe' {said}: .*-EINVAL", result.err, re.MULTILINE)
    assert len(read_recording(path).sessions) == 1


def test_none_of_a_hundred_sleepers_is_missed(machine: Machine) -> None:
    path = machine.share / "sleepers.rsn"
    options = ("-e", "*_sys_nanosleep", "-a", "hrtimer_nanosleep", "-S", "-o", str(path))
    sleepers = str(compiled(machine, "sleepers"))
    result = trace(machine, FORCED, *options, "--", sleepers, "100")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    sleeps = [s.tid for s in recording.sessions if s.calls[-1].function.name == "hrtimer_nanosleep"]
    assert len(sleeps) == len(set(sleeps)) == 100
    assert "not seen" not in result.err


def test_sleepers_beyond_the_hooks_are_counted(machine: Machine) -> None:
    path = machine.share / "sleepers.rsn"
    sleepers = str(compiled(machine, "sleepers"))
    options = ("-e", "*_sys_nanosleep", "-S", "-o", str(path))
    result = trace(machine, FORCED, *options, "--", sleepers, "400", "4")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    whole = [session for session in recording.sessions if not session.died]
    missed = recording.stats["sessions_abandoned"] + len(recording.sessions) - len(whole)
    assert missed, (len(whole), len(recording.sessions), recording.stats)
    assert len(whole) + missed == 400


def kill_all(machine: Machine, command: Command) -> None:
    """The tool and who would clean up behind it."""
    shell(machine, "pkill -9 -x retsnoop-guard")
    command.send_signal(signal.SIGKILL)
    assert command.wait(60).status == 128 + signal.SIGKILL


def test_kill_9_leaves_no_events(machine: Machine) -> None:
    tracer = start_trace(machine, FORCED, *FEW)
    assert events(machine)
    tracer.send_signal(signal.SIGKILL)
    assert tracer.wait(60).status == 128 + signal.SIGKILL
    become(lambda: not events(machine))


def test_the_next_run_deletes_what_the_guard_could_not(machine: Machine) -> None:
    kill_all(machine, start_trace(machine, FORCED, *FEW))
    left = events(machine)
    assert left
    shell(machine, f"echo 'p:kprobes/rsnoop_not_ours vfs_read' >>{EVENTS}")
    result = trace(machine, "-v", *FEW, "--", "true")
    assert "Deleted kprobe events of the killed process" in result.err
    assert [line.split()[0] for line in events(machine)] == ["p:kprobes/rsnoop_not_ours"]
    shell(machine, f"echo '-:kprobes/rsnoop_not_ours' >>{EVENTS}")


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -9)],
    ids=["int", "term", "kill"],
)
def test_a_signal_while_attaching_puts_rcu_expedited_back(
    number: int, status: int, machine: Machine
) -> None:
    script = [PYTHON, str(PROGRAMS / "signal_when_hurried.py"), str(int(number))]
    result = machine.run([*script, TOOL, *SINGLE], timeout=180)
    assert result.out == f"status {status}\n", result.err
    become(lambda: expedited(machine) == "0")


@pytest.mark.slow
def test_system_changes_are_made_put_back_and_can_be_refused(machine: Machine) -> None:
    """A file in place of the setting shows whether anybody wrote to it."""
    script = f"""
        echo 0 >/tmp/rcu_expedited
        mount --bind /tmp/rcu_expedited {EXPEDITED}
        for options in --no-system-changes -v; do
            touch -d @1 {EXPEDITED}
            {TOOL} $options {" ".join(SINGLE)} -- true || exit
            stat -c 'changed %Y' {EXPEDITED}
        done
        cat {EXPEDITED}"""
    result = machine.run(["unshare", "-m", "sh", "-c", script], timeout=240)
    assert result.status == 0, result.err
    refused, made = re.findall(r"changed (\d+)", result.out)
    assert refused == "1"
    assert made != "1"
    assert result.out.splitlines()[-1] == "0"


def hurry(machine: Machine) -> Command:
    """Start a process that changes the setting until :func:`end`."""
    pipe = f"tail -f /dev/null | exec {PYTHON} {PROGRAMS}/hurry.py"
    command = machine.start(["sh", "-c", pipe])
    wait_for(lambda: b"hurried" in command.output()[0], command)
    return command


def end(machine: Machine, command: Command, number: int) -> None:
    command.send_signal(number)
    command.wait(60)


def test_the_last_of_two_puts_rcu_expedited_back(machine: Machine) -> None:
    first, second = hurry(machine), hurry(machine)
    end(machine, first, signal.SIGKILL)
    assert expedited(machine) == "1"
    end(machine, second, signal.SIGKILL)
    become(lambda: expedited(machine) == "0")


def test_without_descriptors_left_the_guard_puts_rcu_expedited_back(machine: Machine) -> None:
    """Attaching may use the last descriptors, just before the setting has to be restored."""
    script = ["sh", "-c", f"ulimit -n 64; exec {PYTHON} {PROGRAMS}/hurry.py exhausted </dev/null"]
    result = machine.run(script)
    assert (result.status, result.out) == (0, "hurried\nexhausted\nagain\n"), result.err
    become(lambda: expedited(machine) == "0")


def test_a_value_that_was_set_before_is_not_ours(machine: Machine) -> None:
    shell(machine, f"echo 1 >{EXPEDITED}")
    end(machine, hurry(machine), signal.SIGINT)
    become(lambda: not machine.run(["pgrep", "-x", "retsnoop-guard"]).out)
    assert expedited(machine) == "1"
    shell(machine, f"echo 0 >{EXPEDITED}")


def test_the_next_run_puts_back_what_the_guard_could_not(machine: Machine) -> None:
    command = hurry(machine)
    kill_all(machine, command)
    assert expedited(machine) == "1"
    result = trace(machine, "-v", *FEW, "--", "true")
    assert "Restored rcu_expedited" in result.err
    assert expedited(machine) == "0"


def test_the_kernel_log_is_clean(machine: Machine) -> None:
    assert kernel_problems(machine.kernel_log()) == []
