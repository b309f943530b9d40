# SPDX-License-Identifier: BSD-2-Clause
"""The live source: from the moment probes may fire until all their records are reported.

This module detaches all probes, on every way out. A signal detaches at once, even in the middle of
printing, and before its backlog is printed.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING

from retsnoop_py.attach.mass_attacher import Attached, since
from retsnoop_py.attach.plan import AttachContext, Miss
from retsnoop_py.capture import messages
from retsnoop_py.capture.command import Command
from retsnoop_py.capture.configure import ring_bytes
from retsnoop_py.capture.load import LoadedObject
from retsnoop_py.capture.signals import Dropped, StopSignals
from retsnoop_py.errors import Interrupted
from retsnoop_py.kernel.functions import Function
from retsnoop_py.libbpf.closing import together
from retsnoop_py.libbpf.reader import Reader
from retsnoop_py.listener import current
from retsnoop_py.settings import Settings
from retsnoop_py.value import Value, replace

if TYPE_CHECKING:
    from retsnoop_py.attach.injected import InjectedProbes
    from retsnoop_py.capture.paths import PathProbes
    from retsnoop_py.capture.pinpoint import Pinpoint
    from retsnoop_py.capture.running import RunningCalls
    from retsnoop_py.capture.stream import Stream
    from retsnoop_py.capture.witness import Witness

#: How long to wait for records before checking signals and the command, in ms.
_WAIT_MS = 100
_WAIT_COMMAND_MS = 20
#: After this many empty reads, no record is left: the reader checks ten times a second.
_SETTLED = 3
#: Bytes of records that are printed in a moment.
_LITTLE = 1 << 20
_PATIENCE = "Still detaching. One more signal ends retsnoop-py at once.\n"


class Misses(Value):
    """Messages about calls that no program saw: as warnings, and with ``-v``."""

    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class Hooks(Value):
    """Loaded programs and their attachments."""

    loaded: LoadedObject
    attached: Attached
    context: AttachContext
    injected: InjectedProbes | None
    #: By their ids.
    functions: Sequence[Function]
    paths: PathProbes | None = None
    pinpoint: Pinpoint | None = None
    witness: Witness | None = None

    def misses(self, before: Sequence[Miss]) -> Misses:
        """Return calls that no program saw, minus those in ``before``. Call it before detaching."""
        missed = since(self.attached.misses(), before)
        injected = self.injected.misses() if self.injected else ()
        return Misses(
            tuple(messages.missed([miss for miss in missed if not miss.told])),
            (*messages.missed([miss for miss in missed if miss.told]), *injected),
        )

    def running(self) -> RunningCalls:
        """Return the finder of calls that still run."""
        from retsnoop_py.capture.running import RunningCalls

        return RunningCalls(
            self.loaded,
            self.functions,
            self.context.facts.kallsyms,
            is_sure=not any(rung.mechanism.row.by_btf for rung in self.attached.rungs),
        )

    def detach(self) -> None:
        """Detach all. Idempotent; the counters can still be read."""
        beside: list[Callable[[], object]] = [self.loaded.detach]
        if self.paths:
            beside.append(self.paths.detach)
        if self.injected:
            beside.append(self.injected.detach)
        if self.witness:
            beside.append(self.witness.close)
        with current().progress("Detaching", is_aside=True) as progress:
            context = replace(self.context, progress=progress.update)
            together([*beside, lambda: self.attached.detach(context)])

    def close(self) -> None:
        """Detach all and free it. Idempotent."""
        self.detach()
        if self.paths:
            self.paths.close()
        self.loaded.close()


class Reception:
    """Receives and shows the records of ``hooks``, until a limit or a stop request.

    ``command`` is released in between. ``open_stream`` opens the destination of the records.
    ``again`` returns the command once more if ``--pinpoint`` runs it again.
    """

    def __init__(
        self,
        settings: Settings,
        signals: StopSignals,
        hooks: Hooks,
        command: Command | None,
        open_stream: Callable[[], AbstractContextManager[Stream]],
        again: Callable[[], Command],
    ) -> None:
        self._settings = settings
        self._signals = signals
        self._hooks = hooks
        self._command = command
        self._open_stream = open_stream
        self._again = again
        self._ended = self._detaching = False
        self._before: Sequence[Miss] = ()
        self._misses = Misses()
        self._gate_closed = False
        #: Report the first function that cannot be followed at once, the others at the end.
        self._warned_of_pinpoint = False
        #: The end of tracing, by time.monotonic().
        self._deadline = math.inf
        #: Records of the calls that still ran when the gate was closed.
        self._running = b""
        #: The duration of detaching in seconds; 0 if its start was not reported.
        self.seconds = 0.0

    def run(self) -> Generator[None, None, int]:
        """Run from start to end, and yield whenever records were shown.

        The first yield is when tracing has begun. Return the exit status: 74 if the recording was
        aborted, else 0. Raises Interrupted if a signal came before the command was released, and
        the errors of :class:`Reader` and of the stream.
        """
        bpf, loaded = self._settings.bpf, self._hooks.loaded
        with (
            Reader(
                loaded.obj.map("events"),
                is_perf=loaded.is_perf,
                ring_bytes=ring_bytes(bpf.ringbuf_size),
                limit_bytes=bpf.queue_size,
                spool_bytes=bpf.spool_size,
            ) as self._reader,
            ExitStack() as stack,
            self._signals.stopping_by(self._stop),
        ):
            stream = self._begin(stack)
            discarded = 0
            try:
                yield from self._read(stream)
            except Dropped:
                with self._signals.held():
                    self._detach()
                discarded = self._reader.drop() + stream.discard()
            try:
                self._tell(stream, discarded)
                yield from self._rest()
            except Dropped:
                stream.discard()
            return stream.exit_status

    def _rest(self) -> Iterator[None]:
        """Yield to the caller's loop; a second signal waits until the loop returns."""
        with self._signals.held():
            yield

    def _begin(self, stack: ExitStack) -> Stream:
        """Open the gate, then the stream. Meanwhile the records wait in the reader."""
        command, loaded = self._command, self._hooks.loaded
        self._reader.start()
        if command is not None:
            loaded.add_to_tree(command.pid)
        self._watch(command)
        self._before = self._hooks.attached.misses()  # calls before tracing do not count
        loaded.set_ready(True)
        messages.receiving(self._settings)
        try:
            with self._signals.postponed():
                import retsnoop_py.capture.running
                import retsnoop_py.capture.stream  # noqa: F401 - imports what running needs, too
            stream = stack.enter_context(self._open_stream())
        except Dropped:
            count = self._reader.drop()
            raise Interrupted(
                f"interrupted while loading symbols; {count} waiting records were dropped"
            ) from None
        if command is not None and self._signals.stopping():
            raise Interrupted("interrupted before the command started; nothing was traced")
        return stream

    def _watch(self, command: Command | None) -> None:
        """Have the witness watch the command, or the processes selected by the user."""
        witness, ids = self._hooks.witness, self._hooks.loaded.ids
        if witness is None:
            return
        if command is not None:
            kernel_id = ids.kernel_id(command.pid)
            if kernel_id is not None:
                witness.watch(kernel_id, ids.proc_id(command.pid), is_command=True)
            return
        for kernel_id in self._hooks.loaded.filters.pids:
            witness.watch(kernel_id, ids.proc_thread(kernel_id) or 0, is_command=False)

    def _read(self, stream: Stream) -> Iterator[None]:
        """Show records until a limit or a stop request, and then the remaining records."""
        try:
            if self._command is not None:
                stream.expect(self._command.program)
                self._command.release()
                stream.see(self._hooks.loaded.ids.proc_id(self._command.pid))
            yield from self._rest()
            if self._settings.stop_after_ns:
                self._deadline = time.monotonic() + self._settings.stop_after_ns / 1e9
                self._limit()
            yield from self._read_until_stopped(stream, self._command)
            yield from self._run_again(stream)
        finally:
            with self._signals.held():
                self._end()
                if time.monotonic() >= self._deadline and not self._signals.stopping():
                    self._look(at_end=True)
        if self._signals.stopping() or time.monotonic() >= self._deadline:
            self._limit()
        else:  # show all records of a command until its end
            self._signals.drop_never()
        if self._reader.stats().waiting_bytes > _LITTLE:
            with self._signals.held():
                self._detach()
        for data in iter(partial(self._reader.take, 0), None):
            self._signals.drop_if_asked()
            for _ in stream.parts(data):
                yield from self._rest()
        with self._signals.held():
            self._detach()

    def _limit(self) -> None:
        """After a signal or ``--for``, limit the time for showing records, as the settings say."""
        seconds = self._settings.bpf.drain_seconds
        end = min(self._signals.requested_at or math.inf, self._deadline)
        if seconds and end < math.inf:
            self._signals.drop_after(end + seconds - time.monotonic())

    def _run_again(self, stream: Stream) -> Iterator[None]:
        """Run the command again while this can add information to failures."""
        pinpoint = self._hooks.pinpoint
        if pinpoint is None or self._command is None or not self._command.ended():
            return
        for number in range(self._settings.reruns):
            yield from self._settle(stream)
            if not pinpoint.is_waiting or self._is_enough(stream):
                return
            pinpoint.only_news = True
            messages.say(f"--pinpoint: run {number + 2} of the command, for the lines.")
            with self._again() as command:
                self._hooks.loaded.add_to_tree(command.pid)
                command.release()
                try:
                    stream.see(self._hooks.loaded.ids.proc_id(command.pid))
                    yield from self._read_until_stopped(stream, command)
                finally:
                    self._end_again(command)
        yield from self._settle(stream)
        if pinpoint.is_waiting and not self._is_enough(stream):
            messages.say("--pinpoint: failures without a source line did not repeat.")

    def _end_again(self, command: Command) -> None:
        """End a further run of the command when its output is not needed any more."""
        asked = self._signals.requested
        if not command.ended() and not command.wait_after(
            asked or signal.SIGTERM, lambda: self._signals.count if asked else 2
        ):
            messages.left_alone(command.pid)

    def _is_enough(self, stream: Stream) -> bool:
        """Return True if tracing is to end."""
        over = time.monotonic() >= self._deadline
        return over or stream.done or self._signals.stopping()

    def _settle(self, stream: Stream) -> Iterator[None]:
        """Show the records in the kernel's buffer, and follow the functions that failed."""
        empty = 0
        while empty < _SETTLED and not self._signals.stopping():
            data = self._reader.take(_WAIT_MS)
            empty = 0 if data else empty + 1
            for _ in stream.parts(data or b""):
                yield from self._rest()
        self._pinpoint()

    def _pinpoint(self) -> None:
        """Follow the functions that failed; a signal's action must not interrupt this halfway."""
        pinpoint = self._hooks.pinpoint
        if pinpoint is None or self._ended:
            return
        with self._signals.postponed():
            pinpoint.follow()
        if pinpoint.said and not self._warned_of_pinpoint:
            self._warned_of_pinpoint = True
            self._warn_of_pinpoint(pinpoint)

    def _warn_of_pinpoint(self, pinpoint: Pinpoint) -> None:
        messages.not_followed(self._settings, "--pinpoint", pinpoint.said)
        pinpoint.said.clear()

    def _read_until_stopped(self, stream: Stream, command: Command | None) -> Iterator[None]:
        stopping = self._signals.stopping
        wait_ms = _WAIT_COMMAND_MS if command is not None else _WAIT_MS
        while not stopping() and (left := self._deadline - time.monotonic()) > 0:
            data = self._reader.take(int(min(wait_ms, left * 1000 + 1)))
            for _ in stream.parts(data or b""):
                if time.monotonic() >= self._deadline:
                    with self._signals.held():
                        self._end()
                yield from self._rest()
            self._pinpoint()
            self._look()
            if stream.done or (command is not None and command.ended()):
                return

    def _look(self, *, at_end: bool = False) -> None:
        """Let the witness check the waits of the threads, from time to time and ``at_end``."""
        witness = self._hooks.witness
        if witness is None or not (at_end or witness.is_time_to_look()):
            return
        with self._signals.held(), self._signals.postponed():
            witness.look(at_end=at_end)

    def _end(self) -> None:
        """Close the gate in front of the probes, and take the rest of the kernel's buffer."""
        if not self._ended:
            self._ended = True
            self._close_gate()
            self._reader.stop()

    def _close_gate(self) -> None:
        """Close the gate; look at the calls that run at that moment before they return."""
        if self._gate_closed:
            return
        self._gate_closed = True
        try:
            running = self._hooks.running()
            seen = running.see()
        finally:
            self._hooks.loaded.set_ready(False)
        self._running = running.records(seen)

    def _detach(self) -> None:
        if self._detaching:
            return
        self._detaching = True
        started = time.monotonic()
        current().say_aside("\nDetaching...\n")
        self._signals.patience = _PATIENCE
        self._misses = self._hooks.misses(self._before)
        self._hooks.detach()
        self._signals.patience = ""
        self.seconds = time.monotonic() - started

    def _stop(self) -> None:
        """Run the action of the first signal, in the middle of other work."""
        self._close_gate()
        self._detach()
        self._end()
        self._limit()
        waiting = self._reader.stats().waiting_bytes
        if waiting > _LITTLE:
            seconds = self._settings.bpf.drain_seconds
            limit = f" for {seconds} s at most" if seconds else ""
            current().say_aside(
                f"Detached. Printing the {waiting >> 20} MiB of records that wait{limit}; "
                "another signal drops them.\n"
            )

    def _tell(self, stream: Stream, discarded: int) -> None:
        """Report what is missing."""
        if not discarded:
            stream.feed_running(self._running)
        for text in self._misses.warnings:
            stream.warn(text)
        if self._hooks.pinpoint is not None:
            self._warn_of_pinpoint(self._hooks.pinpoint)
        for text in self._misses.notes:
            messages.note(self._settings, text)
        stats = self._reader.stats()
        messages.waited(self._settings, stats)
        stream.finish(self._hooks.loaded, stats, discarded, is_late=self._signals.is_late)
