# SPDX-License-Identifier: BSD-2-Clause
"""Paths that come from input: the only code that opens them.

Objects, logs, recordings and DWARF name files, and their authors may be hostile. A name could
lead to a secret, to a FIFO that never answers, or to a device that acts when it is opened.
``tests/unit/test_opens.py`` fails if the rooms that read such input open a path in another way.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

from retsnoop_py.errors import DataError

__all__ = ["open_file", "open_regular", "read_below"]

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


def open_regular(path: Path | str) -> int:
    """Return a descriptor to read the regular file at ``path``; symbolic links are followed.

    Raises DataError for another kind of file without opening it, because opening it may wait for
    ever (a FIFO) or act (a device). Raises OSError if the file cannot be opened.
    """
    seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        mode = os.fstat(seen).st_mode
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(mode):
            raise DataError(f"{path} is not a regular file")
        try:
            return os.open(f"/proc/self/fd/{seen}", _READ)
        except FileNotFoundError:  # nothing is mounted on /proc
            return _opened_again(path, seen)
    finally:
        os.close(seen)


def _opened_again(path: Path | str, seen: int) -> int:
    """Open ``path`` and return its descriptor, if it is the same file as ``seen``."""
    found = os.open(path, _READ)
    if os.path.samestat(os.fstat(found), os.fstat(seen)):
        return found
    os.close(found)
    raise DataError(f"{path} was replaced while it was opened")


def open_file(path: Path | str) -> BinaryIO:
    """Open the regular file at ``path`` to read bytes; raises as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_below(folder: Path, name: str, most: int) -> str | None:
    """Return the text of the file ``name`` below ``folder``.

    Return None for a missing file, a file that is not regular, and a file of more than ``most``
    bytes. Also return None if the file is not below ``folder`` after all symbolic links are
    resolved. Bytes that are not UTF-8 are replaced.
    """
    try:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # O_PATH: the file is not opened until its place and kind have been checked.
            seen = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=root)
            try:
                if not _is_below(seen, root) or not stat.S_ISREG(os.fstat(seen).st_mode):
                    return None
                with os.fdopen(os.open(f"/proc/self/fd/{seen}", _READ), "rb") as file:
                    data = file.read(most + 1)
            finally:
                os.close(seen)
        finally:
            os.close(root)
    except (OSError, ValueError):  # ValueError: the name contains NUL
        return None
    return data.decode(errors="replace") if len(data) <= most else None


def _is_below(file: int, folder: int) -> bool:
    """Return whether an open file is below an open folder. Raises OSError without /proc.

    The kernel reports the real path of each descriptor, so no link can be replaced in between.
    """
    links = Path("/proc/self/fd")
    return (links / str(folder)).readlink() in (links / str(file)).readlink().parents
