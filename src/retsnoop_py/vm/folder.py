# SPDX-License-Identifier: BSD-2-Clause
"""Folders that a guest can write: its own in the host's /tmp, and those that the user names."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import stat
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import InputError, OutputError
from retsnoop_py.own_file import Refused, open_folder, temporary_base

__all__ = ["Writable", "make_folder", "remove_tree", "writable"]

_PREFIX = "rsn-vm-"
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW


class Writable(NamedTuple):
    """A directory that the guest can write: its real path, and ``DEVICE:INODE``.

    Another user may replace a directory on the path by a link while the guest boots. The path then
    leads elsewhere, and the identity shows that.
    """

    path: Path
    identity: str


def writable(path: Path) -> Writable:
    """Return the directory ``path``. Raises InputError for another user's link on the way."""
    try:
        folder, _ = open_folder(path / secrets.token_hex(16))
    except Refused as error:
        raise InputError(f"cannot use {path}: {error}", "give the real path") from None
    except OSError as error:
        raise InputError(f"cannot use {path}: {error.strerror}") from None
    try:
        status = os.fstat(folder)
        real = Path(f"/proc/self/fd/{folder}").readlink()
    finally:
        os.close(folder)
    return Writable(real, f"{status.st_dev}:{status.st_ino}")


def make_folder() -> Path:
    """Return a new folder that only this user can open or replace. Raises OutputError.

    It is in TMPDIR, but for root in /tmp if another user can change TMPDIR (``sudo -E``): that user
    could replace the folder by a link, and the guest would write where the link leads.
    """
    try:
        base = temporary_base()
        _sweep(base)
        return Path(tempfile.mkdtemp(prefix=_PREFIX, dir=base)).resolve()
    except OSError as error:
        raise OutputError(
            f"cannot create a folder for the guest: {error.strerror}",
            "set TMPDIR to a writable folder",
        ) from None


def _sweep(base: Path, age: float = 60.0) -> None:
    """Remove this user's folders of killed runs from ``base``, if older than ``age`` seconds."""
    for folder in base.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):  # removed meanwhile, or in use
            handle = os.open(folder, _DIRECTORY)
            try:
                status = os.fstat(handle)
                if status.st_uid != os.geteuid() or time.time() - status.st_mtime < age:
                    continue
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                remove_tree(folder)
            finally:
                os.close(handle)


def remove_tree(folder: Path) -> None:
    """Remove ``folder`` and its contents at any depth; keep files that cannot be removed.

    A guest can nest folders deeper than Python can recurse, and deeper than a path or the number
    of open files allows. Therefore inner folders are moved to the top, one level at a time.
    Links are not followed.
    """
    with contextlib.suppress(OSError):
        top = os.open(folder, _DIRECTORY)
        try:
            _empty(top)
        finally:
            os.close(top)
        folder.rmdir()


def _empty(top: int) -> None:
    stuck: set[str] = set()
    while names := [name for name in os.listdir(top) if name not in stuck]:
        for name in names:
            if _remove(top, name):
                continue
            try:
                inside = os.open(name, _DIRECTORY, dir_fd=top)
            except OSError:
                stuck.add(name)
                continue
            try:
                os.fchmod(inside, 0o700)
                for each in os.listdir(inside):  # noqa: PTH208 - of a descriptor
                    if not _remove(inside, each):
                        # a random name, which the guest cannot have used
                        aside = secrets.token_hex(16)
                        os.rename(each, aside, src_dir_fd=inside, dst_dir_fd=top)
            except OSError:
                stuck.add(name)
            finally:
                os.close(inside)
            if not _remove(top, name):
                stuck.add(name)


def _remove(folder: int, name: str) -> bool:
    """Remove a file or an empty folder; return True if it no longer exists."""
    try:
        if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.rmdir(name, dir_fd=folder)
        else:
            os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
