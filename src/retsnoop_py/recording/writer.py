# SPDX-License-Identifier: BSD-2-Clause
"""Writing a recording while the run goes on.

Every frame is appended by a single write(2) without buffering in this process. If the process is
killed, the file stays readable up to the last whole frame.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from retsnoop_py import own_file
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


class RecordingWriter:
    """A recording being written; a context manager.

    The constructor opens the file, so an unwritable path fails before tracing. An older recording
    is kept until :meth:`start`. A new file is removed again if :meth:`start` is never called.
    Raises OutputError if ``path`` cannot be written, is not a regular file, may be a trap by
    another user, or is in use by another run.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._started = False
        self._failed = False
        self._good_bytes = 0
        self._folder, self._name, self._fd, self._created = _open(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, header: StreamHeader) -> None:
        """Replace the content of the file by the beginning of this recording.

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
                os.unlink(self._name, dir_fd=self._folder)
            except FileNotFoundError:
                pass  # another process removed it first
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


def _open(path: Path) -> tuple[int, str, int, bool]:
    """Descriptor of the folder, name there, descriptor of the file, and whether it is new."""
    try:
        folder, name = own_file.open_folder(path)
        try:
            fd, created = own_file.open_for_writing(folder, name)
            return folder, name, _lock(fd, path), created
        except BaseException:
            os.close(folder)
            raise
    except own_file.Refused as err:
        raise _refused(path, str(err)) from None
    except OSError as err:
        raise _unwritable(path, err) from err


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
