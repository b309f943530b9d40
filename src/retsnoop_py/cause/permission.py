# SPDX-License-Identifier: BSD-2-Clause
"""Reasons for EACCES and EPERM that files have: their mode, owner, attributes and folder."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path

__all__ = [
    "attributes",
    "file_mode",
    "not_owner",
    "sticky",
]

#: open(2): the bits of O_RDONLY, O_WRONLY and O_RDWR, and the flag that needs write permission.
_ACCMODE, _WRONLY, _RDWR, _TRUNC = 0o3, 0o1, 0o2, 0o1000


def _needed(call: SystemCall) -> int:
    """What a call needs of the file itself (bits as in R_OK | W_OK | X_OK)."""
    if call.name.startswith("execve"):
        return os.X_OK
    if call.name in ("access", "faccessat", "faccessat2"):
        return call.arguments[1 if call.name == "access" else 2] & 7
    if call.name in ("creat", "truncate"):
        return os.W_OK
    if call.name in ("open", "openat"):
        flags = call.arguments[1 if call.name == "open" else 2]
        mode = flags & _ACCMODE
        need = {_WRONLY: os.W_OK, _RDWR: os.R_OK | os.W_OK}.get(mode, os.R_OK)
        return need | (os.W_OK if flags & _TRUNC else 0)
    if call.name == "chdir":
        return os.X_OK
    return 0


CHANGES_FOLDER = (
    *("mkdir*", "rmdir", "unlink*", "rename*", "link*", "symlink*", "mknod*", "creat", "open*"),
)
_RIGHTS = {4: "read", 2: "write", 1: "execute"}
_LETTERS = {4: "r", 2: "w", 1: "x"}


def file_mode(scene: Scene) -> Reason | None:
    """The mode of a file, or of a directory on the way, does not allow it."""
    for path in dict.fromkeys((scene.path, scene.target)):
        if path is None:
            continue
        found = files.denied_by(path, scene.who, _needed(scene.call))
        if found is not None:
            return _denied(scene, *found)
        folder = os.path.dirname(path)
        if any(fnmatchcase(scene.call.name, one) for one in CHANGES_FOLDER) and (
            not scene.call.name.startswith("open") or not os.path.lexists(path)
        ):
            found = files.denied_by(folder, scene.who, os.W_OK | os.X_OK)
            if found is not None:
                return _denied(scene, *found)
    return None


def _denied(scene: Scene, part: str, status: os.stat_result, missing: int) -> Reason:
    is_dir = stat.S_ISDIR(status.st_mode)
    user = files.user_name(scene.who.uid)
    kind = files.kind_of(status)
    right = _RIGHTS[missing]
    if is_dir:
        right = {4: "list", 2: "add or remove entries in", 1: "enter"}[missing]
    who = "u" if status.st_uid == scene.who.uid else "o"
    if who == "o" and status.st_gid in (scene.who.gid, *scene.who.groups):
        who = "g"
    change = f"chmod {who}+{_LETTERS[missing]} {shell_path(part)}"
    wide = " (this allows every user)" if who == "o" else ""
    return Reason(
        "file-mode",
        f"User {user} may not {right} the {kind} {show(part)}: {files.described(status)}.",
        (f"run it as {_owner_or_root(status)}", f"or {change}{wide}"),
    )


def _owner_or_root(status: os.stat_result) -> str:
    owner = files.user_name(status.st_uid)
    return "root" if owner == "root" else f"{owner} or root"


def attributes(scene: Scene) -> Reason | None:
    """An attribute of the file, or of its directory, forbids what was tried."""
    paths = [one for one in dict.fromkeys((scene.path, scene.target)) if one]
    folders = []
    if any(fnmatchcase(scene.call.name, one) for one in CHANGES_FOLDER):
        folders = [os.path.dirname(one) for one in paths]
    for path in [*paths, *folders]:
        found = files.attributes(path)
        if not found:
            continue
        letter = {"immutable": "i", "append-only": "a"}[found[0]]
        what = "no user can change, rename or remove it, not even root"
        if found[0] == "append-only":
            what = "it can only be appended to"
        return Reason(
            found[0],
            f"{show(path)} has the attribute {letter} ({found[0]}): {what}.",
            (f"chattr -{letter} {shell_path(path)}",),
        )
    return None


def sticky(scene: Scene) -> Reason | None:
    """The directory's sticky bit protects files of other users."""
    path = scene.path
    if path is None or scene.who.is_root:
        return None
    folder = os.path.dirname(path)
    try:
        above, status = Path(folder).stat(), os.lstat(path)
    except OSError:
        return None
    owners = (above.st_uid, status.st_uid)
    if not above.st_mode & stat.S_ISVTX or scene.who.uid in owners:
        return None
    owner = files.user_name(status.st_uid)
    return Reason(
        "sticky",
        f"In {show(folder)} (sticky bit, {files.described(above)}) only the owner of a file may "
        f"remove or rename it, and {show(path)} belongs to {owner}.",
        (f"do it as {owner} or root",),
    )


def not_owner(scene: Scene) -> Reason | None:
    """Only the owner may change this."""
    path = scene.path
    if path is None or scene.who.is_root:
        return None
    try:
        status = Path(path).stat()
    except OSError:
        return None
    if status.st_uid == scene.who.uid:
        return None
    owner = files.user_name(status.st_uid)
    return Reason(
        "owner",
        f"Only its owner, {owner}, or root may do this to {show(path)}; the command ran as "
        f"{files.user_name(scene.who.uid)}.",
        (f"do it as {owner} or root",),
    )
