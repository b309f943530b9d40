# SPDX-License-Identifier: BSD-2-Clause
"""Run a program that sees this machine's files read-only below a directory.

``python read_only.py VIEW [PROGRAM ARGUMENT...]``. In a mount namespace of its own all that is
mounted is mounted once more at VIEW, an empty directory, and made read-only there, with no access
to devices: whatever PROGRAM is made to do below VIEW, the kernel of this machine refuses to
write. Without PROGRAM it only tries. Ends with 125 and a line on stderr where that cannot be.

Runs as a program, on the standard library alone: the namespace must be that of one process.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import sys
from pathlib import Path

__all__ = ["FAILED"]

FAILED = 125
#: What the guest has of its own, and what tells more of the host than files.
_HIDDEN = ("proc", "sys", "dev")

_CLONE_NEWNS = 0x20000
_MS_RDONLY, _MS_NODEV, _MS_REMOUNT, _MS_BIND, _MS_REC = 0x1, 0x4, 0x20, 0x1000, 0x4000
_MS_PRIVATE = 0x40000
_MNT_DETACH = 2
#: mount_setattr(2) of Linux 5.12, the same number on all architectures but alpha.
_SYS_MOUNT_SETATTR = 442
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NODEV = 0x1, 0x4
#: nosuid, nodev, noexec: statvfs(3) and mount(2) have the same bits for them.
_KEPT = 0x2 | 0x4 | 0x8

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")]


def _mount(source: str | None, target: str, flags: int) -> None:
    words = (source and os.fsencode(source), os.fsencode(target), None)
    if _libc.mount(*words, ctypes.c_ulong(flags), None):
        raise OSError(ctypes.get_errno(), "mount", target)


def make_view(view: str) -> None:
    """Make ``view`` the read-only sight of everything, for this process and what it becomes.

    Raises OSError. Mounts that are made on this machine later do not show in it.
    """
    if _libc.unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare", "mount namespace")
    # not a slave either: what is mounted later would arrive writable
    _mount("none", "/", _MS_REC | _MS_PRIVATE)
    _mount("/", view, _MS_BIND | _MS_REC)
    for name in _HIDDEN:
        path = os.fsencode(f"{view}/{name}")
        while _libc.umount2(path, _MNT_DETACH) == 0:
            pass  # one may be mounted over another
    attributes = _MountAttr(_MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NODEV)
    failed = _libc.syscall(
        ctypes.c_long(_SYS_MOUNT_SETATTR),
        _AT_FDCWD,
        os.fsencode(view),
        _AT_RECURSIVE,
        ctypes.byref(attributes),
        ctypes.c_size_t(ctypes.sizeof(attributes)),
    )
    if failed:
        if ctypes.get_errno() != errno.ENOSYS:
            raise OSError(ctypes.get_errno(), "mount_setattr", view)
        _remount_each(view)


def _remount_each(view: str) -> None:
    """What mount_setattr does, on kernels before 5.12; nobody else sees the time between."""
    for line in Path("/proc/self/mountinfo").read_bytes().splitlines():
        escaped = line.split(b" ")[4]
        path = re.sub(rb"\\([0-7]{3})", lambda found: bytes([int(found[1], 8)]), escaped)
        place = os.fsdecode(path)
        if place == view or place.startswith(f"{view}/"):
            kept = os.statvfs(place).f_flag & _KEPT
            _mount(None, place, kept | _MS_REMOUNT | _MS_BIND | _MS_RDONLY | _MS_NODEV)


def main(view: str, *argv: str) -> int:
    """Make ``view`` and become ``argv``, if there is one; the exit status otherwise."""
    try:
        make_view(view)
        if argv:
            os.execvp(argv[0], argv)
    except OSError as error:
        what = f"{error.strerror} {error.filename}: {os.strerror(error.errno or 0)}"
        print(f"cannot make a read-only view of the files: {what}", file=sys.stderr)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
