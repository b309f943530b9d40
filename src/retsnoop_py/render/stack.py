# SPDX-License-Identifier: BSD-2-Clause
"""The call stack view.

A row is marks, duration, result, symbol and source::

       73us [-ENOMEM]  __x64_sys_bpf+0x1a  (kernel/bpf/syscall.c:5067)
    !⌇  2us [NULL]     bpf_map_alloc_percpu

``!`` marks a call without a kernel frame, ``⌇`` one stitched from an earlier chain of failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.result import UNFINISHED, format_result
from retsnoop_py.render.text import display_width, pad, printable
from retsnoop_py.session.model import StackRow
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

_MIN_DURATION = 5
#: The width of `` %016x ``, the address before a symbol.
_ADDRESS = 18


class _Row(NamedTuple):
    marks: str
    duration: str
    result: str
    symbol: str
    source: str
    failed: bool = False


class _Place(NamedTuple):
    """What a frame adds to its row, and the rows of what is inlined in it."""

    symbol: str
    source: str
    inlined: tuple[_Row, ...]


class StackSection:
    """Writes stacks as text. ``symbolize`` is what the run could do, never ``AUTO``."""

    def __init__(
        self,
        stacks: StackSettings,
        symbolize: SymbolizeMode,
        palette: Palette,
        marks: Marks,
    ) -> None:
        self._settings = stacks
        self._symbolize = symbolize
        self._palette = palette
        self._marks = marks
        self._indent = " " * _ADDRESS if stacks.emit_addrs else ""
        self._places: dict[tuple[int, bool], tuple[Resolved, _Place]] = {}

    def lines(self, report: Report) -> list[str]:
        """The merged stack, outermost call first; no line ends in blanks."""
        rows = [cells for row in report.stack for cells in self._cells(row)]
        return list(self._columns(rows))

    def _columns(self, rows: Sequence[_Row]) -> Iterator[str]:
        if not rows:
            return
        duration = max(_MIN_DURATION, *(len(row.duration) for row in rows))
        result = max(len(row.result) for row in rows)
        symbol = max(display_width(row.symbol) for row in rows)
        if self._palette == Palette():
            for row in rows:
                yield (
                    f"{row.marks} {row.duration:>{duration}} {row.result:<{result}}"
                    f"  {pad(row.symbol, symbol)}  {row.source}"
                ).rstrip()
            return
        colours = self._palette
        for row in rows:
            yield (
                f"{paint(row.marks, colours.mark)} {row.duration:>{duration}}"
                f" {paint(f'{row.result:<{result}}', colours.error if row.failed else '')}"
                f"  {pad(row.symbol, symbol)}  {paint(row.source, colours.source)}"
            ).rstrip()

    def _cells(self, row: StackRow) -> Iterator[_Row]:
        """A row's line and one line for each function inlined in it."""
        call, frame = row.call, row.frame
        marks, duration, result, failed = "  ", "", "", False
        if call is not None:
            marks = ("!" if frame is None else " ") + (
                self._marks.stitched if call.stitched else " "
            )
            duration, result = "...", UNFINISHED
            if call.finished:
                duration = f"{call.latency_ns // 1000}us"
                result = format_result(call.function, call.result)
                failed = bool(self._palette.error) and (
                    error_of(call.function, call.result) is not None
                )
        if frame is not None:
            symbol, source, inlined = self._known_place(frame, row.hidden)
        else:
            assert call is not None
            symbol, source, inlined = self._indent + printable(call.function.name), "", ()
        yield _Row(marks, duration, result, symbol, source, failed)
        yield from inlined

    def _known_place(self, frame: Resolved, is_hidden: bool) -> _Place:
        """:meth:`_place`, worked out once: the same frames come back in most stacks."""
        known = self._places.get((id(frame), is_hidden))
        if known is None:
            # The frame is kept, so that its id stays its own.
            known = frame, self._place(frame, is_hidden)
            self._places[id(frame), is_hidden] = known
        return known[1]

    def _place(self, frame: Resolved, is_hidden: bool) -> _Place:
        chain = () if is_hidden else source_chain(frame, self._symbolize)
        source = ""
        if chain:
            name = chain[0].function
            source = _source(chain[0], "" if name == frame.name else printable(name))
        inlined = tuple(
            _Row("  ", "", "", f"{self._indent}. {printable(level.function)}", _source(level))
            for level in chain[1:]
        )
        return _Place(self._symbol(frame, is_hidden), source, inlined)

    def _symbol(self, frame: Resolved, is_hidden: bool) -> str:
        if frame.name is None:
            text = f"{frame.address:#x}"
        elif self._settings.dec_offs:
            text = f"{printable(frame.name)}+{frame.offset}"
        else:
            text = f"{printable(frame.name)}+{frame.offset:#x}"
        if not self._settings.emit_addrs:
            return text
        return f"{'~' if is_hidden else ' '}{frame.address:016x} {text}"


def source_chain(frame: Resolved, mode: SymbolizeMode) -> Sequence[SourceFrame]:
    """What to show of DWARF's chain: without inlined functions only the line itself."""
    if mode is SymbolizeMode.NONE:
        return ()
    return frame.frames[-1:] if mode is SymbolizeMode.LINES else frame.frames


def _source(source: SourceFrame, name: str = "") -> str:
    """``(path:line)``, after ``name @ `` if one is given; as much of it as is known."""
    if source.file is None:
        return f"({name})" if name else ""
    line = f":{source.line}" if source.line else ""
    return f"({name}{' @ ' if name else ''}{printable(source.file)}{line})"
