# SPDX-License-Identifier: BSD-2-Clause
"""Run a program of the host's side of a guest, with as little of this machine as it needs.

``python confined.py [OPTION...] VIEW [PROGRAM ARGUMENT...]``. In a mount namespace of its own all
that is mounted is mounted once more at VIEW, an empty directory, and made read-only there, without
devices and without the kernel's own file systems (proc, sysfs and the like, wherever they are
mounted): whatever PROGRAM is made to do below VIEW, the kernel of this machine refuses to write.
Without PROGRAM it only tries. An empty VIEW makes none. Ends with 125 and a line on stderr where
that cannot be.

``--owned DIR`` mounts DIR over itself so that files of its owner and group belong to root there,
and files that root makes there belong to the owner. Nobody else can make files there. The file
system has to support it (ID-mapped mounts, ext4 since Linux 5.12); else DIR is left as it is.

``--root EXPORT`` makes VIEW the root directory of PROGRAM, and mounts the view once more at the
directory EXPORT. PROGRAM gets a /dev with the files that ``--keep FILE`` names, and a /proc with
itself alone; EXPORT has neither. ``--write DIR`` is a directory that it can write, mounted
as by ``--owned``. If DIR does not belong to root and cannot be mounted so, PROGRAM is not started.
``--no-setuid`` denies it to make set-user-ID and set-group-ID files. ``--file-limit BYTES`` is the
size of the largest file that it can write.

Runs as a program, on the standard library alone: the namespace must be that of one process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import resource
import signal
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["FAILED", "setuid_filter"]

FAILED = 125
#: What the guest has of its own. In some containers they are no file systems of the kernel.
_HIDDEN = ("proc", "sys", "dev")
#: File systems that show the kernel and its processes, or devices.
_KERNEL_FS = frozenset(
    {"autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs"}
    | {"devpts", "devtmpfs", "efivarfs", "functionfs", "fusectl", "mqueue", "nfsd", "proc"}
    | {"pstore", "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs"}
)

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
#: mount_setattr(2) of Linux 5.12, the same number on all architectures but alpha. Its flags for
#: read-only, nosuid and nodev are those of mount(2).
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE, _AT_EMPTY_PATH = -100, 0x8000, 0x1000
#: open_tree(2) and move_mount(2) of Linux 5.2, and the flag for ID-mapped mounts of 5.12.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT = 428, 429
_OPEN_TREE_CLONE, _MOVE_EMPTY_PATH = 1, 4
_MOUNT_ATTR_IDMAP = 0x100000
#: statvfs(3) and mount(2) have the same bits for nosuid, nodev and noexec.
_KEPT = _MS_NOSUID | _MS_NODEV | _MS_NOEXEC

_PR_SET_SECCOMP, _PR_SET_NO_NEW_PRIVS, _SECCOMP_MODE_FILTER = 22, 38, 2
_RET_KILL_PROCESS, _RET_ERRNO, _RET_ALLOW = 0x80000000, 0x00050000, 0x7FFF0000
_SETUID_BITS = 0o6000
#: AUDIT_ARCH_* of linux/audit.h. System calls that give a file its mode: their numbers, and which
#: argument the mode is. A directory may have these bits: there they are no rights.
_FILTERS = {
    "x86_64": (
        0xC000003E,
        {2: 2, 85: 1, 90: 1, 91: 1, 133: 1, 257: 3, 259: 2, 268: 2, 452: 2},
    ),
    "aarch64": (0xC00000B7, {33: 2, 52: 1, 53: 2, 56: 3, 452: 2}),
}
#: openat2(2) has its mode in memory, where no filter sees it; callers go back to openat(2).
_SYS_OPENAT2 = 437
_LOAD, _EQUALS, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _mount(source: str | None, target: str, flags: int, kind: str | None = None) -> None:
    words = (source and os.fsencode(source), os.fsencode(target), kind and kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), "mount", target)


def make_view(view: str) -> None:
    """Make ``view`` the read-only sight of everything, for this process and what it becomes.

    Raises OSError. Mounts that are made on this machine later do not show in it.
    """
    _own_namespace()
    _mount("/", view, _MS_BIND | _MS_REC)
    for name in _HIDDEN:
        while _unmount(f"{view}/{name}"):
            pass  # one may be mounted over another
    # what lies under an unmounted one comes to light, so look again
    while hidden := [place for place, kind in _mounts(view) if kind in _KERNEL_FS]:
        if not sum(_unmount(place) for place in reversed(hidden)):
            raise OSError(ctypes.get_errno(), "umount", hidden[-1])
    _restrict(view, _MS_RDONLY | _MS_NODEV)


def _own_namespace() -> None:
    if _libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare", "mount namespace")
    # not a slave either: what is mounted later would arrive writable
    _mount("none", "/", _MS_REC | _MS_PRIVATE)


def _unmount(place: str) -> bool:
    return not _libc.umount2(os.fsencode(place), _MNT_DETACH)


def _mounts(top: str) -> Iterator[tuple[str, str]]:
    """The place and the type of each file system at and below ``top``, the oldest first."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        escaped = fields[4]
        path = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
        place = os.fsdecode(path)
        if place == top or place.startswith(f"{top}/"):
            yield place, fields[fields.index(b"-", 6) + 1].decode(errors="replace").split(".")[0]


