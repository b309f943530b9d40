# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that lie in what is there already: a file of that name, something that uses it."""

from __future__ import annotations

import os
import stat

from retsnoop_py.cause import files
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file

__all__ = [
    "exists",
    "into_itself",
    "is_directory",
    "not_empty",
    "program_format",
]


def exists(scene: Scene) -> Reason | None:
    """A file of that name exists."""
    path = scene.target
    if path is None:
        return None
    try:
        status = os.lstat(path)
    except OSError:
        return None
    advice = ["choose another name, or remove the existing one"]
    if scene.call.name.startswith("mkdir") and stat.S_ISDIR(status.st_mode):
        advice = ["mkdir -p accepts an existing directory", *advice]
    kind = files.kind_of(status)
    return Reason(
        "exists",
        f"There is a {kind} {show(path)} already: {files.described(status)}.",
        tuple(advice),
    )


def not_empty(scene: Scene) -> Reason | None:
    """The directory has entries."""
    path = scene.target
    try:
        names = os.listdir(path) if path else []
    except OSError:
        return None
    if not names:
        return None
    shown = ", ".join(map(show, sorted(names)[:3])) + (", ..." if len(names) > 3 else "")
    return Reason(
        "not-empty",
        f"The directory {show(path or '')} is not empty: it has {shown}.",
        (f"rm -r {shell_path(path or '')} (removes the directory and everything in it)",)
        if scene.call.name in ("rmdir", "unlinkat")
        else ("choose another name, or empty the directory first",),
    )


def into_itself(scene: Scene) -> Reason | None:
    """rename(2) of a directory to a place inside of it."""
    old, new = scene.path, scene.target
    if old is None or new is None:
        return None
    old, new = os.path.realpath(old), os.path.realpath(new)
    if not new.startswith(f"{old}/"):
        return None
    return Reason(
        "into-itself",
        f"{show(new)} would be inside of {show(old)} itself. A directory cannot be moved into "
        "itself.",
        ("choose a place outside of the directory",),
    )


def is_directory(scene: Scene) -> Reason | None:
    """The path is a directory."""
    path = scene.target
    if path is None or not os.path.isdir(path):
        return None
    advice: tuple[str, ...] = ("give the name of a file",)
    if scene.call.name.startswith("unlink"):
        advice = (
            f"rmdir {shell_path(path)} (if the directory is empty)",
            f"or rm -r {shell_path(path)} (removes the directory and everything in it)",
        )
    return Reason("is-a-directory", f"{show(path)} is a directory, not a file.", advice)


def program_format(scene: Scene) -> Reason | None:
    """The file is no program for this machine."""
    path = scene.path
    try:
        with open_file(path or "") as file:
            head = file.read(20)
    except (OSError, ValueError, DataError):
        return None
    if head.startswith(b"\x7fELF"):
        return Reason(
            "format",
            f"{show(path or '')} is a program for another architecture than {os.uname().machine}.",
            ("get a build for this machine",),
        )
    if not head:
        return Reason("format", f"{show(path or '')} is empty.")
    if not head.startswith(b"#!"):
        return Reason(
            "format",
            f"{show(path or '')} is not an executable program, and its first line names no "
            "interpreter.",
            (f"start {shell_path(path or '')} with a line such as #!/bin/sh",),
        )
    return None
