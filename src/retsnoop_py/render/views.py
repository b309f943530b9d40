# SPDX-License-Identifier: BSD-2-Clause
"""Which sections a block has, in the order of retsnoop: trace, branches, stacks."""

from __future__ import annotations

from typing import TextIO

from retsnoop_py.render.block import BlockRenderer, Section
from retsnoop_py.render.clock import Clock
from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette
from retsnoop_py.session.facts import StreamFacts
from retsnoop_py.settings import Settings, SymbolizeMode


def text_renderer(facts: StreamFacts, settings: Settings, out: TextIO) -> BlockRenderer:
    """Writes sessions of the stream as text for ``out``."""
    views = settings.views
    palette = Palette.of(out)
    marks = Marks.of(out, ascii_only=views.ascii)
    sections: list[Section] = []
    if views.call_trace:
        from retsnoop_py.render.calls import CallsSection

        sections.append(CallsSection(facts, views, palette, marks))
    if views.call_stack:
        from retsnoop_py.render.stack import StackSection

        mode = settings.symbolize
        if mode is SymbolizeMode.AUTO:
            mode = facts.symbolize
        sections.append(StackSection(settings.stacks, mode, palette, marks))
    clock = Clock(facts.realtime_offset_ns, facts.utc_offset_s)
    return BlockRenderer(sections, facts.bpf, clock, palette)
