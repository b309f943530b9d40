# SPDX-License-Identifier: BSD-2-Clause
"""Files that this program writes: the only code that creates or replaces them.

Root writes where others may have put a trap: a link to any file, a file that they can read, a FIFO.
This module writes files by these rules. ``tests/unit/test_writes.py`` fails if other code writes.

* A file is checked before it is opened for writing. Only a regular file is opened.
* In a folder where other users can create files, links are not followed, and only the user's own
  files are changed.
* New files with addresses or arguments are for their owner only (0600).
* Caches replace a file by renaming a new one, so a reader never sees half of a file.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterator
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
    "is_safe_for_new",
    "keep",
    "make_folders",
    "make_output_folder",
    "open_folder",
    "open_for_writing",
    "short_name",
    "temporary_base",
    "write",
]

#: Recordings, logs and reports contain addresses and arguments: for their owner only.
MODE = 0o600
#: Reports without addresses and arguments: limited by the umask only.
SHARED = 0o666
#: The longest name of a file, in bytes, on the file systems of Linux.
LONGEST = 255
#: The caches of root if HOME belongs to another user.
ROOT_CACHE = Path("/var/cache")
_CHUNK = 1 << 20
#: Links on the way to a file, as in the kernel (MAXSYMLINKS).
_MOST_LINKS = 40


class Refused(Exception):
    """An existing file may be a trap; the text says why."""


def open_folder(path: Path) -> tuple[int, str]:
    """Open the folder of the file ``path``; return its descriptor and the file's name there.

    This function follows the links one by one, so the caller writes to the same folder that was
    checked. It does not follow a link that another user put there, even if one of the user's own
    links leads to that link. Raises OSError and :class:`Refused`.
    """
    return _walk(path, _check_link)


def _walk(
    path: Path, check: Callable[[os.stat_result, os.stat_result | None], None]
) -> tuple[int, str]:
    """Return the open folder of ``path`` and the file's name, like :func:`open_folder`.

    ``check`` gets the status of each folder on the way and of the entry in that folder. The
    entry's status is None if the entry does not exist. The returned name can be a link only in a
    folder where other users can create links.
    """
    left = [*reversed(path.parts)] or ["."]
    links = 0
    at = os.open(".", os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY)
    try:
        while True:
            part = left.pop()
            found = _entry(at, part)
            if found is None:
                if not left:
                    return os.dup(at), part
                check(os.fstat(at), None)
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(path))
            try:
                folder, entry = os.fstat(at), os.fstat(found)
                is_link = stat.S_ISLNK(entry.st_mode)
                if not left and not (is_link and _is_mine(folder)):
                    return os.dup(at), part
                check(folder, entry)
                if is_link:
                    links += 1
                    if links > _MOST_LINKS:
                        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
                    left += reversed(Path(os.readlink("", dir_fd=found)).parts)
                else:
                    at, found = found, at
            finally:
                os.close(found)
    finally:
        os.close(at)


def _entry(folder: int, name: str) -> int | None:
    """Return an O_PATH descriptor of the entry ``name`` of a folder; None if it is missing."""
    try:
        return os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None


def _check_link(folder: os.stat_result, entry: os.stat_result | None) -> None:
    """Reject a link that was not created by this user, root or the user of sudo."""
    if entry is None or not stat.S_ISLNK(entry.st_mode) or _is_mine(folder):
        return
    if entry.st_uid not in (0, os.geteuid()) and not _is_for_sudo(entry):
        raise Refused("another user's link is on the way")


def open_for_writing(folder: int, name: str, mode: int = MODE) -> tuple[int, bool]:
    """Open a file to append; return the descriptor and whether the file is new.

    ``folder`` and ``name`` come from :func:`open_folder`. No link is followed here, and the
    contents do not change. In a folder where other users may create files, an existing file must
    be a regular file of this user: a link could lead root to any file, and another user could read
    the data in a file of their own. The kernel's fs.protected_* settings do the same, but only if
    they are set, and only in sticky directories. Raises OSError and :class:`Refused`.
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
    # Check the file before opening it for writing: opening a device may have an effect.
    seen = os.open(name, os.O_PATH | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
    try:
        # A file that others may read can belong to the folder's owner: the step summary of GitHub
        # belongs to the runner, and the job in a container is root.
        owner = where.st_uid if mode != MODE else os.geteuid()
        _check(os.fstat(seen), owner, mine=mine)
        return os.open(f"/proc/self/fd/{seen}", flags), False
    finally:
        os.close(seen)


def _is_mine(folder: os.stat_result) -> bool:
    """Return whether only this user and root can create files in ``folder``."""
    return folder.st_uid in (0, os.geteuid()) and not folder.st_mode & 0o022


def _check(file: os.stat_result, owner: int, *, mine: bool) -> None:
    """Reject an existing file that is unsafe to write; ``owner`` or this user may own it."""
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
    """Return whether a file belongs to the user who became root by sudo."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(file.st_uid)


# --- files that the user names ---------------------------------------------------------------


@contextlib.contextmanager
def _opened(path: Path, mode: int, *, appending: bool) -> Iterator[BinaryIO]:
    """Yield the file at ``path``, open for writing. Raises OutputError, also for the body."""
    try:
        folder, name = open_folder(path)
        try:
            fd, _ = open_for_writing(folder, name, mode)
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


def make_output_folder(folder: Path) -> None:
    """Create ``folder`` and its missing parents for files of output. Raises OutputError.

    No link of another user on the way is followed.
    """
    try:
        _make_below_links(folder)
    except Refused as error:
        raise OutputError(f"cannot write {folder}: {error}", "choose another name") from None
    except OSError as error:
        raise OutputError(f"cannot write {folder}: {error.strerror}") from None


def _make_below_links(folder: Path) -> None:
    try:
        os.close(open_folder(folder / "file")[0])
    except FileNotFoundError:
        if folder == folder.parent:
            raise
        _make_below_links(folder.parent)
        above, name = open_folder(folder)
        try:
            os.mkdir(name, dir_fd=above)
        finally:
            os.close(above)
        os.close(open_folder(folder / "file")[0])


def _encoded(data: bytes | str) -> bytes:
    """Return ``data`` as bytes, text as UTF-8 whatever the locale; a log may hold any text."""
    return data if isinstance(data, bytes) else data.encode("utf-8", "backslashreplace")


def short_name(name: str, ending: str = "") -> str:
    """Return ``name`` with ``ending`` as a file name: without slashes, cut if too long."""
    room = LONGEST - len(os.fsencode(ending))
    raw = name.replace("/", "_").replace("\0", "_").encode("utf-8", "backslashreplace")
    if len(raw) > room:
        import zlib

        sum_ = f"~{zlib.crc32(raw):08x}"  # names with the same beginning stay different
        raw = raw[: room - len(sum_)] + sum_.encode()
    return raw.decode(errors="ignore") + ending


# --- caches ----------------------------------------------------------------------------------


def cache_folder() -> Path:
    """Return the path of the cache folder, which may not exist yet.

    The folder is ``retsnoop-py`` in ``$XDG_CACHE_HOME``, else in ``~/.cache``. Root uses /var/cache
    instead of a folder that another user can change, such as the home that ``sudo -E`` keeps.
    Files of root there would stop that user's own programs, and root would trust files of that
    user.
    """
    base = os.environ.get("XDG_CACHE_HOME", "")
    # a relative folder lies in the current one, which is another one for the tools that we start
    folder = Path(base) if base.startswith("/") else home().absolute() / ".cache"
    ours = folder / "retsnoop-py"
    return ours if is_own_place(ours) else ROOT_CACHE / "retsnoop-py"


def is_own_place(folder: Path) -> bool:
    """Return whether only root can change or add to the contents of ``folder``.

    The result depends on the owners and modes of all folders and links on the way. If ``folder``
    does not exist, only root may be able to create it. It is always true for other users.
    """
    return _is_safe_place(folder, _is_closed)


def is_safe_for_new(folder: Path) -> bool:
    """Return whether only root can replace what root creates in ``folder``.

    It is also true for /tmp, where others can create files of their own. See :func:`is_own_place`.
    """
    return _is_safe_place(folder, _is_roots)


def temporary_base() -> Path:
    """Return the folder for temporary files: TMPDIR, but /tmp if others can change TMPDIR.

    ``sudo -E`` keeps TMPDIR. There, another user could replace root's new folder by a link.
    """
    import tempfile

    base = Path(tempfile.gettempdir())
    return base if is_safe_for_new(base) else Path("/tmp")  # noqa: S108 - it is sticky


def _is_safe_place(folder: Path, is_safe: Callable[[os.stat_result], bool]) -> bool:
    if os.geteuid() != 0:
        return True
    try:
        # not normalized: after a link, ".." is another folder than the one before the link
        opened, _ = _walk(folder.absolute() / "file", _check_root)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, Refused):
        return False
    try:
        return is_safe(os.fstat(opened))
    finally:
        os.close(opened)


def _check_root(folder: os.stat_result, entry: os.stat_result | None) -> None:
    """Reject an entry that another user may have created, or can create or replace."""
    if entry is None and _is_closed(folder):
        return
    if entry is None or entry.st_uid != 0 or not _is_roots(folder):
        raise Refused("others can change it")


def _is_closed(folder: os.stat_result) -> bool:
    """Return whether only root can create files in ``folder``."""
    return folder.st_uid == 0 and not folder.st_mode & 0o022


def _is_roots(folder: os.stat_result) -> bool:
    """Return whether only root can replace root's files in ``folder``; true for /tmp as well."""
    is_shared = folder.st_mode & 0o022 and not folder.st_mode & stat.S_ISVTX
    return folder.st_uid == 0 and not is_shared


def make_folders(folder: Path, mode: int = 0o755) -> None:
    """Create ``folder`` and its missing parents. Raises OSError.

    Raises PermissionError if root would have to use a folder that another user can change.
    """
    if is_own_place(folder):
        folder.mkdir(mode, parents=True, exist_ok=True)
        if is_own_place(folder):  # no other user created it meanwhile
            return
    raise PermissionError(errno.EPERM, "another user can change it", str(folder))


def keep(path: Path, data: bytes) -> None:
    """Replace a cache file by a new one; a link with the name ``path`` is not followed.

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
