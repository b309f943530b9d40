# SPDX-License-Identifier: BSD-2-Clause
"""The table of a call trace: what is equal for all traces of a shape is put together once.

A trace is then a single ``%`` of a ready-made text: there may be hundreds of thousands.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from retsnoop_py.session.model import RowKind, Shape, TraceRow
from retsnoop_py.text import display_width, pad

CALLS, RESULT, DURATION, SELF, CPU = "FUNCTION CALLS", "RESULT", "DURATION", "SELF", "CPU"
UNKNOWN = "..."
#: Tables of a shape that differ in the widths of their columns; they are forgotten together.
_MAX_TABLES = 16

Values = Sequence[Any]


class Sheet:
    """Lays out the traces of one shape.

    The cells that differ from trace to trace, column by column: ``returns``, the rows with a
    result; ``timed``, those with a duration (also without callees: ``own``); ``placed``, those
    that have a CPU. ``titles`` names the columns behind the result; ``width`` is the first one's.
    """

    def __init__(self, shape: Shape, labels: Sequence[str], titles: Sequence[str]) -> None:
        self.shape = shape
        self.returns = [row for row in shape.rows if _returns(row)]
        self.timed = [row for row in self.returns if row.began is not None]
        #: Of these: function and event, and the two events of a duration.
        self.results = [(row.id, row.event) for row in self.returns]
        self.spans = [(row.event, row.began) for row in self.returns if row.began is not None]
        self.own = [row for row in self.timed if row.inner is not None] if SELF in titles else []
        self.placed = [row for row in shape.rows if _happens(row)] if CPU in titles else []
        self._titles = titles
        self.width = max(len(CALLS), *map(display_width, labels))
        self._labels = [pad(label, self.width) for label in labels]
        self._tables: dict[tuple[int, ...], tuple[str, Callable[[Values], tuple[Any, ...]]]] = {}

    def text(self, widths: tuple[int, ...], values: Values) -> str:
        """The table: ``values`` are the cells of the four lists above, one after another.

        ``widths`` are those of the result and of the columns behind it.
        """
        known = self._tables.get(widths)
        if known is None:
            if len(self._tables) >= _MAX_TABLES:
                self._tables.clear()
            known = self._tables[widths] = self._table(widths)
        table, pick = known
        return table % pick(values)

    def _table(self, widths: Sequence[int]) -> tuple[str, Callable[[Values], tuple[Any, ...]]]:
        """A text to fill in, and what puts the values into its order."""
        lines = [
            _line(CALLS.ljust(self.width), RESULT, self._titles, widths),
            _line("-" * self.width, "-" * widths[0], ["-" * n for n in widths[1:]], widths),
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
            line = f"{label.replace('%', '%%')}   {result}  {'  '.join(words)}"
            lines.append(line.rstrip())
        return "\n".join(lines), _picker(order)


def _line(label: str, result: str, titles: Sequence[str], widths: Sequence[int]) -> str:
    words = [title.rjust(width) for title, width in zip(titles, widths[1:], strict=True)]
    return f"{label}   {result.ljust(widths[0])}  {'  '.join(words)}"


def _returns(row: TraceRow) -> bool:
    return row.kind in (RowKind.EXIT, RowKind.LEAF)


def _happens(row: TraceRow) -> bool:
    return row.kind not in (RowKind.GAP, RowKind.EARLIER)


def _constant(row: TraceRow, title: str) -> str:
    """A cell without a value: of a call, blank; else the value is not known."""
    unknown = row.kind is RowKind.GAP or (_returns(row) and title != CPU)
    return UNKNOWN if unknown else ""


def _picker(order: Sequence[int]) -> Callable[[Values], tuple[Any, ...]]:
    if len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(values[index] for index in order)
