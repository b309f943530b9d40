# SPDX-License-Identifier: BSD-2-Clause
"""Pseudo-terminals: code shared by guests and by commands of another user."""

from __future__ import annotations

import fcntl
import os
import struct
import termios

__all__ = ["copy_size", "set_size", "write_all"]


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Give ``terminal`` a size; its processes get SIGWINCH. Raises OSError, struct.error."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def copy_size(source: int, target: int) -> None:
    """Give the terminal ``target`` the size of ``source``, if that has a size."""
    try:
        fcntl.ioctl(target, termios.TIOCSWINSZ, fcntl.ioctl(source, termios.TIOCGWINSZ, b"\0" * 8))
    except OSError:
        pass


def write_all(target: int, data: bytes) -> None:
    """Write all of ``data``. Raises OSError."""
    while data:
        data = data[os.write(target, data) :]
