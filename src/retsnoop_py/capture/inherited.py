# SPDX-License-Identifier: BSD-2-Clause
"""What our caller gave us and what the traced command gets, in its first run and in every other.

Python and retsnoop-py change signals for themselves. Python ignores two of them, SIGPIPE and
SIGXFSZ, before any of our code runs, and the action before that cannot be read: the command gets
the default action. retsnoop-py raises limits for itself, all of them by :func:`raise_limit`.
Nothing else that fork(2) hands down is changed: priority, oom_score_adj, umask, current folder.
Our descriptors are closed by exec.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retsnoop_py import package
from retsnoop_py.value import Value

_LOST = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_FIXED = frozenset({signal.SIGKILL, signal.SIGSTOP})


class Inherited(Value):
    """The signals that were ignored and those that were blocked when we started."""

    ignored: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()

    def hand_down(self) -> None:
        """In a new child: give it the signals that were given to us.

        All are blocked until then (:func:`signals_blocked`); after that none of our handlers is
        left.
        """
        for number in signal.valid_signals() - _FIXED:
            action = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) is not action:
                signal.signal(number, action)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


Limit = tuple[int, int]
#: By RLIMIT_*: what our caller gave us, and what we made of it.
_raised: dict[int, tuple[Limit, Limit]] = {}


def raise_limit(limit: int, soft: int, hard: int) -> bool:
    """Set RLIMIT ``limit`` for ourselves, and keep what it was for the command; False: refused."""
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (soft, hard))
    except (OSError, ValueError):
        return False
    given, ours = _raised.get(limit, (before, before))
    # the caller of the library may have changed it since
    _raised[limit] = (given if before == ours else before, resource.getrlimit(limit))
    return True


def hand_down_limits() -> None:
    """In a child, right before exec: give it the limits that were given to us.

    Not before, because the child has our open files until then. Raises OSError.
    """
    for limit, (given, ours) in _raised.items():
        if resource.getrlimit(limit) == ours:
            resource.setrlimit(limit, given)


def close_all_but(*kept: int) -> None:
    """Close all descriptors but ``kept``.

    So no end of a pipe or of a trace waits for this process, and a program gets no other file.
    """
    low = 0
    for fd in sorted(kept):
        if low < fd:  # with nothing between, Python 3.11 closes everything
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals around fork(2).

    The child leaves it by :meth:`Inherited.hand_down`: a handler of ours that ran there would act
    on what it shares with us.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_at_start: Inherited | None = None


def remember() -> bool:
    """Keep what holds now, before anything of it is changed; False if that was done before."""
    global _at_start  # noqa: PLW0603 - a process is started once
    if _at_start is not None:
        return False
    _at_start = _now()
    return True


def forget() -> None:
    """Take :func:`remember` back, where a caller of the library may change signals again."""
    global _at_start  # noqa: PLW0603
    _at_start = None


def inherited() -> Inherited:
    """What held when :func:`remember` was called; now, if it never was."""
    return _at_start or _now()


def environment() -> dict[str, str]:
    """The environment of our caller.

    It has PATH as it was, and not the locale that Python puts there for itself (PEP 538).
    """
    found = dict(os.environ)
    path = package.path_of_caller()
    if path is not None:
        found["PATH"] = path
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
