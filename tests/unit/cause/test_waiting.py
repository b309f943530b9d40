# SPDX-License-Identifier: BSD-2-Clause
"""What real processes wait for, as /proc shows it here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from retsnoop_py.cause import search
from retsnoop_py.cause.waiting import kernel, kinds, proc
from retsnoop_py.cause.waiting.kinds import ordered, wait_of, waits_of
from retsnoop_py.cause.waiting.look import descendants, look
from retsnoop_py.cause.waiting.model import INFERRED, Blocked, Finding, Wait, duration
from retsnoop_py.value import replace

SECONDS = 60.0


class Known:
    """A watch that saw each call begin 4.2 s ago, and the signals ``stops``."""

    def __init__(self, stops: dict[int, tuple[int, int]] | None = None) -> None:
        self._stops = stops or {}

    def begun(self, tid: int, number: int) -> int | None:
        return time.monotonic_ns() - 4_200_000_000

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        return self._stops.get(pid)


def waits(pid: int, known: Known | None = None) -> tuple[Wait, ...]:
    return waits_of(look(descendants([pid]), os.uname().machine, known or Known()))


@contextmanager
def python(*lines: str) -> Iterator[subprocess.Popen[bytes]]:
    words = [sys.executable, "-S", "-c", "\n".join(("import os, socket, fcntl, time", *lines))]
    with running(words) as process:
        yield process


@contextmanager
def running(words: list[str]) -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, start_new_session=True) as process:
        try:
            yield process
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def until(pid: int, *kinds: str, known: Known | None = None) -> tuple[Wait, ...]:
    """The waits once there is one of each kind, in any order."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        found = waits(pid, known)
        if set(kinds) <= {one.found.kind for one in found}:
            return found
        time.sleep(0.02)
    raise AssertionError([one.sentence for one in waits(pid, known)])


def test_a_timer() -> None:
    with running(["sleep", "1000"]) as process:
        (one,) = until(process.pid, "timer")
    assert one.sentence == (
        f"sleep (PID {process.pid}) has waited 4.2 s for a timer: it sleeps for 16 min 40 s."
    )


