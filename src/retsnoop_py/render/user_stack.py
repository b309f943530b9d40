# SPDX-License-Identifier: BSD-2-Clause
"""The program's own stack, down to the call into the kernel.

::

    User stack:
        main+0x3f   (loader.c:10)  /usr/bin/loader
        bpf+0x1d                   /usr/lib/x86_64-linux-gnu/libbpf.so.1
"""

from __future__ import annotations

from collections.abc import Iterator

from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.places import Places
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings, StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.text import display_width, pad, printable

_TITLE = "User stack:"
_INDENT = "    "


class UserStackSection:
    """Writes user stacks as text, outermost function first."""

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, palette: Palette) -> None:
        self._places = Places(stacks, symbolize, lead="")
        self._palette = palette

    def lines(self, report: Report) -> list[str]:
        """The stack; nothing if there is none."""
        rows = [cells for frame in report.user_stack for cells in self._cells(frame)]
        if not rows:
            return []
        symbol, source = (max(display_width(row[column]) for row in rows) for column in (0, 1))
        return [_TITLE, *(self._line(row, symbol, source) for row in rows)]

    def _cells(self, frame: Resolved) -> Iterator[tuple[str, str, str]]:
        place = self._places.of(frame)
        yield place.symbol, place.source, printable(frame.module or "")
        for symbol, source in place.inlined:
            yield symbol, source, ""

    def _line(self, row: tuple[str, str, str], symbol: int, source: int) -> str:
        painted = paint(row[1], self._palette.source) + " " * (source - display_width(row[1]))
        gap = "  " if source else ""
        return f"{_INDENT}{pad(row[0], symbol)}  {painted}{gap}{row[2]}".rstrip()


def user_mode(header: StreamHeader, settings: Settings) -> SymbolizeMode:
    """Programs may have source lines where the kernel has none, and the run could do no other."""
    mode = settings.symbolize
    if mode is SymbolizeMode.AUTO or (mode is header.symbolize is SymbolizeMode.NONE):
        return SymbolizeMode.INLINES
    return mode
