# SPDX-License-Identifier: BSD-2-Clause
"""Run a host program that serves a guest, such as QEMU, with minimal access to the host.

``python confined.py [OPTION...] VIEW [PROGRAM ARGUMENT...]``. The script enters a new mount
namespace. It binds all mounts of the host at the empty directory VIEW and makes them read-only.
VIEW contains no devices and none of the kernel's own file systems (proc, sysfs and similar).
Therefore the host's kernel rejects every write of PROGRAM below VIEW. Without PROGRAM, the script
only tests the setup. With an empty VIEW, it makes no view. If the setup fails, the script prints a
line on stderr and exits with status 125.

``--owned DIR`` mounts DIR over itself with mapped IDs. In the new mount, files of DIR's owner and
group appear to belong to root, and files that root makes belong to DIR's owner. No other user can
make files there. The file system must support ID-mapped mounts (ext4: since Linux 5.12); otherwise
the owners in DIR stay unchanged.

``--root EXPORT`` makes VIEW the root directory of PROGRAM, and mounts the view a second time at the
directory EXPORT. PROGRAM has a /dev with the files of ``--keep FILE``, and a /proc with only its
own process; EXPORT has neither. ``--write DIR`` names a directory that PROGRAM can write, mounted
as by ``--owned``. If DIR belongs to another user than root and its file system does not support
ID-mapped mounts, PROGRAM is not started. ``--no-setuid`` prevents PROGRAM from making set-user-ID
and set-group-ID files. ``--file-limit BYTES`` is the maximum size of a file that PROGRAM writes.

After ``--owned DIR`` or ``--write DIR``, ``--at PLACE`` mounts DIR at PLACE. ``--identity
DEVICE:INODE`` identifies DIR: if another user has put a link or another directory there, PROGRAM is
not started.

This module runs as a separate program, because the namespace must belong to a single process. It
uses only the standard library.
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
#: Directories that the guest does not share with the host. In some containers, they are not file
#: systems of the kernel.
_HIDDEN = ("proc", "sys", "dev")
#: File systems that expose the kernel, its processes or devices.
_KERNEL_FS = frozenset(
    {"autofs", "binder", "binfmt_misc", "bpf", "cgroup", "cgroup2", "configfs", "debugfs"}
    | {"devpts", "devtmpfs", "efivarfs", "functionfs", "fusectl", "mqueue", "nfsd", "proc"}
    | {"pstore", "rpc_pipefs", "securityfs", "selinuxfs", "smackfs", "sysfs", "tracefs"}
)

_CLONE_NEWNS, _CLONE_NEWUSER = 0x20000, 0x10000000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x1, 0x2, 0x4, 0x8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x20, 0x1000, 0x4000, 0x40000
_MNT_DETACH = 2
#: mount_setattr(2) of Linux 5.12; the number is the same on all architectures except alpha. Its
#: flags for read-only, nosuid and nodev equal the flags of mount(2).
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
#: AUDIT_ARCH_* of linux/audit.h, and the system calls that set a file's mode: each number with the
#: index of the mode argument. Directories may have these bits, which grant no rights there.
_FILTERS = {
    "x86_64": (
        0xC000003E,
        {2: 2, 85: 1, 90: 1, 91: 1, 133: 1, 257: 3, 259: 2, 268: 2, 452: 2},
    ),
    "aarch64": (0xC00000B7, {33: 2, 52: 1, 53: 2, 56: 3, 452: 2}),
}
#: openat2(2) takes its mode from memory, which a filter cannot read. The filter returns ENOSYS, so
#: callers fall back to openat(2).
_SYS_OPENAT2 = 437
_LOAD, _EQUALS, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06

_libc = ctypes.CDLL(None, use_errno=True)


class Folder:
    """A folder that PROGRAM can write: where it is, where it is mounted, and DEVICE:INODE or ""."""

    def __init__(self, path: str) -> None:
        self.path, self.at, self.identity = path, "", ""


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _mount(source: str | None, target: str, flags: int, kind: str | None = None) -> None:
    words = (source and os.fsencode(source), os.fsencode(target), kind and kind.encode())
    if _libc.mount(*words, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), "mount", target)


def make_view(view: str) -> None:
    """Mount the host's files read-only at ``view``, for this process and the program it executes.

    Later mounts of the host do not appear in the view. Raises OSError.
    """
    _own_namespace()
    _mount("/", view, _MS_BIND | _MS_REC)
    for name in _HIDDEN:
        while _unmount(f"{view}/{name}"):
            pass  # several file systems may be mounted over each other
    # an unmount can uncover another mount, so repeat the search
    while hidden := [place for place, kind in _mounts(view) if kind in _KERNEL_FS]:
        if not sum(_unmount(place) for place in reversed(hidden)):
            raise OSError(ctypes.get_errno(), "umount", hidden[-1])
    _restrict(view, _MS_RDONLY | _MS_NODEV)


def _own_namespace() -> None:
    if _libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare", "mount namespace")
    # private, not slave: a slave would receive later mounts of the host, writable
    _mount("none", "/", _MS_REC | _MS_PRIVATE)


def _unmount(place: str) -> bool:
    return not _libc.umount2(os.fsencode(place), _MNT_DETACH)


def _mounts(top: str) -> Iterator[tuple[str, str]]:
    """Yield the mount point and type of each file system at and below ``top``, oldest first."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        fields = line.split(b" ")
        escaped = fields[4]
        path = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
        place = os.fsdecode(path)
        if place == top or place.startswith(f"{top}/"):
            yield place, fields[fields.index(b"-", 6) + 1].decode(errors="replace").split(".")[0]


