# SPDX-License-Identifier: BSD-2-Clause
"""Which sessions to report.

The kernel side has decided on processes, duration and success already; the same conditions
are here so that a replay can narrow them. Error filters are only here. They look at every
recorded call of a failing session, as retsnoop's do, with these differences:

- a result counts by its own type: ``+22`` is not EINVAL, a pointer is 64 bits wide;
- NULL is an error of functions that return a pointer, whatever the upper half holds;
- a call that has not returned has no result.

Where an injected probe was hit is reported whatever the session's results are so far. A call that
still runs when tracing ends has neither failed nor succeeded: it is reported to who asks for
successes (``-S``), for calls that go on (``-I``) or for long ones (``-L``).
"""

from __future__ import annotations

import os

from retsnoop_py.session.collector import comm_text
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.results import error_of
from retsnoop_py.settings import FilterSettings

#: TASK_COMM_LEN - 1: the kernel cuts names to this many bytes.
_COMM_BYTES = 15


class SessionFilter:
    """:class:`FilterSettings` as a test of sessions; without ``interim`` of ended ones."""

    def __init__(self, settings: FilterSettings, *, interim: bool = True) -> None:
        self._settings = settings
        self._interim = interim
        self._comms = frozenset(map(_as_comm, settings.comms))
        self._deny_comms = frozenset(map(_as_comm, settings.deny_comms))
        self._wants_running = settings.success or interim or bool(settings.longer_ns)
        self._any_error = settings.allow_errors is None and not settings.deny_errors
        self._any_failure = self._any_error and not (
            settings.pids or settings.deny_pids or self._comms or self._deny_comms
        )
        self._longer_ns = settings.longer_ns

    def accepts(self, session: Session) -> bool:
        """Whether to report ``session``."""
        kind = session.kind
        if self._any_failure and kind is SessionKind.FINAL and session.is_error:
            return not self._longer_ns or _duration_ns(session) >= self._longer_ns
        settings = self._settings
        if kind in (SessionKind.STITCH, SessionKind.PROBE) and not self._interim:
            return False
        if not self._is_followed(session):
            return False
        if settings.longer_ns and _duration_ns(session) < settings.longer_ns:
            return False
        if kind is SessionKind.PROBE:
            return True
        if kind is SessionKind.RUNNING:
            return self._wants_running
        if not session.is_error:
            return settings.success
        return self._any_error or self._accepts_errors(session)

    def only_counts(self, session: Session) -> bool:
        """Whether ``session`` is a call that still runs, and nobody asks for such."""
        is_running = session.kind is SessionKind.RUNNING
        return is_running and not self._wants_running and self._is_followed(session)

    def _is_followed(self, session: Session) -> bool:
        settings = self._settings
        return _passes(session.tgid, settings.pids, settings.deny_pids) and _passes(
            session.task_comm, self._comms, self._deny_comms
        )

    def _accepts_errors(self, session: Session) -> bool:
        allow, deny = self._settings.allow_errors, self._settings.deny_errors
        allowed = False
        for call in session.calls:
            error = error_of(call.function, call.result) if call.finished else None
            if error is None:
                continue
            if error in deny:
                return False
            allowed = allowed or allow is None or error in allow
        return allowed


def accepts(session: Session, settings: FilterSettings) -> bool:
    """Whether ``settings`` let ``session`` through; for many sessions, keep a filter."""
    return SessionFilter(settings).accepts(session)


def _passes(
    value: object,
    allow: tuple[object, ...] | frozenset[str],
    deny: tuple[object, ...] | frozenset[str],
) -> bool:
    return value not in deny and (not allow or value in allow)


def _duration_ns(session: Session) -> int:
    """The entry function's latency; up to now where it has not returned."""
    if session.calls and session.calls[0].finished:
        return session.calls[0].latency_ns
    return session.emit_ns - session.start_ns


def _as_comm(name: str) -> str:
    return comm_text(os.fsencode(name)[:_COMM_BYTES])
