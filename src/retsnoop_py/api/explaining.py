# SPDX-License-Identifier: BSD-2-Clause
"""Why the system calls of a trace failed (``--explain``): the first paragraph of ``why``.

A session ends before its system call returns, and the witness records the call after that.
Therefore each session that has just ended waits a moment for its call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from retsnoop_py.api.choosing import explain_session
from retsnoop_py.capture.signals import StopSignals
from retsnoop_py.capture.witness import CallsByThread, Witness
from retsnoop_py.cause.events import SystemCall
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.tracefs import require_proc
from retsnoop_py.model.session import ExplainedFailure
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.pipeline import Sink, SinkMaker
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings
from retsnoop_py.text import counted
from retsnoop_py.value import replace

__all__ = ["Explainer"]

#: How long a session waits for its system call to return: ns behind its own end, and seconds
#: between two checks.
_PATIENCE_NS = 100_000_000
_PAUSE = 0.002
#: Maximum number of calls with cached reasons: a program may repeat the same call.
_MOST_KEPT = 1000


class Explainer:
    """Watches the system calls of a run, and adds to its sessions why they failed.

    Pass ``witness`` and ``facts`` to the run, and its sessions to :meth:`sink`. ``signals`` belongs
    to the run: its actions close the witness.
    """

    def __init__(self, signals: StopSignals) -> None:
        self.facts = KernelFacts(loading=True)
        require_proc(self.facts.root, "--explain")
        self.calls = CallsByThread()
        self.witness = Witness.of(self.facts, by_thread=self.calls)
        self._signals = signals
        self._known: dict[object, ExplainedFailure] = {}
        #: Sessions that may lack a reason: too many calls failed to keep them all.
        self.missed = 0

    def sink(self, make_sink: SinkMaker) -> SinkMaker:
        """Return the sink with explanations added."""

        def made(header: StreamHeader, settings: Settings) -> Sink:
            return _Explaining(make_sink(header, settings), self)

        return made

    def explained(self, report: Report) -> Report:
        """Return the report of a session with the reason, if its failed call was recorded."""
        session = report.session
        if session.kind is not SessionKind.FINAL or not session.is_error:
            return report
        call = self._call(session)
        return report if call is None else report._replace(explained=self._reason(session, call))

    def _call(self, session: Session) -> SystemCall | None:
        """Return the failed system call around a session, after a short wait, or None."""
        at = session.tid, session.start_ns, session.emit_ns
        while (found := self.calls.around(*at)) is None:
            is_late = time.monotonic_ns() > session.emit_ns + _PATIENCE_NS
            with self._signals.held(), self._signals.postponed():
                self.witness.read()
            if is_late:
                found = self.calls.around(*at)
                break
            time.sleep(_PAUSE)
        if found is None and self.calls.has_dropped(session.tid, session.emit_ns):
            self.missed += 1
        return found

    def _reason(self, session: Session, call: SystemCall) -> ExplainedFailure:
        state = call.state and replace(call.state, begin=0)
        key = replace(call, time=0, tid=0, state=state), tuple(session.said)
        found = self._known.get(key)
        if found is None:
            found = explain_session(session, call, self.witness.found)
            if len(self._known) < _MOST_KEPT:
                self._known[key] = found
        return found


class _Explaining:
    """A sink in front of another one."""

    def __init__(self, sink: Sink, explainer: Explainer) -> None:
        self._sink = sink
        self._explainer = explainer
        self.say = sink.say
        self.abandon = sink.abandon
        self.conclude = sink.conclude

    def show(self, reports: Sequence[Report]) -> None:
        self._sink.show([self._explainer.explained(report) for report in reports])

    def end(self, lost: Mapping[str, int]) -> None:
        seen = self._explainer.witness.found
        if seen.problem is not None:
            self.say(f"WARNING: --explain saw no system calls of the command: {seen.problem}")
        elif seen.lost:
            self.say(f"WARNING: --explain lost {counted(seen.lost, 'record')} of system calls")
        if missed := self._explainer.missed:
            sessions = counted(missed, "session")
            self.say(f"WARNING: --explain may lack the reason of {sessions}: too many calls failed")
        self._sink.end(lost)
