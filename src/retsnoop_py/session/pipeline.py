# SPDX-License-Identifier: BSD-2-Clause
"""Everything behind the transport: decode, resolve, record, filter, hand to the sinks.

A live run and a replay both come through here, so they show the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from retsnoop_py.errors import DataError, OutputError
from retsnoop_py.session.caches import Symbol, SymbolCache, UserSymbol, UserSymbolCache
from retsnoop_py.session.collector import Batch, Collector
from retsnoop_py.session.facts import StreamFacts
from retsnoop_py.session.filters import SessionFilter
from retsnoop_py.session.losses import loss_summary, running_note
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.paths import KnownOrigins, Origin, OriginKey, Origins
from retsnoop_py.session.report import Report, Reporter
from retsnoop_py.session.stacks import is_inside
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.frames import Symbolizer, UserSymbolizer

#: Batches are worked on in parts of this many bytes: output starts early, memory stays small.
_PART_BYTES = 1 << 16


class Sink(Protocol):
    """Where sessions go in the end: a printer, or a caller's own loop."""

    def show(self, reports: Sequence[Report]) -> None:
        """Some sessions, in their order. Raises OutputError if it cannot be written."""

    def say(self, line: str) -> None:
        """What people are to be told beside them; a name in it may hold control characters."""

    def end(self, lost: Mapping[str, int]) -> None:
        """Nothing but further lines follows; ``lost`` are the counters of losses, by name."""

    def abandon(self) -> None:
        """No session is shown any more, also not the rest of one that was being written."""


#: Makes the sink of a stream when what is known of it, and what is to be shown, is settled.
SinkMaker = Callable[[StreamFacts, Settings], Sink]


class Recorder(Protocol):
    """Where a live run is written to. Each raises OutputError once, then does nothing."""

    def write(
        self,
        symbols: Sequence[Symbol],
        batch: Batch,
        users: Sequence[UserSymbol] = (),
        origins: Sequence[tuple[OriginKey, Origin]] = (),
    ) -> None:
        """Add records, and before them the symbols and origins they need for the first time."""

    def warn(self, text: str) -> None:
        """Add a warning the user has seen."""

    def end(self, stats: Mapping[str, int]) -> None:
        """Add the counters; nothing follows."""


