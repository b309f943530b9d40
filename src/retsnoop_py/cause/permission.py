# SPDX-License-Identifier: BSD-2-Clause
"""Reasons for EACCES and EPERM that files have: their mode, owner, attributes and folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.denied import has_capability
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path

__all__ = [
    "attributes",
    "file_mode",
    "given_away",
    "no_access_time",
    "not_owner",
    "not_owner_of_list",
    "sticky",
]

#: open(2): the bits of O_RDONLY, O_WRONLY and O_RDWR, and the flag that needs write permission.
_ACCMODE, _WRONLY, _RDWR, _TRUNC = 0o3, 0o1, 0o2, 0o1000


def _needed(call: SystemCall) -> int:
    """Return the rights on the file that a call requires (bits as in R_OK | W_OK | X_OK)."""
    if call.name.startswith("execve"):
        return os.X_OK
    if call.name in ("access", "faccessat", "faccessat2"):
        return call.arguments[1 if call.name == "access" else 2] & 7
    if call.name in ("creat", "truncate", "connect"):
        return os.W_OK
    if call.name in ("open", "openat"):
        flags = call.arguments[1 if call.name == "open" else 2]
        mode = flags & _ACCMODE
        need = {_WRONLY: os.W_OK, _RDWR: os.R_OK | os.W_OK}.get(mode, os.R_OK)
        return need | (os.W_OK if flags & _TRUNC else 0)
    if call.name == "chdir":
        return os.X_OK
    return 0


#: chown(2): an id that stays.
_UNCHANGED = 0xFFFFFFFF
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
            return _denied(scene, found)
        folder = os.path.dirname(path)
        if any(fnmatchcase(scene.call.name, one) for one in CHANGES_FOLDER) and (
            not scene.call.name.startswith("open") or not os.path.lexists(path)
        ):
            found = files.denied_by(folder, scene.who, os.W_OK | os.X_OK)
            if found is not None:
                return _denied(scene, found)
    return None


def _denied(scene: Scene, found: files.DeniedBy) -> Reason:
    status, part, missing = found.status, found.part, found.missing
    user = files.user_name(scene.who.uid)
    kind = files.kind_of(status)
    right = _RIGHTS[missing]
    if stat.S_ISDIR(status.st_mode):
        right = {4: "list", 2: "add or remove entries in", 1: "enter"}[missing]
    elif stat.S_ISSOCK(status.st_mode):
        right = "connect to"
    elif missing == os.X_OK and not status.st_mode & 0o111:
        return _not_executable(part, status)
    text = f"User {user} may not {right} the {kind} {show(part)}: {files.described(status)}"
    text += _in_list(found)
    advice = tuple(_advice(scene, found))
    if files.is_home(part, status.st_uid) and status.st_uid != scene.who.uid:
        text += f" It is the home directory of {files.user_name(status.st_uid)}."
        home = (
            f"or set HOME to a directory of user {user}, if the program found the path by HOME "
            "(su -, sudo -H and runuser -l set it)"
        )
        advice = (*advice, home)
    return Reason("file-mode", text, advice)


def _not_executable(part: str, status: os.stat_result) -> Reason:
    """No user may run the file, not even root."""
    found = files.interpreter_of(part)
    advice = [f"chmod +x {shell_path(part)}"]
    if found is not None and found[0] == "script":
        advice.append(f"or run it with its interpreter: {found[1]} {shell_path(part)}")
    return Reason(
        "file-mode",
        f"{show(part)} is not executable: {files.described(status)}. Not even root may run it.",
        tuple(advice),
    )


def _in_list(found: files.DeniedBy) -> str:
    """Return the entry of an access control list as the end of the sentence about the mode."""
    if found.entry is None:
        return "."
    masked = ", which the mask of the list limits" if found.entry.is_masked else ""
    return f". The access control list (ACL) has the entry {found.entry.words}{masked}."


def _advice(scene: Scene, found: files.DeniedBy) -> Iterator[str]:
    status, who = found.status, scene.who
    quoted, letter = shell_path(found.part), _LETTERS[found.missing]
    if status.st_uid == who.uid:
        yield f"chmod u+{letter} {quoted}"
        return
    user, group = files.user_name(who.uid), files.group_name(status.st_gid)
    is_open = found.entry is None and status.st_mode >> 3 & found.missing
    if is_open and status.st_gid in files.groups_of(who.uid):
        yield (
            f"log in again: user {user} is a member of group {group} by now, and the process does "
            "not have that group yet"
        )
        return
    yield f"run it as {_owner_or_root(status)}"
    if files.is_of_kernel(found.part):
        return
    is_of_system = found.part in _SYSTEM or found.part.startswith(_SYSTEM_BELOW)
    if is_open and status.st_gid:
        risk = _WARNINGS.get(group, "the user then has all rights of the group")
        yield f"or add {user} to the group, and log in again: usermod -aG {group} {user} ({risk})"
    elif found.entry is not None:
        entry = found.entry.with_right(found.missing)
        yield f"or setfacl -m {f'mask::{letter}' if found.entry.is_masked else entry} {quoted}"
    elif who.is_in(status.st_gid):
        yield f"or chmod g+{letter} {quoted}"
    elif not is_of_system:
        yield f"or chmod o+{letter} {quoted} (this allows every user)"
    elif found.missing == os.W_OK:
        yield f"or choose a place that user {user} may write to"


#: Directories with modes of the distribution that should not be changed.
_SYSTEM = ("/", "/etc", "/home", "/mnt", "/opt", "/root", "/run", "/srv", "/usr", "/var")
_SYSTEM_BELOW = (
    *("/bin", "/boot", "/dev", "/etc/", "/lib", "/root/", "/sbin", "/usr/", "/var/lib/"),
)


#: Groups that are as good as root.
_WARNINGS = {
    "docker": "this group can become root",
    "disk": "this group can read and change all files",
    "shadow": "this group can read the password hashes",
}


def _owner_or_root(status: os.stat_result) -> str:
    owner = files.user_name(status.st_uid)
    return "root" if owner == "root" else f"{owner} or root"


def attributes(scene: Scene) -> Reason | None:
    """An attribute of the file, or of its directory, forbids the operation."""
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
        (f"run it as {_owner_or_root(status)}",),
    )


def no_access_time(scene: Scene) -> Reason | None:
    """open(2) with O_NOATIME of a file of another user (EPERM)."""
    call, path = scene.call, scene.path
    at = {"open": 1, "openat": 2}.get(call.name)
    if path is None or at is None or not call.arguments[at] & os.O_NOATIME:
        return None
    if has_capability(scene, "FOWNER"):
        return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    if status.st_uid == scene.who.uid:
        return None
    return Reason(
        "owner",
        f"The program opened {show(path)} with O_NOATIME, which only {_owner_or_root(status)} "
        "may do. The command ran as user "
        f"{files.user_name(scene.who.uid)}.",
        (f"run it as {_owner_or_root(status)}", "or open the file without O_NOATIME"),
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
    if "chown" in scene.call.name and _new_owner(scene) != _UNCHANGED:
        return Reason(
            "owner",
            f"Only root may change the owner of {show(path)}, which is {owner}. The command ran as "
            f"user {files.user_name(scene.who.uid)}.",
            ("run it as root",),
        )
    return Reason(
        "owner",
        f"Only the owner of {show(path)} ({owner}) or root may do this. The command ran as user "
        f"{files.user_name(scene.who.uid)}.",
        (f"run it as {_owner_or_root(status)}",),
    )


def _new_owner(scene: Scene) -> int:
    """Return the user that chown(2) makes the owner; _UNCHANGED: only the group changes."""
    return scene.call.arguments[2 if scene.call.name == "fchownat" else 1] & 0xFFFFFFFF


def not_owner_of_list(scene: Scene) -> Reason | None:
    """Only the owner of a file may change its access control list."""
    name = scene.call.text(1) or ""
    return not_owner(scene) if name.startswith("system.posix_acl_") else None


def given_away(scene: Scene) -> Reason | None:
    """The owner of a file gives it to another user, or to a group that the owner is not in."""
    call, path, who = scene.call, scene.path, scene.who
    at = 2 if call.name == "fchownat" else 1
    uid, gid = (number & 0xFFFFFFFF for number in call.arguments[at : at + 2])
    if path is None or who.is_root or has_capability(scene, "CHOWN"):
        return None
    if uid not in (_UNCHANGED, who.uid):
        return Reason(
            "owner",
            f"Only root may give {show(path)} to another user, not even its owner.",
            ("run it as root",),
            is_seen_later=False,
        )
    if gid != _UNCHANGED and not who.is_in(gid):
        group, user = files.group_name(gid), files.user_name(who.uid)
        return Reason(
            "owner",
            f"User {user} may only give {show(path)} to the user's own groups, and the process "
            f"does not have group {group}.",
            ("run it as root",),
            is_seen_later=False,
        )
    return None
