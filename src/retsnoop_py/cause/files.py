# SPDX-License-Identifier: BSD-2-Clause
"""The current state of a path in the file system: missing parts, permissions, mounts.

retsnoop-py reads it after the command ended. So a finding is used only if it agrees with the error
that the command got.
"""

from __future__ import annotations

import array
import fcntl
import grp
import os
import pwd
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from struct import error, unpack_from

from retsnoop_py.cause.access_list import Entry, access_list, deciding_entry
from retsnoop_py.cause.identity import Identity
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file, open_regular
from retsnoop_py.text import close_names
from retsnoop_py.value import Value

__all__ = [
    "COMPARED",
    "LIKENESS",
    "OF_KERNEL",
    "DeniedBy",
    "Identity",
    "Mount",
    "attributes",
    "denied_by",
    "described",
    "group_name",
    "groups_of",
    "interpreter_of",
    "is_home",
    "is_of_kernel",
    "kind_of",
    "missing_part",
    "mount_of",
    "mounts",
    "near",
    "parts_of",
    "unescaped",
    "user_name",
]

_MOUNTINFO = Path("/proc/self/mountinfo")
#: How like a name must be to be offered (difflib), and the characters of one name times those of
#: the other that are compared, about a second of the worst names.
LIKENESS, COMPARED = 0.75, 10_000_000
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: Blanks and backslashes of mountinfo, in octal.
_ESCAPED = re.compile(r"\\([0-7]{3})")
#: FS_IOC_GETFLAGS, and the flags that prevent changes of a file (linux/fs.h).
_GETFLAGS, _IMMUTABLE, _APPEND = 0x80086601, 0x10, 0x20


class Mount(Value):
    """A mount: its mount point, the type of its file system, and its options.

    ``options`` are the options of the mount and of the file system, ``own`` only of the mount.
    """

    point: str
    kind: str
    options: tuple[str, ...]
    source: str
    own: tuple[str, ...] = ()
    is_shared: bool = False


def user_name(uid: int) -> str:
    """Return the user's name such as ``root``; the number if the user has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_home(path: str, uid: int) -> bool:
    """Return whether a directory is the home directory of a user."""
    try:
        return pwd.getpwuid(uid).pw_dir == path != "/"
    except KeyError:
        return False


def group_name(gid: int) -> str:
    """Return the group's name; the number if the group has no name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def groups_of(uid: int) -> tuple[int, ...]:
    """Return the groups of a user in a new session, from the databases; () for unknown users."""
    try:
        entry = pwd.getpwuid(uid)
        return tuple(os.getgrouplist(entry.pw_name, entry.pw_gid))
    except (KeyError, OSError):
        return ()


def parts_of(path: str) -> list[str]:
    """Return ``/a/b/c`` as ``/``, ``/a``, ``/a/b``, ``/a/b/c``."""
    found = ["/"]
    for name in filter(None, path.split("/")):
        found.append(f"{found[-1].rstrip('/')}/{name}")
    return found


def missing_part(path: str) -> tuple[str, str | None] | None:
    """Return the first missing part of the path, and the link if it is a link's target.

    Return None if all parts exist, or if they cannot be read.
    """
    for part in parts_of(path):
        try:
            status = os.lstat(part)
        except FileNotFoundError:
            return part, None
        except OSError:
            return None
        if stat.S_ISLNK(status.st_mode) and not Path(part).exists():
            with suppress(OSError):
                return os.readlink(part), part
            return None
    return None


def not_a_directory(path: str) -> str | None:
    """Return the first part of a path that is not a directory."""
    for part in parts_of(path):
        try:
            if not stat.S_ISDIR(Path(part).stat().st_mode):
                return part
        except OSError:
            return None
    return None


def near(path: str) -> str | None:
    """Return the entry of the same directory with the name most similar to the missing name."""
    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or "/") as entries:
            names = [entry.name for _, entry in zip(range(10_000), entries, strict=False)]
    except OSError:
        return None
    same = [one for one in names if one.casefold() == name.casefold()]
    found = same or close_names(name, names, 1, LIKENESS, COMPARED)
    return os.path.join(folder, found[0]) if found else None


class DeniedBy(Value):
    """A part of a path that denies a right.

    ``missing`` is the right (R_OK, W_OK or X_OK). ``entry`` is the entry of the access control list
    that denies the right, None if the mode denies it.
    """

    part: str
    status: os.stat_result
    missing: int
    entry: Entry | None = None


def denied_by(path: str, who: Identity, need: int) -> DeniedBy | None:
    """Return the part of a path that denies ``who`` to pass, or denies the right ``need``.

    Return None if modes and access control lists allow the access.
    """
    parts = parts_of(path)
    needs = [(part, os.X_OK) for part in parts[:-1]]
    needs += [(parts[-1], bit) for bit in (4, 2, 1) if need & bit]
    for part, bit in needs:
        try:
            status = Path(part).stat()
        except OSError:
            return None
        entries = access_list(part)
        if entries is None or who.is_root or who.overrides:
            if not who.may(status, bit):
                return DeniedBy(part, status, bit)
            continue
        entry = deciding_entry(entries, status, who, bit)
        if not entry.rights & bit:
            return DeniedBy(part, status, bit, entry)
    return None


