# SPDX-License-Identifier: BSD-2-Clause
"""A session with what its views show, worked out once for every renderer."""

from __future__ import annotations

from typing import NamedTuple

from retsnoop_py.session.merge import resolve_stack
from retsnoop_py.session.model import Session
from retsnoop_py.session.stacks import Stack, Stacker
from retsnoop_py.session.trace import Trace, Tracer
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.frames import Symbolizer


class Report(NamedTuple):
    """One session and its views; those that are not asked for are None.

    ``stack`` is the merged stack, outermost row first, ``trace`` the call trace.
    """

    session: Session
    stack: Stack | None = None
    trace: Trace | None = None


class Reporter:
    """Makes the reports of a stream's sessions, as ``settings`` say."""

    def __init__(self, settings: Settings, symbolizer: Symbolizer) -> None:
        self._views = settings.views
        self._stacker = Stacker(symbolizer, settings.stacks)
        self._symbolizer = symbolizer
        self._tracer = Tracer()

    def resolve(self, session: Session) -> None:
        """Resolve every address that any view of the session needs."""
        resolve_stack(session, self._symbolizer)

    def report(self, session: Session) -> Report:
        """The session with what the views need."""
        views = self._views
        stack = self._stacker.stack(session) if views.call_stack else None
        trace = self._tracer.trace(session) if views.call_trace else None
        return Report(session, stack, trace)
