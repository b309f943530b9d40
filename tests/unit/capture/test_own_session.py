# SPDX-License-Identifier: BSD-2-Clause
"""The command of another user has a terminal of its own, and cannot type into its caller's."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shlex
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from retsnoop_py.cause.waiting import proc

#: Runs a command as --user does. The ids stay: the tests need no privileges.
DRIVER = """
import os, select, signal, sys
from retsnoop_py.capture import command as module, inherited
inherited.remember()
signal.signal(signal.SIGINT, lambda *_: os.write(1, b"interrupted\\n"))
module.User.become = lambda self: None
user = module.find_user(str(os.getuid()))
with module.Command(sys.argv[1:], user=user) as command:
    print(f"[{os.getsid(0)}]", flush=True)
    command.release()
    command.wait(lambda: False)
ready = select.select([0], [], [], 0.2)[0]
print(f"status {command.exit_status}, typed {os.read(0, 99) if ready else None}", flush=True)
"""
PYTHON = shlex.quote(sys.executable)
#: Types into each terminal that it can find.
HOSTILE = """
import fcntl, os, termios
print("session", os.getsid(0), flush=True)
for name in (0, 1, 2, "/dev/tty"):
    try:
        fd = os.open(name, os.O_RDWR) if isinstance(name, str) else name
        for letter in b"touch PWNED\\n":
            fcntl.ioctl(fd, termios.TIOCSTI, bytes([letter]))
    except OSError as error:
        print(error.errno)
"""

#: Prints the size of its terminal, at each change too, and what is typed; ends with 7 by Ctrl-C. It
#: looks again and again: a shell may sleep on with a signal that came right before.
ANSWERS = """
import os, signal, time
def size(*_):
    os.write(1, b"%d %d\\n" % (os.get_terminal_size().lines, os.get_terminal_size().columns))
def caught(*_):
    os.write(1, b"caught\\n")
    os._exit(7)
signal.signal(signal.SIGWINCH, size)
signal.signal(signal.SIGINT, caught)
size()
os.write(1, b"got " + os.read(0, 99))
while True:
    time.sleep(0.05)
