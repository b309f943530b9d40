# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that an open file has: another kind of file than the call needs, a lock, alignment."""

from __future__ import annotations

import mmap
import os
import stat
from fnmatch import fnmatchcase

from retsnoop_py.cause import files
from retsnoop_py.cause.operation import described, descriptor, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.cause.waiting import locks, proc
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.value import Value

__all__ = ["locked", "no_direct", "not_aligned", "not_mappable", "not_seekable", "wrong_kind"]

#: mmap(2): the argument with the descriptor.
_MAPPED = 4
#: fcntl(2): F_SETLK and F_OFD_SETLK, which do not wait.
_SETLK = (6, 37)
#: Bytes that each part of a direct transfer is a multiple of, on any device.
_SECTOR = 512
#: FITRIM, and the ioctls of chattr(1) and lsattr(1): FS_IOC_[GS]ETFLAGS, FS_IOC_FS[GS]ETXATTR.
_FITRIM = 0xC0185879
_ATTRIBUTES = (0x80086601, 0x40086602, 0x801C581F, 0x401C5820)


#: ioctl(2) of job control, for the controlling terminal only: TIOC[GS]PGRP, TIOCGSID.
_JOB_CONTROL = (0x540F, 0x5410, 0x5429)


class _Kind(Value):
    """The files that a family of ioctl(2) commands is for, and the advice for other files."""

    noun: str
    advice: tuple[str, ...]


_TERMINAL = _Kind(
    "a terminal",
    (
        "run it in a terminal: ssh -t, docker run -it",
        "or script -qc COMMAND /dev/null, which gives COMMAND a terminal",
    ),
)
#: By the type of the command (_IOC_TYPE of linux/ioctl.h, Documentation/userspace-api/ioctl).
_KINDS = {
    0x54: _TERMINAL,
    0x12: _Kind("a block device", ("give the device, such as /dev/sda: lsblk lists them",)),
    0x4C: _Kind("a loop device", ("give a loop device: losetup lists them",)),
    0x70: _Kind("a real-time clock", ("give the clock: /dev/rtc0",)),
}


def wrong_kind(scene: Scene) -> Reason | None:
    """ioctl(2) that this kind of file does not have (ENOTTY, EOPNOTSUPP)."""
    place, command = scene.call.place(0), scene.call.arguments[1] & 0xFFFFFFFF
    if place is None:
        return None
    if command == _FITRIM or command in _ATTRIBUTES:
        return _of_file_system(
            scene, "discard (fstrim)" if command == _FITRIM else "this attribute (chattr)"
        )
    kind = _KINDS.get(command >> 8 & 0xFF)
    if kind is None or errno_name(scene.call.error) != "ENOTTY":
        return None
    is_terminal = (place.path or "").startswith(("/dev/pts/", "/dev/tty", "/dev/console"))
    if command in _JOB_CONTROL and is_terminal:
        return Reason(
            "descriptor",
            f"{descriptor(scene.call)} is not the controlling terminal of the process, so there is "
            "no job control.",
            ("run it with setsid --ctty COMMAND, or with script -qc COMMAND /dev/null",),
            is_seen_later=False,
        )
    text = f"{descriptor(scene.call)} is not {kind.noun}."
    return Reason("descriptor", text, kind.advice, is_seen_later=False)


def _of_file_system(scene: Scene, feature: str) -> Reason | None:
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None:
        return None
    what = "this feature" if "fstrim" in feature else "this attribute"
    return Reason(
        "unsupported",
        f"The {mount.kind} file system at {show(mount.point)} does not support {feature} for "
        f"{show(path)}.",
        (f"do without {what}, or use a file system that has it",),
    )


def no_direct(scene: Scene) -> Reason | None:
    """open(2) with O_DIRECT in a file system without direct I/O (EINVAL)."""
    path, mount = scene.path, files.mount_of(scene.path) if scene.path else None
    flags = scene.call.arguments[1 if scene.call.name == "open" else 2]
    if path is None or mount is None or not flags & os.O_DIRECT:
        return None
    return Reason(
        "unsupported",
        f"The program opened {show(path)} with O_DIRECT, which the {mount.kind} file system at "
        f"{show(mount.point)} does not support.",
        (
            "switch direct I/O off in the program (dd: without direct; QEMU: cache=writeback)",
            "or put the file on another file system, such as ext4 or XFS",
        ),
    )


