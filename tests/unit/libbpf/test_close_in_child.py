# SPDX-License-Identifier: BSD-2-Clause
"""Links that a child process closes, because the kernel takes long for each."""

from __future__ import annotations

import os
import select
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from retsnoop_py.libbpf.links import close_in_child

TIMEOUT_MS = 20_000


@contextmanager
def pipes(count: int) -> Iterator[tuple[list[int], list[int]]]:
    """Yield the read ends and the write ends; the test closes the write ends."""
    pairs = [os.pipe() for _ in range(count)]
    try:
        yield [pair[0] for pair in pairs], [pair[1] for pair in pairs]
    finally:
        for reader, _ in pairs:
            os.close(reader)


def has_ended(reader: int) -> bool:
    """Wait until no process has the other end."""
    poll = select.poll()
    poll.register(reader, select.POLLIN)
    return bool(poll.poll(TIMEOUT_MS))


def test_no_process_keeps_them() -> None:
    with pipes(5) as (readers, writers):
        assert close_in_child([writers[3], -1, *writers[:3], writers[4]])
        assert all(has_ended(reader) for reader in readers)
        for writer in writers:
            with pytest.raises(OSError, match="Bad file descriptor"):
                os.fstat(writer)


def test_children_of_several_threads_do_not_wait_for_each_other() -> None:
    """Each child has the pipe by which the other one learns that it may begin."""
    threads_at_once = 4
    for number in range(50):
        with pipes(threads_at_once) as (readers, writers):
            barrier = threading.Barrier(threads_at_once)

            def close(writer: int, barrier: threading.Barrier = barrier) -> None:
                barrier.wait()
                assert close_in_child([writer])

            threads = [threading.Thread(target=close, args=(writer,)) for writer in writers]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert all(has_ended(reader) for reader in readers), f"round {number}"
