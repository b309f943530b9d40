# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a guest: ``python -m retsnoop_py.vm.guest_pty SIZES CMD...``, a command on a terminal.

Standard input is what is typed, standard output what the terminal shows. SIZES is a file with the
numbers of rows and columns; it is read at the start and at each SIGWINCH. The exit status is CMD's,
128+N if signal N ended it.
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
    """Run the command in ``words`` behind the file of the terminal's size; its exit status."""
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
    """Give the terminal the size that the file has; leave it as it is without one."""
    try:
        rows, columns = map(int, Path(sizes).read_text(encoding="ascii").split())
        set_size(terminal, rows, columns)
    except (OSError, ValueError, struct.error):
        pass


def _copy(terminal: int) -> None:
    """Pass input and output on until the terminal's last user is gone."""
    inputs = [0, terminal]
    while True:
        ready, _, _ = select.select(inputs, [], [])
        if terminal in ready:
            try:
                shown = os.read(terminal, _CHUNK)
            except OSError:  # EIO: nobody has it open
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
