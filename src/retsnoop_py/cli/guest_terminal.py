# SPDX-License-Identifier: BSD-2-Clause
"""A command in a guest on our terminal: what is typed goes there, and so does the window's size."""

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

#: Ctrl-]: twice in a row it ends the guest, which may hang.
_ESCAPE = b"\x1d"
_CHUNK = 65536


def is_terminal() -> bool:
    """Whether somebody types and reads here."""
    return bool(sys.stdin and sys.stdin.isatty() and sys.stdout and sys.stdout.isatty())


def run_on_terminal(
    machine: Machine, argv: Sequence[str], env: dict[str, str], timeout: float | None
) -> int:
    """Run ``argv`` in the guest on a terminal there; give its exit status.

    Our terminal is raw meanwhile, so Ctrl-C is for the command, and is put back on every way out.
    Raises KernelCrashed if the guest goes down, or was ended by Ctrl-] Ctrl-].
    """
    sizes = machine.share / "terminal"

    def tell_size() -> None:
        columns, rows = os.get_terminal_size(sys.stdout.fileno())
        sizes.write_text(f"{rows} {columns}\n", encoding="ascii")

    tell_size()
    start = [*python(), "-m"] if is_one_file() else machine.program[:-1]
    words = [*start, "retsnoop_py.vm.guest_pty", str(sizes), *argv]
    with _raw():
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
    """Pass on that the window has another size, and the signals that end us."""

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
    """Pass on what is typed; the second Ctrl-] in a row ends the guest."""
    last = b""
    with contextlib.suppress(OSError):  # the guest is gone
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
