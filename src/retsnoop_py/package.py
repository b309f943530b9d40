# SPDX-License-Identifier: BSD-2-Clause
"""This package as it was installed: its files, those a user adds, and how it is started again.

In a checkout and in a wheel its files lie in folders. The one-file program (``make standalone``)
has them in an archive at its end, and is its own Python.
"""

from __future__ import annotations

import os
import sys
from errno import ENOENT
from pathlib import Path

__all__ = ["expanded", "home", "is_one_file", "program", "python", "read", "user_file"]


def is_one_file() -> bool:
    """Whether this is the one-file program; it says so by the name that others use for that."""
    return bool(getattr(sys, "frozen", False))


def program() -> list[str]:
    """The words that start retsnoop-py, whatever lies in the current folder."""
    return [sys.executable] if is_one_file() else [sys.executable, "-P", "-m", "retsnoop_py"]


def python() -> list[str]:
    """The words that start a Python which has this package; its options follow."""
    return [sys.executable, "--python"] if is_one_file() else [sys.executable]


def home() -> Path:
    """The user's home; the root directory where neither HOME nor the list of users tells."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def expanded(name: str) -> Path:
    """``name`` with a leading ``~`` or ``~USER`` replaced, where that has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def user_file(name: str) -> Path:
    """Where a user keeps a file that adds to one of this package's; it need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home() / ".config") / "retsnoop-py" / name


def read(path: Path) -> bytes:
    """The bytes of a file that may be one of this package's. Raises OSError."""
    if is_one_file() and path.is_relative_to(sys.executable):
        from zipimport import zipimporter

        try:
            return zipimporter(sys.executable).get_data(str(path))
        except OSError:  # without errno or text
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path)) from None
    return path.read_bytes()
