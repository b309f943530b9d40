# SPDX-License-Identifier: BSD-2-Clause
"""Repeated sessions: equal to a shown one except for times, results, threads and CPUs.

Python renders a session once with placeholders for its numbers. This text is a template, and C
fills it for further sessions (``src/native/repeat.c``), which takes a tenth of the time. Sessions
that differ from every template are rendered by Python.

In a template, a placeholder is between two NUL characters: kind, column, side, and terms.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.libbpf.repeat import EVENT, SESSION, SLOT, Kind, Piece, Writer, record_members
from retsnoop_py.session.layouts import Layout, Member, layout_named
from retsnoop_py.session.model import Session, Trace
from retsnoop_py.session.report import Report, TextWriter, Written
from retsnoop_py.session.stacks import Stack

__all__ = ["Kind", "Repeats", "Sum", "placeholder", "symbolic"]


class Sum:
    """A number of a session, or a sum; ``terms`` count numbers from 1, negative: subtracted."""

    __slots__ = ("terms",)

    def __init__(self, *terms: int) -> None:
        self.terms = terms

    def __add__(self, other: Sum | int) -> Sum:
        return Sum(*self.terms, *other.terms) if isinstance(other, Sum) else self

    __radd__ = __add__  # sum() starts with 0

    def __sub__(self, other: Sum | int) -> Sum:
        return self + Sum(*[-term for term in other.terms]) if isinstance(other, Sum) else self

    def __format__(self, spec: str) -> str:
        return placeholder(Kind.NUMBER, self)

    def __str__(self) -> str:
        return placeholder(Kind.NUMBER, self)


def placeholder(
    kind: Kind, what: Sum | str | int, *, column: int = -1, left: bool = False, function: int = 0
) -> str:
    """A piece of a template: a sum, a text, or how wide its column is at least.

    It is filled to the width of its column, behind it if ``left``; ``function`` made a result.
    """
    made = ",".join(map(str, what.terms)) if isinstance(what, Sum) else what
    return f"\0{int(kind)}:{column}:{int(left)}:{function}:{made}\0"


def symbolic(report: Report) -> Report:
    """The same with symbols for the numbers in which equal sessions may differ."""
    session, trace, stack = report.session, report.trace, report.stack
    first = SESSION + 1
    calls = tuple(
        call._replace(result=Sum(term), latency_ns=Sum(term + 1))
        for term, call in enumerate_by(SLOT, first, session.calls)
    )
    first += SLOT * len(calls)
    terms = [term for term, _ in enumerate_by(EVENT, first, session.events.seqs)]
    columns: Any = {
        name: tuple([Sum(term + index) for term in terms])
        for index, name in enumerate(("results", "times_ns", "cpus"))
    }
    events = session.events._replace(**columns)
    names = ("start_ns", "emit_ns", "tid", "tgid", "cpu")
    numbers: Any = {name: Sum(term) for term, name in enumerate(names, 1)}
    return report._replace(
        session=session._replace(calls=calls, events=events, **numbers),
        trace=trace and Trace(trace.shape, events),
        stack=stack and Stack(stack.shape, calls),
    )


def enumerate_by(step: int, first: int, values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    """Like enumerate(), in steps."""
    return zip(range(first, first + step * len(values), step), values, strict=True)


_PLACEHOLDER = re.compile(r"\0(\d+):(-?\d+):([01]):(\d+):([^\0]*)\0")


class Template(NamedTuple):
    """A text with pieces, as C reads it."""

    pieces: list[Piece]
    terms: list[int]
    texts: bytes

    @classmethod
    def of(cls, text: str) -> Template:
        """The template that ``text`` stands for."""
        made = cls([], [], b"")
        texts = bytearray()

        def add_text(text: str, column: int = -1, *, left: bool = False) -> None:
            data = text.encode()
            if data or column >= 0:
                made.pieces.append(Piece(Kind.TEXT, column, left, len(texts), len(data)))
                texts.extend(data)

        end = 0
        for found in _PLACEHOLDER.finditer(text):
            add_text(text[end : found.start()])
            end = found.end()
            kind, column, left, function = map(int, found.groups()[:4])
            if kind == Kind.TEXT:
                add_text(found[5], column, left=bool(left))
                continue
            terms = list(map(int, found[5].split(","))) if found[5] else [0]
            first, size = len(made.terms), len(terms)
            if kind in (Kind.TIME6, Kind.TIME9, Kind.RESULT):
                first, size = terms[0] - 1, function
            elif kind in (Kind.DASHES, Kind.WIDEN):
                first, size = terms[0], 0
            else:
                made.terms.extend(terms)
            made.pieces.append(Piece(Kind(kind), column, bool(left), first, size))
        add_text(text[end:])
        return made._replace(texts=bytes(texts))


#: A template that writes nothing: of sessions that are not shown.
_NOTHING = Template([Piece(Kind.TEXT, -1, False, 0, 0)], [], b"")

#: The budget for learning, in templates, and the cost of a template in written sessions.
_FREE_LESSONS, _LESSON = 64, 16
#: Parts to skip after a part without known sessions.
_PAUSE = 15


class Repeats:
    """Writes sessions that are equal to a session that came twice before.

    ``example`` returns the report of a session from its record and parts. It returns the session
    itself if a filter rejects all sessions of this kind, and None if a template cannot represent
    it. ``by_process``: the filter depends on the process. Raises DataError if the records have
    another layout than this version: only Python, which checks each size, reads such records.
    """

    def __init__(
        self,
        layouts: Sequence[Layout],
        writer: TextWriter,
        example: Callable[[memoryview], Report | Session | None],
        *,
        by_process: bool,
    ) -> None:
        self._writer = writer
        self._example = example
        check_layouts(layouts)
        self._native = Writer(by_process=by_process, clock=writer.clock_ns)
        self._examples: list[Report | Session | None] = []
        self._lessons = _FREE_LESSONS * _LESSON
        self._pause = 0

    def split(self, part: memoryview) -> Iterator[Written | tuple[int, int]]:
        """What can be written of ``part``, and where the rest begins and ends, in their order."""
        if self._pause:
            self._pause -= 1
            yield 0, len(part)
            return
        at, is_useful = 0, False
        while at < len(part):
            found = self._native.run(part[at:], self._lessons // _LESSON)
            if found.written:
                used = [(self._examples[number], times) for number, times in found.used]
                shown = [(one, times) for one, times in used if isinstance(one, Report)]
                hidden = [(one, times) for one, times in used if isinstance(one, Session)]
                self._lessons += sum(times for _, times in used)
                self._writer.repeated(sum(times for _, times in shown))
                is_useful = True
                yield Written(found.text.decode(), shown, hidden)
            if found.word is not None:
                text = self._writer.word(*found.word)
                self._native.learn_word(*found.word, text.encode(), len(text))
            if found.unknown > found.written:
                yield at + found.written, at + found.unknown
            for offset, size in found.candidates:
                self._lessons -= _LESSON
                self._learn(part[at + offset : at + offset + size])
                is_useful = True
            at += found.unknown
        self._pause = 0 if is_useful else _PAUSE

    def _learn(self, unit: memoryview) -> None:
        example = self._example(unit)
        made = Template([], [], b"")
        if isinstance(example, Session):
            made = _NOTHING
        elif example is not None and (text := self._writer.template(example)) is not None:
            made = Template.of(text)
        number = self._native.learn(bytes(unit), *made)
        if number == 0:
            self._examples = []
        if number >= 0:
            self._examples.append(example)


def own_layouts() -> tuple[Layout, ...]:
    """The structs that C reads records as, laid out as ``records.h`` has them in this version."""
    order = "<" if sys.byteorder == "little" else ">"
    return tuple(
        Layout(name, size, tuple(Member(one.name, one.offset, one.code) for one in members), order)
        for (name, size), members in groupby(
            record_members(), key=lambda one: (one.record, one.record_size)
        )
    )


def check_layouts(layouts: Sequence[Layout]) -> None:
    """Raise DataError unless the records in ``layouts`` are those that C was compiled for."""
    for own in own_layouts():
        if layout_named(layouts, own.name) != own:
            raise DataError(f"struct {own.name} has another layout than in this version")