"""


def words(*command: str) -> list[str]:
    return [sys.executable, "-c", DRIVER, *command]


class Terminal:
    """A program that leads a session on a terminal."""

    def __init__(self, *argv: str) -> None:
        self.pid, self.fd = pty.fork()
        if not self.pid:
            os.execvpe(argv[0], argv, {**os.environ, "PS1": "$ ", "TERM": "dumb", "DRIVER": DRIVER})
        self.shown = self.shown_before = ""

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def until(self, pattern: str) -> re.Match[str]:
        deadline = time.monotonic() + 60
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.fd], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self.fd, 65536).decode(errors="replace")
                except OSError:  # all that had it open have ended
                    pytest.fail(f"no {pattern!r} in {self.shown!r}")
        self.shown_before, self.shown = self.shown[: found.end()], self.shown[found.end() :]
        return found

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


@contextmanager
def terminal(*argv: str) -> Iterator[Terminal]:
    made = Terminal(*argv)
    try:
        yield made
    finally:
        os.kill(made.pid, signal.SIGKILL)
        os.waitpid(made.pid, 0)
        os.close(made.fd)


def test_a_command_of_another_user_cannot_type_into_its_callers_terminal() -> None:
    with terminal(*words(sys.executable, "-c", HOSTILE)) as shell:
        ours = shell.until(r"\[(\d+)\]")[1]
        assert shell.until(r"session (\d+)")[1] != ours
        assert shell.until(r"status (\d+), typed (.*)\r").groups() == ("0", "None")


def test_keys_the_windows_size_and_ctrl_c_reach_it() -> None:
    with terminal(
        *("sh", "-c", 'stty rows 30 cols 90; exec "$@"', "sh"),
        *words(sys.executable, "-c", ANSWERS),
    ) as shell:
        shell.until("30 90\r\n")
        before = termios.tcgetattr(shell.fd)
        assert not before[3] & termios.ICANON, "the caller's terminal passes on each key"
        shell.type("hello\r")
        shell.until("got hello\r\n")
        shell.resize(40, 100)
        shell.until("40 100\r\n")
        shell.type("\x03")
        shell.until("(?s)interrupted.*caught|caught.*interrupted")
        shell.until("status 7, typed None")
        after = termios.tcgetattr(shell.fd)
        assert after[3] & termios.ICANON
        assert after[3] & termios.ECHO


def test_ctrl_z_stops_it_and_its_callers_job_and_fg_continues_both() -> None:
    with terminal("bash", "--norc", "--noprofile", "-i") as shell:
        script = 'echo u""p; read answer; echo g""ot $answer; exit 4'
        shell.type(f"{PYTHON} -c \"$DRIVER\" sh -c '{script}'\r")
        shell.until("up\r")
        shell.type("\x1a")
        shell.until("Stopped")
        shell.type("echo o''k\r")
        shell.until("ok\r")
        shell.type("fg\r")
        shell.until("DRIVER")
        shell.type("again\r")
        shell.until("got again\r")
        shell.until("status 4")


def test_the_terminal_is_as_it_was_after_a_kill() -> None:
    with terminal("bash", "--norc", "--noprofile", "-i") as shell:
        script = "echo $PPID; sleep 600"
        shell.type(f"{PYTHON} -c \"$DRIVER\" sh -c '{script}'\r")
        found = shell.until(r"\[\d+\]\r\n")
        assert found
        shell.until(r"\d+\r\n")
        driver = int(
            subprocess.run(
                ["pgrep", "-P", str(shell.pid)], capture_output=True, text=True, check=True
            ).stdout
        )
        os.kill(driver, signal.SIGKILL)
        shell.until("Killed")
        shell.type("stty -a | grep -o ' icanon'\r")
        shell.until(" icanon\r")


def test_a_command_whose_caller_was_killed_ends_with_the_terminal() -> None:
    """Neither CMD nor the processes around it stay behind."""
    with terminal("bash", "--norc", "--noprofile", "-i") as shell:
        shell.type(f"{PYTHON} -c \"$DRIVER\" sh -c 'sleep 600 & echo pid $$; wait'\r")
        command = int(shell.until(r"pid (\d+)\r\n")[1])
        monitor = proc.parent(command)
        (driver,) = proc.children(shell.pid)
        (relay,) = (one for one in proc.children(driver) if one != monitor)
        assert len(proc.children(command)) == 1
        left = [relay, monitor, command, *proc.children(command)]
        os.kill(driver, signal.SIGKILL)
        shell.until("Killed")
        assert all(map(proc.comm, left))
    deadline = time.monotonic() + 60
    while any(map(lives, left)):
        assert time.monotonic() < deadline, [proc.text(one, "stat") for one in left]
        time.sleep(0.05)


def lives(pid: int) -> bool:
    """Whether a process is there and no zombie, which only its new parent can remove."""
    state = proc.stat_words(pid, pid)[1]
    return bool(state) and state[0] not in "ZX"


@pytest.mark.parametrize("given", ["", "typed\n"])
def test_without_a_terminal_it_has_a_session_and_no_terminal(given: str) -> None:
    script = "cat; ps -o sid=,tty= -p $$ 2>/dev/null || cut -d' ' -f6,7 /proc/$$/stat; : </dev/tty"
    done = subprocess.run(
        words("sh", "-c", script),
        input=given,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    ours, *rest = done.stdout.splitlines()
    if given:
        assert rest.pop(0) == "typed"
    sid, tty = rest[0].split()
    assert f"[{sid}]" != ours
    assert tty in ("?", "0")
    assert "/dev/tty" in done.stderr


def test_in_a_pipeline_the_keys_are_not_for_it() -> None:
    script = "readlink /proc/self/fd/0 >&2; echo shown"
    with terminal(
        "bash", "-c", f"{PYTHON} -c \"$DRIVER\" sh -c '{script}' | cat; echo e''nd"
    ) as shell:
        shell.until("end\r\n")
        before = shell.shown_before
        assert "/dev/null\r\n" in before
        assert "shown\r\n" in before
