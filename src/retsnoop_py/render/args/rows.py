# SPDX-License-Identifier: BSD-2-Clause
"""Arguments on or below the rows of a view, by ``-C args.fmt-mode``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from retsnoop_py.kernel.arguments.model import ArgumentFacts
from retsnoop_py.render.args.node import CUT, block, cut_to, inline
from retsnoop_py.render.args.read import ArgumentReader, Shown
from retsnoop_py.render.palette import Glyphs
from retsnoop_py.session.model import Call, RowKind, Session, Trace, TraceRow
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import ArgMode, ArgSettings
from retsnoop_py.text import printable

__all__ = ["ArgumentRows"]

_MISSING = "... data missing ..."


class ArgumentEvent(NamedTuple):
    """An event by its number in the session. ``expected``: values are captured at such events."""

    seq: int
    expected: bool


class ArgumentRows:
    """Write arguments as text, on a row of their call or on lines below it."""

    def __init__(self, header: StreamHeader, settings: ArgSettings, glyphs: Glyphs) -> None:
        self.reader = ArgumentReader(
            header.arguments or ArgumentFacts(), raw_pointers=settings.raw_pointers
        )
        self._settings = settings
        self._glyphs = glyphs
        #: True if arguments are on the row itself, False if they are below it.
        self.on_row = settings.mode is ArgMode.COMPACT

    def of_call(self, call: Call) -> ArgumentEvent:
        """Return the event at which the arguments of a call on the stack were captured."""
        return ArgumentEvent(call.seq, self.reader.expects(call.func_id))

    def of_row(self, trace: Trace, row: TraceRow) -> ArgumentEvent | None:
        """Return the event with the arguments of a row of a trace; None for returns."""
        if row.kind is RowKind.PROBE:
            return ArgumentEvent(trace.events.seqs[row.event], self.reader.expects_of_probe(row.id))
        at = row.event if row.kind is RowKind.ENTRY else row.began
        if at is None or row.kind not in (RowKind.ENTRY, RowKind.LEAF):
            return None
        return ArgumentEvent(trace.events.seqs[at], self.reader.expects(row.id))

    def behind(self, session: Session, event: ArgumentEvent | None, line: str) -> str:
        """Return a row, followed by the arguments of ``event`` if there are any."""
        if event is None:
            return line.rstrip()
        captured = session.args.get(event.seq)
        if captured is None:
            text = _MISSING if event.expected else ""
        else:
            text = " ".join(map(self._in_line, self.reader.read(session, captured)))
        return f"{line}  {text}".rstrip()

    def below(self, session: Session, event: ArgumentEvent | None, indent: int) -> list[str]:
        """Return the lines below a row, each indented by ``indent`` columns."""
        if event is None:
            return []
        captured = session.args.get(event.seq)
        blanks = " " * indent
        if captured is None:
            return [blanks + _MISSING] if event.expected else []
        return [
            blanks + line
            for shown in self.reader.read(session, captured)
            for line in self._lines(shown)
        ]

    def _in_line(self, shown: Shown) -> str:
        name, value = printable(shown.name), self._value(shown)
        return f"{name}={value}" if name else value

    def _lines(self, shown: Shown) -> Iterator[str]:
        name = printable(shown.name)
        start = f"{self._glyphs.argument} {name} = " if name else ""
        start = start or f"{self._glyphs.argument} "
        if self._settings.mode is not ArgMode.VERBOSE:
            yield start + self._value(shown)
            return
        first, *rest = block(shown.node)
        yield self._marked(start + first)
        for line in rest:
            yield self._marked(f"  {line}")

    def _value(self, shown: Shown) -> str:
        """Return the value in one line, within the maximum width of values."""
        text = self._marked(inline(shown.node))
        return cut_to(text, self._settings.width, self._glyphs.cut) if shown.name else text

    def _marked(self, text: str) -> str:
        """Return a line with this output's mark for cut data.

        The line contains names of members and constants, which a recording may have invented.
        """
        text = printable(text)
        if self._glyphs.cut == CUT:
            return text
        return text.replace(CUT, self._glyphs.cut).encode("ascii", "backslashreplace").decode()
