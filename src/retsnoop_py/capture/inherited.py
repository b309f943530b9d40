# SPDX-License-Identifier: BSD-2-Clause
"""The state that the caller gave retsnoop-py, which the traced command gets in each of its runs.

Python and retsnoop-py change signals for themselves. Python ignores SIGPIPE and SIGXFSZ at its
start. The earlier action cannot be read, so the command gets the default action. retsnoop-py raises
limits for itself, always by :func:`raise_limit`. Other state that fork(2) passes on is unchanged:
priority, oom_score_adj, umask, current folder. exec closes retsnoop-py's descriptors.
"""

from __future__ import annotations

import os
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retsnoop_py import caller_environment
from retsnoop_py.value import Value

_LOST = frozenset({signal.SIGPIPE, signal.SIGXFSZ})
_FIXED = frozenset({signal.SIGKILL, signal.SIGSTOP})


class Inherited(Value):
    """The ignored signals and the blocked signals when retsnoop-py started."""

    ignored: frozenset[int] = frozenset()
    blocked: frozenset[int] = frozenset()

    def hand_down(self) -> None:
        """Set the signal state in a new child to the state that retsnoop-py got.

        All signals are blocked until then (:func:`signals_blocked`). Afterwards the child has no
        handler of retsnoop-py.
        """
        for number in signal.valid_signals() - _FIXED:
            action = signal.SIG_IGN if number in self.ignored else signal.SIG_DFL
            if signal.getsignal(number) is not action:
                signal.signal(number, action)
        signal.pthread_sigmask(signal.SIG_SETMASK, self.blocked)


Limit = tuple[int, int]
#: By RLIMIT_*: the limit from the caller, and the limit that retsnoop-py set.
_raised: dict[int, tuple[Limit, Limit]] = {}


def raise_limit(limit: int, soft: int, hard: int) -> bool:
    """Set RLIMIT ``limit`` for this process, and remember the old one; False: rejected."""
    before = resource.getrlimit(limit)
    try:
        resource.setrlimit(limit, (soft, hard))
    except (OSError, ValueError):
        return False
    given, ours = _raised.get(limit, (before, before))
    # the caller of the library may have changed the limit since
    _raised[limit] = (given if before == ours else before, resource.getrlimit(limit))
    return True


def hand_down_limits() -> None:
    """Restore the inherited limits in a child, right before exec.

    An earlier point is too early: until exec, the child has retsnoop-py's open files. Raises
    OSError.
    """
    for limit, (given, ours) in _raised.items():
        if resource.getrlimit(limit) == ours:
            resource.setrlimit(limit, given)


def close_all_but(*kept: int) -> None:
    """Close all descriptors except ``kept``.

    Then this process keeps no pipe or trace open, and a program gets no other file.
    """
    low = 0
    for fd in sorted(kept):
        if low < fd:  # for an empty range, Python 3.11 closes all descriptors
            os.closerange(low, fd)
        low = fd + 1
    os.closerange(low, os.sysconf("SC_OPEN_MAX"))


@contextmanager
def signals_blocked() -> Iterator[None]:
    """Block all signals around fork(2).

    The child ends the blocking with :meth:`Inherited.hand_down`: a signal handler in the child
    would act on objects that the child shares with its parent.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


_at_start: Inherited | None = None


def remember() -> bool:
    """Record the current state before it is changed; False if it was recorded before."""
    global _at_start  # noqa: PLW0603 - a process is started once
    if _at_start is not None:
        return False
    _at_start = _now()
    return True


def forget() -> None:
    """Undo :func:`remember`: a caller of the library may change signals again."""
    global _at_start  # noqa: PLW0603
    _at_start = None


def inherited() -> Inherited:
    """Return the state at the time of :func:`remember`, or else the current state."""
    return _at_start or _now()


def environment() -> dict[str, str]:
    """Return the environment that retsnoop-py got.

    It has the original PATH, and not the locale that Python sets for itself (PEP 538).
    """
    found = caller_environment.variables_of_caller()
    path = caller_environment.path_of_caller()
    if path is not None:
        found["PATH"] = path
    if "LC_CTYPE" in found:
        try:
            given = Path("/proc/self/environ").read_bytes().split(b"\0")
        except OSError:  # /proc is not mounted
            return found
        if not any(one.startswith(b"LC_CTYPE=") for one in given):
            del found["LC_CTYPE"]
    return found


def _now() -> Inherited:
    known = signal.valid_signals() - _LOST
    ignored = (number for number in known if signal.getsignal(number) is signal.SIG_IGN)
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    return Inherited(frozenset(map(int, ignored)), frozenset(map(int, blocked)))
