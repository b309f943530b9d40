# SPDX-License-Identifier: BSD-2-Clause
"""Write a diagnosis as text and as JSON, both from the same values."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

import msgspec

from retsnoop_py import __version__
from retsnoop_py.diagnosis.examine import Diagnosis
from retsnoop_py.diagnosis.model import Answer, Check
from retsnoop_py.foreign_json import encode
from retsnoop_py.render.palette import Palette
from retsnoop_py.text import printable

if TYPE_CHECKING:
    from retsnoop_py.terminal import Cell

__all__ = ["Style", "as_json", "document", "lines"]

_ANSWER_WIDTH = max(len(answer.value) for answer in Answer)
#: On narrower terminals, the finding is below its question instead of beside it.
_NARROW = 90


@dataclass(frozen=True, slots=True)
class Style:
    """How to print: ``width`` columns, 0 for lines of any length; colours; all details."""

    width: int = 0
    palette: Palette = Palette()
    verbose: bool = False


def as_json(diagnosis: Diagnosis, release: str, machine: str) -> bytes:
    """Return a JSON document with the keys of docs/doctor.md."""
    told = document(diagnosis, release, machine)
    return msgspec.json.format(encode(told), indent=2)


def document(diagnosis: Diagnosis, release: str, machine: str) -> dict[str, Any]:
    """Return the contents of the JSON document as Python values."""
    checks = {check.key: _fields(check) for check in diagnosis.checks}
    return {
        "version": __version__,
        "kernel": {"release": release, "machine": machine},
        "works": diagnosis.works,
        "mechanisms": list(diagnosis.mechanisms),
        "loses": list(diagnosis.loses),
        "reason": diagnosis.reason or None,
        "next_step": diagnosis.next_step or None,
        "exit_status": diagnosis.exit_status,
        "checks": checks,
    }


def _fields(check: Check) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "title": check.title,
        "answer": check.answer.value,
        "detail": check.detail or None,
        "next_step": check.next_step or None,
    }
    if check.tried:
        fields["tried"] = [{"place": place, "outcome": why} for place, why in check.tried]
    if check.config is not None:
        fields["config"] = check.config
    return fields


def lines(diagnosis: Diagnosis, title: str, style: Style) -> Iterator[str]:
    """Yield the lines of the report; with ``style.width`` (a terminal) as tables."""
    yield title
    if style.width:
        yield from _tables(diagnosis, style)
        yield ""
        yield from _summary(diagnosis, style)
        return
    column = max(len(check.title) for check in diagnosis.checks)
    for group, checks in groupby(diagnosis.checks, key=lambda check: check.group):
        yield ""
        yield f"{group.value}:"
        for check in checks:
            yield from _check(check, column, style)
    yield ""
    yield from _summary(diagnosis, style)


def _tables(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    """Yield the lines of a table for each group; all tables have the same columns."""
    from retsnoop_py.terminal import Column, table_lines

    is_narrow = style.width < _NARROW
    titles = max(len(check.title) for check in diagnosis.checks)
    columns = [Column(width=_ANSWER_WIDTH), Column(width=titles), Column(ratio=1)]
    if is_narrow:
        del columns[1]
    for group, checks in groupby(diagnosis.checks, key=lambda check: check.group):
        rows: list[tuple[Cell, ...]] = []
        for check in checks:
            told = "\n".join(_told(check, style))
            beside = (f"{check.title}\n{told}".rstrip(),) if is_narrow else (check.title, told)
            rows.append(((check.answer.value, _colour(check)), *beside))
        yield ""
        yield f"{group.value}:"
        colour = bool(style.palette.good)
        lines = table_lines(columns, rows, style.width - 2, colour=colour)
        yield from (f"  {line}" for line in lines)


def _colour(check: Check) -> str:
    """Return rich's style for an answer; a "no" without remedy is not an alarm."""
    alarm = "red" if check.next_step else ""
    return {Answer.YES: "green", Answer.NO: alarm, Answer.UNKNOWN: "yellow"}[check.answer]


def _told(check: Check, style: Style) -> Iterator[str]:
    """Yield the lines beside an answer."""
    if check.detail:
        yield printable(check.detail)
    if check.next_step and not check.is_yes:
        yield f"-> {check.next_step}"
    if style.verbose:
        yield from _details(check)


def _details(check: Check) -> Iterator[str]:
    for place, why in check.tried:
        yield f"{printable(place)}: {why}"
    for name, value in (check.config or {}).items():
        yield f"CONFIG_{name}={value}"


def _check(check: Check, column: int, style: Style) -> Iterator[str]:
    """Yield the lines of a check for a pipe, where lines may have any length."""
    indent = 2 + _ANSWER_WIDTH + 2 + column + 2
    answer = check.answer.value.ljust(_ANSWER_WIDTH)
    yield f"  {answer}  {check.title:<{column}}  {printable(check.detail)}".rstrip()
    if check.next_step and not check.is_yes:
        yield f"{' ' * indent}-> {check.next_step}"
    if style.verbose:
        yield from (f"    {line}" for line in _details(check))


def _summary(diagnosis: Diagnosis, style: Style) -> Iterator[str]:
    if diagnosis.works:
        first, *others = diagnosis.mechanisms
        then = f", and {others[0]} for functions that it cannot trace" if others else ""
        yield from _wrap(f"Tracing works here: by {first}{then}.", 0, style)
        if diagnosis.loses:
            yield "It goes without:"
        for one in diagnosis.loses:
            first_line, *rest = _wrap(one, 4, style)
            yield f"  - {first_line}"
            yield from (f"    {line}" for line in rest)
        return
    told = f"Tracing does not work here: {printable(diagnosis.reason)}."
    yield from _wrap(told, 0, style)
    if diagnosis.next_step:
        yield from _wrap(f"next: {diagnosis.next_step}", 0, style)


def _wrap(text: str, indent: int, style: Style) -> list[str]:
    if not style.width:
        return [text]
    return textwrap.wrap(
        text, max(style.width - indent, 20), break_long_words=False, break_on_hyphens=False
    ) or [""]
