# SPDX-License-Identifier: BSD-2-Clause
"""A live run and a recording as streams of sessions for a caller's loop."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

from retsnoop_py.api.keywords import ReplayOptions, TraceOptions, words
from retsnoop_py.api.sessions import Session, Stream, lost_of
from retsnoop_py.capture.signals import StopSignals
from retsnoop_py.errors import UsageError
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import Function
from retsnoop_py.listener import Listener, listening
from retsnoop_py.options.settings import replay_overrides, trace_settings

if TYPE_CHECKING:
    from retsnoop_py.capture.run import Ended
    from retsnoop_py.capture.witness import Witness
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.recording.replay import Replay
    from retsnoop_py.session.counts import Counts
    from retsnoop_py.session.pipeline import SinkMaker
    from retsnoop_py.session.report import Report
    from retsnoop_py.session.stream_header import StreamHeader
    from retsnoop_py.settings import Settings

__all__ = ["Replayed", "Run", "replay", "trace"]

OnMessage = Callable[[str], None]


def trace(
    *,
    on_message: OnMessage | None = None,
    handle_signals: bool = False,
    **options: Unpack[TraceOptions],
) -> Run:
    """Return a live run, to be entered by ``with``: see :class:`Run`.

    ``options`` are the command line's options by their long names, see docs/api.md. ``on_message``
    gets each line that the command would write to standard error, at once; warnings are also in
    :attr:`Run.warnings`. By default the caller handles signals: Ctrl-C is a KeyboardInterrupt, and
    the ``with`` block then detaches. With ``handle_signals``, from the main thread only, SIGINT,
    SIGTERM and SIGHUP end the run as they end the command line's run: the first signal detaches,
    and earlier sessions are still returned; the second drops these sessions. Raises UsageError for
    invalid options, InputError for files that cannot be read.
    """
    settings = trace_settings(words(options, TraceOptions.__optional_keys__))
    return Run(settings, on_message=on_message, handle_signals=handle_signals)


def replay(path: str | PathLike[str], **options: Unpack[ReplayOptions]) -> Replayed:
    """Return the sessions of a recording, to iterate over.

    ``options`` change the output, like those of ``retsnoop-py replay``. Raises InputError if the
    file cannot be read, DataError if it is not a recording. Iterating raises DataError at the first
    damage, after all sessions before it.
    """
    from retsnoop_py.recording.replay import Replay

    return Replayed(
        Replay(Path(path), replay_overrides(words(options, ReplayOptions.__optional_keys__)))
    )


class _Collected:
    """A sink that keeps sessions until the caller takes them."""

    def __init__(self, say: OnMessage) -> None:
        self.say = say
        self.lost: dict[str, int] = {}
        self.stream: Stream | None = None
        self._waiting: list[Session] = []

    def begin(self, header: StreamHeader, settings: Settings) -> _Collected:
        """Start the stream that the next sessions belong to."""
        self.stream = Stream(header, settings)
        return self

    def show(self, reports: Sequence[Report]) -> None:
        """Keep the sessions."""
        assert self.stream is not None
        stream = self.stream
        self._waiting += [Session(report, stream) for report in reports]

    def end(self, lost: Mapping[str, int]) -> None:
        """Keep the counters of losses."""
        self.lost = lost_of(lost)

    def conclude(self, counts: Counts) -> None:
        """Pass on the line that the command ends with."""
        assert self.stream is not None
        if self.stream.settings.counts:
            self.say(counts.line())

    def abandon(self) -> None:
        """Forget the sessions that were not taken."""
        self._waiting = []

    def take(self) -> list[Session]:
        """Return the sessions since the last call."""
        taken, self._waiting = self._waiting, []
        return taken


class _Told(Listener):
    """Passes each line on to the caller, and keeps the warnings."""

    def __init__(self, on_message: OnMessage | None) -> None:
        self._on_message = on_message
        self.warnings: list[str] = []

    def say(self, line: str) -> None:
        if line.startswith(("WARNING", "NOTE")):
            self.warnings.append(line)
        if self._on_message is not None:
            self._on_message(line)

    def say_aside(self, text: str) -> None:
        for line in filter(None, text.split("\n")):
            self.say(line)


class Run:
    """A live run: attaches all functions at the start of the ``with`` block, detaches at its end.

    Iterating yields sessions as they arrive. It ends when the command has ended, when the requested
    number of sessions was seen, when the time is over, or after :meth:`stop`. Ctrl-C, an exception
    in the block, a ``break``, or an end without a loop detach as well. If sessions arrive faster
    than the loop takes them, they wait, in memory and then in a file (``bpf.queue-size``).

    Leaving the block by its end, or by ``break``, drops the waiting sessions and waits for the
    command. Leaving it by an exception sends the command SIGTERM and waits for a second at most.

    Entering raises the errors of :mod:`retsnoop_py.errors`: PrivilegeError, InputError if no
    function matches, CommandNotFound, UnavailableError if the kernel lacks a feature, BpfError. A
    run may be used from any thread, by one thread at a time, and only once.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        on_message: OnMessage | None = None,
        handle_signals: bool = False,
        witness: Witness | None = None,
        facts: KernelFacts | None = None,
    ) -> None:
        self._settings = settings
        self._witness = witness
        self._facts = facts
        self._told = _Told(on_message)
        self._sink = _Collected(self._told.say)
        self._signals = StopSignals()
        self._handles_signals = handle_signals
        self._steps: Generator[None, None, Ended] | None = None
        self._is_over = False
        #: The command's exit status, 128+N if signal N ended it; 0 for a successful run without a
        #: command, 74 if the recording could not be written. None until the run is over.
        self.exit_status: int | None = None
        #: The duration of detaching in seconds; 0.0 until the run is over.
        self.detach_seconds = 0.0

    @property
    def losses(self) -> dict[str, int]:
        """The losses, by the counters of docs/json.md; empty without losses.

        Complete when the run is over, and empty after an exception.
        """
        return dict(self._sink.lost)

    @property
    def warnings(self) -> list[str]:
        """The warnings and notes so far, as the command line writes them."""
        return list(self._told.warnings)

    @property
    def functions(self) -> tuple[Function, ...]:
        """The traced functions."""
        return tuple(self._header.functions)

    @property
    def function_names(self) -> Sequence[str]:
        """The names of :attr:`functions`, without an object for each."""
        return FunctionTable.of(self._header.functions).names

    @property
    def mechanism(self) -> str:
        """The attach mechanisms: ``kprobe.session`` or ``kprobe.multi, kprobe_events``."""
        return self._header.mechanism

    @property
    def _header(self) -> StreamHeader:
        if self._sink.stream is None:
            raise _not_entered()
        return self._sink.stream.header

    @property
    def kernel(self) -> tuple[str, str]:
        """The release of the kernel and the machine: ``("6.12.0", "x86_64")``."""
        return self._header.release, self._header.machine

    @property
    def interrupted(self) -> bool:
        """True if a signal, or :meth:`stop`, ended the run early."""
        return bool(self._signals.requested)

    @property
    def interrupted_at(self) -> float:
        """The time of that signal, in seconds of :func:`time.monotonic`; 0.0 without a signal."""
        return self._signals.requested_at

    def __enter__(self) -> Self:
        from retsnoop_py.capture.run import run

        if self._steps is not None:
            raise UsageError("this run has been entered before", "call trace() for another one")
        if self._handles_signals:
            self._signals.__enter__()
        make_sink: SinkMaker = self._sink.begin
        if self._settings.views.explain:
            from retsnoop_py.api.explaining import Explainer

            explainer = Explainer(self._signals)
            self._facts, self._witness = explainer.facts, explainer.witness
            make_sink = explainer.sink(make_sink)
        self._steps = run(self._settings, make_sink, self._signals, self._witness, self._facts)
        try:
            self._advance()
        except BaseException:
            self._finish()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._steps is not None
        try:
            with listening(self._told):
                if kind is not None:
                    self._steps.close()
            if kind is None:
                self._signals.stop(drop=True)
                while self._advance():
                    pass
        finally:
            self._finish()

    def __iter__(self) -> Iterator[Session]:
        """Yield sessions as they arrive."""
        if self._steps is None:
            raise _not_entered()
        while True:
            yield from self._sink.take()
            if not self._advance():
                break
        yield from self._sink.take()

    def stop(self) -> None:
        """End the run: the loop gets the sessions so far. Callable from any thread."""
        self._signals.stop()

    def wait(self) -> None:
        """Let the run continue to its end, without its sessions; a recording has them."""
        for _ in self:
            pass

    def _advance(self) -> bool:
        """Let the run continue until a session was shown; return False when it is over."""
        assert self._steps is not None
        if self._is_over:
            return False
        try:
            with listening(self._told):
                next(self._steps)
        except StopIteration as end:
            self.exit_status = end.value.exit_status
            self.detach_seconds = end.value.detach
            self._is_over = True
        except BaseException:
            self._is_over = True
            raise
        return not self._is_over

    def _finish(self) -> None:
        self._is_over = True
        if self._handles_signals:
            self._handles_signals = False
            self._signals.__exit__()


