# SPDX-License-Identifier: BSD-2-Clause
"""A list of functions for a terminal, in groups, and for a pipe, in columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from retsnoop_py.listing.build import LeftOut, Listed, Listing
from retsnoop_py.render.palette import Palette
from retsnoop_py.text import counted

if TYPE_CHECKING:
    from retsnoop_py.terminal import Cell

__all__ = ["advice", "columns", "groups"]

#: Columns from which on a source file stands beside its function.
_BESIDE = 100


def columns(listing: Listing) -> Iterator[str]:
    """A line per function, tabs between: status, name, module, mechanism, source, and a text.

    The status is ``entry``, ``traced`` or ``left-out``, the text the prototype or, of what is
    left out, the reason. ``-`` stands for nothing.
    """
    for function in listing.functions:
        status = "entry" if function.entry else "traced"
        fields = (function.module, function.mechanism, function.source, function.prototype)
        yield "\t".join((status, function.name, *(field or "-" for field in fields)))
    for refused in listing.left_out:
        yield "\t".join(("left-out", refused.name, refused.module or "-", "-", "-", refused.text))


def groups(listing: Listing, width: int, palette: Palette) -> Iterator[str]:
    """For people: what each mechanism takes, then what is left out by reason; ``width`` columns."""
    by_mechanism: dict[str | None, list[Listed]] = {}
    for function in listing.functions:
        by_mechanism.setdefault(function.mechanism, []).append(function)
    for mechanism, functions in by_mechanism.items():
        how = f"by {mechanism}" if mechanism else "(by which mechanism cannot be told here)"
        yield f"{counted(len(functions), 'function')} traced {how}:"
        yield from _table(functions, width, palette)
        yield ""
    by_reason: dict[str, list[LeftOut]] = {}
    for refused in listing.left_out:
        by_reason.setdefault(refused.text, []).append(refused)
    for reason, left in by_reason.items():
        yield from _wrap(f"{counted(len(left), 'function')} left out: {reason}", width, "", "  ")
        names = ", ".join(refused.label.replace(" ", "\0") for refused in left)
        yield from (line.replace("\0", " ") for line in _wrap(names, width, "  ", "  "))
        yield ""


def advice(listing: Listing, width: int = 0) -> Iterator[str]:
    """What a glob may have meant, and what cannot be told; in ``width`` columns unless 0."""
    for line in _advice(listing):
        yield from _wrap(line, width, "", "  ") if width else (line,)


def _advice(listing: Listing) -> Iterator[str]:
    for near in listing.near:
        names = ", ".join(near.names)
        if near.copies:
            yield f"'{near.glob}' has copies made by the compiler that are not traced: {names}"
        elif names:
            yield f"'{near.glob}' matches no kernel function; did you mean {names}?"
        else:
            yield f"'{near.glob}' matches no kernel function"
    yield from listing.notes


def _table(functions: list[Listed], width: int, palette: Palette) -> Iterator[str]:
    """As a header file has them, entry functions first, with the file beside or below."""
    from retsnoop_py.terminal import Column, table_lines

    functions = sorted(functions, key=lambda function: not function.entry)
    is_beside = width >= _BESIDE and any(function.source for function in functions)
    rows: list[tuple[Cell, ...]] = []
    for function in functions:
        told = function.prototype or f"{function.name} (no prototype in BTF)"
        if function.module:
            told += f" [{function.module}]"
        source = function.source or ""
        beside: tuple[Cell, ...] = (told, (source, "dim"))
        mark = ("entry" if function.entry else "",) if functions[0].entry else ()
        rows.append((*mark, *(beside if is_beside else (f"{told}\n{source}".rstrip(),))))
    marked = [Column()] if functions[0].entry else []
    columns = [*marked, Column(ratio=2), *([Column(ratio=1)] if is_beside else [])]
    names = {function.name for function in functions}
    colour = bool(palette.name)
    lines = table_lines(columns, rows, max(width - 2, 40), colour=colour, bold=names)
    yield from (f"  {line}" for line in lines)


def _wrap(text: str, width: int, first: str, other: str) -> Iterable[str]:
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
