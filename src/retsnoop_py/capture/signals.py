# SPDX-License-Identifier: BSD-2-Clause
"""Ctrl-C at any moment. Who asks once more gets less patience.

======= ===========================================================================
signal  what it does
======= ===========================================================================
first   stops: what is being prepared is given up; what is attached is detached, at
        once, and then what had been captured until then is printed
second  drops what is still to be printed, and tells how much that was
third   kills us, as it would have without a handler
======= ===========================================================================

A time limit (:meth:`StopSignals.drop_after`) does what a second signal does.

The third works even where Python does not get to run: the signals are counted in C.
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


#: A limit that has passed already leaves this long, in seconds, to show something.
_LEAST_S = 1.0


class Dropped(BaseException):
    """The second signal: nothing of what waits is to be printed."""


class StopSignals:
    """While entered, SIGINT, SIGTERM and SIGHUP ask to stop instead of killing.

    Where it is not entered, as in a library's caller, signals are left alone, and only
    :meth:`stop` asks. ``requested`` is the signal's number once one came, else 0. What it does is
    up to what is going on: see :meth:`giving_up`, :meth:`stopping_by` and :meth:`held`.

    SIGHUP that was ignored when we started stays ignored, which is what nohup(1) asks for. An
    ignored SIGINT asks for nothing: a shell does that to whatever a script starts in the
    background, and ``kill -INT`` is how the script ends it.
    """

    def __init__(self) -> None:
        self.requested = 0
        #: What to say to who asks again while that has to be waited for.
        self.patience = ""
        self._old: dict[signal.Signals, Any] = {}
        #: Whether what we were started with is known only while this is entered.
        self._remembers = False
        self._gives_up = False
        self._action: Callable[[], None] | None = None
        self._drops = False
        self._held = 0
        self._asked = self._asked_to_drop = False
        #: Whether a time limit asked to drop what waits.
        self.is_late = False
        #: When the signal came, by time.monotonic(); 0.0: none did.
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
        """How often signals asked us to stop; those within 100 ms are one request."""
        return process.signals_seen() if self._old else 0

    def stopping(self) -> bool:
        """Whether to stop."""
        return bool(self.requested) or self._asked

    def stop(self, *, drop: bool = False) -> None:
        """Ask to stop, from any thread; ``drop``: what waits is not to be shown any more."""
        self._asked = True
        self._asked_to_drop = self._asked_to_drop or drop

    def drop_after(self, seconds: float) -> None:
        """Have what waits dropped ``seconds`` from now, as a second signal would.

        A write that nobody reads ends too. Of several limits the first counts. Nothing happens
        where signals are the caller's.
        """
        if not self._old:
            return
        if signal.SIGALRM not in self._old:
            self._old[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._on_limit)
        before, _ = signal.setitimer(signal.ITIMER_REAL, max(seconds, _LEAST_S))
        if 0 < before < seconds:
            signal.setitimer(signal.ITIMER_REAL, before)

    def drop_never(self) -> None:
        """Take the time limit back."""
        if signal.SIGALRM in self._old:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, self._old.pop(signal.SIGALRM))

    def _on_limit(self, _number: int, _frame: FrameType | None) -> None:
        if self._drops:
            self.is_late = self._asked_to_drop = True
            self.drop_if_asked()

    @contextmanager
    def giving_up(self, doing: str) -> Iterator[None]:
        """Within it a signal ends ``doing`` wherever it is: raises Interrupted.

        For what leaves nothing behind but memory and open files.
        """
        try:
            self._gives_up = True
            if not self.requested:
                yield
        except KeyboardInterrupt:
            pass  # told below
        finally:
            self._gives_up = False
        if self.requested:
            raise Interrupted(f"interrupted while {doing}; nothing was traced")

    @contextmanager
    def stopping_by(self, action: Callable[[], None]) -> Iterator[None]:
        """Within it the first signal calls ``action`` at once, the second raises Dropped.

        ``action`` runs between two instructions of what is going on, which then goes on: it must
        not need anything that may be half done. It is not interrupted itself.
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
        """Within it the first signal's action waits, and comes right behind it.

        For imports of what the action needs: it must not find a module half imported.
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
        """What is done within is done to its end; a second signal raises Dropped behind it."""
        self._held += 1
        try:
            yield
        finally:
            self._held -= 1
        self.drop_if_asked()

    def drop_if_asked(self) -> None:
        """Raise Dropped where a second signal came and that is for it to do."""
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
