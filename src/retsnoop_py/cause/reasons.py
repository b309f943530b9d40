# SPDX-License-Identifier: BSD-2-Clause
"""Why a call failed, in the user's terms: a sentence, and what to change.

One table: which errors of which calls a reason is for, and what finds out whether it is the one.
Most of them ask the file system or /proc after the command ended. A reason is only given where what
they find agrees with the error.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import stat
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path, PurePath
from socket import AF_INET, AF_INET6, AF_UNIX

from retsnoop_py.cause import files
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.operation import MOUNT_CHANGES, object_of, path_of, show
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.value import Value, replace

__all__ = ["Reason", "Scene", "not_in_folders", "reason_of", "reason_of_start"]

#: Folders of a search that are named.
_MOST_FOLDERS = 8
#: open(2): the bits of O_RDONLY, O_WRONLY and O_RDWR, and the flags that change the folder.
_ACCMODE, _WRONLY, _RDWR, _CREAT, _TRUNC = 0o3, 0o1, 0o2, 0o100, 0o1000
_TMPFILE = 0o20000000
#: The highest port that only root may use, where the kernel does not say it.
_FIRST_FREE_PORT = 1024
_STATES = {"0A": "listens on", "06": "has just closed"}


class Reason(Value):
    """Why a call failed.

    ``kind`` is one of docs/json.md. ``text`` is one or more sentences; ``advice`` what to change,
    each a sentence or a command. ``is_seen_later``: it was read after the command ended.
    """

    kind: str
    text: str
    advice: tuple[str, ...] = ()
    is_seen_later: bool = True


class Scene(Value):
    """The call in question, with what else was seen of the run.

    ``who`` is the process's identity, ``said`` the kernel's own words during the call.
    """

    call: SystemCall
    witnessed: Witnessed
    who: Identity
    said: tuple[str, ...] = ()

    @property
    def path(self) -> str | None:
        """The absolute path that the call is about."""
        return path_of(self.call)

    @property
    def target(self) -> str | None:
        """The path that is changed: the second one of a call that has two, as rename(2)."""
        has_two = fnmatchcase(self.call.name, "rename*") or fnmatchcase(self.call.name, "*link*")
        if has_two and len(self.call.texts) > 1:
            return path_of(self.call, 1)
        return self.path


Finder = Callable[[Scene], Reason | None]


def reason_of_start(path: str, error: int, uid: int, gid: int) -> Reason | None:
    """Why execve(2) of the program at ``path`` gives ``error`` to a user."""
    call = SystemCall(
        *(0, 0, 0, path, "execve", error, (0,) * 6, ((0, path),)),
        *(None, uid, gid, os.getcwd(), False),
    )
    return reason_of(Scene(call, Witnessed(), Identity(uid, gid)))


def not_in_folders(name: str, folders: Sequence[str]) -> Reason:
    """That none of these folders has a program called ``name``."""
    listed = ", ".join(map(show, folders))
    return Reason(
        "not-found", f"{show(name)} is in none of the folders {listed}.", tuple(_how_to_get(name))
    )


def reason_of(scene: Scene) -> Reason | None:
    """The first reason of the table that is the one."""
    error = errno_name(scene.call.error)
    for errors, calls, find in _TABLE:
        if error in errors and any(fnmatchcase(scene.call.name, one) for one in calls):
            found = find(scene)
            if found is not None:
                return found
    return None


# -- not found ---------------------------------------------------------------------------------


def _search(scene: Scene) -> Reason | None:
    """The same name was looked for in several folders, and was in none of them."""
    call = scene.call
    name = PurePath(object_of(call)).name
    if not name:
        return None
    folders: dict[str, None] = {}
    for one in scene.witnessed.calls:
        path = path_of(one)
        if one.pid == call.pid and one.error == call.error and path:
            folder, last = os.path.split(path)
            if last == name:
                folders[folder] = None
    if len(folders) < 2:
        return None
    # the loader also asks for folders that hardly any system has
    there = [one for one in folders if os.path.isdir(one)] or list(folders)
    listed = ", ".join(map(show, there[:_MOST_FOLDERS]))
    listed += ", ..." if len(there) > _MOST_FOLDERS else ""
    if ".so" in name:
        return Reason(
            "not-found",
            f"The loader did not find the shared library {name}. It looked in {listed}.",
            (
                f"install the package that contains {name}",
                "or add its folder: LD_LIBRARY_PATH=FOLDER",
            ),
            is_seen_later=False,
        )
    return replace(not_in_folders(name, there[:_MOST_FOLDERS]), is_seen_later=False)


def _how_to_get(name: str) -> Iterator[str]:
    import difflib

    names: set[str] = set()
    for folder in os.environ.get("PATH", "").split(":"):
        try:
            names.update(os.listdir(folder or "."))
        except OSError:
            continue
    alike = difflib.get_close_matches(name, sorted(names), 2, 0.75)
    if alike:
        yield (
            f"check the spelling: {' and '.join(alike)} exists"
            if len(alike) == 1
            else f"check the spelling: {' and '.join(alike)} exist"
        )
    yield f"install the package that contains {name}, or give the full path"


def _interpreter(scene: Scene) -> Reason | None:
    """A program is there, and what should run it is not."""
    path = scene.path
    if path is None or not Path(path).is_file():
        return None
    return interpreter_reason(path)


def interpreter_reason(path: str) -> Reason | None:
    """Why the file at ``path`` cannot be run although it is there; None if that is not why."""
    found = files.interpreter_of(path)
    if found is None:
        return None
    kind, interpreter = found
    if kind == "script":
        plain = interpreter.rstrip("\r")
        if plain != interpreter and shutil.which(plain):
            return Reason(
                "not-found",
                f"The first line of {show(path)} ends with a carriage return (a Windows line "
                f"ending). The kernel therefore looks for the interpreter {plain}\\r.",
                (f"sed -i 's/\\r$//' {shlex.quote(path)}",),
            )
        if os.path.exists(interpreter):
            return None
        advice = [f"install {PurePath(plain).name}"]
        other = shutil.which(PurePath(plain).name)
        if other:
            advice = [f"change its first line to #!{other}, which exists"]
        return Reason(
            "not-found",
            f"The first line of {show(path)} is #!{plain}, and the interpreter {show(plain)} "
            "does not exist.",
            (*advice, f"or run it with another interpreter: INTERPRETER {shlex.quote(path)}"),
        )
    if os.path.exists(interpreter):
        return None
    return Reason(
        "not-found",
        f"The program {show(path)} needs the loader {interpreter}, which does not exist. The "
        "program was built for another architecture or another C library.",
        ("install the C library it was built for, or get a build for this system",),
    )


def _missing(scene: Scene) -> Reason | None:
    """A part of the path is not there."""
    for path in dict.fromkeys((scene.path, scene.target)):
        reason = _missing_of(path) if path else None
        if reason is not None:
            return reason
    return None


def _missing_of(path: str) -> Reason | None:
    found = files.missing_part(path)
    if found is None:
        return None
    part, link = found
    if link is not None:
        return Reason(
            "not-found",
            f"{show(link)} is a symbolic link to {show(part)}, which does not exist.",
            (f"make the link point elsewhere: ln -sfn TARGET {shlex.quote(link)}",),
        )
    folder = os.path.dirname(part)
    if part == path:
        text = f"{show(part)} does not exist. The directory {show(folder)} does."
    else:
        text = f"The directory {show(part)} does not exist."
    alike = files.near(part)
    advice = [f"check the spelling: {show(alike)} exists"] if alike else []
    if part != path:
        advice.append(f"or create it: mkdir -p {shlex.quote(os.path.dirname(path))}")
    return Reason("not-found", text, tuple(advice))


def _is_no_directory(scene: Scene) -> Reason | None:
    path = scene.path
    part = files.not_a_directory(path) if path else None
    if part is None:
        return None
    return Reason("not-a-directory", f"{show(part)} is a file, not a directory.")


# -- permission --------------------------------------------------------------------------------


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


_CHANGES_FOLDER = (
    *("mkdir*", "rmdir", "unlink*", "rename*", "link*", "symlink*", "mknod*", "creat", "open*"),
)
_RIGHTS = {4: "read", 2: "write", 1: "execute"}
_LETTERS = {4: "r", 2: "w", 1: "x"}


def _mode(scene: Scene) -> Reason | None:
    """The mode of a file, or of a directory on the way, does not allow it."""
    for path in dict.fromkeys((scene.path, scene.target)):
        if path is None:
            continue
        found = files.denied_by(path, scene.who, _needed(scene.call))
        if found is not None:
            return _denied(scene, *found)
        folder = os.path.dirname(path)
        if any(fnmatchcase(scene.call.name, one) for one in _CHANGES_FOLDER) and (
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
    change = f"chmod {who}+{_LETTERS[missing]} {shlex.quote(part)}"
    wide = " (this allows every user)" if who == "o" else ""
    return Reason(
        "file-mode",
        f"User {user} may not {right} the {kind} {show(part)}: {files.described(status)}.",
        (f"run it as {_owner_or_root(status)}", f"or {change}{wide}"),
    )


def _owner_or_root(status: os.stat_result) -> str:
    owner = files.user_name(status.st_uid)
    return "root" if owner == "root" else f"{owner} or root"


def _no_exec(scene: Scene) -> Reason | None:
    path = scene.path
    mount = files.mount_of(path) if path and os.path.exists(path) else None
    if mount is None or "noexec" not in mount.options:
        return None
    return Reason(
        "mount-option",
        f"{show(mount.point)} is mounted with noexec: the kernel runs no program from it.",
        (
            "copy the program to another file system",
            f"or mount -o remount,exec {shlex.quote(mount.point)}",
        ),
    )


def _read_only(scene: Scene) -> Reason | None:
    path = scene.target
    mount = files.mount_of(path) if path else None
    if mount is None or "ro" not in mount.options:
        return None
    advice = (f"mount -o remount,rw {shlex.quote(mount.point)}",)
    if mount.kind in ("iso9660", "squashfs", "erofs"):
        advice = (f"choose another place: {mount.kind} file systems are always read-only",)
    return Reason(
        "mount-option",
        f"{show(path or '')} is in the {mount.kind} file system at {show(mount.point)}, which is "
        "mounted read-only.",
        (*advice, *(("or choose another place",) if len(advice) == 1 else ())),
    )


def _attributes(scene: Scene) -> Reason | None:
    """An attribute of the file, or of its directory, forbids what was tried."""
    paths = [one for one in dict.fromkeys((scene.path, scene.target)) if one]
    folders = []
    if any(fnmatchcase(scene.call.name, one) for one in _CHANGES_FOLDER):
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
            (f"chattr -{letter} {shlex.quote(path)}",),
        )
    return None


def _sticky(scene: Scene) -> Reason | None:
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


def _not_owner(scene: Scene) -> Reason | None:
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


# -- what is there -----------------------------------------------------------------------------


def _exists(scene: Scene) -> Reason | None:
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


def _not_empty(scene: Scene) -> Reason | None:
    path = scene.target
    try:
        names = os.listdir(path) if path else []
    except OSError:
        return None
    if not names:
        return None
    shown = ", ".join(sorted(names)[:3]) + (", ..." if len(names) > 3 else "")
    return Reason("not-empty", f"The directory {show(path or '')} is not empty: it has {shown}.")


def _is_directory(scene: Scene) -> Reason | None:
    path = scene.target
    if path is None or not os.path.isdir(path):
        return None
    return Reason("is-a-directory", f"{show(path)} is a directory.")


def _is_mounted(path: str) -> bool:
    mount = files.mount_of(path)
    return mount is not None and mount.point == os.path.realpath(path)


def _busy(scene: Scene) -> Reason | None:
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
    if scene.call.name != "umount2" and _is_mounted(path):
        return Reason(
            "busy",
            f"A file system is mounted at {show(path)}.",
            (f"umount {shlex.quote(path)}",),
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


def _no_space(scene: Scene) -> Reason | None:
    path = scene.target
    mount = files.mount_of(path) if path else None
    if mount is None:
        return None
    try:
        there = os.statvfs(mount.point)
    except OSError:
        return None
    if there.f_files and not there.f_favail:
        return Reason(
            "inodes",
            f"The file system at {show(mount.point)} cannot hold another file: all "
            f"{there.f_files} inodes are used.",
            ("remove files there",),
        )
    if there.f_bavail * there.f_frsize > 1 << 20:
        return None
    total = there.f_blocks * there.f_frsize >> 20
    return Reason(
        "space",
        f"The file system at {show(mount.point)} ({mount.kind}, {total} MiB) is full.",
        ("remove files there, or choose another place",),
    )


def _two_file_systems(scene: Scene) -> Reason | None:
    one, two = (path_of(scene.call, number) for number in (0, 1))
    if one is None or two is None:
        return None
    mounts = files.mount_of(one), files.mount_of(os.path.dirname(two))
    if mounts[0] is None or mounts[1] is None or mounts[0].point == mounts[1].point:
        return None
    return Reason(
        "two-file-systems",
        f"{show(one)} is in the file system at {show(mounts[0].point)}, and {show(two)} would be "
        f"in the file system at {show(mounts[1].point)}.",
        ("copy the file and remove the old one, as mv(1) does",),
    )


def _format(scene: Scene) -> Reason | None:
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
            (f"start {shlex.quote(path or '')} with a line such as #!/bin/sh",),
        )
    return None


# -- the network -------------------------------------------------------------------------------


def _in_use(scene: Scene) -> Reason | None:
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX:
        return Reason(
            "busy",
            f"The file {address.path} exists already.",
            (f"rm {shlex.quote(address.path)}, if no program uses that socket",),
        )
    found = list(_sockets(address.port))
    if not found:
        return None
    words = "; ".join(found)
    return Reason(
        "busy",
        f"Port {address.port} is in use: {words}.",
        ("end that process, or choose another port",),
    )


def _sockets(port: int) -> Iterator[str]:
    """Who uses a port."""
    inodes: dict[str, str] = {}
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        try:
            rows = Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            if int(words[1].rpartition(":")[2], 16) != port:
                continue
            if kind.startswith("udp"):
                inodes[words[9]] = f"is bound to port {port} ({kind})"
            elif words[3] in _STATES:
                inodes[words[9]] = f"{_STATES[words[3]]} port {port} ({kind})"
    for inode, what in inodes.items():
        if inode == "0":
            yield f"a connection {what}; the kernel keeps it for a minute (TIME_WAIT)"
            continue
        holder = _holder_of_socket(inode)
        yield f"{holder} {what}" if holder else f"a process of another user {what}"


def _holder_of_socket(inode: str) -> str | None:
    wanted = f"socket:[{inode}]"
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == wanted:
                folder = link.parent.parent
                name = (folder / "comm").read_text().strip()
                return f"{name} (PID {folder.name})"
        except OSError:
            continue
    return None


def _privileged_port(scene: Scene) -> Reason | None:
    address = scene.call.address
    if address is None or address.family not in (AF_INET, AF_INET6):
        return None
    first = _FIRST_FREE_PORT
    setting = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    try:
        first = int(setting.read_text())
    except (OSError, ValueError):
        pass
    if not 0 < address.port < first:
        return None
    return Reason(
        "capability",
        f"Ports below {first} require CAP_NET_BIND_SERVICE. The command ran as user "
        f"{files.user_name(scene.who.uid)} without it.",
        (
            f"choose port {first} or higher",
            "or setcap cap_net_bind_service=+ep PROGRAM",
            f"or sysctl net.ipv4.ip_unprivileged_port_start={address.port}",
        ),
    )


def _no_listener(scene: Scene) -> Reason | None:
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX:
        return Reason(
            "not-listening",
            f"The socket {address.path} exists, and no process listens on it.",
            ("start its service",),
        )
    here = address.host.startswith(("127.", "0.")) or address.host in ("::1", "::")
    where = "on this machine" if here else "there, or a firewall rejects the connection"
    return Reason(
        "not-listening",
        f"No process listens on {address} {where}.",
        ("start the service, or check the port",),
        is_seen_later=False,
    )


# -- what the kernel said ----------------------------------------------------------------------


def _kernel_message(scene: Scene) -> Reason | None:
    if not scene.said:
        return None
    words = " ".join(f'"{one}"' for one in scene.said[-2:])
    option = re.search(r"[Uu]nknown (?:parameter|mount option|option) '?([^'\s]+)", words)
    advice: tuple[str, ...] = ()
    if option is not None:
        advice = (f"remove the option {option[1]}, or check its spelling",)
    return Reason("kernel-message", f"The kernel reported: {words}", advice, is_seen_later=False)


def _file_system_type(scene: Scene) -> Reason | None:
    """mount(2) of a type that this kernel does not have."""
    kind = scene.call.text(2 if scene.call.name == "mount" else 0)
    try:
        known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    except OSError:
        return None
    if not kind or kind in known:
        return None
    return Reason(
        "unsupported",
        f"This kernel does not support the file system type {show(kind)}.",
        (f"check the spelling, or load its module: modprobe {shlex.quote(kind)}",),
    )


def _no_mount_point(scene: Scene) -> Reason | None:
    """A mount is to be changed or removed, and nothing is mounted there."""
    call = scene.call
    is_mount = call.name == "mount"
    path = path_of(call, 1) if is_mount else scene.path
    if path is None or not os.path.exists(path) or _is_mounted(path):
        return None
    if not is_mount:
        return Reason("no-mount-point", f"Nothing is mounted at {show(path)}.")
    made = next((word for flag, word in MOUNT_CHANGES.items() if call.arguments[3] & flag), None)
    if made is None:
        return None
    quoted = shlex.quote(path)
    return Reason(
        "no-mount-point",
        f"{show(path)} is not a mount point. Only a mount can become {made}."
        if made != "remounted"
        else f"{show(path)} is not a mount point, so there is nothing to remount.",
        (
            f"make it a mount point: mount --bind {quoted} {quoted}",
            "or give the mount point itself",
        ),
    )


_PATHS = ("*",)
_TABLE: Sequence[tuple[tuple[str, ...], tuple[str, ...], Finder]] = (
    (("EINVAL",), ("mount", "umount*"), _no_mount_point),
    (("EINVAL", "ENODEV", "EPERM", "EBUSY", "EOPNOTSUPP", "ENOTBLK"), _PATHS, _kernel_message),
    (("ENODEV",), ("mount", "fsopen"), _file_system_type),
    (("ENOENT",), ("execve*",), _interpreter),
    (("ENOENT",), _PATHS, _search),
    (("ENOENT",), _PATHS, _missing),
    (("ENOTDIR",), _PATHS, _is_no_directory),
    (("EACCES",), ("bind",), _privileged_port),
    (("EACCES",), ("execve*", "open*", "mmap"), _no_exec),
    (("EACCES",), _PATHS, _mode),
    (("EROFS",), _PATHS, _read_only),
    (("EPERM", "EACCES"), _PATHS, _attributes),
    (("EPERM", "EACCES"), ("unlink*", "rename*", "rmdir"), _sticky),
    (("EPERM",), ("*chmod*", "*chown*", "utime*"), _not_owner),
    (("EEXIST",), _PATHS, _exists),
    (("ENOTEMPTY", "EEXIST"), ("rmdir", "rename*", "unlink*"), _not_empty),
    (("EISDIR",), _PATHS, _is_directory),
    (("EADDRINUSE",), ("bind", "listen"), _in_use),
    (("ECONNREFUSED",), ("connect", "sendto"), _no_listener),
    (("EBUSY", "ETXTBSY"), _PATHS, _busy),
    (("ENOSPC",), _PATHS, _no_space),
    (("EXDEV",), ("rename*", "link*"), _two_file_systems),
    (("ENOEXEC",), ("execve*",), _format),
)
