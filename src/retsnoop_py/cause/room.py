# SPDX-License-Identifier: BSD-2-Clause
"""The file system without room: bytes, inodes or quota. Looked up after the command ended."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from fnmatch import fnmatchcase
from struct import Struct

from retsnoop_py.cause import files
from retsnoop_py.cause.limits import size
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.value import Value

__all__ = ["no_space", "quota"]

#: Bytes that may be free while a larger write does not fit.
_SMALL = 1 << 20
#: quotactl(2): Q_GETQUOTA, and struct if_dqblk (blocks of 1024 bytes, the use in bytes).
_GETQUOTA = 0x800007
_DQBLK = Struct("=8QI4x")
_BLOCK = 1024
_TYPES = ("user", "group", "project")
#: Calls that need space for data.
_WRITES = ("write*", "pwrite*", "copy_file_range", "sendfile", "splice", "ftruncate")
#: File systems in memory: an option of the mount sets their size.
_SIZED = ("tmpfs", "ramfs", "hugetlbfs")


def no_space(scene: Scene) -> Reason | None:
    """The file system has no room, or no inodes (ENOSPC)."""
    path = scene.target
    device = _device(path) if path else None
    mount = files.mount_of(path) if path else None
    if device is not None or mount is None:
        return device
    try:
        there = os.statvfs(mount.point)
    except OSError:
        return None
    where = f"The {mount.kind} file system at {show(mount.point)}"
    resize = f"mount -o remount,{{}} {shell_path(mount.point)}"
    if there.f_files and not there.f_favail:
        more = resize.format(f"nr_inodes={2 * there.f_files}")
        return Reason(
            "inodes",
            f"{where} cannot hold another file: all {there.f_files} inodes are in use.",
            (
                "remove files there (many small files use up inodes, not bytes)",
                *((f"or {more}",) if mount.kind == "tmpfs" else ()),
            ),
        )
    total, free = there.f_blocks * there.f_frsize, there.f_bavail * there.f_frsize
    asked = scene.call.arguments[3] if scene.call.name == "fallocate" else 0
    if asked > free > 0 or asked > total:
        grow = f"or {resize.format(f'size={size_option(asked + total)}')}"
        less = "request less" if asked > total else "request less, or remove files there"
        return Reason(
            "space",
            f"{where} has {size(total)} in all and {size(free)} free, and {size(asked)} were "
            "requested.",
            (less, grow if mount.kind in _SIZED else "or choose another place"),
        )
    grow = f"or {resize.format(f'size={2 * total}')}" if mount.kind in _SIZED else ""
    if free > min(_SMALL, total // 10) and free > total // 100:
        return _free_again(scene, where, f"{size(free)} of {size(total)}", grow)
    text = f"{where} is full: {size(total - there.f_bfree * there.f_frsize)} of {size(total)} are "
    text += f"in use, and {size(free)} are free"
    reserved = (there.f_bfree - there.f_bavail) * there.f_frsize
    if reserved > 0 and scene.call.uid != 0:
        text += f" ({size(reserved)} more are reserved for root)"
    return Reason(
        "space",
        f"{text}.",
        (
            f"remove files there: du -xh {shell_path(mount.point)} | sort -h shows the largest",
            *((grow,) if grow else ("or choose another place",)),
        ),
    )


def _device(path: str) -> Reason | None:
    """Return the reason for /dev/full, and for a write to the end of a block device."""
    if _is_full_device(path):
        return Reason(
            "special-file",
            f"{show(path)} is the device that is always full: each write to it fails with ENOSPC.",
            ("write to another file",),
            is_seen_later=False,
        )
    try:
        if not stat.S_ISBLK(os.stat(path).st_mode):
            return None
    except OSError:
        return None
    return Reason(
        "space",
        f"{show(path)} is a device, and the command wrote up to its end.",
        (
            f"write less (dd: count=N): blockdev --getsize64 {shell_path(path)} shows its bytes",
            "or use a larger device. dd without count always ends this way",
        ),
    )


def _free_again(scene: Scene, where: str, free: str, grow: str) -> Reason | None:
    """Return the reason of a failed write if the file system has room when it is looked up."""
    if not any(fnmatchcase(scene.call.name, one) for one in _WRITES) or "btrfs" in where:
        return None
    return Reason(
        "space",
        f"{where} had no space left when the command wrote. Now {free} are free: probably the "
        "command removed its temporary files.",
        (
            "use a directory with more space; for temporary files: TMPDIR=DIRECTORY, sort -T",
            *((grow,) if grow else ()),
        ),
        is_inferred=True,
    )


def size_option(number: int) -> str:
    """A number of bytes for the mount option size, in whole KiB."""
    return f"{-(-number // 1024)}k"


def _is_full_device(path: str) -> bool:
    """Return whether the file is the device of ``/dev/full``."""
    try:
        status = os.stat(path)
    except OSError:
        return False
    return stat.S_ISCHR(status.st_mode) and status.st_rdev == os.makedev(1, 7)


class _Use(Value):
    """A quota: bytes and inodes that are in use, and the hard limits; a limit of 0: none."""

    kind: str
    number: int
    used: int
    most: int
    inodes: int
    most_inodes: int


def quota(scene: Scene) -> Reason | None:
    """A quota of the file system is used up (EDQUOT)."""
    path = scene.target
    mount = files.mount_of(path) if path else None
    if mount is None:
        return None
    place = f"the {mount.kind} file system at {show(mount.point)}"
    for one in _uses(mount.source, scene.who):
        found = _used_up(one, place, mount.point)
        if found is not None:
            return found
    user = files.user_name(scene.call.uid)
    return Reason(
        "quota",
        f"The disk quota on {place} is used up for user {user}, for the group, or for the project "
        "of the directory.",
        (f"quota -u {user}, or repquota {shell_path(mount.point)}, shows limits and use",),
    )


def _used_up(one: _Use, place: str, point: str) -> Reason | None:
    """The reason, if this quota is used up."""
    is_full = bool(one.most) and one.used * 100 >= one.most * 99
    if not is_full and not (one.most_inodes and one.inodes >= one.most_inodes):
        return None
    name = files.user_name(one.number) if one.kind == "user" else files.group_name(one.number)
    blocks, inodes = one.most // _BLOCK, one.most_inodes
    if is_full:
        use, blocks = f"{size(one.used)} of {size(one.most)}", 2 * blocks
    else:
        use, inodes = f"{one.inodes} of {one.most_inodes} files", 2 * inodes
    change = f"setquota -{one.kind[0]} {name} 0 {blocks} 0 {inodes} {shell_path(point)}"
    return Reason(
        "quota",
        f"The quota of the {one.kind} {name} on {place} is used up: {use} are in use.",
        (f"remove files of the {one.kind} {name} there", f"or raise the limit: {change}"),
    )


def _uses(device: str, who: files.Identity) -> Iterator[_Use]:
    """The quotas of the user and of the groups on a file system, as far as there are any."""
    numbers = [(0, who.uid), *((1, one) for one in dict.fromkeys((who.gid, *who.groups)))]
    for kind, number in numbers:
        found = _read(device, kind, number)
        if found is not None:
            hard, _, used, most_inodes, _, inodes, *_ = found
            yield _Use(_TYPES[kind], number, used, hard * _BLOCK, inodes, most_inodes)


def _read(device: str, kind: int, number: int) -> tuple[int, ...] | None:
    """Return the members of struct if_dqblk; None without such a quota."""
    import ctypes

    memory = ctypes.create_string_buffer(_DQBLK.size)
    try:
        quotactl = ctypes.CDLL(None).quotactl
    except AttributeError:  # another C library
        return None
    if quotactl(_GETQUOTA << 8 | kind, os.fsencode(device), number, memory) < 0:
        return None
    return _DQBLK.unpack(memory.raw)