def _restrict(top: str, flags: int) -> None:
    """Add ``flags`` to all that is mounted at and below ``top``."""
    attributes = _MountAttr(flags)
    failed = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        _AT_FDCWD,
        os.fsencode(top),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if failed and ctypes.get_errno() != errno.ENOSYS:
        raise OSError(ctypes.get_errno(), "mount_setattr", top)
    if failed:  # before Linux 5.12; nobody else sees the time between
        for place, _ in _mounts(top):
            kept = os.statvfs(place).f_flag & _KEPT
            _mount(None, place, kept | _MS_REMOUNT | _MS_BIND | flags)


def mount_owned(path: str, target: str) -> bool:
    """Mount ``path`` at ``target``, with the files of its owner and group as root's there.

    A folder of root, and one whose file system cannot do that, is mounted as it is. Return whether
    files that root makes there belong to the folder's owner. Raises OSError.
    """
    status = Path(path).stat()
    if status.st_uid and _mount_mapped(path, target, status.st_uid, status.st_gid):
        return True
    _mount(path, target, _MS_BIND | _MS_REC)
    return status.st_uid == 0


def _own(path: str) -> None:
    """Mount ``path`` over itself by :func:`mount_owned`. Raises OSError.

    In a root directory that is no mount point this would be seen outside: the folder stays as it
    is, which standard error says.
    """
    try:
        _own_namespace()
    except OSError as error:
        why = os.strerror(error.errno or 0)
        print(f"new files in {path} belong to root: {error.filename}: {why}", file=sys.stderr)
        return
    mount_owned(path, path)
    _restrict(path, _MS_NOSUID | _MS_NODEV)


def _mount_mapped(path: str, target: str, uid: int, gid: int) -> bool:
    words = (_AT_FDCWD, os.fsencode(path))
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    tree = _libc.syscall(ctypes.c_long(_SYS_OPEN_TREE), *words, ctypes.c_uint(flags))
    if tree < 0:
        return False
    try:
        namespace = _user_namespace(uid, gid)
        try:
            attributes = _MountAttr(_MOUNT_ATTR_IDMAP, 0, 0, namespace)
            failed = _libc.syscall(
                ctypes.c_long(_SYS_MOUNT_SETATTR),
                tree,
                b"",
                _AT_EMPTY_PATH | _AT_RECURSIVE,
                ctypes.byref(attributes),
                ctypes.c_size_t(ctypes.sizeof(attributes)),
            )
        finally:
            os.close(namespace)
        if failed:
            return False
        place = (_AT_FDCWD, os.fsencode(target), _MOVE_EMPTY_PATH)
        return not _libc.syscall(ctypes.c_long(_SYS_MOVE_MOUNT), tree, b"", *place)
    except OSError:
        return False
    finally:
        os.close(tree)


