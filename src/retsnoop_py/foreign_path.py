# SPDX-License-Identifier: BSD-2-Clause
"""Paths that come from input: the only code that opens them.

Objects, logs, recordings and DWARF name files, and their authors may be hostile. A name could
lead to a secret, to a FIFO that never answers, or to a device that acts when it is opened.
``tests/unit/test_opens.py`` fails if the rooms that read such input open a path in another way.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
from pathlib import Path
from typing import BinaryIO

from retsnoop_py.errors import DataError

__all__ = ["open_file", "open_regular", "read_below", "read_of_kernel"]

_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY

#: f_type of statfs(2) (linux/magic.h).
_PROC, _SYSFS, _CGROUP2 = 0x9FA0, 0x62656572, 0x63677270
#: File systems of kernel objects. Reading a file there can take a message that others wait for
#: (kmsg, trace_pipe), act, or never end (/proc/PID/mem).
_OF_KERNEL = frozenset(
    {
        *(_PROC, _SYSFS, _CGROUP2),
        0x27E0EB,  # cgroup
        0x64626720,  # debugfs
        0x74726163,  # tracefs
        0x73636673,  # securityfs
        0xCAFE4A11,  # bpf
        0xDE5E81E4,  # efivarfs
        0x6165676C,  # pstore
        0x62656570,  # configfs
        0xF97CFF8C,  # selinuxfs
        0x43415D53,  # smackfs
        0x42494E4D,  # binfmt_misc
        0x19800202,  # mqueue
        0x1CD1,  # devpts
        0x65735543,  # fusectl
        0x7655821,  # resctrl
        0x6E667364,  # nfsd
        0x67596969,  # rpc_pipefs
        0x6C6F6F70,  # binder
        0x5A3C69F0,  # apparmorfs, to which links of securityfs lead
        0xABBA1974,  # xenfs
        0x76A9F425,  # ocfs2_dlmfs
        0x0A647361,  # functionfs
        *(0x6E736673, 0x50494446, 0x09041934),  # nsfs, pidfs, anon_inodefs
    }
)
_SETTINGS = "/proc/sys/"
#: Characters of a file of the kernel that are read.
_MOST_OF_KERNEL = 1 << 16
#: Size of an ordinary file of sysfs. Other files there are binary, some of them a device's memory.
_ATTRIBUTE = os.sysconf("SC_PAGE_SIZE")


def open_regular(path: Path | str) -> int:
    """Return a descriptor to read the regular file at ``path``; symbolic links are followed.

    Raises DataError for another kind of file without opening it, because opening it may wait for
    ever (a FIFO) or act (a device, a file of the kernel). Raises OSError if the file cannot be
    opened.
    """
    seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        status = os.fstat(seen)
        if stat.S_ISDIR(status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        if not stat.S_ISREG(status.st_mode):
            raise DataError(f"{path} is not a regular file")
        if _is_of_kernel(seen, status):
            raise DataError(f"{path} is a file of the kernel, which has no contents of its own")
        try:
            return os.open(f"/proc/self/fd/{seen}", _READ)
        except FileNotFoundError:  # nothing is mounted on /proc
            return _opened_again(path, seen)
    finally:
        os.close(seen)


def _is_of_kernel(fd: int, status: os.stat_result) -> bool:
    # No file of the kernel has blocks, and importing ctypes takes time.
    return not status.st_blocks and _file_system(fd) in _OF_KERNEL


def _file_system(fd: int) -> int:
    """Return the type of the file system of an open file. Raises OSError."""
    import ctypes

    buffer = ctypes.create_string_buffer(256)  # struct statfs has 120 bytes
    if ctypes.CDLL(None, use_errno=True).fstatfs(fd, buffer):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return int.from_bytes(buffer.raw[:8], sys.byteorder)


def read_of_kernel(path: Path | str) -> str:
    """Return the words of a setting that input names, as one line; empty if it is none.

    A setting is a file of cgroup2, an ordinary file of sysfs, or a file below /proc/sys, after all
    symbolic links are resolved. At most 64 KiB are read.
    """
    try:
        seen = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            if not _is_setting(seen):
                return ""
            with os.fdopen(os.open(f"/proc/self/fd/{seen}", _READ), "rb", buffering=0) as file:
                data = file.read(_MOST_OF_KERNEL)
        finally:
            os.close(seen)
    except (OSError, ValueError):  # ValueError: the name contains NUL
        return ""
    return " ".join((data or b"").decode(errors="replace").split())


def _is_setting(fd: int) -> bool:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        return False
    kind = _file_system(fd)
    if kind == _SYSFS:
        return status.st_size == _ATTRIBUTE
    if kind == _PROC:
        return str(Path(f"/proc/self/fd/{fd}").readlink()).startswith(_SETTINGS)
    return kind == _CGROUP2


def _opened_again(path: Path | str, seen: int) -> int:
    """Open ``path`` and return its descriptor, if it is the same file as ``seen``."""
    found = os.open(path, _READ)
    if os.path.samestat(os.fstat(found), os.fstat(seen)):
        return found
    os.close(found)
    raise DataError(f"{path} was replaced while it was opened")


def open_file(path: Path | str) -> BinaryIO:
    """Open the regular file at ``path`` to read bytes; raises as :func:`open_regular`."""
    return os.fdopen(open_regular(path), "rb")


def read_below(folder: Path, name: str, most: int) -> str | None:
    """Return the text of the file ``name`` below ``folder``.

    Return None for a missing file, a file that is not regular, and a file of more than ``most``
    bytes. Also return None if the file is not below ``folder`` after all symbolic links are
    resolved. Bytes that are not UTF-8 are replaced.
    """
    try:
        root = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            # O_PATH: the file is not opened until its place and kind have been checked.
            seen = os.open(name, os.O_PATH | os.O_CLOEXEC, dir_fd=root)
            try:
                status = os.fstat(seen)
                if not stat.S_ISREG(status.st_mode) or _is_of_kernel(seen, status):
                    return None
                if not _is_below(seen, root):
                    return None
                with os.fdopen(os.open(f"/proc/self/fd/{seen}", _READ), "rb") as file:
                    data = file.read(most + 1)
            finally:
                os.close(seen)
        finally:
            os.close(root)
    except (OSError, ValueError):  # ValueError: the name contains NUL
        return None
    return data.decode(errors="replace") if len(data) <= most else None


def _is_below(file: int, folder: int) -> bool:
    """Return whether an open file is below an open folder. Raises OSError without /proc.

    The kernel reports the real path of each descriptor, so no link can be replaced in between.
    """
    links = Path("/proc/self/fd")
    return (links / str(folder)).readlink() in (links / str(file)).readlink().parents
