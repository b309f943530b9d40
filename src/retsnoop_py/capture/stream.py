# SPDX-License-Identifier: BSD-2-Clause
"""The live end of a stream: its header, and the destination of the records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import TYPE_CHECKING

import retsnoop_py
from retsnoop_py.capture.load import LoadedObject
from retsnoop_py.capture.target import Target
from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import Function
from retsnoop_py.libbpf.reader import ReaderStats
from retsnoop_py.session.counts import CALLS, SHORT
from retsnoop_py.session.layouts import layout_named
from retsnoop_py.session.pipeline import Pipeline, SinkMaker
from retsnoop_py.session.stream_header import (
    ModuleFacts,
    StreamHeader,
    realtime_offset_ns,
    utc_offset_s,
)
from retsnoop_py.settings import Settings, SymbolizeMode

if TYPE_CHECKING:
    from retsnoop_py.recording.writer import RecordingWriter
    from retsnoop_py.session.caches import Symbol, UserSymbol
    from retsnoop_py.session.collector import Batch
    from retsnoop_py.session.model import Session
    from retsnoop_py.session.paths import Origin, OriginKey, Origins
    from retsnoop_py.symbolize.user import ProcessSymbolizer


class WholeRecorder:
    """Writes to a recording without interruption: ``held`` keeps signals waiting."""

    def __init__(
        self, writer: RecordingWriter, held: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._writer = writer
        self._held = held

    def start(self, header: StreamHeader) -> None:
        """Write the beginning of the recording."""
        with self._held():
            self._writer.start(header)

    def write(
        self,
        symbols: Sequence[Symbol],
        batch: Batch,
        users: Sequence[UserSymbol] = (),
        origins: Sequence[tuple[OriginKey, Origin]] = (),
    ) -> None:
        """Write records, and the symbols they need."""
        with self._held():
            self._writer.write(symbols, batch, users, origins)

    def warn(self, text: str) -> None:
        """Write a warning that the user has seen."""
        with self._held():
            self._writer.warn(text)

    def end(self, stats: Mapping[str, int], counts: Mapping[str, int]) -> None:
        """Write the counters, and end the recording."""
        with self._held():
            self._writer.end(stats, counts)


class Stream:
    """Converts raw records to sessions and a recording."""

    def __init__(
        self,
        header: StreamHeader,
        pipeline: Pipeline,
        target: Target,
        users: ProcessSymbolizer | None = None,
    ) -> None:
        self._target = target
        self._users = users
        self._stats_layout = layout_named(header.layouts, "rsn_stats")
        self._pipeline = pipeline
        self.parts = pipeline.parts
        self.feed_running = pipeline.feed_running
        self.warn = pipeline.warn
        self.discard = pipeline.discard

    @property
    def done(self) -> bool:
        """True if the requested number of sessions has been shown."""
        return self._pipeline.done

    @property
    def exit_status(self) -> int:
        """74 if the recording could not be written to its end, else 0."""
        return self._pipeline.exit_status

    def expect(self, program: str) -> None:
        """Read a program, by its path, that may end before its process can be examined."""
        if self._users is not None:
            self._users.expect(program)

    def see(self, pid: int) -> None:
        """Examine a process now; its program's symbols may be needed after its end."""
        if self._users is not None:
            self._users.see(pid)

    def finish(
        self,
        loaded: LoadedObject,
        reader: ReaderStats,
        discarded: int = 0,
        *,
        is_late: bool = False,
    ) -> None:
        """Report lost records, and end the recording.

        ``discarded`` records were dropped on request, or by a time limit if ``is_late``.
        """
        stats = self._stats_layout.unpack(loaded.stats())
        counts = {CALLS: loaded.calls(), SHORT: loaded.failed_short()}
        # both sides count a record that did not fit into the perf buffer
        lost = max(reader.lost_kernel - stats["sessions_dropped"], 0)
        if reader.why_lost:
            self.warn(reader.why_lost)
        # sessions of ended threads: either they began late, or no program saw the exit. So far only
        # a missed return keeps a session open (task.bpf.h)
        unexplained = min(stats["sessions_died"], loaded.unseen_exits())
        mine = {
            "sessions_died": stats["sessions_died"] - unexplained,
            "sessions_abandoned": stats["sessions_abandoned"] + unexplained,
            "forks_unseen": loaded.unseen_forks(),
            "lost_kernel": lost,
            "lost_memory": reader.lost_memory,
            "discarded_late" if is_late else "discarded": discarded,
        }
        self._pipeline.finish({**stats, **mine}, self._warnings, counts)

    def _warnings(self) -> list[str]:
        """Return the warnings about files with symbols."""
        return [*self._target.image_warnings, *(self._users.warnings if self._users else ())]


@contextmanager
def open_stream(  # noqa: PLR0913 - all that a run has comes together here
    settings: Settings,
    target: Target,
    mechanism: str,
    loaded: LoadedObject,
    recorder: WholeRecorder | None,
    make_sink: SinkMaker,
    origins: Origins | None = None,
    accept: Callable[[Session], bool] | None = None,
) -> Iterator[Stream]:
    """Open the stream of a run with attached functions; ``mechanism`` is its description."""
    with ExitStack() as stack:
        target.facts.kallsyms.outdate()  # the symbols now include our own programs
        header = _stream_header(settings, target, mechanism, loaded)
        symbolizer = stack.enter_context(target.symbolizer())
        if recorder is not None:
            recorder.start(header)
        users = stack.enter_context(_users(settings)) if settings.views.user_stack else None
        if users is not None and users.child is not None and not settings.trace_self:
            loaded.spare(users.child)
        sink = make_sink(header, settings)
        pipeline = Pipeline(header, settings, symbolizer, sink, recorder, users, origins, accept)
        yield Stream(header, pipeline, target, users)


def _users(settings: Settings) -> ProcessSymbolizer:
    from retsnoop_py.symbolize.user import ProcessSymbolizer

    return ProcessSymbolizer(lines=settings.symbolize is not SymbolizeMode.NONE)


def _stream_header(
    settings: Settings, target: Target, mechanism: str, loaded: LoadedObject
) -> StreamHeader:
    kernel = target.facts
    functions = target.selection.functions
    return StreamHeader(
        functions=functions,
        layouts=loaded.types.layouts,
        realtime_offset_ns=realtime_offset_ns(),
        utc_offset_s=utc_offset_s(),
        release=kernel.release,
        machine=kernel.machine,
        build_id=kernel.build_id,
        stext=kernel.kallsyms.address_of("_stext") or 0,
        kaslr_offset=target.kaslr_offset,
        modules=_module_facts(functions, target),
        mechanism=mechanism,
        tool_version=retsnoop_py.__version__,
        command=settings.command,
        filters=settings.filters,
        stacks=settings.stacks,
        views=settings.views,
        args=settings.args,
        probes=tuple(probe.label for probe in target.probes),
        arguments=target.captures.facts if target.captures else None,
        bpf=settings.bpf,
        symbolize=target.symbolize,
        paths=settings.paths or (("*",) if settings.pinpoint else ()),
    )


def _module_facts(functions: Sequence[Function], target: Target) -> tuple[ModuleFacts, ...]:
    names = dict.fromkeys(filter(None, FunctionTable.of(functions).modules))
    return tuple(
        ModuleFacts(name=name, build_id=target.facts.module_build_id(name)) for name in names
    )