def not_seekable(scene: Scene) -> Reason | None:
    """A pipe, a socket or a terminal has no position (ESPIPE)."""
    place = scene.call.place(0)
    if place is None or stat.S_ISREG(place.mode):
        return None
    return Reason(
        "descriptor",
        f"{descriptor(scene.call)} has no position: its data can only be read or written in order.",
        ("use a regular file: write the data to a file first",),
        is_seen_later=False,
    )


def locked(scene: Scene) -> Reason | None:
    """Another process holds a lock on the file, and the call was not to wait for it (EAGAIN)."""
    call, place = scene.call, scene.call.place(0)
    if place is None or (call.name == "fcntl" and call.arguments[1] & 0xFFFFFFFF not in _SETLK):
        return None
    file = described(place) or "the file"
    found = [one for one in locks.owners_of(place.inode) if one != call.pid]
    if not found:
        return Reason(
            "busy",
            f"Another process held a lock on {file}. /proc/locks lists no holder any more.",
            ("run the command again",),
        )
    names = " and ".join(proc.who(one) for one in found[:3])
    wait = ("or wait for the lock: flock -w SECONDS",) if call.name == "flock" else ()
    return Reason(
        "busy",
        f"{names} {'holds' if len(found) == 1 else 'hold'} a lock on {file}.",
        (f"wait until PID {found[0]} has released the lock, or end it: kill {found[0]}", *wait),
    )


def not_mappable(scene: Scene) -> Reason | None:
    """mmap(2) with a length, an offset or a descriptor that do not fit."""
    length, rights, flags, offset = (scene.call.arguments[one] for one in (1, 2, 3, 5))
    place = None if flags & mmap.MAP_ANONYMOUS else scene.call.place(_MAPPED)
    file = (described(place) if place is not None else "") or "the file"
    error, page = errno_name(scene.call.error), mmap.PAGESIZE
    text = advice = ""
    if error == "EINVAL" and not length:
        text, advice = "The length of the mapping is 0.", "check whether the file is empty"
    elif error == "EINVAL" and offset % page:
        text = f"The offset of the mapping is {offset}, which is no multiple of {page}."
        advice = f"choose a multiple of the page size, {page}"
    elif error == "EACCES" and place is not None and stat.S_ISREG(place.mode):
        needs_writing = flags & mmap.MAP_SHARED and rights & mmap.PROT_WRITE
        text = f"A mapping of {file} needs a descriptor that is open for reading"
        text += " and writing (MAP_SHARED with PROT_WRITE)." if needs_writing else "."
        advice = f"open it with {'O_RDWR' if needs_writing else 'O_RDONLY or O_RDWR'}"
    elif error == "ENODEV" and place is not None:
        text = f"The kind of file or the file system of {file} does not support mappings."
        advice = "read and write the file instead of mapping it"
    return Reason("out-of-range", text, (advice,), is_seen_later=False) if text else None


def not_aligned(scene: Scene) -> Reason | None:
    """Direct input and output (O_DIRECT) with an address, a size or an offset between blocks."""
    patterns = ("*dio*", "*direct_IO*", "*direct_io*")
    if not any(fnmatchcase(name, one) for name in scene.chain for one in patterns):
        return None
    call = scene.call
    parts = (("size", call.arguments[2]), ("address of the buffer", call.arguments[1]))
    wrong = [
        f"the size is {value} bytes" if name == "size" else f"the {name} is not"
        for name, value in parts
        if value % _SECTOR
    ]
    found = f" Here {' and '.join(wrong)}." if wrong else ""
    path = scene.path
    device = "blockdev --getss DEVICE shows the size of a block"
    if path is not None and (mount := files.mount_of(path)) is not None:
        source = mount.source if mount.source.startswith("/dev/") else path
        if source.startswith("/dev/"):
            device = device.replace("DEVICE", shell_path(source))
    return Reason(
        "out-of-range",
        "The file is open with O_DIRECT. Then the size, the offset and the address of the buffer "
        f"must be multiples of the block size of the device (512 or 4096 bytes).{found}",
        (f"use such a size, for example dd bs=4096; {device}", "or open the file without O_DIRECT"),
        is_seen_later=False,
    )