@pytest.mark.parametrize("lock", ["flock", "lockf"])
def test_a_lock_and_its_holder(lock: str, tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with python(
        "if os.fork() == 0:",
        f"    f = open({str(path)!r}, 'w'); fcntl.{lock}(f, fcntl.LOCK_EX)",
        f"    open({str(path)!r} + '1', 'w'); time.sleep(99)",
        f"while not os.path.exists({str(path)!r} + '1'): time.sleep(.01)",
        f"f = open({str(path)!r}, 'w'); fcntl.{lock}(f, fcntl.LOCK_EX)",
    ) as process:
        first, other = until(process.pid, "lock", "timer")
    assert first.thread.pid == process.pid
    assert f"for a lock on {path}." in first.sentence
    assert f"PID {other.thread.pid} (" in first.sentence
    assert "holds it" in first.sentence
    assert first.found.on == (other.thread.pid,)


def test_a_lock_of_an_open_file_that_no_process_is_listed_for(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with python(
        "import struct",
        "def lock(wait):",
        f"    f = open({path!r}, 'w')",
        "    fcntl.fcntl(f, 38 if wait else 37, struct.pack('hhqqi4x', 1, 0, 0, 0, 0))",
        "    return f",
        "if os.fork() == 0:",
        f"    f = lock(False); open({path!r} + '1', 'w'); time.sleep(99)",
        f"while not os.path.exists({path!r} + '1'): time.sleep(.01)",
        "lock(True)",
    ) as process:
        first, other = until(process.pid, "lock", "timer")
    assert f"for a lock on {path}. PID {other.thread.pid} (" in first.sentence
    assert "holds it (fcntl, OFD, a write lock)" in first.sentence


def test_two_processes_that_lock_each_other_out(tmp_path: Path) -> None:
    path = str(tmp_path / "l")
    with python(
        f"path = {path!r}",
        "def lock(n):",
        "    f = open(path + n, 'w'); fcntl.lockf(f, fcntl.LOCK_EX); open(path + n + '.ok', 'w')",
        "    return f",
        "def seen(n):",
        "    while not os.path.exists(path + n + '.ok'): time.sleep(.01)",
        "mine, other = ('a', 'b') if os.fork() else ('b', 'a')",
        "f = lock(mine); seen(other)",
        "try:",
        "    lock(other)",
        "except OSError:",
        "    lock(other + '2'); time.sleep(99)",
    ) as process:
        # the kernel refuses the second one, so that only one of them waits
        found = until(process.pid, "lock", "timer")
    assert [one.found.kind for one in found] == ["lock", "timer"]


def test_a_child_and_what_it_waits_for() -> None:
    with python("os.fork() or time.sleep(99)", "os.wait()") as process:
        first, second = until(process.pid, "timer", "child")
    assert first.found.kind == "timer"
    assert f"for its child PID {first.thread.pid}" in second.sentence


def test_a_pipe_and_who_has_the_other_end() -> None:
    with python(
        "r, w = os.pipe()",
        "if os.fork() == 0: time.sleep(99)",
        "os.close(w); os.read(r, 1)",
    ) as process:
        first, second = until(process.pid, "timer", "pipe")
    assert f"PID {first.thread.pid} (" in second.found.more
    assert "has the writing end open" in second.found.more
    with python("r, w = os.pipe()", "os.read(r, 1)") as process:
        (one,) = until(process.pid, "pipe")
    assert "Only this process itself has the writing end open (descriptor 4)" in one.sentence


def test_sockets() -> None:
    with python(
        "s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen()",
        "c = socket.create_connection(s.getsockname()); d = s.accept()[0]",
        "if os.fork() == 0: c.close(); s.accept()",
        "d.close(); c.recv(1)",
    ) as process:
        found = until(process.pid, "accept", "socket")
    by_kind = {one.found.kind: one for one in found}
    assert "for a client to connect to 127.0.0.1:" in by_kind["accept"].sentence
    assert "for data from 127.0.0.1:" in by_kind["socket"].sentence
    child = by_kind["accept"].thread.pid
    assert f"PID {child} (" in by_kind["socket"].found.more


def test_a_unix_socket_whose_other_end_is_in_the_same_process() -> None:
    with python("a, b = socket.socketpair()", "a.recv(1)") as process:
        (one,) = until(process.pid, "socket")
    assert "for data from a socket pair" in one.sentence


@pytest.mark.parametrize(
    ("flags", "words"),
    [("zz", "for data from a socket pair"), ("00010000", "What it waits for is not known")],
)
def test_the_path_of_a_unix_socket_is_no_row_of_the_kernels_list(
    tmp_path: Path, flags: str, words: str
) -> None:
    """The kernel prints a path with a newline as it is."""
    row = f"0000000000000001: 00000002 00000000 {flags} 0001 01"
    with python(
        f"os.chdir({str(tmp_path)!r})",
        "a, b = socket.socketpair()",
        "held = []",
        "for _ in range(64):",
        "    held.append(socket.socket(socket.AF_UNIX))",
        f"    held[-1].bind('%dx\\n{row} %d v' % (_, os.fstat(a.fileno()).st_ino))",
        "a.recv(1)",
    ) as process:
        (one,) = until(process.pid, "socket" if flags == "zz" else "unknown")
    assert words in one.sentence


def test_poll_of_one_descriptor_is_that_wait_with_its_limit() -> None:
    with python(
        "import select",
        "r, w = os.pipe()",
        "select.select([r], [], [], 1000)",
    ) as process:
        (one,) = until(process.pid, "pipe")
    assert "for data from a pipe (descriptor 3) (at most 16 min 4" in one.sentence


def test_a_fifo_that_no_process_opens_at_the_other_end(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "f")
    with running(["cat", str(tmp_path / "f")]) as process:
        (one,) = until(process.pid, "fifo")
    assert f"opens the FIFO {tmp_path / 'f'} for writing" in one.sentence
    assert one.arguments.endswith(f"'{tmp_path / 'f'}'")


def test_threads_that_wait_for_each_other() -> None:
    with python(
        "import threading",
        "a, b = threading.Lock(), threading.Lock()",
        "def f(x, y):",
        "    with x:",
        "        time.sleep(.2)",
        "        with y: pass",
        "t = [threading.Thread(target=f, args=one) for one in ((a, b), (b, a))]",
        "[one.start() for one in t]; [one.join() for one in t]",
    ) as process:
        found = until(process.pid, "futex")
        while any(one.found.kind != "futex" for one in found) or len(found) < 3:
            found = until(process.pid, "futex")
    assert all("All 3 threads of the process wait like this" in one.sentence for one in found)
    assert {one.found.certainty for one in found} == {INFERRED}


def test_a_stopped_process() -> None:
    with running(["sleep", "1000"]) as process:
        os.kill(process.pid, signal.SIGSTOP)
        seen = Known({process.pid: (signal.SIGSTOP, os.getpid())})
        (one,) = until(process.pid, "stopped", known=seen)
    assert "is stopped by the signal SIGSTOP" in one.sentence
    assert f"PID {os.getpid()} (" in one.sentence
    assert one.found.advice == (f"kill -CONT {process.pid} lets it go on",)


def test_a_process_that_does_not_wait() -> None:
    with python("while True: pass") as process:
        (one,) = until(process.pid, "running")
    assert "does not wait. It runs, in the program's own code" in one.sentence


def test_a_thread_that_has_gone_on_meanwhile_is_not_said_to_wait() -> None:
    with running(["sleep", "1000"]) as process:
        until(process.pid, "timer")
        (thread,) = look([process.pid], os.uname().machine, Known())
        found = wait_of(replace(thread, call="openat", place="257 0x1"))
    assert "does not wait long" in found.sentence
    assert "One of them was openat." in found.sentence


def blocked(call: str, *functions: str, state: str = "D") -> Blocked:
    stack = tuple(f"{one}+0x1/0x2" for one in functions)
    return Blocked(4711, 4711, "x", state, call, (3,), 0, 4_200_000_000, stack)


@pytest.mark.parametrize(
    ("functions", "kind", "words"),
    [
        (("request_wait_answer", "fuse_lookup"), "fuse", "for the FUSE daemon of a file"),
        (("rpc_wait_bit_killable", "nfs4_proc_getattr"), "nfs", "for the NFS server of a file"),
        (("percpu_rwsem_wait", "mnt_want_write"), "frozen-file-system", "is thawed"),
        (("rwsem_down_write_slowpath", "do_rmdir"), "kernel-lock", "for a lock inside the kernel"),
        (("folio_wait_bit_common", "filemap_read"), "disk", "for the disk of a file"),
    ],
)
def test_the_kernels_functions(functions: tuple[str, ...], kind: str, words: str) -> None:
    found = kernel.in_kernel(blocked("read", *functions))
    assert found is not None
    assert (found.kind, found.certainty) == (kind, INFERRED)
    assert words in found.text
    assert "not even SIGKILL" in found.more


def test_what_is_not_known_is_said() -> None:
    thread = blocked("ioctl", "schedule_timeout", "xyz_ioctl", state="S")
    assert kernel.in_kernel(thread) is None
    found = kernel.unknown(thread)
    assert (found.kind, found.certainty) == ("unknown", "unknown")
    assert "xyz_ioctl waits" in found.more


def test_the_order() -> None:
    def wait(tid: int, kind: str, *on: int) -> Wait:
        thread = Blocked(tid, tid, "x", "S", "read")
        return Wait(thread, Finding(kind, "{waits}", on=on))

    shell, holder, waiter = wait(1, "child", 2, 3), wait(2, "timer"), wait(3, "lock", 2)
    assert ordered([shell, holder, waiter]) == (waiter, holder, shell)
    reader, writer = wait(4, "pipe", 2), wait(2, "timer")
    assert ordered([reader, writer]) == (writer, reader)


def test_times_for_people() -> None:
    values = {4.2: "4.2 s", 60: "1 min", 200: "3 min 20 s", 7500: "2 h 5 min", 260000: "3 days"}
    assert {one: duration(one) for one in values} == values


def test_what_has_ended_is_empty_and_no_error() -> None:
    assert proc.text(0, "stat") == ""
    assert proc.link(0, "exe") == ""
    assert proc.memory(os.getpid(), 1, 8) == b""
    assert proc.string(os.getpid(), 1) == ""
    assert (proc.threads(0), proc.descriptors(0)) == ([], [])
    assert look([0], "x86_64", Known()) == []


def test_many_threads_at_pipes_are_one_search_which_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile process has a thread at each of many pipes, and many open files."""
    searches = []

    class Counted(search.Search):
        def __init__(self) -> None:
            super().__init__()
            searches.append(self)

    monkeypatch.setattr(proc, "Search", Counted)
    lines = (
        "import threading",
        "for _ in range(20):",
        "    threading.Thread(target=os.read, args=(os.pipe()[0], 1)).start()",
    )
    with python(*lines) as process:
        while len(proc.threads(process.pid)) < 21:
            time.sleep(0.01)
        until(process.pid, "pipe")
        searches.clear()
        found = waits(process.pid)
        assert [one.found.kind for one in found].count("pipe") == 20
        assert len(searches) == 1
        monkeypatch.setattr(search, "SECONDS", 0.0)
        pipes = [one.found for one in waits(process.pid) if one.found.kind == "pipe"]
        assert all("took too long" in one.more for one in pipes)


def test_threads_for_which_there_is_no_time_are_reported_as_unknown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with python("time.sleep(100)") as process:
        until(process.pid, "timer")
        monkeypatch.setattr(kinds, "_SECONDS", 0.0)
        (found,) = waits(process.pid)
    assert found.found.kind == found.found.certainty == "unknown"
    assert "the time was not enough" in found.found.more
