# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a guest: ``python -m retsnoop_py.vm.guest_pty SIZES CMD...``, a command on a terminal.

Standard input is the terminal's input, standard output its output. SIZES is a file with the numbers
of rows and columns; it is read at the start and at each SIGWINCH. The exit status is the status of
CMD, or 128+N if signal N ended CMD.
"""

from __future__ import annotations

import os
import pty
import select
import signal
import struct
import sys
from collections.abc import Sequence
from pathlib import Path

from retsnoop_py.pseudo_terminal import set_size, write_all

_CHUNK = 65536
_END_OF_FILE = b"\x04"


def main(words: Sequence[str]) -> int:
    """Run a command on a terminal; return the command's exit status.

    ``words`` are the file with the terminal's size, then the command.
    """
    sizes, *command = words
    pid, terminal = pty.fork()
    if pid == 0:
        _resize(0, sizes)
        try:
            os.execvp(command[0], command)
        except OSError as error:
            os.write(2, f"{command[0]}: {error.strerror}\r\n".encode())
            os._exit(127 if isinstance(error, FileNotFoundError) else 126)
    signal.signal(signal.SIGWINCH, lambda *_: _resize(terminal, sizes))
    _copy(terminal)
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    return status if status >= 0 else 128 - status


def _resize(terminal: int, sizes: str) -> None:
    """Set the terminal's size from the file; without a valid file, keep the current size."""
    try:
        rows, columns = map(int, Path(sizes).read_text(encoding="ascii").split())
        set_size(terminal, rows, columns)
    except (OSError, ValueError, struct.error):
        pass


def _copy(terminal: int) -> None:
    """Copy input and output until no process has the terminal open."""
    inputs = [0, terminal]
    while True:
        ready, _, _ = select.select(inputs, [], [])
        if terminal in ready:
            try:
                shown = os.read(terminal, _CHUNK)
            except OSError:  # EIO: no process has the terminal open
                return
            if not shown:
                return
            write_all(1, shown)
        if 0 in ready:
            typed = os.read(0, _CHUNK)
            if not typed:
                inputs.remove(0)
            write_all(terminal, typed or _END_OF_FILE)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