def _restrict(top: str, flags: int) -> None:
    """Add ``flags`` to all mounts at and below ``top``."""
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
    if failed:  # before Linux 5.12; no other process sees the intermediate state
        for place, _ in _mounts(top):
            kept = os.statvfs(place).f_flag & _KEPT
            _mount(None, place, kept | _MS_REMOUNT | _MS_BIND | flags)


def mount_owned(path: str, target: str) -> bool:
    """Mount ``path`` at ``target``, where files of its owner and group appear to belong to root.

    If the folder belongs to root, or its file system does not support ID-mapped mounts, the folder
    is mounted without mapping. Return True if files that root makes in ``target`` belong to the
    folder's owner. Raises OSError.
    """
    status = Path(path).stat()
    if status.st_uid and _mount_mapped(path, target, status.st_uid, status.st_gid):
        return True
    _mount(path, target, _MS_BIND | _MS_REC)
    return status.st_uid == 0


def _same(folder: Folder) -> str:
    """Return a path of ``folder`` that leads nowhere else. Raises OSError.

    Another user may have replaced the folder, or one above it, by a link.
    """
    if not folder.identity:
        return folder.path
    # open until the program is executed
    opened = os.open(folder.path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    status = os.fstat(opened)
    if f"{status.st_dev}:{status.st_ino}" != folder.identity:
        raise OSError(errno.ESTALE, "another folder is now at", folder.path)
    return f"/proc/self/fd/{opened}"


def _own(folder: Folder) -> None:
    """Mount ``folder`` at its place, or over itself, by :func:`mount_owned`. Raises OSError.

    If the root directory is not a mount point, the namespace cannot be made private, and other
    processes would see the new mount. Then the folder stays unchanged, and stderr reports it; but a
    folder with a place of its own raises OSError.
    """
    try:
        _own_namespace()
    except OSError as error:
        if folder.at:
            raise
        why = os.strerror(error.errno or 0)
        print(
            f"new files in {folder.path} belong to root: {error.filename}: {why}", file=sys.stderr
        )
        return
    target = folder.at or folder.path
    mount_owned(_same(folder), target)
    _restrict(target, _MS_NOSUID | _MS_NODEV)


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
    """Return the descriptor of a user namespace that maps ``uid`` and ``gid`` to root.

    Raises OSError.
    """
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


def make_root(view: str, export: str, writable: list[Folder], kept: list[str]) -> None:
    """Make ``view`` the root directory, and add /dev, /proc and ``writable``. Raises OSError."""
    # mount the export first: the guest must not see the later additions to the root directory
    _mount(view, view + export, _MS_BIND | _MS_REC)
    for name in ("dev", "proc"):
        _mount("none", f"{view}/{name}", _MS_NOSUID | _MS_NOEXEC, "tmpfs")
    for path in filter(os.path.exists, kept):
        Path(view + path).parent.mkdir(parents=True, exist_ok=True)
        Path(view + path).touch()
        _mount(path, view + path, _MS_BIND)
    # QEMU changes modes through /proc/self/fd
    Path(f"{view}/proc/self").mkdir()
    _mount(f"/proc/{os.getpid()}", f"{view}/proc/self", _MS_BIND)
    for folder in writable:
        target = view + (folder.at or folder.path)
        Path(target).mkdir(parents=True, exist_ok=True)
        if not mount_owned(_same(folder), target):
            raise OSError(errno.EOPNOTSUPP, "ID-mapped mount", folder.path)
        _restrict(target, _MS_NOSUID | _MS_NODEV)
    os.chroot(view)
    os.chdir("/")


def setuid_filter(machine: str) -> bytes:
    """Return a seccomp filter as an array of struct sock_filter; b"" for other machines.

    A system call that sets a set-user-ID or set-group-ID bit fails with EPERM.
    """
    if machine not in _FILTERS:
        return b""
    audit, modes = _FILTERS[machine]
    denied, allowed = (_RETURN, 0, 0, _RET_ERRNO | errno.EPERM), (_RETURN, 0, 0, _RET_ALLOW)
    # struct seccomp_data: the number at offset 0, the architecture at 4, the arguments from 16
    steps = [(_LOAD, 0, 0, 4), (_EQUALS, 1, 0, audit), (_RETURN, 0, 0, _RET_KILL_PROCESS)]
    steps += [(_LOAD, 0, 0, 0), (_EQUALS, 0, 1, _SYS_OPENAT2)]
    steps += [(_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS)]
    for number, argument in modes.items():
        steps += [(_EQUALS, 0, 4, number), (_LOAD, 0, 0, 16 + 8 * argument)]
        steps += [(_ANY_BIT, 0, 1, _SETUID_BITS), denied, allowed]
    return b"".join(struct.pack("=HBBI", *step) for step in [*steps, allowed])


def deny_setuid() -> None:
    """Load the filter for this process and the program it executes. Raises OSError."""
    code = setuid_filter(os.uname().machine)
    if not code:
        return
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
    words = (_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.c_char_p(program), 0, 0)
    if not _libc.prctl(*words):
        return
    # without CAP_SYS_ADMIN, a filter requires no_new_privs
    _libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    if _libc.prctl(*words) and ctypes.get_errno() != errno.EINVAL:  # EINVAL: no filters
        raise OSError(ctypes.get_errno(), "seccomp", "the filter of modes")


def _limit_files(size: int) -> None:
    # SIGXFSZ would end the program; if it is ignored, the write fails with EFBIG
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def main(*argv: str) -> int:
    """Apply the options and execute the program; return a status only if no program runs."""
    names = ("--root", "--keep", "--file-limit")
    values: dict[str, list[str]] = {name: [] for name in names}
    folders: dict[str, list[Folder]] = {"--write": [], "--owned": []}
    last: Folder | None = None
    words = list(argv)
    no_setuid = False
    while words and words[0].startswith("--"):
        name = words.pop(0)
        if name == "--no-setuid":
            no_setuid = True
        elif name in folders:
            last = Folder(words.pop(0))
            folders[name].append(last)
        elif name in ("--at", "--identity"):
            assert last is not None
            setattr(last, name[2:], words.pop(0))
        else:
            values[name].append(words.pop(0))
    view, *program = words
    try:
        if view:
            make_view(view)
        for folder in folders["--owned"]:
            _own(folder)
        for export in values["--root"]:
            make_root(view, export, folders["--write"], values["--keep"])
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
