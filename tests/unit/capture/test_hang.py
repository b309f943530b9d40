# SPDX-License-Identifier: BSD-2-Clause
"""What is kept of the looks at a command's threads."""

from __future__ import annotations

import os
import signal
import subprocess

from retsnoop_py.capture.hang import HangWatch
from retsnoop_py.cause.waiting.look import look


class Watched:
    """Knows no process and no call's begin."""

    def begun(self, tid: int, number: int) -> int | None:
        return 1

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        return None

    def living(self) -> frozenset[int]:
        return frozenset()


def test_a_further_look_at_the_same_wait_only_makes_it_longer() -> None:
    watch = HangWatch(os.uname().machine)
    assert not watch.is_due()
    with subprocess.Popen(["sleep", "1000"]) as process:
        try:
            watch.roots.append(process.pid)
            while [one.found.kind for one in watch.waits] != ["timer"]:
                watch.look(Watched(), at_end=True)
            (first,) = watch.waits
            watch.look(Watched())
            (second,) = watch.waits
            assert second.found is first.found
            assert second.thread.seen > first.thread.seen
            assert not watch.timed_out
            watch.look(Watched(), at_end=True)
            assert watch.timed_out
        finally:
            process.send_signal(signal.SIGKILL)


def test_a_new_wait_is_analysed_at_the_second_look_even_if_the_time_for_it_is_not_over() -> None:
    """A command that starts slowly runs at the first look, and Ctrl-C ends it before the next."""
    watch = HangWatch(os.uname().machine)
    command = ["sh", "-c", "read line; exec sleep 1000"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        try:
            watch.roots.append(process.pid)
            while [one.thread.call for one in watch.waits] != ["read"]:
                watch.look(Watched(), at_end=True)
            watch._next_reading, watch._next_new = float("inf"), 0.0
            print(file=process.stdin, flush=True)
            while call_of(process.pid) not in ("nanosleep", "clock_nanosleep"):
                pass
            watch.look(Watched())
            assert [one.thread.call for one in watch.waits] == ["read"]
            watch.look(Watched())
            assert [one.found.kind for one in watch.waits] == ["timer"]
        finally:
            process.send_signal(signal.SIGKILL)


def call_of(pid: int) -> str:
    """The system call in which a process waits."""
    (thread,) = look([pid], os.uname().machine, Watched()) or (None,)
    return thread.call or "" if thread is not None and thread.state == "S" else ""


def test_a_command_that_has_ended_did_not_run_out_of_time() -> None:
    watch = HangWatch(os.uname().machine)
    watch.look(Watched(), at_end=True)
    assert not watch.timed_out
    assert watch.waits == ()
