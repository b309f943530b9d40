# SPDX-License-Identifier: BSD-2-Clause
"""Sees what the threads of a command wait for, so that it is known when the command is ended.

Ctrl-C on a terminal reaches the command at the same time as us, so that it is too late to look
then. The threads are therefore looked at once a second. That reads a few files of /proc for each;
what they wait for is only found out if a thread is in another call than before, and not more often
than it costs a tenth of the time.
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

#: The exit status of a command that was ended because its time was over, as of timeout(1).
TIMED_OUT = 124
_EVERY_S = 1.0
#: Finding out what all wait for may take such a part of the time.
_SHARE = 10


class Watched(Known, Protocol):
    """What knows the processes of a command."""

    def living(self) -> frozenset[int]:
        """Processes that the watched ones have begun, whoever their parent is now."""


class HangWatch:
    """Keeps the last look at the threads below ``roots`` (ids of /proc).

    ``waits``: what they waited for then, what explains most first; empty before the first look.
    ``timed_out``: the command still ran when its time was over.
    """

    def __init__(self, machine: str) -> None:
        self.roots: list[int] = []
        self.waits: tuple[Wait, ...] = ()
        self.timed_out = False
        self._machine = machine
        self._next = time.monotonic() + _EVERY_S
        self._next_reading = 0.0
        self._calls: tuple[tuple[object, ...], ...] = ()

    def is_due(self) -> bool:
        """Whether a second has passed since the last look."""
        return time.monotonic() >= self._next

    def look(self, known: Watched, *, at_end: bool = False) -> None:
        """Look at the threads; ``at_end``: the command is about to be ended."""
        started = time.monotonic()
        processes = descendants(self.roots)
        processes += sorted(known.living().difference(processes))
        threads = look(processes, self._machine, known)
        calls = tuple(_call(one) for one in threads)
        self.timed_out = at_end and bool(threads)
        # without threads the last look stays: Ctrl-C on a terminal ends them a moment before us
        if threads and (at_end or (calls != self._calls and started >= self._next_reading)):
            self.waits = waits_of(threads)
            self._calls = calls
            now = time.monotonic()
            self._next_reading = now + _SHARE * (now - started)
        elif threads and calls == self._calls:
            self.waits = _seen_again(self.waits, threads)
        self._next = time.monotonic() + _EVERY_S


def _call(thread: Blocked) -> tuple[object, ...]:
    """What stays the same while a thread waits; of one that runs, nothing does."""
    moment = thread.seen if thread.state == "R" else 0
    return thread.tid, thread.state, thread.call, thread.arguments, thread.begun, moment


def _seen_again(waits: Sequence[Wait], threads: Sequence[Blocked]) -> tuple[Wait, ...]:
    seen = {one.tid: one.seen for one in threads}
    return tuple(
        replace(one, thread=replace(one.thread, seen=seen.get(one.thread.tid, one.thread.seen)))
        for one in waits
    )


def end_late(command: Command) -> None:
    """End a command whose time is over, with its children: SIGTERM, and SIGCONT for stopped ones.

    One that does not end by that is left alone, which is said.
    """
    for pid in descendants([command.pid]):
        for number in (signal.SIGTERM, signal.SIGCONT):
            with suppress(OSError):
                os.kill(pid, number)
    if not command.wait_after(signal.SIGTERM, lambda: 2):
        messages.left_alone(command.pid)