def _user_namespace(uid: int, gid: int) -> int:
    """A descriptor of a user namespace: ``uid`` and ``gid`` there are root here. Raises OSError."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        if not _libc.unshare(_CLONE_NEWUSER):
            os.write(write, b"x")
            signal.pause()
        os._exit(1)
    os.close(write)
    try:
        if not os.read(read, 1):
            raise OSError(errno.EPERM, "unshare", "user namespace")
        Path(f"/proc/{child}/uid_map").write_text(f"{uid} 0 1\n")
        Path(f"/proc/{child}/gid_map").write_text(f"{gid} 0 1\n")
        return os.open(f"/proc/{child}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def make_root(view: str, export: str, writable: list[str], kept: list[str]) -> None:
    """Make ``view`` the root directory, with what a program needs beside files. Raises OSError."""
    # first: the guest must not see what is added to the root directory alone
    _mount(view, view + export, _MS_BIND | _MS_REC)
    for name in ("dev", "proc"):
        _mount("none", f"{view}/{name}", _MS_NOSUID | _MS_NOEXEC, "tmpfs")
    for path in filter(os.path.exists, kept):
        Path(view + path).parent.mkdir(parents=True, exist_ok=True)
        Path(view + path).touch()
        _mount(path, view + path, _MS_BIND)
    # QEMU changes modes by way of /proc/self/fd
    Path(f"{view}/proc/self").mkdir()
    _mount(f"/proc/{os.getpid()}", f"{view}/proc/self", _MS_BIND)
    for path in writable:
        Path(view + path).mkdir(parents=True, exist_ok=True)
        if not mount_owned(path, view + path):
            raise OSError(errno.EOPNOTSUPP, "ID-mapped mount", path)
        _restrict(view + path, _MS_NOSUID | _MS_NODEV)
    os.chroot(view)
    os.chdir("/")


def setuid_filter(machine: str) -> bytes:
    """A filter as an array of struct sock_filter; empty for machines without one here.

    EPERM for a system call that gives a file a set-user-ID or set-group-ID bit.
    """
    if machine not in _FILTERS:
        return b""
    audit, modes = _FILTERS[machine]
    denied, allowed = (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM), (_RETURN, 0, 0, _RET_ALLOW)
    # struct seccomp_data: the number at offset 0, the architecture at 4, the arguments from 16 on
    steps = [(_LOAD, 0, 0, 4), (_EQUALS, 1, 0, audit), (_RETURN, 0, 0, _RET_KILL_PROCESS)]
    steps += [(_LOAD, 0, 0, 0), (_EQUALS, 0, 1, _SYS_OPENAT2)]
    steps += [(_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS)]
    for number, argument in modes.items():
        steps += [(_EQUALS, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * argument)]
        steps += [(_ANY_BIT, 0, 1, _SETUID_BITS), denied, allowed]
    return b"".join(struct.pack("=HBBI", *step) for step in [*steps, allowed])


def deny_setuid() -> None:
    """Load the filter, for this process and what it becomes. Raises OSError."""
    code = setuid_filter(os.uname().machine)
    if not code:
        return
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    words = (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0)
    if not _libc.prctl(*words):
        return
    # without CAP_SYS_ADMIN
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _libc.prctl(*words) and ctypes.get_errno() != errno.EINVAL:  # EINVAL: it has no filters
        raise OSError(ctypes.get_errno(), "seccomp", "the filter of modes")


def _limit_files(size: int) -> None:
    # the signal would end the program; ignored, the write fails with EFBIG
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def main(*argv: str) -> int:
    """Do what the options say and become the program; the exit status otherwise."""
    names = ("--root", "--write", "--keep", "--owned", "--file-limit")
    values: dict[str, list[str]] = {name: [] for name in names}
    words = list(argv)
    no_setuid = False
    while words and words[0].startswith("--"):
        name = words.pop(0)
        if name == "--no-setuid":
            no_setuid = True
        else:
            values[name].append(words.pop(0))
    view, *program = words
    try:
        if view:
            make_view(view)
        for path in values["--owned"]:
            _own(path)
        for export in values["--root"]:
            make_root(view, export, values["--write"], values["--keep"])
        for size in values["--file-limit"]:
            _limit_files(int(size))
        if no_setuid:
            deny_setuid()
        if program:
            os.execvp(program[0], program)
    except OSError as error:
        what = f"{error.strerror} {error.filename}: {os.strerror(error.errno or 0)}"
        print(f"cannot make a read-only view of the files: {what}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
