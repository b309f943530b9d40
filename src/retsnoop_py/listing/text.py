# SPDX-License-Identifier: BSD-2-Clause
"""A list of functions for a terminal, in groups, and for a pipe, in columns."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from retsnoop_py.listing.model import LeftOut, Listed, Listing
from retsnoop_py.render.palette import Palette, paint

__all__ = ["advice", "columns", "groups"]

#: A longer name stands on a line of its own.
_NAME_MAX = 32
_ENTRY = "entry "


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
        yield f"{_count(len(functions))} traced {how}:"
        yield from _table(functions, width, palette)
        yield ""
    by_reason: dict[str, list[LeftOut]] = {}
    for refused in listing.left_out:
        by_reason.setdefault(refused.text, []).append(refused)
    for reason, left in by_reason.items():
        yield from _wrap(f"{_count(len(left))} left out, {reason}:", width, "", "  ")
        names = ", ".join(refused.label.replace(" ", "\0") for refused in left)
        yield from (line.replace("\0", " ") for line in _wrap(names, width, "  ", "  "))
        yield ""


def advice(listing: Listing) -> Iterator[str]:
    """What a glob may have meant, and what cannot be told."""
    for near in listing.near:
        names = ", ".join(near.names)
        if near.copies:
            yield f"'{near.glob}' has copies made by the compiler that are not traced: {names}"
        elif names:
            yield f"'{near.glob}' matches no kernel function; did you mean {names}?"
        else:
            yield f"'{near.glob}' matches no kernel function"
    yield from listing.notes


def _count(number: int) -> str:
    return "1 function" if number == 1 else f"{number} functions"


def _table(functions: list[Listed], width: int, palette: Palette) -> Iterator[str]:
    mark = len(_ENTRY) if any(function.entry for function in functions) else 0
    shown = [len(f.label) for f in functions if len(f.label) <= _NAME_MAX]
    column = 2 + mark + max(shown, default=0) + 2
    for function in functions:
        lead = "  " + (_ENTRY if function.entry else "").ljust(mark)
        start = f"{lead}{function.label}"
        told = list(_wrap(_told(function), width, " " * column, " " * column))
        if len(start) + 2 <= column and told:
            start, told = f"{start:<{column}}{told[0][column:]}", told[1:]
        source = f"({function.source})"
        yield from (
            line.replace(source, paint(source, palette.source)) for line in (start.rstrip(), *told)
        )


def _told(function: Listed) -> str:
    prototype = function.prototype or "no prototype in BTF"
    return f"{prototype} ({function.source})" if function.source else prototype


def _wrap(text: str, width: int, first: str, other: str) -> Iterable[str]:
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