class Pipeline:
    """Takes raw batches and hands their sessions to ``sink``, and what is missing.

    ``settings`` says what to show, ``facts`` what the batches mean. Once as many sessions as
    ``stop_count`` allows have been shown, it is ``done``: what comes after them is neither shown
    nor recorded. Raises DataError if the layouts in ``facts`` do not describe the records.
    """

    def __init__(  # noqa: PLR0913 - where everything meets
        self,
        facts: StreamFacts,
        settings: Settings,
        symbolizer: Symbolizer,
        sink: Sink,
        recorder: Recorder | None = None,
        users: UserSymbolizer | None = None,
        origins: Origins | None = None,
    ) -> None:
        self._collector = Collector(facts.functions, facts.layouts)
        self._filter = SessionFilter(settings.filters, interim=settings.views.interim)
        self._symbols = SymbolCache(symbolizer)
        self._users = UserSymbolCache(users)
        self._origins = KnownOrigins(origins)
        self._reporter = Reporter(settings, self._symbols, self._users, self._origins)
        # else a replay may show the traced calls, and it is no wonder that there are no others
        self._unwound = facts.views.call_stack and settings.views.call_stack
        self._bare_stacks = 0
        self._exited: Counter[bool] = Counter()
        self._running: Counter[str] = Counter()
        self._missing_calls = 0
        self._settings = settings
        self._recorder = recorder
        self._sink = sink
        #: 74 once the recording could not be written, else 0: for a run that ends well otherwise.
        self.exit_status = 0
        self._left = settings.stop_count
        self.done = False
        #: What :meth:`feed` has in its hands, and how many bytes of it have been shown.
        self._batch: Batch = b""
        self._shown = 0

    def feed(self, batch: Batch) -> None:
        """Show the sessions of one batch, and record it; raises what :meth:`parts` does."""
        for _ in self.parts(batch):
            pass

    def parts(self, batch: Batch) -> Iterator[None]:
        """The same with a rest after each part of the batch, for who has a loop of its own.

        Raises DataError at a malformed record, after everything before it has been shown, and
        what the sink raises.
        """
        self._batch, self._shown = batch, 0
        for part in self._collector.split(batch, _PART_BYTES):
            if self.done:
                break
            self._feed_part(part)
            self._shown += len(part)
            yield
        self._batch = b""

    def discard(self) -> int:
        """Show nothing more; how many records were not shown, if :meth:`feed` was interrupted."""
        self.done = True
        self._sink.abandon()
        rest = memoryview(self._batch)[self._shown :]
        self._batch = b""
        return self._collector.count(rest) + self._collector.discard()

    def feed_running(self, batch: Batch) -> None:
        """The same for calls that still run when tracing ends, however many have been shown."""
        done, left = self.done, self._left
        self.done, self._left = False, 0
        try:
            self.feed(batch)
        finally:
            self.done, self._left = done, left

    def warn(self, text: str) -> None:
        """Tell the user something now and at every replay."""
        self._say(f"WARNING: {text}")
        if self._recorder is not None:
            try:
                self._recorder.warn(text)
            except OutputError as err:
                self._stop_recording(err)

    def finish(self, stats: Mapping[str, int]) -> None:
        """Tell what was lost and end the recording.

        ``stats`` are the counters of ``struct rsn_stats`` and of the reader, by name. Raises
        DataError after that if a session that waited for the end is malformed.
        """
        damage = None if self.done else self._show_rest()
        known_here = {
            "records_unknown": self._collector.skipped,
            "parts_dropped": self._collector.parts_dropped,
            "bare_stacks": self._bare_stacks,
            "sessions_died": stats.get("sessions_died", 0) + self._exited[True],
            "sessions_abandoned": stats.get("sessions_abandoned", 0) + self._exited[False],
            "sessions_running": self._running.total(),
            "sessions_missing_calls": self._missing_calls,
        }
        for line in loss_summary({**stats, **known_here}, self._settings.bpf):
            self._say(line)
        for line in running_note(self._running):
            self._say(line)
        self._sink.end({**stats, **known_here})
        if self._recorder is not None:
            try:
                self._recorder.end(stats)
            except OutputError as err:
                self._stop_recording(err)
        if damage is not None:
            raise damage

    def _show_rest(self) -> DataError | None:
        """Show and record the sessions that waited for more; what is wrong with one of them."""
        sessions: list[Session] = []
        damage = None
        try:
            sessions.extend(self._until_enough(self._collector.rest()))
        except DataError as err:
            damage = err
        if sessions and self._recorder is not None:
            self._record(self._recorder, sessions, memoryview(b""))
        self._show(sessions)
        return damage

    def _feed_part(self, part: memoryview) -> None:
        sessions: list[Session] = []
        damage = None
        try:
            sessions.extend(self._until_enough(self._collector.sessions(part)))
        except DataError as err:
            damage = err
        if self.done:
            part = part[: self._collector.position]
        if self._recorder is not None:
            self._record(self._recorder, sessions, part)
        self._show(sessions)
        if damage is not None:
            raise damage

    def _until_enough(self, sessions: Iterable[Session]) -> Iterable[Session]:
        """``sessions`` up to the last one that is to be shown."""
        return self._counted(sessions) if self._left else sessions

    def _counted(self, sessions: Iterable[Session]) -> Iterator[Session]:
        for session in sessions:
            yield session
            self._left -= session.kind is SessionKind.FINAL and self._is_shown(session)
            if not self._left:
                self.done = True
                return

    def _record(self, recorder: Recorder, sessions: Sequence[Session], part: memoryview) -> None:
        # Those that are filtered out here as well: a replay may let them through.
        for session in sessions:
            self._reporter.resolve(session)
        try:
            recorder.write(
                self._symbols.take_new(), part, self._users.take_new(), self._origins.take_new()
            )
        except OutputError as err:
            self._stop_recording(err)

    def _show(self, sessions: Sequence[Session]) -> None:
        reports = []
        for session in sessions:
            if session.exiting or session.missed or session.kind is not SessionKind.FINAL:
                self._count(session)
            if not self._is_shown(session):
                self._reporter.pass_over(session)
                continue
            report = self._reporter.report(session)
            if self._unwound and report.stack is not None:
                self._bare_stacks += report.stack.shape.is_bare
            reports.append(report)
        if reports:
            self._sink.show(reports)

    def _is_shown(self, session: Session) -> bool:
        if session.ignored or (session.exiting and not is_inside(session, self._symbols)):
            return False
        return self._filter.accepts(session)

    def _count(self, session: Session) -> None:
        """Note what is told at the end."""
        if session.exiting:
            self._exited[is_inside(session, self._symbols)] += 1
        if session.missed and self._is_shown(session):
            self._missing_calls += 1
        if self._filter.only_counts(session):
            self._running[session.calls[0].function.label] += 1

    def _stop_recording(self, err: OutputError) -> None:
        self._recorder = None
        self.exit_status = err.exit_status
        self._say(f"WARNING: {err.message}" + (f"; {err.hint}" if err.hint else ""))

    def _say(self, line: str) -> None:
        self._sink.say(line)
