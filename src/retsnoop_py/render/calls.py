# SPDX-License-Identifier: BSD-2-Clause
"""The call trace view: every traced call of a session, as a tree.

The common text of all traces of a shape is built once. A trace is then a single ``%`` operation,
because there may be hundreds of thousands.

::

    FUNCTION CALLS                RESULT      DURATION
    ---------------------------   ---------  ---------
    → __sys_bpf
        ↔ array_map_alloc_check   [-EINVAL]   25.914us
    ← __sys_bpf                   [-EINVAL]  155.802us

``→`` is a call, ``←`` its return, ``↔`` both if nothing traced is in between, ``◎`` a hit of an
injected probe, ``↯`` a row of an interrupt of the thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from retsnoop_py.render.formats import format_result
from retsnoop_py.render.palette import Glyphs, Palette, paint
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import RowKind, Session, Shape, Trace, TraceRow
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import ViewSettings
from retsnoop_py.text import counted, display_width, pad, printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows


CALLS, RESULT, DURATION, SELF, CPU = "FUNCTION CALLS", "RESULT", "DURATION", "SELF", "CPU"
UNKNOWN = "..."
#: Tables of a shape with different column widths; all are dropped together.
_MAX_TABLES = 16

#: Marks a line end within a row. No label contains it, because printable() escapes it.
_BREAK = "\v"

Values = Sequence[Any]


class TraceTable:
    """Lay out the traces of a shape.

    The cells that differ between traces are, by column: ``returns``, the rows with a result;
    ``timed``, the rows with a duration (without callees: ``own``); ``placed``, the rows with a CPU.
    ``titles`` are the titles of the columns after the result; ``width`` is the width of the first
    column. In a window of ``columns``, the first column uses the remaining space, and the cells
    after a longer label are printed below it. 0: no limit.
    """

    def __init__(
        self, shape: Shape, labels: Sequence[str], titles: Sequence[str], columns: int = 0
    ) -> None:
        self.shape = shape
        self._columns = columns
        self.returns = [row for row in shape.rows if _returns(row)]
        self.timed = [row for row in self.returns if row.began is not None]
        #: For these rows: function and event, and the two events of a duration.
        self.results = [(row.id, row.event) for row in self.returns]
        self.spans = [(row.event, row.began) for row in self.returns if row.began is not None]
        self.own = [row for row in self.timed if row.inner is not None] if SELF in titles else []
        self.placed = [row for row in shape.rows if _happens(row)] if CPU in titles else []
        self._titles = titles
        self.width = max(len(CALLS), *map(display_width, labels))
        self._labels = labels
        self._tables: dict[tuple[int, ...], tuple[str, Callable[[Values], tuple[Any, ...]]]] = {}

    def text(self, widths: tuple[int, ...], values: Values) -> str:
        """Return the table; ``values`` are the cells of the four lists above, one after another.

        ``widths`` are the widths of the result column and of the columns after it.
        """
        known = self._tables.get(widths)
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            known = self._tables[widths] = self._table(widths)
        table, pick = known
        return table % pick(values)

    def _table(self, widths: Sequence[int]) -> tuple[str, Callable[[Values], tuple[Any, ...]]]:
        """Return a text to fill in, and a function that sorts the values for it."""
        first = self._first(widths)
        lines = [
            _line(CALLS.ljust(first), RESULT, self._titles, widths),
            _line("-" * first, "-" * widths[0], ["-" * n for n in widths[1:]], widths),
        ]
        start = 0
        numbers = []
        for rows in (self.returns, self.timed, self.own, self.placed):
            numbers.append({id(row): start + index for index, row in enumerate(rows)})
            start += len(rows)
        results, times, own, cpus = numbers
        cells = {DURATION: times, SELF: own, CPU: cpus}
        order: list[int] = []
        for label, row in zip(self._labels, self.shape.rows, strict=True):
            result = UNKNOWN if row.kind is RowKind.GAP else ""
            if id(row) in results:
                order.append(results[id(row)])
                result = f"%-{widths[0]}s"
            words = []
            for title, width in zip(self._titles, widths[1:], strict=True):
                number = cells[title].get(id(row))
                if number is not None:
                    order.append(number)
                    words.append(f"%{width}s" if title == CPU else f"%{width - 2}.3fus")
                else:
                    words.append(_constant(row, title).rjust(width))
            if not _returns(row):
                result = result.ljust(widths[0])
            behind = f"   {result}  {'  '.join(words)}".rstrip()
            if display_width(label) > first and behind:
                lines.append(label.replace("%", "%%") + _BREAK + " " * first + behind)
            else:
                lines.append(pad(label, first).replace("%", "%%") + behind)
            lines[-1] = lines[-1].rstrip()
        return "\n".join(lines), _picker(order)

    def _first(self, widths: Sequence[int]) -> int:
        """Return the width of the first column beside columns with ``widths``."""
        if not self._columns:
            return self.width
        room = self._columns - len("   ") - sum(widths) - len("  ") * (len(widths) - 1)
        return min(self.width, max(room, len(CALLS)))

    def template(self, trace: Trace) -> list[str]:
        """Return the lines of a symbolic trace."""
        from retsnoop_py.session.repeats import Kind, placeholder

        def cell(column: int, kind: Kind, what: Any, function: int = 0) -> str:
            return placeholder(kind, what, column=column, left=not column, function=function)

        titles = (RESULT, *self._titles)
        heads = [cell(column, Kind.TEXT, title) for column, title in enumerate(titles)]
        dashes = [cell(column, Kind.DASHES, 0) for column, _ in enumerate(titles)]
        rows = [(CALLS.ljust(self.width), heads), ("-" * self.width, dashes)]
        for label, row in zip(self._labels, self.shape.rows, strict=True):
            words = [cell(0, Kind.TEXT, UNKNOWN if row.kind is RowKind.GAP else "")]
            if _returns(row):
                words = [cell(0, Kind.RESULT, trace.events.results[row.event], row.id)]
            for column, title in enumerate(self._titles, 1):
                value = (trace.duration_ns if title == DURATION else trace.self_ns)(row)
                if _returns(row) and value is not None:
                    words.append(cell(column, Kind.US3, value))
                else:
                    words.append(cell(column, Kind.TEXT, _constant(row, title)))
            rows.append(
                (pad(label, self.width), words if _returns(row) or row.kind is RowKind.GAP else [])
            )
        return [
            f"{label}   {'  '.join(words)}" if words else label.rstrip() for label, words in rows
        ]


def _line(label: str, result: str, titles: Sequence[str], widths: Sequence[int]) -> str:
    words = [title.rjust(width) for title, width in zip(titles, widths[1:], strict=True)]
    return f"{label}   {result.ljust(widths[0])}  {'  '.join(words)}"


def _returns(row: TraceRow) -> bool:
    return row.kind in (RowKind.EXIT, RowKind.LEAF)


def _happens(row: TraceRow) -> bool:
    return row.kind not in (RowKind.GAP, RowKind.EARLIER)


def _constant(row: TraceRow, title: str) -> str:
    """Return the text of a cell without a value: blank for a call, else "not known"."""
    unknown = row.kind is RowKind.GAP or (_returns(row) and title != CPU)
    return UNKNOWN if unknown else ""


def _picker(order: Sequence[int]) -> Callable[[Values], tuple[Any, ...]]:
    if len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(values[index] for index in order)


_CONTEXT = "CONTEXT"
_INDENT = "    "
#: Deeper calls are not indented further: their depth is printed.
_MAX_LEVELS = 64
#: Maximum number of rows in all cached tables.
_ROOM = 1 << 15
_MAX_RESULTS = 1 << 16


class CallsSection:
    """Write call traces as text, at most ``columns`` wide if possible; 0: no limit."""

    def __init__(  # noqa: PLR0913
        self,
        header: StreamHeader,
        views: ViewSettings,
        palette: Palette,
        glyphs: Glyphs,
        arguments: ArgumentRows | None = None,
        origins: OriginRows | None = None,
        *,
        columns: int = 0,
    ) -> None:
        self._columns = 0 if arguments is not None and arguments.on_row else columns
        self._arguments = arguments
        self._origins = origins
        self._functions = header.functions
        self._names = [printable(function.name) for function in header.functions]
        self._probe_name = header.probe_name
        self._palette = palette
        self._glyphs = glyphs
        self._titles = [DURATION, *[SELF] * views.self_time, *[CPU] * views.cpu]
        self._tables: BoundedCache[Shape, TraceTable] = BoundedCache(_ROOM)
        self._result = lru_cache(_MAX_RESULTS)(self._result_of)

    def lines(self, report: Report) -> list[str]:
        """Return the table as one text; no line ends in blanks."""
        trace = report.trace
        if trace is None or not trace.shape.rows:
            return []
        table = self._table(trace.shape)
        registers, times, result_of = trace.events.results, trace.events.times_ns, self._result
        results = [result_of(function, registers[event]) for function, event in table.results]
        took = [(times[event] - times[began]) / 1000 for event, began in table.spans]
        widths = [max(map(len, (RESULT, *results))), _time_width(DURATION, took)]
        values: list[object] = [*self._painted(trace, table, results, widths[0]), *took]
        if SELF in self._titles:
            own = [(trace.self_ns(row) or 0) / 1000 for row in table.own]
            widths.append(_time_width(SELF, own))
            values += own
        if CPU in self._titles:
            cpus = [self._cpu(trace, row) for row in table.placed]
            widths.append(max(map(len, (CPU, *cpus))))
            values += cpus
        text = table.text(tuple(widths), values)
        if self._arguments is None and not report.paths:
            return [text]
        lines = text.split("\n")
        rows = [[line] for line in lines[2:]]
        head = lines[:2]
        if self._arguments is not None:
            head, rows = self._with_arguments(report.session, trace, head, rows, table.width)
        if report.paths and self._origins is not None:
            self._add_paths(report, trace, rows)
        return [*head, *(line for found in rows for line in found)]

    def template(self, report: Report) -> list[str] | None:
        """See :class:`~.renderers.Section`."""
        if self._arguments is not None or CPU in self._titles:
            return None
        trace = report.trace
        return self._table(trace.shape).template(trace) if trace and trace.shape.rows else []

    def _add_paths(self, report: Report, trace: Trace, rows: Sequence[list[str]]) -> None:
        """Add the executed path and its meaning below the return of each call."""
        assert self._origins is not None
        seqs = trace.events.seqs
        for row, lines in zip(trace.shape.rows, rows, strict=True):
            if row.began is None:
                continue
            view = report.paths.get(seqs[row.began])
            indent = len(_INDENT) * min(row.depth, _MAX_LEVELS)
            lines.extend(self._origins.way(view, indent, self._glyphs.block))
            lines.extend(self._origins.below(view, indent))

    def _with_arguments(
        self,
        session: Session,
        trace: Trace,
        head: list[str],
        rows: Sequence[list[str]],
        width: int,
    ) -> tuple[list[str], list[list[str]]]:
        """Return header and rows, with the arguments on or below the rows."""
        arguments = self._arguments
        assert arguments is not None
        events = [arguments.of_row(trace, row) for row in trace.shape.rows]
        pairs = zip(events, rows, strict=True)
        if arguments.on_row:
            full = len(head[1])  # dashes and blanks
            titles = (_CONTEXT, "-" * len(_CONTEXT))
            titled = [f"{line}  {title}" for line, title in zip(head, titles, strict=True)]
            return titled, [
                [arguments.behind(session, event, pad(row, full))] for event, (row,) in pairs
            ]
        return head, [[row, *arguments.below(session, event, width + 1)] for event, (row,) in pairs]

    def _table(self, shape: Shape) -> TraceTable:
        known = self._tables.get(shape)
        if known is None:
            labels = [self._label(row) for row in shape.rows]
            known = TraceTable(shape, labels, self._titles, self._columns)
            self._tables.keep(shape, known, len(shape.rows))
        return known

    def _label(self, row: TraceRow) -> str:
        glyphs, level = self._glyphs, row.depth - 1
        records = counted(row.missing, "record")
        if row.kind is RowKind.EARLIER:
            return f"... {records} told before ..."
        if row.kind is RowKind.GAP:
            mark, text, level = glyphs.gap, f"... missing {records} ...", row.depth
        elif row.kind is RowKind.PROBE:
            mark, text, level = glyphs.probe, printable(self._probe_name(row.id)), row.depth
        else:
            mark = {RowKind.ENTRY: glyphs.entry, RowKind.EXIT: glyphs.exit}.get(
                row.kind, glyphs.leaf
            )
            text = self._names[row.id]
        if row.interrupt:
            text = f"{glyphs.interrupt} {text}"
        if level >= _MAX_LEVELS:
            text, level = f"{text} (depth {level + 1})", _MAX_LEVELS
        return f"{_INDENT * level}{mark} {text}"

    def _result_of(self, function: int, register: int) -> str:
        return format_result(self._functions[function], register)

    def _painted(
        self, trace: Trace, table: TraceTable, results: list[str], width: int
    ) -> Sequence[str]:
        """Return the results; failures are coloured if colours are enabled."""
        if not self._palette.error:
            return results
        registers, functions = trace.events.results, self._functions
        return [
            paint(text.ljust(width), self._palette.error)
            if error_of(functions[row.id], registers[row.event]) is not None
            else text
            for row, text in zip(table.returns, results, strict=True)
        ]

    def _cpu(self, trace: Trace, row: TraceRow) -> str:
        cpus = trace.events.cpus
        cpu = cpus[row.event]
        if row.kind is RowKind.LEAF and row.began is not None and cpus[row.began] != cpu:
            return f"{cpus[row.began]}{self._glyphs.entry}{cpu}"
        return str(cpu)


def _time_width(title: str, times: Sequence[float]) -> int:
    """Return the width of a column of times in us."""
    longest = max(times, default=0.0)
    return max(len(title), len(f"{longest:.3f}us"), len(f"{min(times, default=0.0):.3f}us"))
