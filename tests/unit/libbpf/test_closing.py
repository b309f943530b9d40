# SPDX-License-Identifier: BSD-2-Clause
"""Closing many attachments at the same time."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from retsnoop_py.libbpf.closing import close_all, together


class _Link:
    def __init__(self, barrier: threading.Barrier) -> None:
        self._barrier = barrier
        self.closed = 0

    def close(self) -> None:
        self._barrier.wait(30)  # passes only if all are closed at the same time
        self.closed += 1


def test_attachments_are_closed_at_the_same_time() -> None:
    barrier = threading.Barrier(4)
    links = [_Link(barrier) for _ in range(4)]
    close_all(links)
    assert [one.closed for one in links] == [1, 1, 1, 1]
    assert threading.active_count() == 1


def test_nothing_to_close() -> None:
    close_all([])
    together([])


def test_an_error_is_raised_when_all_others_have_ended() -> None:
    done: list[int] = []

    def fails() -> None:
        raise OSError("refused")

    with pytest.raises(OSError, match="refused"):
        together([lambda: done.append(1), fails, lambda: done.append(2)])
    assert sorted(done) == [1, 2]
    with pytest.raises(OSError, match="refused"):
        together([lambda: done.append(3), fails])
    assert sorted(done) == [1, 2, 3]


def test_a_signal_reaches_the_thread_that_handles_signals_and_all_steps_end() -> None:
    """The handler's error is raised, but not before the other steps have ended."""
    begun, go, done = threading.Event(), threading.Event(), []

    class Ended(BaseException):
        pass

    def handler(*_: object) -> None:
        go.set()
        raise Ended

    def waits() -> None:
        assert signal.SIGUSR1 in signal.pthread_sigmask(signal.SIG_BLOCK, ())
        begun.set()
        assert go.wait(30)
        done.append("beside")

    def kills() -> None:
        assert begun.wait(30)
        os.kill(os.getpid(), signal.SIGUSR1)
        done.append("not reached, because the handler raises an error")

    old = signal.signal(signal.SIGUSR1, handler)
    try:
        with pytest.raises(Ended):
            together([waits, kills])
    finally:
        signal.signal(signal.SIGUSR1, old)
    assert done == ["beside"]
    assert signal.SIGUSR1 not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
