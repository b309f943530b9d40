# SPDX-License-Identifier: BSD-2-Clause
"""What is written of a session, and where: an object, or a block of sections as retsnoop's are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TextIO

from retsnoop_py.errors import OutputError
from retsnoop_py.render.address_format import user_mode
from retsnoop_py.render.block import BlockRenderer, Clock, Section
from retsnoop_py.render.palette import Glyphs, Palette
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import OutputFormat, Settings, SymbolizeMode
from retsnoop_py.terminal import takes_more
from retsnoop_py.text import printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows


class Renderer(Protocol):
    """Writes the sessions of a stream in some format."""

    def session(self, report: Report) -> str:
        """One session, with its line's end."""
        ...

    def summary(self, lost: Mapping[str, int], warnings: Sequence[str]) -> str:
        """The end: counters of losses by name, and what was said on stderr."""
        ...


def renderer(header: StreamHeader, settings: Settings, out: TextIO | None = None) -> Renderer:
    """The renderer that ``settings`` ask for, for the stream ``out``, or for text as such."""
    if settings.views.format is OutputFormat.JSON:
        from retsnoop_py.render.jsonl import JsonRenderer

        return JsonRenderer(header, settings, out)
    return _text_renderer(header, settings, out)


def _text_renderer(header: StreamHeader, settings: Settings, out: TextIO | None) -> BlockRenderer:
    from retsnoop_py.render.stack import BranchSection, StackSection, UserStackSection

    views = settings.views
    palette = Palette.of(out) if out is not None else Palette()
    glyphs = Glyphs.of(out, ascii_only=views.ascii)
    mode = header.symbolize if settings.symbolize is SymbolizeMode.AUTO else settings.symbolize
    sections: list[Section] = []
    arguments = _arguments(header, settings, glyphs)
    origins = _origins(header, settings, palette)
    if views.call_trace:
        from retsnoop_py.render.calls import CallsSection

        sections.append(CallsSection(header, views, palette, glyphs, arguments, origins))
    if views.lbr is not None:
        sections.append(BranchSection(settings.stacks, mode, palette))
    if views.call_stack:
        sections.append(StackSection(settings.stacks, mode, palette, glyphs, arguments, origins))
    if views.user_stack:
        sections.append(UserStackSection(settings.stacks, user_mode(header, settings), palette))
    clock = Clock(header.realtime_offset_ns, header.utc_offset_s)
    return BlockRenderer(sections, header.bpf, clock, palette)


def _origins(header: StreamHeader, settings: Settings, palette: Palette) -> OriginRows | None:
    if not header.paths:
        return None
    from retsnoop_py.render.origin import OriginRows
    from retsnoop_py.symbolize.paths import SourceTree

    return OriginRows(header.functions, palette, SourceTree(settings.source, header.release))


def _arguments(header: StreamHeader, settings: Settings, glyphs: Glyphs) -> ArgumentRows | None:
    if not settings.args.capture or header.arguments is None:
        return None
    from retsnoop_py.render.args.rows import ArgumentRows

    return ArgumentRows(header, settings.args, glyphs)


class Printer:
    """Writes sessions to ``out`` as ``settings`` say, and lines for people to ``err``.

    A :class:`~retsnoop_py.session.pipeline.Sink`. Raises OutputError if ``out`` cannot be
    written, BrokenPipeError if nobody reads it any more.
    """

    def __init__(self, header: StreamHeader, settings: Settings, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._renderer = renderer(header, settings, out)
        self._said: list[str] = []
        #: Whether a text is being written: it may be cut where that was interrupted.
        self._is_writing = False

    def show(self, reports: Sequence[Report]) -> None:
        """Write them in one piece."""
        self._write_out("".join([self._renderer.session(report) for report in reports]))

    def say(self, line: str) -> None:
        """Write a line, at once."""
        text = printable(line)
        self._said.append(text)
        _write(self._err, text + "\n")
        self._err.flush()

    def end(self, lost: Mapping[str, int]) -> None:
        """Write the last line of JSON."""
        self._write_out(self._renderer.summary(lost, self._said))

    def abandon(self) -> None:
        """Where writing was cut short, or nobody reads what we write, write nothing more."""
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
