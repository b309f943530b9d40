# SPDX-License-Identifier: BSD-2-Clause
"""Stacks as text: the calls and kernel frames, the user stack, the last branches.

A row of the call stack has marks, duration, result, symbol and source::

       73us [-ENOMEM]  __x64_sys_bpf+0x1a  (kernel/bpf/syscall.c:5067)
    !⌇  2us [NULL]     bpf_map_alloc_percpu

``!`` marks the innermost call if it has no kernel frame: this call had already returned its error,
so it is the place to look at. ``⌇`` marks a call stitched from an earlier chain of failures, ``↯``
a call in an interrupt.

The user stack ends with the call into the kernel::

    User stack:
        main+0x3f   (loader.c:10)  /usr/bin/loader
        bpf+0x1d                   /usr/lib/x86_64-linux-gnu/libbpf.so.1

The last branches of the CPU (LBR) are printed oldest first; the newest has number 0::

    [#07] _copy_from_user+0x2f (lib/usercopy.c:21)  ->  __sys_bpf+0xcc (kernel/bpf/syscall.c)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.render.formats import UNFINISHED, AddressFormat, AddressText, format_result
from retsnoop_py.render.palette import Glyphs, Palette, paint
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import Call, Session
from retsnoop_py.session.report import BranchRow, Report
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stacks import ShapeRow, Stack, StackShape
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.text import display_width, pad, printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows


_MIN_DURATION = 5
#: The columns of a template (:mod:`retsnoop_py.session.repeats`), after those of the call trace.
_TIMES, _RESULTS = 4, 5
#: Width of the glyphs and a blank.
_BEFORE_DURATION = 3
_RUNNING = "..."
#: Marks a line end within a row. No symbol contains it, because printable() escapes it.
_BREAK = "\v"
#: If a window has less room for symbols, sources are printed below, indented by this number.
_LEAST_SYMBOL, _NARROW_INDENT = 16, 4
#: Limits of caches: rows of all tables; texts per table with different widths; results. The texts
#: of a table, and the results, are dropped together.
_ROOM = 1 << 16
_MAX_TABLES = 16
_MAX_RESULTS = 1 << 14


class _Row(NamedTuple):
    """The cells of a row that all stacks of a shape share; ``call``: index of its call."""

    marks: str
    symbol: str
    source: str
    call: int | None = None


class _StackTable:
    """The rows of all stacks with the same shape, complete except for times and results.

    ``calls`` has the position of each row's call, ``finished`` the positions of returned calls.
    ``padded``: all rows have the same width.
    """

    def __init__(
        self,
        shape: StackShape,
        rows: Sequence[_Row],
        palette: Palette,
        *,
        padded: bool,
        columns: int = 0,
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
        self._columns = columns
        self._tables: dict[tuple[int, int], str] = {}

    def text(self, duration: int, result: int, cells: Sequence[int | str]) -> str:
        """Return the rows; ``duration`` and ``result`` are the widths of their columns."""
        table = self._tables.get((duration, result))
        if table is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            rows = [self._line(row, duration, result) for row in self._rows]
            table = self._tables[duration, result] = "\n".join(rows)
        return table % tuple(cells)

    def template(self, calls: Sequence[Call]) -> list[str]:
        """Return the rows with symbolic calls."""
        from retsnoop_py.session.repeats import Kind, placeholder

        lines = []
        for row in self._rows:
            call = None if row.call is None else calls[row.call]
            if call is not None and call.finished:
                time = placeholder(Kind.US, call.latency_ns, column=_TIMES)
                told = placeholder(
                    Kind.RESULT, call.result, column=_RESULTS, left=True, function=call.func_id
                )
            else:
                words = ("", "") if call is None else (_RUNNING, UNFINISHED)
                time = placeholder(Kind.TEXT, words[0], column=_TIMES)
                told = placeholder(Kind.TEXT, words[1], column=_RESULTS, left=True)
            lines.append(self._row(row, time, told, 0).replace("%%", "%"))
        return [placeholder(Kind.WIDEN, _MIN_DURATION, column=_TIMES) + lines[0], *lines[1:]]

    def _line(self, row: _Row, duration: int, result: int) -> str:
        time, told = " " * duration, " " * result
        if row.call is not None and self.shape.calls[row.call].finished:
            time, told = f"%{duration - 2}dus", f"%-{result}s"
        elif row.call is not None:
            time, told = _RUNNING.rjust(duration), UNFINISHED.ljust(result)
        return self._row(row, time, told, _BEFORE_DURATION + duration + 1 + result + 2)

    def _row(self, row: _Row, time: str, told: str, before: int) -> str:
        source = pad(row.source, self._source) if self._padded else row.source
        symbol = (row.symbol + self._gap(row, before)).replace("%", "%%")
        line = (
            f"{paint(row.marks, self._palette.mark)} {time} {told}"
            f"  {symbol}{self._palette.place(source).replace('%', '%%')}"
        )
        return line if self._padded else line.rstrip()

    def _gap(self, row: _Row, before: int) -> str:
        """Return the space between a row's symbol and its source.

        The sources form a column. In a narrow window, the column starts early enough for the
        longest source. The source of a longer symbol is printed after the symbol or below it.
        """
        wide, column = display_width(row.symbol), self._symbol
        room = self._columns - before - len("  ")
        if not self._columns or column + self._source <= room:
            return " " * (column - wide + 2)
        column = max(room - self._source, 0)
        own = display_width(row.source)
        if not own or max(column, wide) + own <= room:
            return " " * (max(column - wide, 0) + 2)
        if column < _LEAST_SYMBOL:
            column = _NARROW_INDENT
        return _BREAK + " " * min(before + column + 2, max(self._columns - own, 0))


class StackSection:
    """Writes stacks as text. ``symbolize`` is the mode that the run used, never ``AUTO``.

    ``columns``: the maximum width of rows, if possible; 0: no limit.
    """

    def __init__(  # noqa: PLR0913
        self,
        stacks: StackSettings,
        symbolize: SymbolizeMode,
        palette: Palette,
        glyphs: Glyphs,
        arguments: ArgumentRows | None = None,
        origins: OriginRows | None = None,
        *,
        columns: int = 0,
    ) -> None:
        self._columns = columns
        self._addresses = AddressFormat(stacks, symbolize)
        self._origins = origins
        self._arguments = arguments
        self._palette = palette
        self._glyphs = glyphs
        self._tables: BoundedCache[StackShape, _StackTable] = BoundedCache(_ROOM)
        self._results: dict[tuple[int, int], str] = {}

    def lines(self, report: Report) -> list[str]:
        """Return the merged stack, outermost call first; no line ends in blanks."""
        stack = report.stack
        if stack is None or not stack.shape.rows:
            return []
        table = self._tables.get(stack.shape) or self._table(stack.shape)
        calls = [stack.calls[position] for position in table.finished]
        longest, width = 0, len(UNFINISHED) if table.has_running else 0
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
        text = table.text(duration, width, cells)
        if self._arguments is None and not report.paths:
            return [text]
        rows = [[line] for line in text.split("\n")]
        if self._arguments is not None:
            rows = self._with_arguments(report.session, stack, rows, duration)
        if report.paths and self._origins is not None:
            self._add_origins(report, stack, rows, duration)
        return [line for lines in rows for line in lines]

    def template(self, report: Report) -> list[str] | None:
        """See :class:`~.renderers.Section`."""
        stack = report.stack
        if self._arguments is not None:
            return None
        return self._table(stack.shape).template(stack.calls) if stack and stack.shape.rows else []

    def _add_origins(
        self, report: Report, stack: Stack, rows: Sequence[list[str]], duration: int
    ) -> None:
        """Add the source of the result below each call with a recorded path."""
        assert self._origins is not None
        indent = _BEFORE_DURATION + duration + 1
        for position, lines in zip(self._table(stack.shape).calls, rows, strict=True):
            if position is not None:
                view = report.paths.get(stack.calls[position].seq)
                lines.extend(self._origins.below(view, indent))

    def _with_arguments(
        self, session: Session, stack: Stack, rows: Sequence[list[str]], duration: int
    ) -> list[list[str]]:
        """Return the rows, with the calls' arguments on or below them."""
        arguments = self._arguments
        assert arguments is not None
        indent = _BEFORE_DURATION + duration + 1
        found: list[list[str]] = []
        for position, (line,) in zip(self._table(stack.shape).calls, rows, strict=True):
            event = None if position is None else arguments.of_call(stack.calls[position])
            if arguments.on_row:
                found.append([arguments.behind(session, event, line)])
            else:
                found.append([line, *arguments.below(session, event, indent)])
        return found

    def _painted(self, call: Call, text: str, width: int) -> str:
        failed = error_of(call.function, call.result) is not None
        return paint(text.ljust(width), self._palette.error) if failed else text

    def _table(self, shape: StackShape) -> _StackTable:
        known = self._tables.get(shape)
        if known is None:
            innermost = _innermost(shape)
            rows = [
                cells
                for number, row in enumerate(shape.rows)
                for cells in self._cells(shape, row, is_innermost=number == innermost)
            ]
            padded = self._arguments is not None and self._arguments.on_row
            known = _StackTable(shape, rows, self._palette, padded=padded, columns=self._columns)
            self._tables.keep(shape, known, len(rows))
        return known

    def _result(self, call: Call) -> str:
        key = call.func_id, call.result
        text = self._results.get(key)
        if text is None:
            if len(self._results) >= _MAX_RESULTS:
                self._results.clear()
            text = self._results[key] = format_result(call.function, call.result)
        return text

    def _cells(self, shape: StackShape, row: ShapeRow, *, is_innermost: bool) -> Iterator[_Row]:
        """Yield the cells of a row, and of a row for each inlined function."""
        marks, call = "  ", None if row.call is None else shape.calls[row.call]
        if call is not None:
            marks = ("!" if is_innermost and row.frame is None else " ") + (
                self._glyphs.stitched
                if call.stitched
                else self._glyphs.interrupt
                if call.interrupt
                else " "
            )
        if row.frame is not None:
            symbol, source, inlined = self._addresses.of(row.frame, is_hidden=row.hidden)
        else:
            assert call is not None
            symbol, source, inlined = self._addresses.indent + printable(call.function.name), "", ()
        yield _Row(marks, symbol, source, row.call)
        for symbol, source in inlined:
            yield _Row("  ", symbol, source)


