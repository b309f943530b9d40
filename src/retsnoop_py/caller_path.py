# SPDX-License-Identifier: BSD-2-Clause
"""PATH: the folders from which this process starts programs, and those of the traced command."""

from __future__ import annotations

import os
from pathlib import Path

from retsnoop_py.own_file import is_own_place

__all__ = ["leave_out_unsafe_folders", "path_of_caller"]

#: PATH of the caller, and PATH as this process changed it; None if it is unchanged.
_path: tuple[str, str] | None = None


def leave_out_unsafe_folders() -> None:
    """Restrict PATH of this process to absolute folders, for root to folders of root.

    A relative or empty entry is the current folder or lies below it, and another user may have put
    a program there. The same is true of a folder that another user can change. A traced command
    gets the unchanged PATH: :func:`path_of_caller`.
    """
    global _path  # noqa: PLW0603 - a process has one
    given = os.environ.get("PATH")
    if given is None:
        return
    ours = os.pathsep.join(
        one for one in given.split(os.pathsep) if one.startswith("/") and is_own_place(Path(one))
    )
    if ours != given:
        os.environ["PATH"] = ours or os.defpath
        _path = given, os.environ["PATH"]


def path_of_caller() -> str | None:
    """Return PATH as the caller of this process set it; None if it was not set."""
    now = os.environ.get("PATH")
    return _path[0] if _path is not None and _path[1] == now else now
