# SPDX-License-Identifier: BSD-2-Clause
"""``vm shell`` on a terminal: typed into, resized, interrupted and left."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.live.support import TOOL

#: Seconds until a guest has answered.
_PATIENCE = 150


class Terminal:
    """A terminal with a running program; the test reads its output and types its input."""

    def __init__(self, *words: str) -> None:
        self.master, self._slave = pty.openpty()
        self.resize(24, 80)
        self.settings = termios.tcgetattr(self._slave)
        self.shown = ""
        self.program = subprocess.Popen(
            words,
            stdin=self._slave,
            stdout=self._slave,
            stderr=self._slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text: str) -> None:
        os.write(self.master, text.encode())

    def wait_for(self, pattern: str) -> None:
        """Wait until the output since the last call matches the pattern."""
        deadline = time.monotonic() + _PATIENCE
        while (found := re.search(pattern, self.shown)) is None:
            assert time.monotonic() < deadline, self.shown
            if select.select([self.master], [], [], 0.2)[0]:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
        self.shown = self.shown[found.end() :]

    def ended(self) -> int:
        """The exit status, once the program has ended; its terminal is as it was."""
        status = self.program.wait(_PATIENCE)
        assert termios.tcgetattr(self._slave) == self.settings
        return status

    def close(self) -> None:
        self.program.kill()
        self.program.wait()
        os.close(self._slave)
        os.close(self.master)


@pytest.fixture
def shell(request: pytest.FixtureRequest, parked: str) -> Iterator[Terminal]:
    words = getattr(request, "param", ["shell"])
    tail = ["--", "bash"] if words == ["run"] else []
    terminal = Terminal(TOOL, "vm", *words, "--on", parked, *tail)
    try:
        terminal.wait_for(r"[#$] ")
        yield terminal
    finally:
        terminal.close()


@pytest.mark.one_kernel
@pytest.mark.parametrize(
    "shell",
    [["shell"], pytest.param(["run"], marks=pytest.mark.slow)],
    indirect=True,
    ids=["shell", "run"],
)
def test_a_shell_in_a_guest_is_used_like_any_other(shell: Terminal, tmp_path: Path) -> None:
    shell.type("tty; stty size; echo $((40 + 2)) up\n")
    shell.wait_for(r"/dev/pts/\d+\r\n24 80\r\n42 up\r\n")
    shell.resize(40, 100)
    shell.type("sleep 0.5; stty size; echo resiz'ed'\n")
    shell.wait_for(r"40 100\r\nresized\r\n")
    # a hostile guest puts a link to a file of the host where the host writes the size
    (tmp_path / "precious").write_text("precious")
    shell.type(". /run/retsnoop-vm/config; cd ${jobs%/.jobs}; find . -name size -o -name terminal")
    shell.type(f" -type f | xargs ln -sfv {tmp_path}/precious; cd /; echo link'ed'\n")
    shell.wait_for(r"precious'\r\nlinked\r\n")
    shell.resize(41, 101)
    shell.type("sleep 0.5; echo resiz'ed'\n")
    shell.wait_for(r"resized\r\n")
    assert (tmp_path / "precious").read_text() == "precious"
    shell.type("sleep 1000\n")
    shell.wait_for(r"sleep 1000\r\n")
    time.sleep(0.5)
    shell.type("\x03")
    shell.type("echo interrupt'ed'\n")
    shell.wait_for(r"interrupted\r\n")
    shell.type("exit 7\n")
    assert shell.ended() == 7


@pytest.mark.one_kernel
def test_sigterm_ends_the_shell_and_puts_the_terminal_back(shell: Terminal) -> None:
    shell.program.send_signal(signal.SIGTERM)
    assert shell.ended() == 128 + signal.SIGTERM


@pytest.mark.slow
@pytest.mark.one_kernel
def test_ctrl_bracket_twice_ends_a_guest(shell: Terminal) -> None:
    shell.type("\x1d\x1d")
    shell.wait_for("error: ")
    assert shell.ended() == 122


@pytest.mark.one_kernel
def test_a_shell_needs_a_terminal(parked: str) -> None:
    words = [TOOL, "vm", "shell", "--on", parked]
    done = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 64
    assert "needs a terminal" in done.stderr
    assert "vm run -- CMD" in done.stderr
