# SPDX-License-Identifier: BSD-2-Clause
"""Handle Ctrl-C at any moment. Each further signal stops faster.

======= ===========================================================================
signal  what it does
======= ===========================================================================
first   stops: preparations are aborted; attached probes are detached at once, and
        then the records captured until then are printed
second  drops the records that are not printed yet, and reports their number
third   kills retsnoop-py, as without a handler
======= ===========================================================================

A time limit (:meth:`StopSignals.drop_after`) acts like a second signal. The third signal works even
if Python code does not run: C code counts the signals.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Self

from retsnoop_py.capture import inherited
from retsnoop_py.errors import Interrupted
from retsnoop_py.libbpf import process
from retsnoop_py.listener import current

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


#: Seconds for showing records that remain after a limit that has already passed.
_LEAST_S = 1.0


class Dropped(BaseException):
    """The second signal: none of the waiting records is to be printed."""


class StopSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP request a stop instead of killing.

    If it is not entered, as in a library's caller, signals are left alone, and only :meth:`stop`
    requests a stop. ``requested`` is the number of the signal that came, else 0. Its effect depends
    on the current work: see :meth:`giving_up`, :meth:`stopping_by` and :meth:`held`. If SIGHUP was
    ignored at the start, it stays ignored, as nohup(1) requires. An ignored SIGINT is not
    respected: shells ignore it for background processes of scripts, and ``kill -INT`` is how the
    script ends them.
    """

    def __init__(self) -> None:
        self.requested = 0
        #: The message for a further signal during work that must be waited for.
        self.patience = ""
        self._old: dict[signal.Signals, Any] = {}
        #: True if the inherited state is recorded only while this is entered.
        self._remembers = False
        self._gives_up = False
        self._action: Callable[[], None] | None = None
        self._drops = False
        self._held = 0
        self._asked = self._asked_to_drop = False
        #: True if a time limit requested to drop the waiting records.
        self.is_late = False
        #: The time of the signal, by time.monotonic(); 0.0 without a signal.
        self.requested_at = 0.0

    def __enter__(self) -> Self:
        self._remembers = inherited.remember()
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN:
                self._old[number] = signal.signal(number, self._on_signal)
        process.watch_signals([int(number) for number in self._old])
        return self

    def __exit__(self, *_: object) -> None:
        self.drop_never()
        process.unwatch_signals()
        for number, handler in self._old.items():
            signal.signal(number, handler)
        if self._remembers:
            inherited.forget()

    @property
    def count(self) -> int:
        """The number of stop requests by signals; signals within 100 ms are one request."""
        return process.signals_seen() if self._old else 0

    def stopping(self) -> bool:
        """Return True if a stop was requested."""
        return bool(self.requested) or self._asked

    def stop(self, *, drop: bool = False) -> None:
        """Request a stop, from any thread; ``drop``: do not show the waiting records."""
        self._asked = True
        self._asked_to_drop = self._asked_to_drop or drop

    def drop_after(self, seconds: float) -> None:
        """Drop the waiting records ``seconds`` from now, like a second signal.

        The limit also ends a write that blocks because its reader does not read. If there are
        several limits, the first counts. It has no effect if the caller handles signals.
        """
        if not self._old:
            return
        if signal.SIGALRM not in self._old:
            self._old[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_limit)
        before, _ = signal.setitimer(signal.ITIMER_REAL, max(seconds, _LEAST_S))
        if 0 < before < seconds:
            signal.setitimer(signal.ITIMER_REAL, before)

    def drop_never(self) -> None:
        """Cancel the time limit."""
        if signal.SIGALRM in self._old:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._old.pop(signal.SIGALRM))

    def _on_limit(self, _number: int, _frame: FrameType | None) -> None:
        if self._drops:
            self.is_late = self._asked_to_drop = True
            self.drop_if_asked()

    @contextmanager
    def giving_up(self, doing: str) -> Iterator[None]:
        """Let a signal end ``doing`` at any point: raise Interrupted.

        Use it for work that leaves only memory and open files behind.
        """
        try:
            self._gives_up = True
            if not self.requested:
                yield
        except KeyboardInterrupt:
            pass  # handled below
        finally:
            self._gives_up = False
        if self.requested:
            raise Interrupted(f"interrupted while {doing}; nothing was traced")

    @contextmanager
    def stopping_by(self, action: Callable[[], None]) -> Iterator[None]:
        """Let the first signal call ``action`` at once, and the second one raise Dropped.

        ``action`` runs between two instructions of the current work, which then continues. It must
        not need data that may be half complete. ``action`` itself is not interrupted.
        """
        self._action, self._drops = action, True
        try:
            if self.requested:
                self._act()
            yield
        finally:
            self._action, self._drops = None, False
            self.drop_never()

    @contextmanager
    def postponed(self) -> Iterator[None]:
        """Postpone the first signal's action to the end of the block.

        It protects imports of modules that the action needs: the action must not find a module half
        imported.
        """
        action, self._action = self._action, None
        try:
            yield
        finally:
            self._action = action
        if self.requested:
            self._act()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Complete the work in the block; a second signal raises Dropped after it."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self.drop_if_asked()

    def drop_if_asked(self) -> None:
        """Raise Dropped if a second signal came and may drop records now."""
        if self._drops and not self._held and (self._asked_to_drop or self.count >= 2):
            self._drops = False
            raise Dropped

    def _on_signal(self, number: int, _frame: FrameType | None) -> None:
        self.requested = number
        self.requested_at = self.requested_at or time.monotonic()
        if self._gives_up:
            self._gives_up = False
            raise KeyboardInterrupt
        self._act()

    def _act(self) -> None:
        action, self._action = self._action, None
        if action is not None:
            with self.held():
                action()
        elif self.patience and self.count >= 2:
            current().say_aside(self.patience)
        self.drop_if_asked()