def described(status: os.stat_result) -> str:
    """Return a text such as ``owner root, group adm, mode 0640``."""
    mode = stat.S_IMODE(status.st_mode)
    return f"owner {user_name(status.st_uid)}, group {group_name(status.st_gid)}, mode {mode:04o}"


def kind_of(status: os.stat_result) -> str:
    """Return the kind of a file: ``directory``, ``file``, ``symbolic link`` ..."""
    kinds = (
        (stat.S_ISDIR, "directory"),
        (stat.S_ISREG, "file"),
        (stat.S_ISLNK, "symbolic link"),
        (stat.S_ISSOCK, "socket"),
        (stat.S_ISFIFO, "pipe"),
        (stat.S_ISBLK, "block device"),
        (stat.S_ISCHR, "character device"),
    )
    return next((name for test, name in kinds if test(status.st_mode)), "file")


def unescaped(name: str) -> str:
    """Return a path of mountinfo with its octal escapes (blanks, line ends) decoded."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), name)


def mounts() -> Iterator[Mount]:
    """Yield the mounts of our namespace, a later one over an earlier one; OSError: not readable."""
    for line in _MOUNTINFO.read_text(errors="surrogateescape").splitlines():
        before, _, behind = line.partition(" - ")
        words, more = before.split(), behind.split()
        if len(words) < 6 or len(more) < 2:
            continue
        own = tuple(words[5].split(","))
        options = (*own, *(more[2].split(",") if len(more) > 2 else ()))
        is_shared = any(one.startswith("shared:") for one in words[6:])
        yield Mount(unescaped(words[4]), more[0], options, more[1], own, is_shared)


def mount_of(path: str) -> Mount | None:
    """Return the mount of a path, by the existing part of the path."""
    best: Mount | None = None
    try:
        real = os.path.realpath(path)
        for one in mounts():
            is_in = real.startswith(one.point.rstrip("/") + "/") or real == one.point
            if is_in and (best is None or len(one.point) >= len(best.point)):
                best = one
    except OSError:
        return None
    return best


#: File systems of kernel objects: users cannot create files, and usually cannot change modes.
OF_KERNEL = (
    *("proc", "sysfs", "cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "efivarfs", "bpf"),
)


def is_of_kernel(path: str) -> bool:
    """Return whether a file belongs to the kernel, such as files below /proc and /sys."""
    mount = mount_of(path)
    return mount is not None and mount.kind in OF_KERNEL


def attributes(path: str) -> tuple[str, ...]:
    """Return the attributes that prevent changes of a file: ``immutable``, ``append-only``."""
    try:
        mode = os.lstat(path).st_mode
        if stat.S_ISLNK(mode):
            return ()
        fd = os.open(path, _FOLDER) if stat.S_ISDIR(mode) else open_regular(path)
    except (OSError, ValueError, DataError):
        return ()
    try:
        found = array.array("L", [0])
        fcntl.ioctl(fd, _GETFLAGS, found)
    except OSError:
        return ()
    finally:
        os.close(fd)
    named = ((_IMMUTABLE, "immutable"), (_APPEND, "append-only"))
    return tuple(name for bit, name in named if found[0] & bit)


def interpreter_of(path: str) -> tuple[str, str] | None:
    """Return the kind of a program (``"script"`` or ``"ELF"``) and its interpreter."""
    try:
        with open_file(path) as file:
            head = file.read(4096)
            if head.startswith(b"#!"):
                line = head[2:].partition(b"\n")[0].strip(b" \t")
                word = line.replace(b"\t", b" ").partition(b" ")[0]
                return ("script", word.decode(errors="replace")) if word else None
            if not head.startswith(b"\x7fELF"):
                return None
            file.seek(0)
            return _elf_interpreter(file.read(1 << 20))
    except (OSError, ValueError, DataError):
        return None


def _elf_interpreter(image: bytes) -> tuple[str, str] | None:
    try:
        is_64 = image[4] == 2
        if is_64:
            (offset,) = unpack_from("<Q", image, 32)
            size, count = unpack_from("<HH", image, 54)
        else:
            (offset,) = unpack_from("<I", image, 28)
            size, count = unpack_from("<HH", image, 42)
        for number in range(count):
            at = offset + number * size
            (kind,) = unpack_from("<I", image, at)
            if kind != 3:  # PT_INTERP
                continue
            begin, length = (
                (unpack_from("<Q", image, at + 8)[0], unpack_from("<Q", image, at + 32)[0])
                if is_64
                else (unpack_from("<I", image, at + 4)[0], unpack_from("<I", image, at + 16)[0])
            )
            return "ELF", image[begin : begin + length].rstrip(b"\0").decode(errors="replace")
    except (error, IndexError, OverflowError):
        return None
    return None
