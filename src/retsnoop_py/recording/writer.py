# SPDX-License-Identifier: BSD-2-Clause
"""Writing a recording while the run goes on.

Every frame is appended by a single write(2) that does not wait in this process: when it is
killed, what was captured stays readable up to the last whole frame.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from retsnoop_py.errors import OutputError
from retsnoop_py.recording.format import (
    FrameKind,
    encode_end,
    encode_header,
    encode_origins,
    encode_symbols,
    encode_user_symbols,
    file_header,
    pack_frame,
)
from retsnoop_py.session.collector import Batch
from retsnoop_py.session.paths import Origin, OriginKey
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.symbolize.frames import Resolved, UserKey

# Recordings tell kernel addresses and what processes do: for their owner only.
_MODE = 0o600


class RecordingWriter:
    """A recording being written; a context manager.

    Making one opens the file, so that an unwritable path is known before anything is traced,
    but an older recording there is kept until :meth:`start`; a file that was created is removed
    again if :meth:`start` never comes. Raises OutputError if ``path`` cannot be written, is
    not a regular file, may be somebody else's trap, or is being written by another run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started = False
        self._failed = False
        self._good_bytes = 0
        self._folder = _open_folder(path)
        try:
            self._fd, self._created = _open(self._folder, path)
        except BaseException:
            os.close(self._folder)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, header: StreamHeader) -> None:
        """Replace what the file held by the beginning of this recording.

        Raises OutputError.
        """
        self._started = True
        try:
            os.ftruncate(self._fd, 0)
        except OSError as err:
            raise self._fail(err) from err
        self._append(file_header() + pack_frame(FrameKind.FACTS, encode_header(header)))

    def write(
        self,
        symbols: Sequence[tuple[bool, Resolved]],
        batch: Batch,
        users: Sequence[tuple[UserKey, Resolved]] = (),
        origins: Sequence[tuple[OriginKey, Origin]] = (),
    ) -> None:
        """Append records, and before them the symbols they need for the first time.

        Raises OutputError at the first failure; after it, nothing is written.
        """
        frames = pack_frame(FrameKind.SYMBOLS, encode_symbols(symbols)) if symbols else b""
        if users:
            frames += pack_frame(FrameKind.USER_SYMBOLS, encode_user_symbols(users))
        if origins:
            frames += pack_frame(FrameKind.ORIGINS, encode_origins(origins))
        self._append(frames + pack_frame(FrameKind.RECORDS, batch))

    def warn(self, text: str) -> None:
        """Append a warning the user has seen; errors as in :meth:`write`."""
        self._append(pack_frame(FrameKind.WARNING, text.encode("utf-8", "backslashreplace")))

    def end(self, stats: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Append the counters of the run, the last frame; errors as in :meth:`write`."""
        self._append(pack_frame(FrameKind.END, encode_end(stats, counts)))

    def close(self) -> None:
        """Close the file, more than once if need be."""
        if self._fd < 0:
            return
        if self._created and not self._started:
            try:
                os.unlink(self._path.name, dir_fd=self._folder)
            except FileNotFoundError:
                pass  # somebody was faster
        os.close(self._fd)
        os.close(self._folder)
        self._fd = -1

    def _append(self, data: bytes) -> None:
        if self._failed:
            return
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError as err:
            raise self._fail(err) from err
        self._good_bytes += len(data)

    def _fail(self, err: OSError) -> OutputError:
        """Stop writing; cut off the frame of which only a part could be written."""
        self._failed = True
        os.ftruncate(self._fd, self._good_bytes)
        return OutputError(
            f"recording to {self._path} has stopped: {err.strerror}",
            "tracing goes on; `replay` shows what was recorded so far",
        )


def _open_folder(path: Path) -> int:
    """The directory that is to hold ``path``, so that what is checked is what is written to."""
    try:
        return os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as err:
        raise _unwritable(path, err) from err


def _open(folder: int, path: Path) -> tuple[int, bool]:
    """A descriptor for writing, contents untouched, and whether the file is new.

    Where others may put files, one that is there must be a plain file of ours: a link could lead
    root to any file, and what another user owns tells that user what was recorded. The kernel's
    fs.protected_* say the same, where they are set, and only of sticky directories.
    """
    # O_NONBLOCK: a FIFO without a reader must fail, not hang.
    flags = os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
    mine = _is_mine(os.fstat(folder))
    new = flags | os.O_CREAT | os.O_EXCL
    try:
        try:
            return _lock(os.open(path.name, new, _MODE, dir_fd=folder), path), True
        except FileExistsError:
            pass
        if not mine and stat.S_ISLNK(os.lstat(path.name, dir_fd=folder).st_mode):
            raise _refused(path, "it is a link, in a directory where all users can create one")
        follow = 0 if mine else os.O_NOFOLLOW
        # looked at before it is opened for writing: opening a device may do something
        seen = os.open(path.name, os.O_PATH | os.O_CLOEXEC | follow, dir_fd=folder)
        try:
            _check(os.fstat(seen), path, mine=mine)
            fd = os.open(f"/proc/self/fd/{seen}", flags)
        finally:
            os.close(seen)
        return _lock(fd, path), False
    except OSError as err:
        raise _unwritable(path, err) from err


def _is_mine(folder: os.stat_result) -> bool:
    """Whether nobody else, but root, can put a file there."""
    return folder.st_uid in (0, os.geteuid()) and not folder.st_mode & 0o022


def _check(file: os.stat_result, path: Path, *, mine: bool) -> None:
    """Refuse what an existing file at ``path`` must not be."""
    if stat.S_ISDIR(file.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(file.st_mode):
        raise _refused(path, "it is not a regular file")
    if mine:
        return
    if file.st_nlink > 1:
        raise _refused(path, "it has a second hard link, which another user may have created")
    if file.st_uid != os.geteuid() and not _is_for_sudo(file):
        raise _refused(path, "it belongs to another user, in a directory that all users can write")


def _is_for_sudo(file: os.stat_result) -> bool:
    """Whether a file is that of the user who became root by sudo."""
    return os.geteuid() == 0 and os.environ.get("SUDO_UID") == str(file.st_uid)


def _refused(path: Path, why: str) -> OutputError:
    return OutputError(f"cannot record to {path}: {why}", "give -o another name")


def _unwritable(path: Path, err: OSError) -> OutputError:
    return OutputError(
        f"cannot record to {path}: {err.strerror}",
        "use -o with a file in a writable directory",
    )


def _lock(fd: int, path: Path) -> int:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        raise _refused(path, "another run is writing it") from None
    except OSError:
        pass  # a file system without locks: two runs with one name are the user's affair
    return fd
