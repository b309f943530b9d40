# SPDX-License-Identifier: BSD-2-Clause
"""The transport's reader thread, written in C (``src/native/reader.c``)."""

from __future__ import annotations

import os
from enum import IntEnum
from pathlib import Path
from typing import Self

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf.object import BpfMap, BpfObject, check
from retsnoop_py.own_file import is_safe_for_new
from retsnoop_py.value import Value


class SpoolError(IntEnum):
    """``enum rsn_queue_error``: reasons for a lost record that have no errno."""

    FULL = lib.RSN_QUEUE_FULL
    SLOW = lib.RSN_QUEUE_SLOW


class ReaderStats(Value):
    """Counters since the start: numbers of records, and bytes.

    ``lost_memory``: records for which neither memory nor the file had room; ``error`` is the
    reason: an errno, one of :class:`SpoolError`, or 0. ``waiting_bytes`` can be taken now,
    ``peak_bytes`` is the maximum so far; ``spooled_bytes`` went through the file.
    """

    records: int
    bytes: int
    lost_kernel: int
    lost_memory: int
    waiting_bytes: int
    peak_bytes: int
    spooled_bytes: int
    #: Maximum size of the file in bytes.
    spool_limit: int
    error: int

    @property
    def why_lost(self) -> str:
        """Return why records were lost, with advice; empty if none were lost."""
        where = spool_directory()
        if not self.error:
            return ""
        if self.error == SpoolError.FULL:
            return (
                f"records were lost: the file in {where} that they wait in reached its limit; "
                f"allow more than {self.spool_limit} bytes with -C bpf.spool-size"
            )
        if self.error == SpoolError.SLOW:
            return (
                f"records were lost: they came faster than they could be written to {where}; "
                "let more wait in memory (-C bpf.queue-size), or name a faster disk (TMPDIR)"
            )
        return (
            f"records that waited in {where} were lost: {os.strerror(self.error)}; "
            "free some space, or name another folder (TMPDIR)"
        )


def spool_directory() -> str:
    """Return the folder for waiting records: ``$TMPDIR``, or ``/var/tmp`` instead of ``/tmp``.

    ``/tmp`` is often in memory. The file has no name, so no other user can prepare it. But another
    user's TMPDIR can be a file system of that user (FUSE), which would get root's records.
    """
    given = os.environ.get("TMPDIR", "")
    wanted = (given if given and is_safe_for_new(Path(given)) else "", "/var/tmp")  # noqa: S108
    return next((name for name in wanted if name and Path(name).is_dir()), "/tmp")  # noqa: S108


#: The file may use one of this number of parts of the free space.
_SHARE = 4


def spool_share(directory: str) -> int:
    """Return the default size limit in bytes of the file in ``directory``: a quarter of the rest.

    Without a limit if the folder cannot be read: using the folder will report the error.
    """
    try:
        there = os.statvfs(directory)
    except OSError:
        return 1 << 62
    return there.f_bavail * there.f_frsize // _SHARE


class Reader:
    """Read a ring or perf buffer in a thread, into memory and, if that is full, into a file.

    ``ring_bytes``: the buffer's size in the kernel. ``limit_bytes``: the maximum that waits in
    memory for Python, before further records go into a file in ``directory``. ``spool_bytes``: the
    file's maximum size (None: :func:`spool_share`). A context manager.
    """

    def __init__(
        self,
        events: BpfMap,
        *,
        is_perf: bool,
        ring_bytes: int,
        limit_bytes: int,
        spool_bytes: int | None = None,
        directory: str | None = None,
    ) -> None:
        err = ffi.new("int *")
        where = directory or spool_directory()
        self._spool_limit = spool_share(where) if spool_bytes is None else spool_bytes
        self._handle = lib.rsn_reader_new(
            events.fd,
            is_perf,
            ring_bytes,
            limit_bytes,
            self._spool_limit,
            os.fsencode(where),
            err,
        )
        if self._handle == ffi.NULL:
            raise BpfError("open the events buffer", -err[0])
        self._data = ffi.new("const char **")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.rsn_reader_free(self._handle)
        self._handle = None  # type: ignore[assignment] # so that a later call is a TypeError

    def start(self) -> None:
        """Start the thread."""
        check("start the reader", lib.rsn_reader_start(self._handle))

    def take(self, timeout_ms: int) -> bytes | None:
        """Return the oldest data; None if all was taken after :meth:`stop`.

        Return ``b""`` after ``timeout_ms`` without data, or at once if a signal arrives.
        """
        size = lib.rsn_reader_take(self._handle, timeout_ms, self._data)
        if size < 0:
            return None
        return bytes(ffi.buffer(self._data[0], size)) if size else b""

    def stop(self) -> None:
        """Read the rest of the buffer and end the thread; :meth:`take` returns the data."""
        check("stop the reader", lib.rsn_reader_stop(self._handle))

    def drop(self) -> int:
        """Discard data that was not taken; return the number of records."""
        return int(lib.rsn_reader_drop(self._handle))

    def stats(self) -> ReaderStats:
        """Return the counters so far."""
        stats = ffi.new("struct rsn_reader_stats *")
        lib.rsn_reader_stats(self._handle, stats)
        queue = stats.queue
        return ReaderStats(
            records=queue.records,
            bytes=queue.bytes,
            lost_kernel=stats.lost_kernel,
            lost_memory=queue.lost,
            waiting_bytes=queue.waiting_bytes,
            peak_bytes=queue.peak_bytes,
            spooled_bytes=queue.spooled_bytes,
            spool_limit=self._spool_limit,
            error=queue.error,
        )


class CountingRing(Reader):
    """Read the ring buffer ``events`` of a loaded object, from the start.

    The object's variable ``lost`` counts the records for which the buffer had no room.
    """

    def __init__(self, obj: BpfObject, *, ring_bytes: int, limit_bytes: int) -> None:
        events = obj.map("events")
        super().__init__(events, is_perf=False, ring_bytes=ring_bytes, limit_bytes=limit_bytes)
        self._object = obj

    def __enter__(self) -> Self:
        self.start()
        return self

    def lost(self) -> int:
        """Return how many records were lost so far, in the kernel or in the reader."""
        counted = int.from_bytes(self._object.global_bytes(".bss", "lost"), "little")
        stats = self.stats()
        return counted + stats.lost_kernel + stats.lost_memory
