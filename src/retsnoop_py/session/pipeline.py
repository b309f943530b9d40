# SPDX-License-Identifier: BSD-2-Clause
"""The pipeline behind the transport: decode, resolve, record, filter, pass to the sinks.

A live run and a replay both use it, so their output is the same.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from retsnoop_py.errors import DataError, OutputError
from retsnoop_py.session.caches import Symbol, SymbolCache, UserSymbol, UserSymbolCache
from retsnoop_py.session.collector import Batch, Collector, comm_text
from retsnoop_py.session.counts import Counts, errors_label, longer_label, option_label
from retsnoop_py.session.losses import loss_summary, may_warn, running_note
from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.paths import KnownOrigins, Origin, OriginKey, Origins
from retsnoop_py.session.report import Report, Reporter, TextWriter, Written
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stacks import is_inside
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import FilterSettings, Settings
from retsnoop_py.symbolize.frames import Symbolizer, UserSymbolizer

if TYPE_CHECKING:
    from retsnoop_py.session.repeats import Repeats

#: Sessions to show before the search for repeated sessions starts.
_MANY = 256
#: TASK_COMM_LEN - 1: the kernel cuts names to this many bytes.
_COMM_BYTES = 15


class SessionFilter:
    """:class:`FilterSettings` as a test of sessions; without ``interim``, only of ended sessions.

    The kernel side has already applied the filters for processes, duration and success. They are
    repeated here so that a replay can narrow them. Error filters exist only here. As in retsnoop,
    they check every recorded call of a failing session, with these differences:

    - a result counts by its own type: ``+22`` is not EINVAL, a pointer has 64 bits;
    - NULL is an error of functions that return a pointer;
    - a call that has not returned has no result.

    A hit of an injected probe is reported for any results so far. A call that still runs when
    tracing ends has neither failed nor succeeded. It is reported if the user requests successes
    (``-S``), running calls (``-I``) or long calls (``-L``).
    """

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
        self._allow_label = errors_label("-x", settings.allow_errors or frozenset())
        self._deny_label = errors_label("-X", settings.deny_errors)
        self._only_allows_errors = (
            settings.allow_errors is not None
            and not (settings.deny_errors or settings.longer_ns)
            and not (settings.pids or settings.deny_pids or self._comms or self._deny_comms)
        )

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
        """True if ``session`` is a running call, and the user did not request running calls."""
        is_running = session.kind is SessionKind.RUNNING
        return is_running and not self._wants_running and self._is_followed(session)

    def rejected_by(self, session: Session) -> str:
        """Return the option that filters out a failing session that :meth:`accepts` rejects."""
        settings = self._settings
        if self._only_allows_errors:
            return self._allow_label
        tests: tuple[tuple[str, object, Any, Any], ...] = (
            ("p", session.tgid, settings.pids, settings.deny_pids),
            ("n", session.task_comm, self._comms, self._deny_comms),
        )
        for option, value, allow, deny in tests:
            if value in deny:
                return option_label(f"-{option.upper()}", [value])
            if not _passes(value, allow, deny):
                return option_label(f"-{option}", sorted(allow))
        if settings.longer_ns and _duration_ns(session) < settings.longer_ns:
            return longer_label(settings.longer_ns)
        errors = {
            error_of(call.function, call.result) for call in session.calls if call.finished
        } & settings.deny_errors
        is_denied = errors or settings.allow_errors is None
        return self._deny_label if is_denied else self._allow_label

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
    """Return True if ``settings`` accept ``session``; for many sessions, reuse a filter."""
    return SessionFilter(settings).accepts(session)


def _passes(
    value: object,
    allow: tuple[object, ...] | frozenset[str],
    deny: tuple[object, ...] | frozenset[str],
) -> bool:
    return value not in deny and (not allow or value in allow)


def _duration_ns(session: Session) -> int:
    """Return the entry function's latency in ns; until now if it still runs."""
    if session.calls and session.calls[0].finished:
        return session.calls[0].latency_ns
    return session.emit_ns - session.start_ns


def _as_comm(name: str) -> str:
    return comm_text(os.fsencode(name)[:_COMM_BYTES])


#: Batches are processed in parts of this size: output starts early, memory use stays small.
_PART_BYTES = 1 << 16


class Sink(Protocol):
    """The consumer of sessions: a printer, or a caller's own loop."""

    def show(self, reports: Sequence[Report]) -> None:
        """Show sessions in order. Raises OutputError if they cannot be written."""

    def say(self, line: str) -> None:
        """Print a message to the user. A name in it may contain control characters."""

    def end(self, lost: Mapping[str, int]) -> None:
        """End the sessions; only messages follow. ``lost`` are the loss counters by name."""

    def conclude(self, counts: Counts) -> None:
        """Report the numbers of calls. Nothing follows."""

    def abandon(self) -> None:
        """Stop output at once, also in the middle of a session."""