def _innermost(shape: StackShape) -> int:
    """Return the index of the innermost call of the thread itself, else -1."""
    own = [
        number
        for number, row in enumerate(shape.rows)
        if row.call is not None and not shape.calls[row.call].interrupt
    ]
    return own[-1] if own else -1


_TITLE = "User stack:"
_INDENT = "    "


class UserStackSection:
    """Writes user stacks as text, outermost function first."""

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, palette: Palette) -> None:
        self._addresses = AddressFormat(stacks, symbolize, lead="")
        self._palette = palette

    def lines(self, report: Report) -> list[str]:
        """Return the lines of the stack; empty without a stack."""
        rows = [cells for frame in report.user_stack for cells in self._cells(frame)]
        if not rows:
            return []
        symbol, source = (max(display_width(row[column]) for row in rows) for column in (0, 1))
        return [_TITLE, *(self._line(row, symbol, source) for row in rows)]

    template = lines

    def _cells(self, frame: Resolved) -> Iterator[tuple[str, str, str]]:
        place = self._addresses.of(frame)
        yield place.symbol, place.source, printable(frame.module or "")
        for symbol, source in place.inlined:
            yield symbol, source, ""

    def _line(self, row: tuple[str, str, str], symbol: int, source: int) -> str:
        painted = self._palette.place(row[1]) + " " * (source - display_width(row[1]))
        gap = "  " if source else ""
        return f"{_INDENT}{pad(row[0], symbol)}  {painted}{gap}{row[2]}".rstrip()


