# SPDX-License-Identifier: BSD-2-Clause
"""The call trace view: every traced call of a session, as a tree.

::

    FUNCTION CALLS                RESULT      DURATION
    ---------------------------   ---------  ---------
    → __sys_bpf
        ↔ array_map_alloc_check   [-EINVAL]   25.914us
    ← __sys_bpf                   [-EINVAL]  155.802us

``→`` is a call, ``←`` its return, ``↔`` both if nothing traced is in between, ``◎`` a hit of an
injected probe, ``↯`` what an interrupt of the thread does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.result import format_result
from retsnoop_py.render.sheet import CPU, DURATION, RESULT, SELF, Sheet
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import RowKind, Session, Shape, Trace, TraceRow
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import ViewSettings
from retsnoop_py.text import counted, pad, printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows
    from retsnoop_py.render.origin import OriginRows

_CONTEXT = "CONTEXT"
_INDENT = "    "
#: Calls deeper than this are not indented further: their depth is written out.
_MAX_LEVELS = 64
#: Sheets with so many rows together are kept.
_ROOM = 1 << 15
_MAX_RESULTS = 1 << 16


class CallsSection:
    """Writes call traces as text."""

    def __init__(
        self,
        header: StreamHeader,
        views: ViewSettings,
        palette: Palette,
        marks: Marks,
        arguments: ArgumentRows | None = None,
        origins: OriginRows | None = None,
    ) -> None:
        self._arguments = arguments
        self._origins = origins
        self._functions = header.functions
        self._names = [printable(function.name) for function in header.functions]
        self._probe_name = header.probe_name
        self._palette = palette
        self._marks = marks
        self._titles = [DURATION, *[SELF] * views.self_time, *[CPU] * views.cpu]
        self._sheets: BoundedCache[Shape, Sheet] = BoundedCache(_ROOM)
        self._result = lru_cache(_MAX_RESULTS)(self._result_of)

    def lines(self, report: Report) -> list[str]:
        """The table, in one piece; none of its lines ends in blanks."""
        trace = report.trace
        if trace is None or not trace.shape.rows:
            return []
        sheet = self._sheet(trace.shape)
        registers, times, result_of = trace.events.results, trace.events.times_ns, self._result
        results = [result_of(function, registers[event]) for function, event in sheet.results]
        took = [(times[event] - times[began]) / 1000 for event, began in sheet.spans]
        widths = [max(map(len, (RESULT, *results))), _time_width(DURATION, took)]
        values: list[object] = [*self._painted(trace, sheet, results, widths[0]), *took]
        if SELF in self._titles:
            own = [(trace.self_ns(row) or 0) / 1000 for row in sheet.own]
            widths.append(_time_width(SELF, own))
            values += own
        if CPU in self._titles:
            cpus = [self._cpu(trace, row) for row in sheet.placed]
            widths.append(max(map(len, (CPU, *cpus))))
            values += cpus
        text = sheet.text(tuple(widths), values)
        if self._arguments is None and not report.paths:
            return [text]
        lines = text.split("\n")
        rows = [[line] for line in lines[2:]]
        head = lines[:2]
        if self._arguments is not None:
            head, rows = self._with_arguments(report.session, trace, head, rows, sheet.width)
        if report.paths and self._origins is not None:
            self._add_paths(report, trace, rows)
        return [*head, *(line for found in rows for line in found)]

    def _add_paths(self, report: Report, trace: Trace, rows: Sequence[list[str]]) -> None:
        """Below the return of each call the way it took, and what that says."""
        assert self._origins is not None
        seqs = trace.events.seqs
        for row, lines in zip(trace.shape.rows, rows, strict=True):
            if row.began is None:
                continue
            view = report.paths.get(seqs[row.began])
            indent = len(_INDENT) * min(row.depth, _MAX_LEVELS)
            lines.extend(self._origins.way(view, indent, self._marks.block))
            lines.extend(self._origins.below(view, indent))

    def _with_arguments(
        self,
        session: Session,
        trace: Trace,
        head: list[str],
        rows: Sequence[list[str]],
        width: int,
    ) -> tuple[list[str], list[list[str]]]:
        """Header and rows, and on these or below what was captured at them."""
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

    def _sheet(self, shape: Shape) -> Sheet:
        known = self._sheets.get(shape)
        if known is None:
            known = Sheet(shape, [self._label(row) for row in shape.rows], self._titles)
            self._sheets.keep(shape, known, len(shape.rows))
        return known

    def _label(self, row: TraceRow) -> str:
        marks, level = self._marks, row.depth - 1
        records = counted(row.missing, "record")
        if row.kind is RowKind.EARLIER:
            return f"... {records} told before ..."
        if row.kind is RowKind.GAP:
            mark, text, level = marks.gap, f"... missing {records} ...", row.depth
        elif row.kind is RowKind.PROBE:
            mark, text, level = marks.probe, printable(self._probe_name(row.id)), row.depth
        else:
            mark = {RowKind.ENTRY: marks.entry, RowKind.EXIT: marks.exit}.get(row.kind, marks.leaf)
            text = self._names[row.id]
        if row.interrupt:
            text = f"{marks.interrupt} {text}"
        if level >= _MAX_LEVELS:
            text, level = f"{text} (depth {level + 1})", _MAX_LEVELS
        return f"{_INDENT * level}{mark} {text}"

    def _result_of(self, function: int, register: int) -> str:
        return format_result(self._functions[function], register)

    def _painted(self, trace: Trace, sheet: Sheet, results: list[str], width: int) -> Sequence[str]:
        """The results, those of failures in colour if there is any."""
        if not self._palette.error:
            return results
        registers, functions = trace.events.results, self._functions
        return [
            paint(text.ljust(width), self._palette.error)
            if error_of(functions[row.id], registers[row.event]) is not None
            else text
            for row, text in zip(sheet.returns, results, strict=True)
        ]

    def _cpu(self, trace: Trace, row: TraceRow) -> str:
        cpus = trace.events.cpus
        cpu = cpus[row.event]
        if row.kind is RowKind.LEAF and row.began is not None and cpus[row.began] != cpu:
            return f"{cpus[row.began]}{self._marks.entry}{cpu}"
        return str(cpu)


def _time_width(title: str, times: Sequence[float]) -> int:
    """The width of a column of times in us."""
    longest = max(times, default=0.0)
    return max(len(title), len(f"{longest:.3f}us"), len(f"{min(times, default=0.0):.3f}us"))
