# SPDX-License-Identifier: BSD-2-Clause
"""Signals while guests are up: what is under way ends, and nothing of it stays behind."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from retsnoop_py.errors import Interrupted

__all__ = ["ended_by_signals", "heeded"]


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """Until a command runs, the first signal ends what is under way: a download, a boot.

    What was begun is cleared away then; a second signal of the kind does what it does by itself.
    SIGINT counts although a shell script that started us with ``&`` has it ignored; SIGHUP does
    not where nohup(1) has.
    """

    def stop(number: int, _frame: FrameType | None) -> None:
        signal.signal(number, signal.SIG_DFL)
        if number == signal.SIGINT:
            raise Interrupted("interrupted")
        raise SystemExit(128 + number)

    before = {number: signal.signal(number, stop) for number in heeded(signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def heeded(*more: signal.Signals) -> list[signal.Signals]:
    """SIGINT, ``more``, and SIGHUP unless it is ignored."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, *more, *([signal.SIGHUP] if hangs_up else [])]