_LOST = "LBR data was dropped and is missing in this sample!"
_IRRELEVANT = "[LBR] No relevant LBR data were captured, showing unfiltered LBR stack!"
_NOTHING = ("", "")


class _Line(NamedTuple):
    """The cells of a line: a branch, or an inlined function at one end."""

    number: str
    source: tuple[str, str]
    arrow: str
    target: tuple[str, str]


class BranchSection:
    """Writes branches as text. ``symbolize`` is the mode that the run used, never ``AUTO``."""

    def __init__(self, stacks: StackSettings, symbolize: SymbolizeMode, palette: Palette) -> None:
        self._addresses = AddressFormat(stacks, symbolize, lead="")
        self._palette = palette

    def lines(self, report: Report) -> list[str]:
        """Return the lines of the branches, or the reason why they are missing."""
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
        ends = (_levels(self._addresses.of(end)) for end in (row.source, row.target))
        for source, target in zip_longest(*ends, fillvalue=_NOTHING):
            yield _Line(number, source, arrow, target)
            number, arrow = " " * len(number), "  "

    template = lines

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
        return self._palette.place(text) + " " * max(width - display_width(text), 0)


def _levels(place: AddressText) -> list[tuple[str, str]]:
    """Return the lines of a branch end: the address, and its inlined functions."""
    return [(place.symbol, place.source), *place.inlined]
