# SPDX-License-Identifier: BSD-2-Clause
"""What we were started with, for what we start: it is to find what its caller gave us.

Python and we change signals for ourselves. Two of them Python ignores before any of our code runs,
and nothing tells what they were: SIGPIPE and SIGXFSZ have their default action in what we start.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path

from retsnoop_py.value import Value

_LOST = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_FIXED = frozenset({signal.SIGKILL, signal.SIGSTOP})


class Inherited(Value):
    """The signals that were ignored and those that were blocked when we started."""

    ignored: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()

    def hand_down(self) -> None:
        """In a child that is about to exec: give it what was given to us."""
        for number in signal.valid_signals() - _FIXED:
            action = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) is not action:
                signal.signal(number, action)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


_at_start: Inherited | None = None


def remember() -> None:
    """Keep what holds now; called before anything of it is changed."""
    global _at_start  # noqa: PLW0603 - a process is started once
    _at_start = _now()


def inherited() -> Inherited:
    """What held when :func:`remember` was called; now, if it never was."""
    return _at_start or _now()


def environment() -> dict[str, str]:
    """The environment, without the locale that Python puts there for itself (PEP 538)."""
    found = dict(os.environ)
    if "LC_CTYPE" in found:
        try:
            given = Path("/proc/self/environ").read_bytes().split(b"\0")
        except OSError:  # nothing is mounted on /proc
            return found
        if not any(one.startswith(b"LC_CTYPE=") for one in given):
            del found["LC_CTYPE"]
    return found


def _now() -> Inherited:
    known = signal.valid_signals() - _LOST
    ignored = (number for number in known if signal.getsignal(number) is signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return Inherited(frozenset(map(int, ignored)), frozenset(map(int, blocked)))
