# SPDX-License-Identifier: BSD-2-Clause
"""The duration of ``why``'s runs: the command's own time, and the overhead."""

from __future__ import annotations

import time
from collections.abc import Iterable

from retsnoop_py.cause.events import Ended
from retsnoop_py.model.why import Cost

__all__ = ["Spent"]

_NS = 1e9


class Spent:
    """Adds up the runs; ``started`` is the start of retsnoop-py, in seconds of time.monotonic()."""

    def __init__(self, started: float | None = None) -> None:
        self._started = time.monotonic() if started is None else started
        self._began = self._started
        self._released: float | None = None
        self._attach = self._command = self._detach = 0.0

    def begin(self) -> None:
        """Start a run, with the choice of functions."""
        self._began, self._released = time.monotonic(), None

    def release(self) -> None:
        """Record that all functions are attached and the command starts."""
        now = self._released = time.monotonic()
        self._attach += now - self._began

    def end(self, ends: Iterable[Ended], detach: float) -> None:
        """End a run; detaching took ``detach`` seconds.

        ``ends`` of the command's processes have the same clock. If none was recorded, the command
        ran until the detaching. A run that ended before its command started has only other time.
        """
        if self._released is None:
            return
        last = max((one.time / _NS for one in ends), default=time.monotonic() - detach)
        self._command += max(last - self._released, 0.0)
        self._detach += detach

    def cost(self) -> Cost:
        """Return the times until now."""
        total = time.monotonic() - self._started
        parts = (self._command, self._attach, self._detach)
        values = (total, *parts, max(total - sum(parts), 0.0))
        return Cost(*(round(one, 3) for one in values))
