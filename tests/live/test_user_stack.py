# SPDX-License-Identifier: BSD-2-Clause
"""User stacks; and branches, which the guests' CPUs do not record."""

from __future__ import annotations

import json
import re
import shlex

import pytest
from tests.live.support import TOOL, Recording, compiled, read_recording, trace, wait_for

from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

CALLS = 3
FLAGS = ("-g", "-fno-omit-frame-pointer")


@pytest.fixture(scope="module")
def run(machine: Machine) -> tuple[Result, Recording]:
    """Failing calls of a program that is gone soon."""
    path = machine.share / "callers.rsn"
    program = str(compiled(machine, "callers", *FLAGS))
    options = ("-e", "*_sys_ioctl", "--user-stack", "-B", "-o", str(path))
    result = trace(machine, *options, "--", program, str(CALLS))
    assert result.status == 0, result.err
    return result, read_recording(path)


def test_the_callers_are_shown_under_the_kernel_stack(
    machine: Machine, run: tuple[Result, Recording]
) -> None:
    program = machine.share / "callers"
    blocks = [block for block in run[0].out.split("\n\n\n") if block.strip()]
    assert len(blocks) == CALLS
    for block in blocks:
        kernel, _, user = block.partition("\nUser stack:\n")
        assert "_sys_ioctl" in kernel
        frames = [line.split() for line in user.splitlines() if str(program) in line]
        names = [symbol.partition("+")[0] for symbol, *_ in frames]
        assert names[-3:] == ["main", "outer_call", "inner_call"]
        sources = [source for _, source, _ in frames[-3:]]
        assert all(re.search(r"callers\.c:\d+\)$", source) for source in sources), sources


def test_the_library_that_called_main_is_named(run: tuple[Result, Recording]) -> None:
    """It is main()'s direct caller; its own caller is shown if the library has frame pointers."""
    _, _, user = run[0].out.partition("\nUser stack:\n")
    lines = user.splitlines()
    main = next(number for number, line in enumerate(lines) if line.lstrip().startswith("main+"))
    assert "libc.so" in lines[main - 1], user


def test_a_replay_knows_the_program_no_more_and_shows_the_same(
    machine: Machine, run: tuple[Result, Recording]
) -> None:
    path = str(machine.share / "callers.rsn")
    (machine.share / "callers").unlink()
    assert trace(machine, "replay", path).stdout == run[0].stdout
    replayed = trace(machine, "replay", path, "--format", "json").out.splitlines()
    sessions = [line for line in map(json.loads, replayed) if line["type"] == "session"]
    symbols = [[frame.get("symbol") for frame in s["user_stack"]] for s in sessions]
    assert [names[-3:] for names in symbols] == [["main", "outer_call", "inner_call"]] * CALLS


def test_that_no_branches_are_recorded_is_told_once_with_the_reason(
    machine: Machine, run: tuple[Result, Recording]
) -> None:
    told = [line for line in run[0].err.splitlines() if "(-B)" in line]
    assert len(told) == 1, told
    assert told[0].startswith("WARNING: no branches are shown (-B): ")
    why = r"no PMU of the CPU|has no bpf_get_branch_snapshot"
    if machine.arch.name == "arm64":  # the emulator has a PMU, and no BRBE in it
        why = r"does not support branch records \(-EOPNOTSUPP\)|has no bpf_get_branch_snapshot"
    assert re.search(why, told[0])
    assert all(session.branches is None for session in run[1].sessions)
    assert run[1].header.views.lbr is None


def test_a_deleted_program_with_a_fifo_of_its_name_has_symbols(machine: Machine) -> None:
    """The tool reads the running program, not the file with its name, so it does not wait."""
    program = compiled(machine, "callers", *FLAGS)
    options = ("-e", "*_sys_ioctl", "--user-stack", "--format", "json", "--user", "nobody")
    # the command opens it: with --user it gets no descriptor of its caller
    inner = f"exec 9<x && rm x && mkfifo 'x (deleted)' && exec /proc/self/fd/9 {CALLS} 600"
    tool = shlex.join([TOOL, *options, "--", "sh", "-c", inner])
    script = f"mkdir -m 777 deleted && cd deleted && cp {program} x && exec {tool}"
    started = machine.start(["sh", "-c", f"cd /run && {script}"])
    # a slow machine looks at the program later than a fixed time after its calls
    wait_for(lambda: started.output()[0].count(b'"process":"9"') == CALLS, started)
    started.send_signal(2)
    result = started.wait(60)
    lines = [json.loads(line) for line in result.out.splitlines()]
    rows = [line["user_stack"][-1] for line in lines if line.get("process") == "9"]
    told = {(frame["file"], frame["symbol"]) for frame in rows}
    assert (len(rows), told) == (CALLS, {("/run/deleted/x (deleted)", "inner_call")}), result.err
