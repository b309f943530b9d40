# SPDX-License-Identifier: BSD-2-Clause
"""Record the waits of a command's threads, in case the command must be ended.

Ctrl-C on a terminal reaches the command and retsnoop-py at the same time. Afterwards the threads
are gone. Therefore this module checks the threads once a second. A check reads a few files of /proc
per thread. The full analysis runs only if a thread is in another call than before, and uses at most
a tenth of the time.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Protocol

from retsnoop_py.capture import messages
from retsnoop_py.capture.command import Command
from retsnoop_py.cause.waiting.kinds import waits_of
from retsnoop_py.cause.waiting.look import Known, descendants, look
from retsnoop_py.cause.waiting.model import Blocked, Wait
from retsnoop_py.value import replace

__all__ = ["TIMED_OUT", "HangWatch", "end_late"]

#: The exit status of a command that was ended by a time limit, as with timeout(1).
TIMED_OUT = 124
_EVERY_S = 1.0
#: The analysis may use 1/_SHARE of the time. For a call in which a thread waits at two checks, and
#: which was not analysed, it may use half of the time.
_SHARE = 10


class Watched(Known, Protocol):
    """An object that has the processes of a command."""

    def living(self) -> frozenset[int]:
        """Return the processes started by the watched ones, also those with another parent now."""


class HangWatch:
    """Keeps the result of the last check of the threads below ``roots`` (ids of /proc).

    ``waits``: the waits at that time, the best explanation first; empty before the first check.
    ``timed_out``: the command still ran when its time was over.
    """

    def __init__(self, machine: str) -> None:
        self.roots: list[int] = []
        self.waits: tuple[Wait, ...] = ()
        self.timed_out = False
        self._machine = machine
        self._next = time.monotonic() + _EVERY_S
        self._next_reading = self._next_new = 0.0
        #: The calls that were analysed, and those of the last check.
        self._calls: tuple[tuple[object, ...], ...] = ()
        self._seen: tuple[tuple[object, ...], ...] = ()

    def is_due(self) -> bool:
        """Return True if a second has passed since the last check."""
        return time.monotonic() >= self._next

    def look(self, known: Watched, *, at_end: bool = False) -> None:
        """Check the threads; ``at_end``: the command is about to be ended."""
        started = time.monotonic()
        processes = descendants(self.roots)
        processes += sorted(known.living().difference(processes))
        threads = look(processes, self._machine, known)
        calls = tuple(_call(one) for one in threads)
        self.timed_out = at_end and bool(threads)
        # without threads, keep the last result: Ctrl-C on a terminal ends them just before us
        is_new = bool({*calls}.intersection(self._seen).difference(self._calls))
        is_time = started >= (self._next_new if is_new else self._next_reading)
        self._seen = calls
        if threads and (at_end or (calls != self._calls and is_time)):
            self.waits = waits_of(threads)
            self._calls = calls
            now = time.monotonic()
            self._next_reading = now + _SHARE * (now - started)
            self._next_new = now + (now - started)
        elif threads and calls == self._calls:
            self.waits = _seen_again(self.waits, threads)
        self._next = time.monotonic() + _EVERY_S


def _call(thread: Blocked) -> tuple[object, ...]:
    """Return a key that is constant while a thread waits, and changes while it runs."""
    moment = thread.seen if thread.state == "R" else 0
    return thread.tid, thread.state, thread.call, thread.arguments, thread.begun, moment


def _seen_again(waits: Sequence[Wait], threads: Sequence[Blocked]) -> tuple[Wait, ...]:
    seen = {one.tid: one.seen for one in threads}
    return tuple(
        replace(one, thread=replace(one.thread, seen=seen.get(one.thread.tid, one.thread.seen)))
        for one in waits
    )


def end_late(command: Command) -> None:
    """End a command and its children with SIGTERM, and SIGCONT for stopped processes.

    If it does not end, it keeps running, and a message reports it.
    """
    for pid in descendants([command.pid]):
        for number in (signal.SIGTERM, signal.SIGCONT):
            with suppress(OSError):
                os.kill(pid, number)
    if not command.wait_after(signal.SIGTERM, lambda: 2):
        messages.left_alone(command.pid)
