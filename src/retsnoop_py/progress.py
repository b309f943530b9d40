# SPDX-License-Identifier: BSD-2-Clause
"""Telling the user what takes long: silent for the first second, on stderr, tidy in a pipe."""

from __future__ import annotations

import sys
import time
from typing import Self, TextIO

#: Seconds before anything is shown.
_PATIENCE = 1.0
#: Seconds between two lines where lines cannot be overwritten.
_LINE_INTERVAL = 5.0
_TERMINAL_INTERVAL = 0.1


class Progress:
    """``WHAT DONE of TOTAL...``, redrawn on a terminal, a line every five seconds elsewhere.

    Call :meth:`update` as often as convenient; leaving the context wipes the line.
    """

    def __init__(self, what: str, unit: str = "functions", out: TextIO | None = None) -> None:
        self._what = what
        self._unit = unit
        self._out = out or sys.stderr
        self._terminal = self._out.isatty()
        self._next = time.monotonic() + _PATIENCE
        self._shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._terminal:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def update(self, done: int, total: int) -> None:
        """Say that ``done`` of ``total`` are done."""
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_INTERVAL if self._terminal else _LINE_INTERVAL)
        self._shown = True
        text = f"{self._what} {done:,} of {total:,} {self._unit}..."
        self._out.write(f"\r{text}\x1b[K" if self._terminal else f"{text}\n")
        self._out.flush()
