# SPDX-License-Identifier: BSD-2-Clause
"""The branches the CPU took last (LBR).

The oldest comes first, the newest is number 0::

[#07] _copy_from_user+0x2f (lib/usercopy.c:21)  ->  __sys_bpf+0xcc (kernel/bpf/syscall.c:4620)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import NamedTuple

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.places import Place, Places
from retsnoop_py.session.report import BranchRow, Report
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.text import display_width, pad

_LOST = "LBR data was dropped and is missing in this sample!"
_IRRELEVANT = "[LBR] No relevant LBR data were captured, showing unfiltered LBR stack!"
_NOTHING = ("", "")


class _Line(NamedTuple):
    """The cells of one line: a branch, or what is inlined at its ends."""

    number: str
    source: tuple[str, str]
    arrow: str
    target: tuple[str, str]


class BranchSection:
    """Writes branches as text. ``symbolize`` is what the run could do, never ``AUTO``."""

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, palette: Palette) -> None:
        self._places = Places(stacks, symbolize, lead="")
        self._palette = palette

    def lines(self, report: Report) -> list[str]:
        """The branches; or why there are none."""
        view = report.branches
        if view is None:
            return []
        if view.lost:
            return [paint(_LOST, self._palette.warning)]
        if view.error:
            name = ERRNO_NAMES.get(view.error)
            known = f" ({name})" if name else ""
            return [f"Failed to capture LBR entries: -{view.error}{known}"]
        lines = list(self._columns([line for row in view.rows for line in self._cells(row)]))
        return lines if view.relevant else [*lines, _IRRELEVANT]

    def _cells(self, row: BranchRow) -> Iterator[_Line]:
        number, arrow = f"[#{row.number:02}] ", "->"
        ends = (_levels(self._places.of(end)) for end in (row.source, row.target))
        for source, target in zip_longest(*ends, fillvalue=_NOTHING):
            yield _Line(number, source, arrow, target)
            number, arrow = " " * len(number), "  "

    def _columns(self, lines: Sequence[_Line]) -> Iterator[str]:
        widths = [
            max((display_width(cell) for cell in column), default=0)
            for column in zip(*((*line.source, *line.target) for line in lines), strict=True)
        ]
        for line in lines:
            source, target = line.source, line.target
            yield (
                f"{line.number}{pad(source[0], widths[0])} {self._source(source[1], widths[1])}"
                f"  {line.arrow}  {pad(target[0], widths[2])} {self._source(target[1], 0)}"
            ).rstrip()

    def _source(self, text: str, width: int) -> str:
        return paint(text, self._palette.source) + " " * max(width - display_width(text), 0)


def _levels(place: Place) -> list[tuple[str, str]]:
    """The lines of one end of a branch: where it is, and what is inlined there."""
    return [(place.symbol, place.source), *place.inlined]
