# SPDX-License-Identifier: BSD-2-Clause
"""What waits for Python comes out as it went in, through memory or through a file."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from retsnoop_py._bpf import ffi, lib

#: Records are kept in chunks of this many bytes.
CHUNK = 1 << 20


class Queue:
    """The C queue, from both of its ends."""

    def __init__(self, limit: int, directory: Path | str) -> None:
        queue = lib.rsn_queue_new(limit, os.fsencode(directory))
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
        st.sampled_from(["publish", "take"]),
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

    assert queue.take() == b""
    assert (queue.stats.lost, queue.stats.error) == (1, errno.ENOENT)
