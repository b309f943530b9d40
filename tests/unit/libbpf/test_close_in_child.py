# SPDX-License-Identifier: BSD-2-Clause
"""Links that a child process closes, because the kernel takes long for each."""

from __future__ import annotations

import ctypes
import os
import select
import struct
import threading
from collections.abc import Callable, Iterator
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


def close_at_the_same_time(threads_at_once: int, rounds: int) -> None:
    for number in range(rounds):
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


def test_children_of_several_threads_do_not_wait_for_each_other() -> None:
    """Each child has the pipe by which the other one learns that it may begin."""
    close_at_the_same_time(4, rounds=50)


def status_in_child(work: Callable[[], object]) -> int:
    pid = os.fork()
    if not pid:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def deny_close_range() -> None:
    """As the filters of older containers do."""
    number, error = 436, 0x00050000 | 1  # SECCOMP_RET_ERRNO, EPERM
    steps = ((0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, error), (6, 0, 0, 0x7FFF0000))
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    program = struct.pack("@HP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    libc.prctl(22, 2, ctypes.c_char_p(program), 0, 0)  # PR_SET_SECCOMP


def test_a_child_whose_pipe_another_process_has_does_not_wait_for_ever() -> None:
    """Without close_range(2), the children keep each other's pipes."""

    def work() -> None:
        deny_close_range()
        close_at_the_same_time(8, rounds=3)

    assert status_in_child(work) == 0
