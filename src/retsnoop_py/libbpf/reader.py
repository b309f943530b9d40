# SPDX-License-Identifier: BSD-2-Clause
"""The transport's reader thread, written in C (``src/native/reader.c``)."""

from __future__ import annotations

from typing import Any, Self

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.errors import BpfError
from retsnoop_py.libbpf.object import BpfMap, check
from retsnoop_py.value import Value


class ReaderStats(Value):
    """Counters since start: numbers of records, and bytes."""

    records: int
    bytes: int
    lost_kernel: int
    lost_memory: int
    peak_bytes: int


class Reader:
    """Empties a ring or perf buffer into memory from a thread of its own.

    ``ring_bytes`` is the buffer's size in the kernel, ``limit_bytes`` how much may wait for
    Python before further records are counted as lost. A context manager.
    """

    def __init__(
        self, events: BpfMap, *, is_perf: bool, ring_bytes: int, limit_bytes: int = 256 << 20
    ) -> None:
        err = ffi.new("int *")
        self._handle: Any = lib.rsn_reader_new(events.fd, is_perf, ring_bytes, limit_bytes, err)
        if self._handle == ffi.NULL:
            raise BpfError("open the events buffer", -err[0])
        self._data = ffi.new("const char **")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        lib.rsn_reader_free(self._handle)
        self._handle = None

    def start(self) -> None:
        """Start the thread."""
        check("start the reader", lib.rsn_reader_start(self._handle))

    def take(self, timeout_ms: int) -> bytes | None:
        """What has arrived, None after :meth:`stop`.

        ``b""`` after ``timeout_ms`` of nothing, or at once when a signal comes.
        """
        size = lib.rsn_reader_take(self._handle, timeout_ms, self._data)
        if size < 0:
            return None
        return bytes(ffi.buffer(self._data[0], size)) if size else b""

    def stop(self) -> None:
        """Read what the buffer still holds and end the thread; :meth:`take` hands it over."""
        check("stop the reader", lib.rsn_reader_stop(self._handle))

    def stats(self) -> ReaderStats:
        """The counters so far."""
        stats = ffi.new("struct rsn_reader_stats *")
        lib.rsn_reader_stats(self._handle, stats)
        return ReaderStats(
            stats.records, stats.bytes, stats.lost_kernel, stats.lost_memory, stats.peak_bytes
        )
