# SPDX-License-Identifier: BSD-2-Clause
"""What waits for Python comes out as it went in, through memory or through a file."""

from __future__ import annotations

import errno
import os
import resource
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from retsnoop_py._bpf import ffi, lib

#: Records are kept in chunks of this many bytes.
CHUNK = 1 << 20


class Queue:
    """The C queue, from both of its ends."""

    def __init__(self, limit: int, directory: Path | str, spool: int = 1 << 40) -> None:
        queue = lib.rsn_queue_new(limit, spool, os.fsencode(directory))
        self._queue: Any = ffi.gc(queue, lib.rsn_queue_free)

    def put(self, record: bytes, cut: int = 0) -> None:
        """Put a record in that lies in two pieces."""
        first, rest = record[:cut], record[cut:]
        lib.rsn_queue_put(self._queue, first, len(first), rest, len(rest))

    def publish(self) -> bool:
        return bool(lib.rsn_queue_publish(self._queue))

    def take(self) -> bytes:
        data = ffi.new("const char **")
        size = lib.rsn_queue_take(self._queue, data)
        return bytes(ffi.buffer(data[0], size)) if size else b""

    def all(self) -> Iterator[bytes]:
        return iter(self.take, b"")

    def settle(self) -> None:
        """Wait until nothing is on its way into the file."""
        while self.stats.unwritten_bytes:
            time.sleep(0.001)

    @property
    def stats(self) -> Any:
        found = ffi.new("struct rsn_queue_stats *")
        lib.rsn_queue_stats(self._queue, found)
        return found


def padded(record: bytes) -> bytes:
    return record + bytes(-len(record) % 8)


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a disk that is full from there on; Python ignores the signal."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


STEPS = st.lists(
    st.one_of(
        st.tuples(st.integers(1, 700_000), st.integers(0, 100)),
        st.sampled_from(["publish", "take", "settle"]),
    ),
    max_size=40,
)


@settings(max_examples=25, deadline=None)
@given(STEPS, st.sampled_from([0, CHUNK, 3 * CHUNK]))
def test_everything_comes_out_once_and_in_order(
    steps: Sequence[tuple[int, int] | str], limit: int
) -> None:
    queue = Queue(limit, "/tmp")
    given_in, out = b"", b""
    for number, step in enumerate(steps):
        if step == "publish":
            queue.publish()
        elif step == "take":
            out += queue.take()
        elif step == "settle":
            queue.settle()
        else:
            size, percent = step  # type: ignore[misc]
            record = bytes([number % 251]) * size
            queue.put(record, size * percent // 100)
            given_in += padded(record)
    queue.publish()
    out += b"".join(queue.all())

    assert out == given_in
    assert queue.stats.records == sum(not isinstance(step, str) for step in steps)
    assert (queue.stats.bytes, queue.stats.lost, queue.stats.error) == (len(given_in), 0, 0)


def test_what_was_not_published_is_not_taken(tmp_path: Path) -> None:
    queue = Queue(CHUNK, tmp_path)
    queue.put(b"x" * 8)

    assert queue.take() == b""
    assert queue.publish()
    assert queue.take() == b"x" * 8
    assert not queue.publish()


def test_beyond_the_limit_it_is_in_a_file_without_a_name(tmp_path: Path) -> None:
    queue = Queue(2 * CHUNK, tmp_path)
    records = [bytes([number]) * (CHUNK // 4) for number in range(40)]
    for record in records:
        queue.put(record)
    queue.publish()
    queue.settle()

    assert queue.stats.spooled_bytes == 8 * CHUNK
    assert queue.stats.peak_bytes == 10 * CHUNK
    assert list(tmp_path.iterdir()) == []
    assert b"".join(queue.all()) == b"".join(records)


def test_a_full_disk_loses_only_what_does_not_fit_and_tells_why(tmp_path: Path) -> None:
    queue = Queue(CHUNK, tmp_path)
    records = [bytes([number]) * (CHUNK // 4) for number in range(40)]
    with files_no_larger_than(3 * CHUNK):
        for record in records:
            queue.put(record)
        queue.publish()
        queue.settle()

        assert b"".join(queue.all()) == b"".join(records[: 4 * 4])
        assert (queue.stats.lost, queue.stats.error) == (24, errno.EFBIG)
        # what waited in the file has been read, so there is room again
        for record in records[: 3 * 4]:
            queue.put(record)
        queue.publish()
        assert b"".join(queue.all()) == b"".join(records[: 3 * 4])
    assert queue.stats.lost == 24


def test_a_directory_that_is_missing_is_told(tmp_path: Path) -> None:
    queue = Queue(0, tmp_path / "missing")
    queue.put(b"x")
    queue.publish()
    queue.settle()

    assert queue.take() == b""
    assert (queue.stats.lost, queue.stats.error) == (1, errno.ENOENT)


def test_the_file_has_a_limit_and_what_exceeds_it_is_counted(tmp_path: Path) -> None:
    queue = Queue(CHUNK, tmp_path, spool=2 * CHUNK)
    records = [bytes([number]) * CHUNK for number in range(6)]
    for record in records:
        queue.put(record)
    queue.publish()
    queue.settle()
    stats = queue.stats
    assert (stats.lost, stats.error) == (3, lib.RSN_QUEUE_FULL)
    assert (stats.spooled_bytes, stats.waiting_bytes) == (2 * CHUNK, 3 * CHUNK)
    assert b"".join(queue.all()) == b"".join(records[:3])
    # what was read has made room
    for record in records[:3]:
        queue.put(record)
    queue.publish()
    assert b"".join(queue.all()) == b"".join(records[:3])
    assert queue.stats.lost == 3


def test_without_a_file_only_memory_is_used(tmp_path: Path) -> None:
    queue = Queue(CHUNK, tmp_path / "missing", spool=0)
    for _ in range(3):
        queue.put(bytes(CHUNK))
    queue.publish()
    stats = queue.stats
    assert (stats.lost, stats.error, stats.spooled_bytes) == (2, lib.RSN_QUEUE_FULL, 0)


def test_what_waits_can_be_dropped_and_is_counted(tmp_path: Path) -> None:
    queue = Queue(CHUNK, tmp_path)
    for _ in range(5):
        queue.put(bytes(CHUNK))
    queue.publish()
    assert lib.rsn_queue_drop(queue._queue) == 5
    assert queue.take() == b""
    assert queue.stats.waiting_bytes == 0


@pytest.mark.parametrize("limit", [0, CHUNK])
def test_records_come_out_in_order_while_others_come_in(limit: int, tmp_path: Path) -> None:
    queue, number, size = Queue(limit, tmp_path), 3_000, 20_000

    def fill() -> None:
        for index in range(number):
            queue.put(index.to_bytes(8, "little") * (size // 8))
            if index % 7 == 0:
                queue.publish()
            while queue.stats.unwritten_bytes > 8 * CHUNK:
                time.sleep(0.001)
        queue.publish()

    filler = threading.Thread(target=fill)
    filler.start()
    out = 0
    while filler.is_alive() or queue.stats.waiting_bytes:
        data = queue.take()
        for at in range(0, len(data), size):
            assert data[at : at + 8] == out.to_bytes(8, "little")
            out += 1
    filler.join()
    assert (out, queue.stats.lost) == (number, 0)
