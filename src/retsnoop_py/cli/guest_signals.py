# SPDX-License-Identifier: BSD-2-Clause
"""Signal handlers while guests run: the current work ends and cleans up."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from types import FrameType

from retsnoop_py.errors import Interrupted

__all__ = ["ended_by_signals", "heeded"]


@contextlib.contextmanager
def ended_by_signals() -> Iterator[None]:
    """End the current work, for example a download or a boot, at the first signal.

    The exception lets the work clean up. A second signal of the same number has its default
    effect. SIGINT is handled even if a shell script that started us with ``&`` ignores it. SIGHUP
    stays ignored under nohup(1).
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
    """Return SIGINT, ``more``, and SIGHUP unless it is ignored."""
    hangs_up = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
    return [signal.SIGINT, *more, *([signal.SIGHUP] if hangs_up else [])]
