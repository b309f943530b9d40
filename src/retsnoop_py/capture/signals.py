# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C at any moment: a flag everybody who takes long looks at."""

from __future__ import annotations

import signal
from types import FrameType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class StopSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP ask to stop instead of killing.

    ``requested`` is the signal's number once one came, else 0; ``count`` how many came.
    A signal that was ignored when we started (nohup) stays ignored.
    """

    def __init__(self) -> None:
        self.requested = 0
        self.count = 0
        self._old: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        for number in _SIGNALS:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._on_signal)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.requested = number
        self.count += 1

    def stopping(self) -> bool:
        """Whether to stop."""
        return bool(self.requested)
