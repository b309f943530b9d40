# SPDX-License-Identifier: BSD-2-Clause
"""The call trace view: every traced call of a session, as a tree.

::

    FUNCTION CALLS                RESULT      DURATION
    ---------------------------   ---------  ---------
    → __sys_bpf
        ↔ array_map_alloc_check   [-EINVAL]   25.914us
    ← __sys_bpf                   [-EINVAL]  155.802us

``→`` is a call, ``←`` its return, ``↔`` both if nothing traced is in between, ``◎`` a hit of an
injected probe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from retsnoop_py.render.marks import Marks
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.render.result import format_result
from retsnoop_py.render.text import display_width, pad, printable
from retsnoop_py.session.facts import StreamFacts
from retsnoop_py.session.model import Session
from retsnoop_py.session.report import Report
from retsnoop_py.session.results import error_of
from retsnoop_py.session.trace import RowKind, Shape, Trace, TraceRow
from retsnoop_py.settings import ViewSettings

if TYPE_CHECKING:
    from retsnoop_py.render.args.rows import ArgumentRows

_CALLS, _RESULT, _DURATION = "FUNCTION CALLS", "RESULT", "DURATION"
_SELF, _CPU = "SELF", "CPU"
_CONTEXT = "CONTEXT"
_INDENT = "    "
#: Calls deeper than this are not indented further: their depth is written out.
_MAX_LEVELS = 64
#: Shapes whose first column is kept; they are forgotten together.
_MAX_SHAPES = 1 << 10
_MAX_RESULTS = 1 << 16
_UNKNOWN = "..."


class _Labels:
    """The first column of a shape, filled with blanks to ``width``."""

    __slots__ = ("shape", "texts", "width")

    def __init__(self, shape: Shape, texts: Sequence[str]) -> None:
        self.shape = shape
        self.width = max(len(_CALLS), *map(display_width, texts))
        self.texts = [pad(text, self.width) for text in texts]


class CallsSection:
    """Writes call traces as text."""

    def __init__(
        self,
        facts: StreamFacts,
        views: ViewSettings,
        palette: Palette,
        marks: Marks,
        arguments: ArgumentRows | None = None,
    ) -> None:
        self._arguments = arguments
        self._functions = facts.functions
        self._names = [printable(function.name) for function in facts.functions]
        self._probe_name = facts.probe_name
        self._views = views
        self._palette = palette
        self._marks = marks
        self._labels: dict[int, _Labels] = {}
        self._result = lru_cache(_MAX_RESULTS)(self._result_of)

    def lines(self, report: Report) -> list[str]:
        """Header and rows; no line ends in blanks."""
        trace = report.trace
        if trace is None or not trace.shape.rows:
            return []
        labels = self._labels_of(trace.shape)
        results = [self._result_cell(trace, row) for row in trace.shape.rows]
        width = max(len(_RESULT), *map(len, results))
        columns = [_right(title, cells) for title, cells in self._numbers(trace)]
        if self._palette.error:
            results = [
                paint(text.ljust(width), self._palette.error if self._failed(trace, row) else "")
                for row, text in zip(trace.shape.rows, results, strict=True)
            ]
        numbers = map("  ".join, zip(*columns, strict=True))
        head, dashes = next(numbers), next(numbers)
        lines = [
            f"{_CALLS:<{labels.width}}   {_RESULT:<{width}}  {head}",
            f"{'-' * labels.width}   {'-' * width}  {dashes}",
        ]
        rows = [
            f"{label}   {result:<{width}}  {number}"
            for label, result, number in zip(labels.texts, results, numbers, strict=True)
        ]
        if self._arguments is not None:
            return self._with_arguments(report.session, trace, lines, rows, labels.width)
        lines += map(str.rstrip, rows)
        return lines

    def _with_arguments(
        self, session: Session, trace: Trace, head: list[str], rows: list[str], indent: int
    ) -> list[str]:
        """Header and rows, and on these or below what was captured at them."""
        arguments = self._arguments
        assert arguments is not None
        events = [arguments.of_row(trace, row) for row in trace.shape.rows]
        if arguments.on_row:
            titles = (_CONTEXT, "-" * len(_CONTEXT))
            lines = [f"{line}  {title}" for line, title in zip(head, titles, strict=True)]
            pairs = zip(events, rows, strict=True)
            return lines + [arguments.behind(session, event, row) for event, row in pairs]
        for event, row in zip(events, rows, strict=True):
            head += (row.rstrip(), *arguments.below(session, event, indent + 1))
        return head

    def _numbers(self, trace: Trace) -> Iterator[tuple[str, list[str]]]:
        """The columns behind the results: titles and cells."""
        rows = trace.shape.rows
        yield _DURATION, [_duration(row, trace.duration_ns(row)) for row in rows]
        if self._views.self_time:
            yield _SELF, [_duration(row, trace.self_ns(row)) for row in rows]
        if self._views.cpu:
            yield _CPU, [self._cpu(trace, row) for row in rows]

    def _labels_of(self, shape: Shape) -> _Labels:
        """The first column, worked out once: the same shapes come back in most sessions."""
        known = self._labels.get(id(shape))
        if known is None:
            if len(self._labels) >= _MAX_SHAPES:
                self._labels.clear()
            # the shape is kept, so that its id stays its own
            known = self._labels[id(shape)] = _Labels(shape, [*map(self._label, shape.rows)])
        return known

    def _label(self, row: TraceRow) -> str:
        marks, level = self._marks, row.depth - 1
        if row.kind is RowKind.GAP:
            records = "1 record" if row.missing == 1 else f"{row.missing} records"
            mark, text, level = marks.gap, f"... missing {records} ...", row.depth
        elif row.kind is RowKind.PROBE:
            mark, text, level = marks.probe, printable(self._probe_name(row.id)), row.depth
        else:
            mark = {RowKind.ENTRY: marks.entry, RowKind.EXIT: marks.exit}.get(row.kind, marks.leaf)
            text = self._names[row.id]
        if level >= _MAX_LEVELS:
            text, level = f"{text} (depth {level + 1})", _MAX_LEVELS
        return f"{_INDENT * level}{mark} {text}"

    def _result_cell(self, trace: Trace, row: TraceRow) -> str:
        if row.kind is RowKind.EXIT or row.kind is RowKind.LEAF:
            return self._result(row.id, trace.results[row.event])
        return _UNKNOWN if row.kind is RowKind.GAP else ""

    def _result_of(self, function: int, register: int) -> str:
        return format_result(self._functions[function], register)

    def _failed(self, trace: Trace, row: TraceRow) -> bool:
        if row.kind is not RowKind.EXIT and row.kind is not RowKind.LEAF:
            return False
        return error_of(self._functions[row.id], trace.results[row.event]) is not None

    def _cpu(self, trace: Trace, row: TraceRow) -> str:
        if row.kind is RowKind.GAP:
            return _UNKNOWN
        cpu = trace.cpus[row.event]
        if row.kind is RowKind.LEAF and row.began is not None and trace.cpus[row.began] != cpu:
            return f"{trace.cpus[row.began]}{self._marks.entry}{cpu}"
        return str(cpu)


def _duration(row: TraceRow, ns: int | None) -> str:
    if row.kind is RowKind.ENTRY or row.kind is RowKind.PROBE:
        return ""
    return _UNKNOWN if ns is None else f"{ns / 1000:.3f}us"


def _right(title: str, cells: Sequence[str]) -> list[str]:
    """Title, dashes and cells, all of one width, the text at the right."""
    width = max(len(title), *map(len, cells))
    return [title.rjust(width), "-" * width, *[cell.rjust(width) for cell in cells]]
