# SPDX-License-Identifier: BSD-2-Clause
"""Renderers of a session: a JSON object, or a block of sections in retsnoop's format.

A block has a header, an empty line before each section, and warnings::

    12:31:43.934858 -> 12:31:43.935952 TID/PID 250/250 (simfail/simfail):

For a process in a container: ``TID/PID 250/250 (7/7 in its PID namespace) (simfail/simfail):``
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from retsnoop_py.errors import OutputError
from retsnoop_py.kernel.functions import Function
from retsnoop_py.render.formats import format_result, message_lines, user_mode
from retsnoop_py.render.identical import IdenticalStacks
from retsnoop_py.render.palette import Glyphs, Palette, paint
from retsnoop_py.session.counts import Counts
from retsnoop_py.session.losses import may_warn, session_warnings
from retsnoop_py.session.model import Session
from retsnoop_py.session.report import Report, TextWriter, Written
from retsnoop_py.session.stream_header import NS, Clock, StreamHeader, SymbolicClock
from retsnoop_py.settings import BpfSettings, OutputFormat, Settings, SymbolizeMode
from retsnoop_py.symbolize.paths import SourceTree
from retsnoop_py.terminal import folded, takes_more, terminal_width
from retsnoop_py.text import printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows


class Section(Protocol):
    """A view of a session: call trace, branches, call stack."""

    def lines(self, report: Report) -> Iterable[str]:
        """Return its lines, none of which ends in blanks; without lines the view is omitted."""
        ...

    def template(self, report: Report) -> Iterable[str] | None:
        """Return the template of a symbolic report (:mod:`~.session.repeats`), None if none."""
        ...


class MessageSection:
    """Writes messages of the kernel in lines of at most ``columns``; 0: no limit."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def lines(self, report: Report) -> list[str]:
        """Return the lines of the messages."""
        said = report.session.said
        return list(message_lines(said, 0, self._columns)) if said else []

    template = lines


