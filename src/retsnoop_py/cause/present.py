# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that lie in what is there already: a file of that name, something that uses it."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.mounts import is_mounted
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file

__all__ = [
    "busy",
    "exists",
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
    shown = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
    return Reason("not-empty", f"The directory {show(path or '')} is not empty: it has {shown}.")


def is_directory(scene: Scene) -> Reason | None:
    """The path is a directory."""
    path = scene.target
    if path is None or not os.path.isdir(path):
        return None
    return Reason("is-a-directory", f"{show(path)} is a directory.")


def busy(scene: Scene) -> Reason | None:
    """Somebody uses what is to be unmounted, removed or written."""
    path = scene.path
    if path is None:
        return None
    holders = list(_holders(path))[:5]
    if holders:
        return Reason(
            "busy",
            f"{show(path)} is in use: {'; '.join(holders)}.",
            ("end these processes",),
        )
    if scene.call.name != "umount2" and is_mounted(path):
        return Reason(
            "busy",
            f"A file system is mounted at {show(path)}.",
            (f"umount {shell_path(path)}",),
        )
    return None


def _holders(path: str) -> Iterator[str]:
    """Processes that have something below the path: their folder, an open file, their program."""
    real = os.path.realpath(path)

    def is_below(other: str) -> bool:
        return other == real or other.startswith(real.rstrip("/") + "/")

    for folder in Path("/proc").glob("[0-9]*"):
        if folder.name == str(os.getpid()):
            continue
        try:
            links = [
                ("its current folder is", "cwd"),
                ("its root is", "root"),
                ("it runs", "exe"),
                *(("it has open", f"fd/{one}") for one in os.listdir(folder / "fd")),
            ]
            name = (folder / "comm").read_text().strip()
        except OSError:
            continue
        for words, link in links:
            try:
                target = os.readlink(folder / link)
            except OSError:
                continue
            if is_below(target):
                yield f"{name} (PID {folder.name}): {words} {target}"
                break


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
