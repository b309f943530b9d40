# SPDX-License-Identifier: BSD-2-Clause
"""Files that this program writes: the only code that creates or replaces them.

Root writes where others may have put a trap: a link to any file, a file that they can read, a FIFO.
So a file is written by these rules, and ``tests/unit/test_writes.py`` fails if other code writes.

* A file is checked before it is opened for writing, and only a regular file is.
* Where other users can put files, no link is followed, and only a file of our own is changed.
* New files with addresses or arguments are for their owner only (0600).
* Caches replace a file by renaming a new one, so a reader never sees half of it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from retsnoop_py.errors import OutputError
from retsnoop_py.package import home

__all__ = [
    "SHARED",
    "Refused",
    "append",
    "cache_folder",
    "copy",
    "is_own_place",
    "keep",
    "make_folders",
    "open_folder",
    "open_for_writing",
    "short_name",
    "write",
]

#: Recordings, logs and reports contain addresses and arguments: for their owner only.
MODE = 0o600
#: Reports without them: as the umask says.
SHARED = 0o666
#: The longest name of a file, in bytes, on the file systems of Linux.
LONGEST = 255
#: Where root keeps caches if HOME belongs to another user.
ROOT_CACHE = Path("/var/cache")
_CHUNK = 1 << 20
#: Links on the way to a file, as in the kernel (MAXSYMLINKS).
_MOST_LINKS = 40


class Refused(Exception):
    """An existing file may be a trap; the text says why."""


def open_folder(path: Path) -> int:
    """The folder of ``path``, so that the folder that is checked is the one that is written to.

    A link on the way that another user put there is not followed. Raises OSError and
    :class:`Refused`.
    """
    flags = os.O_PATH | os.O_CLOEXEC
    left = [*reversed(path.parent.parts)]
    links = 0
    at = os.open(".", flags | os.O_DIRECTORY)
    try:
        while left:
            part = left.pop()
            found = os.open(part, flags | os.O_NOFOLLOW, dir_fd=at)
            status = os.fstat(found)
            if not stat.S_ISLNK(status.st_mode):
                at, before = found, at
                os.close(before)
                continue
            try:
                if not _may_follow(os.fstat(at), status):
                    raise Refused(f"{part} is another user's link")
                links += 1
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                left += reversed(Path(os.readlink("", dir_fd=found)).parts)
            finally:
                os.close(found)
        return os.open(".", flags | os.O_DIRECTORY, dir_fd=at)
    finally:
        os.close(at)


def _may_follow(folder: os.stat_result, link: os.stat_result) -> bool:
    """Whether a link in a folder leads where we, root, or the user of sudo want it to."""
    return _is_mine(folder) or link.st_uid in (0, os.geteuid()) or _is_for_sudo(link)


def open_for_writing(folder: int, name: str, mode: int = MODE) -> tuple[int, bool]:
    """A descriptor that appends to a file, contents untouched, and whether the file is new.

    Where others may put files, one that is there must be a plain file of ours: a link could lead
    root to any file, and what another user owns shows that user what is written. The kernel's
    fs.protected_* do the same, where they are set, and only in sticky directories. Raises OSError
    and :class:`Refused`.
    """
    # O_NONBLOCK: a FIFO without a reader must fail, not hang.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    where = os.fstat(folder)
    mine = _is_mine(where)
    new = flags | os.O_CREAT | os.O_EXCL
    try:
        return os.open(name, new, mode, dir_fd=folder), True
    except FileExistsError:
        pass
    if not mine and stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode):
        raise Refused("it is a link, in a directory where all users can create one")
    follow = 0 if mine else os.O_NOFOLLOW
    # looked at before it is opened for writing: opening a device may do something
    seen = os.open(name, os.O_PATH | os.O_CLOEXEC | follow, dir_fd=folder)
    try:
        # what others may read may be the file of the folder's owner: the step summary of GitHub
        # belongs to the runner, and the job in a container is root
        owner = where.st_uid if mode != MODE else os.geteuid()
        _check(os.fstat(seen), owner, mine=mine)
        return os.open(f"/proc/self/fd/{seen}", flags), False
    finally:
        os.close(seen)


def _is_mine(folder: os.stat_result) -> bool:
    """Whether nobody else, but root, can put a file there."""
    return folder.st_uid in (0, os.geteuid()) and not folder.st_mode & 0o022


def _check(file: os.stat_result, owner: int, *, mine: bool) -> None:
    """Refuse what an existing file must not be; ``owner`` is whose it may be beside our own."""
    if stat.S_ISDIR(file.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(file.st_mode):
        raise Refused("it is not a regular file")
    if mine:
        return
    if file.st_nlink > 1:
        raise Refused("it has a second hard link, which another user may have created")
    if file.st_uid not in (owner, os.geteuid()) and not _is_for_sudo(file):
        raise Refused("it belongs to another user, in a directory that all users can write")


def _is_for_sudo(file: os.stat_result) -> bool:
    """Whether a file is that of the user who became root by sudo."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(file.st_uid)


