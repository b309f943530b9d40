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

#: PATH as the caller gave it, and what this process made of it; None if they are the same.
_path: tuple[str, str] | None = None

__all__ = [
    "expanded",
    "home",
    "is_one_file",
    "leave_out_current_folder",
    "path_of_caller",
    "program",
    "python",
    "read",
    "search_path",
    "user_file",
]


def is_one_file() -> bool:
    """Whether this is the one-file program; it says so by the name that others use for that."""
    return bool(getattr(sys, "frozen", False))


def program() -> list[str]:
    """The words that start retsnoop-py, whatever lies in the current folder."""
    return (
        [sys.executable] if is_one_file() else [sys.executable, _isolation(), "-m", "retsnoop_py"]
    )


def python() -> list[str]:
    """The words that start an isolated Python; its options follow.

    It ignores the current folder, PYTHONPATH and the user's own packages. Give it ``sys.path`` of
    this process where it imports this package.
    """
    return [sys.executable, "--python"] if is_one_file() else [sys.executable, "-I"]


def search_path() -> list[str]:
    """``sys.path`` for an isolated Python that imports this package; only absolute folders."""
    first = [] if is_one_file() else [str(Path(__file__).parent.parent)]
    return list(dict.fromkeys([*first, *(one for one in sys.path if one.startswith("/"))]))


def leave_out_current_folder() -> None:
    """Search the programs that this process starts only in the absolute folders of PATH.

    Another entry, or an empty one, is the current folder or lies below it, and another user may
    have put a program there. A traced command gets PATH as it was: :func:`path_of_caller`.
    """
    global _path  # noqa: PLW0603 - a process has one
    given = os.environ.get("PATH")
    if given is None:
        return
    ours = os.pathsep.join(one for one in given.split(os.pathsep) if one.startswith("/"))
    if ours != given:
        os.environ["PATH"] = ours or os.defpath
        _path = given, os.environ["PATH"]


def path_of_caller() -> str | None:
    """PATH as the caller of this process gave it; None if there is none."""
    now = os.environ.get("PATH")
    return _path[0] if _path is not None and _path[1] == now else now


def _isolation() -> str:
    """``-I``, or ``-P`` if this process has packages that ``-I`` hides.

    Those are packages of PYTHONPATH, which guests of another architecture use, and packages that
    ``pip install --user`` installed. ``-P`` ignores the current folder, but not these.
    """
    has_path = os.environ.get("PYTHONPATH") and not sys.flags.ignore_environment
    own = getattr(sys.modules.get("site"), "USER_SITE", None)
    return "-P" if has_path or own in sys.path else "-I"


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
