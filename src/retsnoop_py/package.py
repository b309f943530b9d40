# SPDX-License-Identifier: BSD-2-Clause
"""The installed package: its files, the files that a user adds, and the command to restart it.

In a checkout and in a wheel the package's files lie in folders. The one-file program
(``make standalone``) has them in an archive at its end, and is its own Python interpreter.
"""

from __future__ import annotations

import os
import sys
from errno import ENOENT
from pathlib import Path

__all__ = [
    "expanded",
    "home",
    "is_one_file",
    "program",
    "python",
    "read",
    "search_path",
    "user_file",
]


def is_one_file() -> bool:
    """Return whether this is the one-file program, which sets ``sys.frozen`` as usual."""
    return bool(getattr(sys, "frozen", False))


def program() -> list[str]:
    """Return the command that starts retsnoop-py; it ignores the current folder."""
    return (
        [sys.executable] if is_one_file() else [sys.executable, _isolation(), "-m", "retsnoop_py"]
    )


def python() -> list[str]:
    """Return the command that starts an isolated Python; the caller appends its options.

    That Python ignores the current folder, PYTHONPATH and the user's own packages. To import this
    package there, pass it ``sys.path`` of this process.
    """
    return [sys.executable, "--python"] if is_one_file() else [sys.executable, "-I"]


def search_path() -> list[str]:
    """Return ``sys.path`` for an isolated Python with this package; only absolute folders."""
    first = [] if is_one_file() else [str(Path(__file__).parent.parent)]
    return list(dict.fromkeys([*first, *(one for one in sys.path if one.startswith("/"))]))


def _isolation() -> str:
    """Return ``-I``, or ``-P`` if this process has packages that ``-I`` hides.

    ``-I`` hides the packages of PYTHONPATH, which guests of another architecture use, and the
    packages of ``pip install --user``. ``-P`` ignores only the current folder.
    """
    has_path = os.environ.get("PYTHONPATH") and not sys.flags.ignore_environment
    own = getattr(sys.modules.get("site"), "USER_SITE", None)
    return "-P" if has_path or own in sys.path else "-I"


def home() -> Path:
    """Return the user's home; the root directory if neither HOME nor passwd has a home."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def expanded(name: str) -> Path:
    """Return ``name`` with a leading ``~`` or ``~USER`` replaced, if that user has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def user_file(name: str) -> Path:
    """Return the path of a user's file that extends one of this package; it may not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else home() / ".config") / "retsnoop-py" / name


def read(path: Path) -> bytes:
    """Return the bytes of a file, which may be a file of this package. Raises OSError."""
    if is_one_file() and path.is_relative_to(sys.executable):
        from zipimport import zipimporter

        try:
            return zipimporter(sys.executable).get_data(str(path))
        except OSError:  # without errno or text
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path)) from None
    return path.read_bytes()
