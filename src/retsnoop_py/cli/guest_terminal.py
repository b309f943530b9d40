# SPDX-License-Identifier: BSD-2-Clause
"""A guest's command on our terminal: typed input and the window's size go to the command."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING

from retsnoop_py.package import is_one_file, python

if TYPE_CHECKING:
    from retsnoop_py.vm.command import Command
    from retsnoop_py.vm.machine import Machine

__all__ = ["is_terminal", "run_on_terminal"]

#: Ctrl-]: two in a row end the guest, even if the guest hangs.
_ESCAPE = b"\x1d"
_CHUNK = 65536


def is_terminal() -> bool:
    """Return True if standard input and output are terminals."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def run_on_terminal(
    machine: Machine, argv: Sequence[str], env: dict[str, str], timeout: float | None
) -> int:
    """Run ``argv`` on a terminal in the guest; return its exit status.

    The user's terminal is in raw mode during this time, so Ctrl-C goes to the command. The old mode
    is always restored. Raise KernelCrashed if the guest ends, or if Ctrl-] Ctrl-] ended it,
    VmTimeout after ``timeout`` seconds.
    """
    folder, files = machine.new_folder("terminal")
    if is_one_file():
        start = [*python(), "-m", "retsnoop_py.vm.guest_pty"]
    else:
        start = [*machine.program[:-1], "retsnoop_py.cli.guest_pty:program"]
    words = [*start, str(folder / "size"), *argv]
    with files.create("size") as sizes, _raw():

        def tell_size() -> None:
            columns, rows = os.get_terminal_size(sys.stdout.fileno())
            # as long each time, so the guest never reads a part of it
            os.pwrite(sizes.fileno(), f"{rows:<6}{columns:<6}\n".encode("ascii"), 0)

        tell_size()
        command = machine.start(words, env=env, live_stdin=True)
        threading.Thread(target=_feed, args=(machine,), daemon=True).start()
        with _resized(command, tell_size):
            return command.wait(timeout, _show).status


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    fd = sys.stdin.fileno()
    before = termios.tcgetattr(fd)
    try:
        tty.setraw(fd)
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resized(command: Command, tell_size: Callable[[], None]) -> Iterator[None]:
    """Forward changes of the window's size, SIGTERM and SIGHUP to the command."""

    def resize(number: int, _frame: FrameType | None) -> None:
        tell_size()
        command.send_signal(number)

    def end(number: int, _frame: FrameType | None) -> None:
        command.send_signal(number)

    handlers = {signal.SIGWINCH: resize, signal.SIGTERM: end, signal.SIGHUP: end}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _feed(machine: Machine) -> None:
    """Forward typed input to the guest; the second Ctrl-] in a row ends the guest."""
    last = b""
    with contextlib.suppress(OSError):  # the guest has ended
        while data := os.read(0, _CHUNK):
            if _ESCAPE * 2 in last + data:
                machine.kill()
                return
            machine.stdin.sendall(data)
            last = data[-1:]
        machine.stdin.shutdown(1)


def _show(stream: int, data: bytes) -> None:
    target = sys.stdout if stream == 1 else sys.stderr
    target.buffer.write(data)
    target.flush()
