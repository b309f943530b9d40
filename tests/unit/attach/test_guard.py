# SPDX-License-Identifier: BSD-2-Clause
"""The process that cleans up behind us does so when we end, however that comes about."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from retsnoop_py.attach.guard import Guard, sweep

#: What it writes to delete the two pairs of owner 1_2.
DELETIONS = [f"-:rsnoop_1_2/{side}{number}_1_2" for number in range(2) for side in ("in", "out")]


def written(folder: Path) -> list[str]:
    return (folder / "kprobe_events").read_text().splitlines()


def wait_for(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_it_deletes_what_was_announced_once_it_is_let(tmp_path: Path) -> None:
    (tmp_path / "kprobe_events").write_text("")
    guard = Guard(system_changes=False, tracefs=tmp_path, owner="1_2")
    guard.announce(1)
    guard.announce(2)
    assert written(tmp_path) == []
    assert guard.finish()
    assert written(tmp_path) == DELETIONS
    assert guard.finish()


def test_nothing_announced_is_nothing_deleted(tmp_path: Path) -> None:
    (tmp_path / "kprobe_events").write_text("")
    assert Guard(system_changes=False, tracefs=tmp_path, owner="1_2").finish()
    assert written(tmp_path) == []


def test_it_works_when_we_are_killed_and_survives_what_is_sent_to_our_group(
    tmp_path: Path,
) -> None:
    (tmp_path / "kprobe_events").write_text("")
    pid = os.fork()
    if not pid:
        os.setpgid(0, 0)
        guard = Guard(system_changes=False, tracefs=tmp_path, owner="1_2")
        guard.announce(2)
        os.killpg(0, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    wait_for(lambda: written(tmp_path) == DELETIONS)


def test_the_next_run_deletes_what_a_killed_one_left(tmp_path: Path) -> None:
    folder = tmp_path / "sys/kernel/tracing"
    folder.mkdir(parents=True)
    left = "p:rsnoop_1_2/in0_1_2 _text+4\nr32:rsnoop_1_2/out1_1_2 _text+4\n"
    (folder / "kprobe_events").write_text(left)
    sweep(tmp_path, system_changes=False)
    assert written(folder) == left.splitlines() + DELETIONS


def test_a_sweep_with_nothing_to_do_says_nothing(tmp_path: Path) -> None:
    assert sweep(tmp_path, system_changes=False) == []


def test_it_puts_files_back_the_last_one_first_even_if_we_are_killed(tmp_path: Path) -> None:
    (tmp_path / "tracer").write_text("function_graph")
    (tmp_path / "filter").write_text("f")
    pid = os.fork()
    if not pid:
        guard = Guard(system_changes=False)
        guard.restore(tmp_path / "filter", "")
        guard.restore(tmp_path / "tracer", "nop")
        os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    wait_for(lambda: (tmp_path / "filter").read_text() == "")
    assert (tmp_path / "tracer").read_text() == "nop"


def test_signals_do_not_end_the_wait_for_it(tmp_path: Path) -> None:
    """A Python program has handlers of its own, which interrupt system calls."""
    (tmp_path / "kprobe_events").write_text("")
    before = signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0002, 0.0002)
    try:
        for _ in range(20):
            guard = Guard(system_changes=False, tracefs=tmp_path, owner="1_2")
            guard.announce(2)
            assert guard.finish(60_000)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)


def test_a_file_with_a_short_name_is_no_number(tmp_path: Path) -> None:
    """A path of two bytes and an empty text are four bytes, as a number of pairs."""
    (tmp_path / "kprobe_events").write_text("")
    guard = Guard(system_changes=False, tracefs=tmp_path, owner="1_2")
    guard.announce(2)
    guard.restore(Path("//"), "")
    assert guard.finish()
    assert written(tmp_path) == DELETIONS