def _not_entered() -> UsageError:
    return UsageError("this run has not begun", "with retsnoop_py.trace(...) as run:")


class Replayed:
    """The sessions of a recording; iteration can be repeated.

    ``kernel`` and ``machine`` describe the recorded system, ``functions`` the traced functions,
    ``command`` the traced command. ``notes`` describe requested data that the recording does not
    have.
    """

    def __init__(self, recorded: Replay) -> None:
        self._again = recorded.again
        self._told = _Told(None)
        self._sink = _Collected(self._told.say)
        self.kernel = recorded.header.release
        self.machine = recorded.header.machine
        self.mechanism = recorded.header.mechanism
        self.functions = tuple(recorded.header.functions)
        self.command = recorded.header.command
        self.notes = tuple(recorded.missing)

    @property
    def losses(self) -> dict[str, int]:
        """The live run's losses, by the counters of docs/json.md; known after the last session."""
        return dict(self._sink.lost)

    @property
    def warnings(self) -> list[str]:
        """The warnings of the live run, and its losses, as the command line writes them."""
        return list(self._told.warnings)

    def __iter__(self) -> Iterator[Session]:
        """Yield the sessions.

        Raises DataError at the first damage, after all sessions before it.
        """
        self._told = _Told(None)
        self._sink = _Collected(self._told.say)
        steps = self._again().play(self._sink.begin)
        while True:
            try:
                with listening(self._told):
                    next(steps)
            except StopIteration:
                break
            except BaseException:
                yield from self._sink.take()
                raise
            yield from self._sink.take()
        yield from self._sink.take()