# --- files that the user names ---------------------------------------------------------------


@contextlib.contextmanager
def _opened(path: Path, mode: int, *, appending: bool) -> Iterator[BinaryIO]:
    """The file at ``path``, open for writing. Raises OutputError, also for errors of the body."""
    try:
        folder = open_folder(path)
        try:
            fd, _ = open_for_writing(folder, path.name, mode)
        finally:
            os.close(folder)
        with os.fdopen(fd, "wb") as file:
            if not appending:
                file.truncate(0)
            yield file
    except Refused as error:
        raise OutputError(f"cannot write {path}: {error}", "choose another name") from None
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror}") from None


def write(path: Path, data: bytes | str, mode: int = MODE) -> None:
    """Write ``data`` as the file at ``path``; text as UTF-8. Raises OutputError."""
    with _opened(path, mode, appending=False) as file:
        file.write(_encoded(data))


def append(path: Path, data: bytes | str, mode: int = MODE) -> None:
    """Add ``data`` to the end of the file at ``path``. Raises OutputError."""
    with _opened(path, mode, appending=True) as file:
        file.write(_encoded(data))


def copy(source: BinaryIO, path: Path) -> None:
    """Write the rest of ``source`` as the file at ``path``. Raises OutputError."""
    with _opened(path, MODE, appending=False) as file:
        while data := source.read(_CHUNK):
            file.write(data)


def _encoded(data: bytes | str) -> bytes:
    """The locale does not matter to a file, and a log may hold anything."""
    return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")


def short_name(name: str, ending: str = "") -> str:
    """``name`` with ``ending`` as one name of a file: no slash, and cut if it is too long."""
    room = LONGEST - len(os.fsencode(ending))
    raw = name.replace("/", "_").replace("\0", "_").encode("utf-8", "backslashreplace")
    if len(raw) > room:
        import zlib

        sum_ = f"~{zlib.crc32(raw):08x}"  # names with the same beginning stay different
        raw = raw[: room - len(sum_)] + sum_.encode()
    return raw.decode(errors="ignore") + ending


# --- caches ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """The folder ``retsnoop-py`` in ``$XDG_CACHE_HOME``, else in ``~/.cache``; not created here.

    Root uses /var/cache instead of a folder that belongs to another user, or is below one, as the
    home that ``sudo -E`` keeps. A file that root creates there is root's, and its user's own
    programs then fail; and what its user puts there, root would believe.
    """
    base = os.environ.get("XDG_CACHE_HOME")
    folder = Path(base) if base else home() / ".cache"
    return (folder if is_own_place(folder) else ROOT_CACHE) / "retsnoop-py"


def is_own_place(folder: Path) -> bool:
    """Whether ``folder`` and those above it, as far as they exist, are root's.

    Always true for other users.
    """
    if os.geteuid() != 0:
        return True
    try:
        real = folder.resolve()
        return not any(above.stat().st_uid for above in (real, *real.parents) if above.exists())
    except (OSError, RuntimeError):
        return False


def make_folders(folder: Path, mode: int = 0o755) -> None:
    """Create ``folder`` and what is missing above it. Raises OSError.

    Raises PermissionError if root would have to use another user's folder.
    """
    folder.mkdir(mode, parents=True, exist_ok=True)
    if not is_own_place(folder):
        raise PermissionError(errno.EPERM, "it belongs to another user", str(folder))


def keep(path: Path, data: bytes) -> None:
    """Replace the file of a cache by a new one; a link with its name is not followed.

    Raises OSError.
    """
    import tempfile

    make_folders(path.parent)
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", delete=False) as file:
        try:
            file.write(data)
            file.flush()
            Path(file.name).replace(path)
        except BaseException:
            with contextlib.suppress(OSError):
                Path(file.name).unlink(missing_ok=True)
            raise
