# SPDX-License-Identifier: BSD-2-Clause
"""The call stack view.

A row is marks, duration, result, symbol and source::

       73us [-ENOMEM]  __x64_sys_bpf+0x1a  (kernel/bpf/syscall.c:5067)
    !⌇  2us [NULL]     bpf_map_alloc_percpu

``!`` marks a call without a kernel frame, ``⌇`` one stitched from an earlier chain of failures,
``↯`` one that an interrupt made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.places import Places
from retsnoop_py.render.result import UNFINISHED, format_result
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import Call, Session
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stacks import ShapeRow, Stack, StackShape
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.text import display_width, pad, printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows

_MIN_DURATION = 5
#: Marks and a blank.
_BEFORE_DURATION = 3
_RUNNING = "..."
#: Sheets with so many rows together are kept; tables of a sheet that differ in their widths, and
#: results, each forgotten together.
_ROOM = 1 << 16
_MAX_TABLES = 16
_MAX_RESULTS = 1 << 14


class _Row(NamedTuple):
    """The cells of a row that all stacks of a shape share; ``call`` is the position of its call."""

    marks: str
    symbol: str
    source: str
    call: int | None = None


class _Sheet:
    """The rows of the stacks of one shape, put together but for times and results.

    ``calls`` has the position of each row's call, ``finished`` those of calls that have returned.
    ``padded``: the rows are all of one width.
    """

    def __init__(
        self,
        shape: StackShape,
        rows: Sequence[_Row],
        palette: Palette,
        *,
        padded: bool,
    ) -> None:
        self.shape = shape
        self.calls = [row.call for row in rows]
        called = [call for call in self.calls if call is not None]
        self.finished = [call for call in called if shape.calls[call].finished]
        self.has_running = len(self.finished) < len(called)
        self._rows = rows
        self._palette = palette
        self._symbol = max(display_width(row.symbol) for row in rows)
        self._padded = padded
        self._source = max(display_width(row.source) for row in rows)
        self._tables: dict[tuple[int, int], str] = {}

    def text(self, duration: int, result: int, cells: Sequence[int | str]) -> str:
        """The rows in columns of these widths, with time and result of each finished call."""
        table = self._tables.get((duration, result))
        if table is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            rows = [self._line(row, duration, result) for row in self._rows]
            table = self._tables[duration, result] = "\n".join(rows)
        return table % tuple(cells)

    def _line(self, row: _Row, duration: int, result: int) -> str:
        time, told = " " * duration, " " * result
        if row.call is not None and self.shape.calls[row.call].finished:
            time, told = f"%{duration - 2}dus", f"%-{result}s"
        elif row.call is not None:
            time, told = _RUNNING.rjust(duration), UNFINISHED.ljust(result)
        source = pad(row.source, self._source) if self._padded else row.source
        symbol = pad(row.symbol, self._symbol).replace("%", "%%")
        line = (
            f"{paint(row.marks, self._palette.mark)} {time} {told}"
            f"  {symbol}  {paint(source, self._palette.source).replace('%', '%%')}"
        )
        return line if self._padded else line.rstrip()


class StackSection:
    """Writes stacks as text. ``symbolize`` is what the run could do, never ``AUTO``."""

    def __init__(
        self,
        stacks: StackSettings,
        symbolize: SymbolizeMode,
        palette: Palette,
        marks: Marks,
        arguments: ArgumentRows | None = None,
        origins: OriginRows | None = None,
    ) -> None:
        self._places = Places(stacks, symbolize)
        self._origins = origins
        self._arguments = arguments
        self._palette = palette
        self._marks = marks
        self._sheets: BoundedCache[StackShape, _Sheet] = BoundedCache(_ROOM)
        self._results: dict[tuple[int, int], str] = {}

    def lines(self, report: Report) -> list[str]:
        """The merged stack, outermost call first; no line ends in blanks."""
        stack = report.stack
        if stack is None or not stack.shape.rows:
            return []
        sheet = self._sheets.get(stack.shape) or self._sheet(stack.shape)
        calls = [stack.calls[position] for position in sheet.finished]
        longest, width = 0, len(UNFINISHED) if sheet.has_running else 0
        cells: list[int | str] = []
        written = self._results
        for call in calls:
            time = call.latency_ns // 1000
            result = written.get((call.func_id, call.result)) or self._result(call)
            if longest < time:  # noqa: PLR1730 - max() takes longer
                longest = time
            if width < len(result):  # noqa: PLR1730
                width = len(result)
            cells += (time, result)
        duration = max(_MIN_DURATION, len(str(longest)) + len("us"))
        if self._palette.error:
            cells[1::2] = [self._painted(call, self._result(call), width) for call in calls]
        text = sheet.text(duration, width, cells)
        if self._arguments is None and not report.paths:
            return [text]
        rows = [[line] for line in text.split("\n")]
        if self._arguments is not None:
            rows = self._with_arguments(report.session, stack, rows, duration)
        if report.paths and self._origins is not None:
            self._add_origins(report, stack, rows, duration)
        return [line for lines in rows for line in lines]

    def _add_origins(
        self, report: Report, stack: Stack, rows: Sequence[list[str]], duration: int
    ) -> None:
        """Below each call what its way says."""
        assert self._origins is not None
        indent = _BEFORE_DURATION + duration + 1
        for position, lines in zip(self._sheet(stack.shape).calls, rows, strict=True):
            if position is not None:
                view = report.paths.get(stack.calls[position].seq)
                lines.extend(self._origins.below(view, indent))

    def _with_arguments(
        self, session: Session, stack: Stack, rows: Sequence[list[str]], duration: int
    ) -> list[list[str]]:
        """The rows, and on them or below what the calls were given."""
        arguments = self._arguments
        assert arguments is not None
        indent = _BEFORE_DURATION + duration + 1
        found: list[list[str]] = []
        for position, (line,) in zip(self._sheet(stack.shape).calls, rows, strict=True):
            event = None if position is None else arguments.of_call(stack.calls[position])
            if arguments.on_row:
                found.append([arguments.behind(session, event, line)])
            else:
                found.append([line, *arguments.below(session, event, indent)])
        return found

    def _painted(self, call: Call, text: str, width: int) -> str:
        failed = error_of(call.function, call.result) is not None
        return paint(text.ljust(width), self._palette.error) if failed else text

    def _sheet(self, shape: StackShape) -> _Sheet:
        known = self._sheets.get(shape)
        if known is None:
            rows = [cells for row in shape.rows for cells in self._cells(shape, row)]
            padded = self._arguments is not None and self._arguments.on_row
            known = _Sheet(shape, rows, self._palette, padded=padded)
            self._sheets.keep(shape, known, len(rows))
        return known

    def _result(self, call: Call) -> str:
        key = call.func_id, call.result
        text = self._results.get(key)
        if text is None:
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            text = self._results[key] = format_result(call.function, call.result)
        return text

    def _cells(self, shape: StackShape, row: ShapeRow) -> Iterator[_Row]:
        """A row's cells and those of a row for each function inlined in it."""
        marks, call = "  ", None if row.call is None else shape.calls[row.call]
        if call is not None:
            marks = ("!" if row.frame is None else " ") + (
                self._marks.stitched
                if call.stitched
                else self._marks.interrupt
                if call.interrupt
                else " "
            )
        if row.frame is not None:
            symbol, source, inlined = self._places.of(row.frame, is_hidden=row.hidden)
        else:
            assert call is not None
            symbol, source, inlined = self._places.indent + printable(call.function.name), "", ()
        yield _Row(marks, symbol, source, row.call)
        for symbol, source in inlined:
            yield _Row("  ", symbol, source)
