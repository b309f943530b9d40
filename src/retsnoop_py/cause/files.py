# SPDX-License-Identifier: BSD-2-Clause
"""What the file system says of a path now: what is missing, who may enter, how it is mounted.

It is asked after the command ended, by us. So each answer is only given where it agrees with the
error that the command got.
"""

from __future__ import annotations

import array
import fcntl
import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file, open_regular
from retsnoop_py.value import Value

__all__ = [
    "Identity",
    "Mount",
    "attributes",
    "denied_by",
    "described",
    "group_name",
    "interpreter_of",
    "kind_of",
    "missing_part",
    "mount_of",
    "near",
    "parts_of",
    "user_name",
]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: FS_IOC_GETFLAGS, and the flags that keep a file from being changed (linux/fs.h).
_GETFLAGS, _IMMUTABLE, _APPEND = 0x80086601, 0x10, 0x20


class Identity(Value):
    """Whose rights a process has: user and group ids that the file system tests."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def is_root(self) -> bool:
        """Whether it mostly may do everything."""
        return self.uid == 0

    def may(self, status: os.stat_result, need: int) -> bool:
        """Whether the mode allows ``need`` (bits as in ``R_OK | W_OK | X_OK``)."""
        mode = stat.S_IMODE(status.st_mode)
        if self.uid == 0:
            is_dir = stat.S_ISDIR(status.st_mode)
            return bool(not need & os.X_OK or is_dir or mode & 0o111)
        shift = 0
        if self.uid == status.st_uid:
            shift = 6
        elif status.st_gid == self.gid or status.st_gid in self.groups:
            shift = 3
        return mode >> shift & need == need


class Mount(Value):
    """Where a file system is mounted, its type, and the options of the mount."""

    point: str
    kind: str
    options: tuple[str, ...]
    source: str


def user_name(uid: int) -> str:
    """``root``, ``nobody``; the number where it has no name."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """The same of a group."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def parts_of(path: str) -> list[str]:
    """``/a/b/c`` as ``/``, ``/a``, ``/a/b``, ``/a/b/c``."""
    found = ["/"]
    for name in filter(None, path.split("/")):
        found.append(f"{found[-1].rstrip('/')}/{name}")
    return found


def missing_part(path: str) -> tuple[str, str | None] | None:
    """The first part of the path that is not there; where that is a link's target, the link, too.

    None where all of it is there, or cannot be looked at.
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
    """The first part before the last that is something else than a directory."""
    for part in parts_of(path)[:-1]:
        try:
            if not stat.S_ISDIR(Path(part).stat().st_mode):
                return part
        except OSError:
            return None
    return None


def near(path: str) -> str | None:
    """The entry of the same directory whose name is most like the missing one's."""
    import difflib

    folder, name = os.path.split(path)
    try:
        with os.scandir(folder or "/") as entries:
            names = [entry.name for _, entry in zip(range(10_000), entries, strict=False)]
    except OSError:
        return None
    same = [one for one in names if one.casefold() == name.casefold()]
    found = same or difflib.get_close_matches(name, names, 1, 0.75)
    return os.path.join(folder, found[0]) if found else None


def denied_by(path: str, who: Identity, need: int) -> tuple[str, os.stat_result, int] | None:
    """The part of a path that does not let somebody in, or has not the right that is needed.

    The part, its status, and the right that is missing (``X_OK`` of a directory on the way). None
    where modes allow it.
    """
    parts = parts_of(path)
    for part in parts[:-1]:
        try:
            status = Path(part).stat()
        except OSError:
            return None
        if not who.may(status, os.X_OK):
            return part, status, os.X_OK
    if not need:
        return None
    try:
        status = Path(parts[-1]).stat()
    except OSError:
        return None
    missing = next((bit for bit in (4, 2, 1) if need & bit and not who.may(status, bit)), 0)
    return (parts[-1], status, missing) if missing else None


def described(status: os.stat_result) -> str:
    """``owner root, group adm, mode 0640``."""
    mode = stat.S_IMODE(status.st_mode)
    return f"owner {user_name(status.st_uid)}, group {group_name(status.st_gid)}, mode {mode:04o}"


def kind_of(status: os.stat_result) -> str:
    """``directory``, ``file``, ``symbolic link`` ..."""
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


def mount_of(path: str) -> Mount | None:
    """The mount that a path lies in, by the part of it that is there."""
    real = os.path.realpath(path)
    best: Mount | None = None
    try:
        text = Path("/proc/self/mountinfo").read_text(errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        before, _, behind = line.partition(" - ")
        words, more = before.split(), behind.split()
        if len(words) < 6 or len(more) < 2:
            continue
        point = words[4].encode().decode("unicode_escape")
        is_in = real.startswith(point.rstrip("/") + "/") or real == point
        if is_in and (best is None or len(point) >= len(best.point)):
            options = (*words[5].split(","), *(more[2].split(",") if len(more) > 2 else ()))
            best = Mount(point, more[0], options, more[1])
    return best


def attributes(path: str) -> tuple[str, ...]:
    """``immutable``, ``append-only``: the attributes that keep a file from being changed."""
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
    """What runs a program: of a script, ``"script"`` and its interpreter; of ELF, ``"ELF"``."""
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
    from struct import error, unpack_from

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
    except (error, IndexError):
        return None
    return None
