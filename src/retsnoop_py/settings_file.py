# SPDX-License-Identifier: BSD-2-Clause
"""Files of settings and of lists, which lie in ~/.config or which the command line names.

``sudo -E`` keeps the HOME of another user, and a script may pass a wrong file. Such a file must not
stop a run (a FIFO) or use up the memory (/dev/zero). ``unprivileged.settings`` parses TOML.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.package import user_file

__all__ = ["read_list", "read_user_file"]

#: Maximum size in bytes of a file of settings, and of a list or a table of results.
MOST_SETTINGS, MOST_LIST = 1 << 20, 64 << 20


def read_user_file(name: str) -> bytes | None:
    """Return the contents of :func:`~retsnoop_py.package.user_file`; None if it does not exist.

    Raises OSError, and DataError for a file that is not regular or has more than 1 MiB.
    """
    path = user_file(name)
    try:
        return _bounded(path, open_regular, MOST_SETTINGS)
    except (FileNotFoundError, NotADirectoryError):
        return None


def read_list(path: Path) -> bytes:
    """Return the contents of a file that the command line names, which may be a pipe.

    Raises OSError, and DataError for more than 64 MiB.
    """
    return _bounded(path, lambda name: os.open(name, os.O_RDONLY | os.O_CLOEXEC), MOST_LIST)


def _bounded(path: Path, opened: Callable[[Path], int], most: int) -> bytes:
    with os.fdopen(opened(path), "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise DataError(f"{path} is too large: it has more than {most >> 20} MiB")
    return data
