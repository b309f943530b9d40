# SPDX-License-Identifier: BSD-2-Clause
"""What is written of a session: an object, or a block of sections in retsnoop's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, TextIO

from retsnoop_py.render.block import BlockRenderer, Section
from retsnoop_py.render.clock import Clock
from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import OutputFormat, Settings, SymbolizeMode

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
    views = settings.views
    palette = Palette.of(out) if out is not None else Palette()
    marks = Marks.of(out, ascii_only=views.ascii)
    mode = header.symbolize if settings.symbolize is SymbolizeMode.AUTO else settings.symbolize
    sections: list[Section] = []
    arguments = _arguments(header, settings, marks)
    origins = _origins(header, settings, palette)
    if views.call_trace:
        from retsnoop_py.render.calls import CallsSection

        sections.append(CallsSection(header, views, palette, marks, arguments, origins))
    if views.lbr is not None:
        from retsnoop_py.render.lbr import BranchSection

        sections.append(BranchSection(settings.stacks, mode, palette))
    if views.call_stack:
        from retsnoop_py.render.stack import StackSection

        sections.append(StackSection(settings.stacks, mode, palette, marks, arguments, origins))
    if views.user_stack:
        from retsnoop_py.render.user_stack import UserStackSection, user_mode

        sections.append(UserStackSection(settings.stacks, user_mode(header, settings), palette))
    clock = Clock(header.realtime_offset_ns, header.utc_offset_s)
    return BlockRenderer(sections, header.bpf, clock, palette)


def _origins(header: StreamHeader, settings: Settings, palette: Palette) -> OriginRows | None:
    if not header.paths:
        return None
    from retsnoop_py.render.origin import OriginRows
    from retsnoop_py.symbolize.paths import SourceTree

    return OriginRows(header.functions, palette, SourceTree(settings.source, header.release))


def _arguments(header: StreamHeader, settings: Settings, marks: Marks) -> ArgumentRows | None:
    if not settings.args.capture or header.arguments is None:
        return None
    from retsnoop_py.render.args.rows import ArgumentRows

    return ArgumentRows(header, settings.args, marks)
