# SPDX-License-Identifier: BSD-2-Clause
"""The call stack view.

A row is marks, duration, result, symbol and source::

       73us [-ENOMEM]  __x64_sys_bpf+0x1a  (kernel/bpf/syscall.c:5067)
    !⌇  2us [NULL]     bpf_map_alloc_percpu

``!`` marks a call without a kernel frame, ``⌇`` one stitched from an earlier chain of failures.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.result import UNFINISHED, format_result
from retsnoop_py.render.text import display_width, pad, printable
from retsnoop_py.session.model import Call, StackRow
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows

_MIN_DURATION = 5
#: Marks and a blank.
_BEFORE_DURATION = 3
#: The width of `` %016x ``, the address before a symbol.
_ADDRESS = 18


class _Row(NamedTuple):
    marks: str
    duration: str
    result: str
    symbol: str
    source: str
    failed: bool = False
    call: Call | None = None


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
        arguments: ArgumentRows | None = None,
    ) -> None:
        self._settings = stacks
        self._arguments = arguments
        self._symbolize = symbolize
        self._palette = palette
        self._marks = marks
        self._indent = " " * _ADDRESS if stacks.emit_addrs else ""
        self._places: dict[tuple[int, bool], tuple[Resolved, _Place]] = {}

    def lines(self, report: Report) -> list[str]:
        """The merged stack, outermost call first; no line ends in blanks."""
        rows = [cells for row in report.stack for cells in self._cells(row)]
        if self._arguments is None:
            return [line.rstrip() for line in self._columns(rows)]
        return self._with_arguments(report, rows, self._arguments)

    def _with_arguments(
        self, report: Report, rows: Sequence[_Row], arguments: ArgumentRows
    ) -> list[str]:
        """The rows, and on them or below what the calls were given."""
        source = max((display_width(row.source) for row in rows), default=0)
        if arguments.on_row:
            rows = [row._replace(source=pad(row.source, source)) for row in rows]
        indent = _BEFORE_DURATION + _duration_width(rows) + 1
        lines: list[str] = []
        for row, line in zip(rows, self._columns(rows), strict=True):
            event = None if row.call is None else arguments.of_call(row.call)
            if arguments.on_row:
                lines.append(arguments.behind(report.session, event, line))
            else:
                lines += (line.rstrip(), *arguments.below(report.session, event, indent))
        return lines

    def _columns(self, rows: Sequence[_Row]) -> Iterator[str]:
        if not rows:
            return
        duration = _duration_width(rows)
        result = max(len(row.result) for row in rows)
        symbol = max(display_width(row.symbol) for row in rows)
        if self._palette == Palette():
            for row in rows:
                yield (
                    f"{row.marks} {row.duration:>{duration}} {row.result:<{result}}"
                    f"  {pad(row.symbol, symbol)}  {row.source}"
                )
            return
        colours = self._palette
        for row in rows:
            yield (
                f"{paint(row.marks, colours.mark)} {row.duration:>{duration}}"
                f" {paint(f'{row.result:<{result}}', colours.error if row.failed else '')}"
                f"  {pad(row.symbol, symbol)}  {paint(row.source, colours.source)}"
            )

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
        yield _Row(marks, duration, result, symbol, source, failed, call)
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


def _duration_width(rows: Sequence[_Row]) -> int:
    return max(_MIN_DURATION, *(len(row.duration) for row in rows))


def _source(source: SourceFrame, name: str = "") -> str:
    """``(path:line)``, after ``name @ `` if one is given; as much of it as is known."""
    if source.file is None:
        return f"({name})" if name else ""
    line = f":{source.line}" if source.line else ""
    return f"({name}{' @ ' if name else ''}{printable(source.file)}{line})"
