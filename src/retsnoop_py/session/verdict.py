# SPDX-License-Identifier: BSD-2-Clause
"""Counts failures on their way to a sink, and compares them with the expectations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from retsnoop_py.kernel.errno import error_name
from retsnoop_py.session.counts import Counts
from retsnoop_py.session.losses import losses_of
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.pipeline import Sink, SinkMaker, TextSink
from retsnoop_py.session.report import Report, Written
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, VerdictSettings
from retsnoop_py.text import counted

__all__ = ["Caught"]


class Caught:
    """Counts what goes through :meth:`sink`.

    ``errors``: failing sessions by the error their entry function returned, by its name.
    ``lost``: counters of losses that are not zero; known at the end of the run.
    """

    def __init__(self, settings: VerdictSettings) -> None:
        self.errors: Counter[str] = Counter()
        self.lost: dict[str, int] = {}
        #: The header of the sessions; None before the run has begun.
        self.header: StreamHeader | None = None
        self._settings = settings
        #: Failing sessions with this error in them, and those without any that is expected.
        self._having: Counter[int] = Counter()
        self._unexpected: Counter[str] = Counter()

    def sink(self, make_sink: SinkMaker) -> SinkMaker:
        """The same, and counted."""

        def made(header: StreamHeader, settings: Settings) -> Sink:
            self.header = header
            return _Counting(make_sink(header, settings), self)

        return made

    def add(self, session: Session, times: int = 1) -> None:
        """Count a session that is shown, or so many with such results."""
        if not session.is_error or session.kind is not SessionKind.FINAL:
            return
        errors = [error_of(call.function, call.result) for call in session.calls if call.finished]
        found = [error for error in errors if error is not None]
        if not found:
            return
        name = error_name(found[0])
        self.errors[name] += times
        self._having.update(dict.fromkeys(found, times))
        if self._settings.expect.isdisjoint(found):
            self._unexpected[name] += times

    def surprises(self) -> list[str]:
        """What is not as ``--fail-on``, ``--expect`` and ``--expect-none`` have it; a line each."""
        wanted = self._settings
        said = [
            f"{error_name(error)}: caught {counted(self._having[error], 'session')} (--fail-on)"
            for error in sorted(wanted.fail_on)
            if self._having[error]
        ]
        if wanted.fail_on_any:
            said += [
                f"{name}: caught {counted(count, 'session')} (--fail-on any)"
                for name, count in sorted(self._unexpected.items())
            ]
        said += [
            f"{error_name(error)}: not caught (--expect)"
            for error in sorted(wanted.expect)
            if not self._having[error]
        ]
        if wanted.expect_none:
            said += [
                f"{name}: caught {counted(count, 'session')} (--expect-none)"
                for name, count in sorted(self.errors.items())
            ]
            said += [
                f"{name} {count}: something may have failed unseen (--expect-none)"
                for name, count in self.lost.items()
            ]
        return said


class _Counting:
    """A sink in front of another."""

    def __init__(self, sink: Sink, caught: Caught) -> None:
        self._sink = sink
        self._caught = caught
        self.say = sink.say
        self.abandon = sink.abandon
        self.writer = sink.writer if isinstance(sink, TextSink) else None

    def show_text(self, written: Written) -> None:
        assert isinstance(self._sink, TextSink)
        for report, times in written.used:
            self._caught.add(report.session, times)
        self._sink.show_text(written)

    def show(self, reports: Sequence[Report]) -> None:
        for report in reports:
            self._caught.add(report.session)
        self._sink.show(reports)

    def conclude(self, counts: Counts) -> None:
        self._sink.conclude(counts)

    def end(self, lost: Mapping[str, int]) -> None:
        self._caught.lost = losses_of(lost)
        self._sink.end(lost)