class ExplanationSection:
    """Writes why the system call failed, in lines of at most ``columns``; 0: no limit."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def lines(self, report: Report) -> list[str]:
        """Return the first paragraph of what ``why`` answers."""
        from retsnoop_py.render.why import answer_lines, failure_text

        why = report.explained
        if why is None:
            return []
        failure = failure_text(report.session.proc_comm, why.what, why.error)
        text, advice = (why.reason.text, why.reason.advice) if why.reason else ("", ())
        return list(answer_lines(failure, text, advice, self._columns))

    def template(self, report: Report) -> list[str] | None:  # noqa: ARG002
        """Return None: two calls need not have the same reason."""
        return None


class BlockRenderer:
    """Write sessions as blocks of ``sections``, in their order.

    ``columns``: the window's columns, to which rows are folded; 0: no folding.
    """

    def __init__(
        self,
        sections: Sequence[Section],
        bpf: BpfSettings,
        clock: Clock,
        palette: Palette,
        functions: Sequence[Function],
        columns: int = 0,
    ) -> None:
        self._columns = columns
        self._sections = sections
        self._bpf = bpf
        self._clock = clock
        self._palette = palette
        self._functions = functions
        self.clock_ns = clock.realtime_offset_ns

    def session(self, report: Report) -> str:
        """Return a session, followed by two empty lines."""
        lines = [self._header(report.session, self._clock)]
        for section in self._sections:
            shown = section.lines(report)
            if shown:
                lines.append("")
                lines += shown
        if may_warn(report.session):
            lines += [
                paint(printable(warning), self._palette.warning)
                for warning in session_warnings(report.session, self._bpf)
            ]
        lines += ("", "", "")
        text = "\n".join(lines)
        return folded(text, self._columns) if self._columns else text

    def summary(self, lost: Mapping[str, int], warnings: Sequence[str]) -> str:  # noqa: ARG002
        """Return an empty text, because text output has its summary on stderr."""
        return ""

    def template(self, report: Report) -> str | None:
        """See :class:`~.report.TextWriter`."""
        from retsnoop_py.session.repeats import symbolic

        if (
            self._columns
            or self._palette != Palette()
            or report.paths
            or "\0" in self.session(report)
        ):
            return None
        report = symbolic(report)
        lines = [self._header(report.session, SymbolicClock(0, 0))]
        for section in self._sections:
            shown = section.template(report)
            if shown is None:
                return None
            lines += ["", *shown] if shown else []
        return "\n".join((*lines, "", "", ""))

    def word(self, function: int, value: int) -> str:
        """See :class:`~.report.TextWriter`."""
        if function >= 0:
            return format_result(self._functions[function], value)
        return self._clock.time_of_day(value * NS - self.clock_ns).split(".")[0]

    def repeated(self, times: int) -> None:
        """See :class:`~.report.TextWriter`."""

    def _header(self, session: Session, clock: Clock) -> str:
        time_of = clock.time_of_day
        who = session.tid, session.tgid, session.ns_tid, session.ns_tgid
        task = _task(*who, session.task_comm, session.proc_comm)
        return f"{time_of(session.start_ns)} -> {time_of(session.emit_ns)} TID/PID {task}:"


@lru_cache(maxsize=1024)
def _task(tid: int, tgid: int, ns_tid: int, ns_tgid: int, comm: str, proc_comm: str) -> str:
    inside = ""
    if ns_tid and (ns_tid, ns_tgid) != (tid, tgid):
        inside = f" ({ns_tid}/{ns_tgid} in its PID namespace)"
    return f"{tid}/{tgid}{inside} ({printable(comm)}/{printable(proc_comm)})"


class Renderer(TextWriter, Protocol):
    """Write the sessions of a stream in some format."""

    def summary(self, lost: Mapping[str, int], warnings: Sequence[str]) -> str:
        """Write the end: loss counters by name, and the messages of stderr."""
        ...


def renderer(header: StreamHeader, settings: Settings, out: TextIO | None = None) -> Renderer:
    """Return the renderer for ``settings``, for the stream ``out`` or for plain text."""
    if settings.views.format is OutputFormat.JSON:
        from retsnoop_py.render.jsonl import JsonRenderer

        return JsonRenderer(header, settings, out)
    return _text_renderer(header, settings, out)


def _text_renderer(header: StreamHeader, settings: Settings, out: TextIO | None) -> BlockRenderer:
    from retsnoop_py.render.stack import BranchSection, StackSection, UserStackSection

    views = settings.views
    source = SourceTree(settings.source, header.release)
    palette = Palette.of(out).linking(source.root) if out is not None else Palette()
    glyphs = Glyphs.of(out, ascii_only=views.ascii)
    mode = header.symbolize if settings.symbolize is SymbolizeMode.AUTO else settings.symbolize
    sections: list[Section] = []
    arguments = _arguments(header, settings, glyphs)
    width = terminal_width(out) if out is not None else 0
    if views.explain:
        sections.append(ExplanationSection(width))
    origins = _origins(header, palette, source, width)
    if views.call_trace:
        from retsnoop_py.render.calls import CallsSection

        calls = CallsSection(header, views, palette, glyphs, arguments, origins, columns=width)
        sections.append(calls)
    if views.lbr is not None:
        sections.append(BranchSection(settings.stacks, mode, palette))
    if views.call_stack:
        shown = settings.stacks, mode, palette, glyphs, arguments, origins
        sections.append(StackSection(*shown, columns=width))
    if views.user_stack:
        sections.append(UserStackSection(settings.stacks, user_mode(header, settings), palette))
    sections.append(MessageSection(width))
    clock = Clock(header.realtime_offset_ns, header.utc_offset_s)
    return BlockRenderer(sections, header.bpf, clock, palette, header.functions, width)


def _origins(
    header: StreamHeader, palette: Palette, source: SourceTree, width: int
) -> OriginRows | None:
    if not header.paths:
        return None
    from retsnoop_py.render.origin import OriginRows

    return OriginRows(header.functions, palette, source, width)


def _arguments(header: StreamHeader, settings: Settings, glyphs: Glyphs) -> ArgumentRows | None:
    if not settings.args.capture or header.arguments is None:
        return None
    from retsnoop_py.render.args.rows import ArgumentRows

    return ArgumentRows(header, settings.args, glyphs)


class Printer:
    """Write sessions to ``out`` by ``settings``, and messages to ``err``.

    A :class:`~retsnoop_py.session.pipeline.Sink`. Raise OutputError if ``out`` cannot be written,
    BrokenPipeError if its reader has ended.
    """

    def __init__(self, header: StreamHeader, settings: Settings, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._renderer = renderer(header, settings, out)
        self._counts = settings.counts
        self._identical = IdenticalStacks.of(header, settings, out)
        self._said: list[str] = []
        #: True during a write: the text may be incomplete if the write is interrupted.
        self._is_writing = False

    def show(self, reports: Sequence[Report]) -> None:
        """Write the reports at once."""
        write = self._renderer.session if self._identical is None else self._unless_identical
        self._write_out("".join([write(report) for report in reports]))

    def _unless_identical(self, report: Report) -> str:
        assert self._identical is not None
        if self._identical.admits(report):
            return self._renderer.session(report)
        return self._identical.notice()

    @property
    def writer(self) -> TextWriter | None:
        """Return the writer of template text; its output goes to :meth:`show_text`."""
        return self._renderer if self._identical is None else None

    def show_text(self, written: Written) -> None:
        """Write sessions that are already text."""
        self._write_out(written.text)

    def say(self, line: str) -> None:
        """Write a line at once."""
        text = printable(line)
        self._said.append(text)
        _write(self._err, text + "\n")
        self._err.flush()

    def end(self, lost: Mapping[str, int]) -> None:
        """Write the table of counted stacks, or the last line of JSON."""
        if self._identical is not None:
            self._write_out("".join(self._identical.summary()))
        self._write_out(self._renderer.summary(lost, self._said))

    def conclude(self, counts: Counts) -> None:
        """Write the counts of calls."""
        if self._identical is not None:
            counts.repeated = self._identical.repeated
        if self._counts:
            _write(self._err, printable(counts.line()) + "\n")
            self._err.flush()

    def abandon(self) -> None:
        """Write nothing more if a write was interrupted, or the reader has ended."""
        if self._is_writing or not takes_more(self._out):
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())

    def _write_out(self, text: str) -> None:
        if not text:
            return
        self._is_writing = True
        try:
            _write(self._out, text)
            self._out.flush()
            self._is_writing = False
        except BrokenPipeError:
            raise
        except OSError as err:
            raise OutputError(
                f"the output could not be written: {err.strerror}",
                "free some space, or send the output elsewhere",
            ) from err


def _write(out: TextIO, text: str) -> None:
    try:
        out.write(text)
    except UnicodeEncodeError as err:
        out.write(text.encode(err.encoding, "backslashreplace").decode(err.encoding))