@runtime_checkable
class TextSink(Protocol):
    """A sink that also accepts sessions as text."""

    @property
    def writer(self) -> TextWriter | None:
        """Return the writer of template text."""

    def show_text(self, written: Written) -> None:
        """Show text of the writer."""


#: Creates the sink of a stream when its header and the settings are final.
SinkMaker = Callable[[StreamHeader, Settings], Sink]


class Recorder(Protocol):
    """The recording of a live run. Each method raises OutputError once, then does nothing."""

    def write(
        self,
        symbols: Sequence[Symbol],
        batch: Batch,
        users: Sequence[UserSymbol] = (),
        origins: Sequence[tuple[OriginKey, Origin]] = (),
    ) -> None:
        """Add records, and before them their new symbols and origins."""

    def warn(self, text: str) -> None:
        """Add a warning that the user has seen."""

    def end(self, stats: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Add the counters of losses and of calls. Nothing follows."""


class Pipeline:
    """Passes the sessions of raw batches to ``sink``, and the numbers of missing data.

    ``settings`` define the output, ``header`` describes the batches. After ``stop_count`` shown
    sessions the pipeline is ``done``: later sessions are neither shown nor recorded. Raises
    DataError if the layouts in ``header`` do not describe the records.
    """

    def __init__(  # noqa: PLR0913 - all parts meet here
        self,
        header: StreamHeader,
        settings: Settings,
        symbolizer: Symbolizer,
        sink: Sink,
        recorder: Recorder | None = None,
        users: UserSymbolizer | None = None,
        origins: Origins | None = None,
        accept: Callable[[Session], bool] | None = None,
    ) -> None:
        self._collector = Collector(header.functions, header.layouts)
        self._filter = SessionFilter(settings.filters, interim=settings.views.interim)
        self._symbols = SymbolCache(symbolizer)
        self._users = UserSymbolCache(users)
        self._origins = KnownOrigins(origins)
        self._reporter = Reporter(settings, self._symbols, self._users, self._origins)
        # else a replay may show only the traced calls, and missing frames are then not a loss
        self._unwound = header.views.call_stack and settings.views.call_stack
        self._bare_stacks = 0
        self._exited: Counter[bool] = Counter()
        self._running: Counter[str] = Counter()
        self._missing_calls = 0
        self._counts = Counts(settings)
        self._settings = settings
        #: Called for each session before it is shown, and makes the final decision.
        self._accept = accept
        self._recorder = recorder
        self._sink = sink
        #: 74 if the recording could not be written, else 0; used if the run itself ends with 0.
        self.exit_status = 0
        self._is_concluded = False
        self._left = settings.stop_count
        self.done = False
        #: The batch of the current :meth:`feed`, and the number of its bytes that were shown.
        self._batch: Batch = b""
        self._shown = 0
        self._header = header
        self._repeats: Repeats | None = None
        #: Sessions left until the search for repeated sessions starts.
        self._until_repeats = _MANY

    def feed(self, batch: Batch) -> None:
        """Show and record one batch. Raises the errors of :meth:`parts`."""
        for _ in self.parts(batch):
            pass

    def parts(self, batch: Batch) -> Iterator[None]:
        """Show and record one batch in parts, and yield after each part for a caller's own loop.

        Raises DataError at a malformed record, after everything before it was shown, and the
        errors of the sink.
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
        """Stop showing; return the number of records that an interrupted :meth:`feed` left."""
        self.done = True
        self._sink.abandon()
        rest = memoryview(self._batch)[self._shown :]
        self._batch = b""
        return self._collector.count(rest) + self._collector.discard()

    def feed_running(self, batch: Batch) -> None:
        """Feed calls that still run when tracing ends, also after ``stop_count`` sessions."""
        done, left = self.done, self._left
        self.done, self._left = False, 0
        try:
            self.feed(batch)
        finally:
            self.done, self._left = done, left

    def warn(self, text: str) -> None:
        """Print a warning now and in every replay."""
        self._say(f"WARNING: {text}")
        if self._recorder is not None:
            try:
                self._recorder.warn(text)
            except OutputError as err:
                self._stop_recording(err)

    def finish(
        self,
        stats: Mapping[str, int],
        warnings: Callable[[], Iterable[str]] = tuple,
        counts: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Report losses, end the recording, and report the numbers of calls.

        ``stats`` are the counters of ``struct rsn_stats`` and of the reader, by name. ``warnings``
        returns the messages to print after all sessions. ``counts`` are the numbers of calls by
        the names in :mod:`.counts`, empty if unknown. Raises DataError after that if a session
        that waited for the end is malformed.
        """
        damage = None if self.done else self._show_rest()
        for text in warnings():  # before the recording ends
            self.warn(text)
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
                self._recorder.end(stats, counts)
            except OutputError as err:
                self._stop_recording(err)
        self.conclude(counts, {**stats, **known_here})
        if damage is not None:
            raise damage

    def conclude(
        self,
        counts: Mapping[str, int] = MappingProxyType({}),
        lost: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        """Report the numbers of calls, once; also if the end of a recording is missing."""
        if not self._is_concluded:
            self._is_concluded = True
            self._counts.is_cut = bool(self._settings.stop_count) and not self._left
            self._counts.end(counts, lost)
            self._sink.conclude(self._counts)

    def _show_rest(self) -> DataError | None:
        """Show and record the sessions that waited for parts; return an error, if any."""
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
        #: Texts, each with the number of sessions before it.
        texts: list[tuple[int, Written]] = []
        damage = None
        try:
            for piece in self._repeats.split(part) if self._repeats else ((0, len(part)),):
                if isinstance(piece, Written):
                    texts.append((len(sessions), piece))
                else:
                    sessions.extend(self._until_enough(self._collector.sessions(part, *piece)))
        except DataError as err:
            damage = err
        if self.done:
            part = part[: self._collector.position]
        if self._recorder is not None:
            self._record(self._recorder, sessions, part)
        shown = 0
        for place, text in texts:
            self._show(sessions[shown:place])
            assert isinstance(self._sink, TextSink)
            for session, times in text.hidden:
                self._hide(session, times)
            if text.used:
                self._counts.show_repeated(text.used)
                self._sink.show_text(text)
            shown = place
        self._show(sessions[shown:])
        if damage is not None:
            raise damage
        self._look_for_repeats(len(sessions))

    def _look_for_repeats(self, more: int) -> None:
        """Let C write repeated sessions, if there are many sessions to print as text."""
        if self._repeats is not None or self._until_repeats <= 0:
            return
        self._until_repeats -= more
        filters = self._settings.filters
        if self._until_repeats > 0 or self._accept or self._left or filters.longer_ns:
            return
        if not isinstance(self._sink, TextSink) or self._sink.writer is None:
            return
        from retsnoop_py.session.repeats import Repeats

        by_process = bool(filters.pids or filters.deny_pids)
        header = self._header
        try:
            self._examples = Collector(header.functions, header.layouts)
            self._repeats = Repeats(
                header.layouts, self._sink.writer, self._example, by_process=by_process
            )
        except DataError:  # the layout of another version, or of another architecture
            return

    def _example(self, unit: memoryview) -> Report | Session | None:
        """Return the report of a single session that a template can represent.

        Return the session itself if a filter rejects it by its results, names and process, which
        all sessions of this kind share.
        """
        sessions = self._examples.feed(unit)
        if len(sessions) != 1:
            return None
        (session,) = sessions
        extras = (
            *(session.args, session.paths, session.branches, session.user_stack),
            *(session.said, session.earlier, session.ns_tid, session.exiting, may_warn(session)),
        )
        if any(extras):
            return None
        if not self._is_shown(session):
            return session
        report = self._reporter.report(session)
        if report.trace is not None and report.trace.events is not session.events:
            return None
        if self._unwound and report.stack is not None and report.stack.shape.is_bare:
            return None
        return report

    def _until_enough(self, sessions: Iterable[Session]) -> Iterable[Session]:
        """Return ``sessions`` up to the last one to show."""
        return self._counted(sessions) if self._left else sessions

    def _counted(self, sessions: Iterable[Session]) -> Iterator[Session]:
        for session in sessions:
            yield session
            self._left -= session.kind is SessionKind.FINAL and self._is_shown(session)
            if not self._left:
                self.done = True
                return

    def _record(self, recorder: Recorder, sessions: Sequence[Session], part: memoryview) -> None:
        # Sessions that are filtered out are recorded, too: a replay may show them.
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
                self._hide(session)
                continue
            if self._accept and not self._accept(session):
                self._reporter.pass_over(session)
                continue
            report = self._reporter.report(session)
            if self._unwound and report.stack is not None:
                self._bare_stacks += report.stack.shape.is_bare
            reports.append(report)
        if reports:
            self._counts.show(reports)
            self._sink.show(reports)

    def _hide(self, session: Session, times: int = 1) -> None:
        """Skip a session that a filter rejects, or that is ignored; it came ``times`` times."""
        self._reporter.pass_over(session)
        if session.kind is not SessionKind.FINAL or not session.is_error or session.ignored:
            return
        if not session.exiting or is_inside(session, self._symbols):
            self._counts.hide(session, self._filter.rejected_by(session), times)

    def _is_shown(self, session: Session) -> bool:
        if session.ignored or (session.exiting and not is_inside(session, self._symbols)):
            return False
        return self._filter.accepts(session)

    def _count(self, session: Session) -> None:
        """Count data for the final report."""
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
