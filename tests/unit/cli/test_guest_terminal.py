# SPDX-License-Identifier: BSD-2-Clause
"""The size of our terminal reaches a guest by a file, in a folder that the guest owns."""

from __future__ import annotations

import fcntl
import os
import pty
import signal
import struct
import sys
import termios
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from retsnoop_py.cli.guest_terminal import run_on_terminal
from retsnoop_py.vm.command import JobFiles
from retsnoop_py.vm.errors import Result

if TYPE_CHECKING:
    from retsnoop_py.vm.machine import Machine


class Guest:
    """A guest that puts ``trap`` in place of each file that the host made, then waits for SIGWINCH.

    It is its own command: ``wait`` resizes the terminal.
    """

    def __init__(self, share: Path, trap: Callable[[Path], None]) -> None:
        self.share, self.program, self._trap = share, ["python3", "retsnoop_py"], trap
        self.stdin = None

    def new_folder(self, name: str) -> tuple[Path, JobFiles]:
        folder = os.open(self.share, os.O_RDONLY)
        return self.share / name, JobFiles(folder, name)

    def start(self, *_: object, **__: object) -> Guest:
        self._files = [path for path in self.share.rglob("*") if path.is_file()]
        for path in self._files:
            path.unlink()
            self._trap(path)
        return self

    def send_signal(self, number: int) -> None:
        self.received = number

    def wait(self, *_: object) -> Result:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 44, 101, 0, 0))
        signal.raise_signal(signal.SIGWINCH)
        ok = self.received == signal.SIGWINCH and len(self._files) == 1
        return Result((), 0 if ok else 1, b"", b"", 0)


@pytest.mark.parametrize("kind", ["link", "fifo"])
def test_what_a_guest_puts_in_place_of_the_size_is_not_written(kind: str, tmp_path: Path) -> None:
    victim, share = tmp_path / "victim", tmp_path / "share"
    victim.write_text("precious")
    share.mkdir()
    pid, terminal = pty.fork()
    if not pid:
        status = 2
        try:
            signal.alarm(20)
            traps = {"link": lambda path: path.symlink_to(victim), "fifo": os.mkfifo}
            sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
            status = run_on_terminal(cast("Machine", Guest(share, traps[kind])), [], {}, None)
        finally:
            os._exit(status)
    ended = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    os.close(terminal)
    assert ended == 0
    assert victim.read_text() == "precious"
