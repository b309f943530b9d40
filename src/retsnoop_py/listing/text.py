# SPDX-License-Identifier: BSD-2-Clause
"""A list of functions for a terminal, in groups, and for a pipe, in columns."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator

from retsnoop_py.listing.model import LeftOut, Listed, Listing
from retsnoop_py.render.palette import Palette, paint

__all__ = ["advice", "columns", "groups"]

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
        yield from _declarations(functions, width, palette)
        yield ""
    by_reason: dict[str, list[LeftOut]] = {}
    for refused in listing.left_out:
        by_reason.setdefault(refused.text, []).append(refused)
    for reason, left in by_reason.items():
        yield from _wrap(f"{_count(len(left))} left out: {reason}", width, "", "  ")
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


def _count(number: int) -> str:
    return "1 function" if number == 1 else f"{number} functions"


def _declarations(functions: list[Listed], width: int, palette: Palette) -> Iterator[str]:
    """As a header file has them, entry functions first."""
    functions = sorted(functions, key=lambda function: not function.entry)
    mark = len(_ENTRY) if functions[0].entry else 0
    for function in functions:
        lead = f"  {_ENTRY if function.entry else '':<{mark}}"
        lines = _wrap(_told(function), width, lead, " " * (len(lead) + 4))
        yield from _painted(lines, function, palette)


def _told(function: Listed) -> str:
    """Its prototype, module and source file, as far as they are known."""
    parts = [function.prototype or f"{function.name} (no prototype in BTF)"]
    if function.module:
        parts.append(f"[{function.module}]")
    if function.source:
        parts.append(f"({function.source})")
    return " ".join(parts)


def _painted(lines: Iterable[str], function: Listed, palette: Palette) -> Iterator[str]:
    """The name and the source file stand out, the one forward, the other back."""
    source = f"({function.source})"
    name = re.compile(rf"(?<![\w.]){re.escape(function.name)}(?=[ (])")
    for line in lines:
        named = name.sub(paint(function.name, palette.name), line, count=1)
        yield named.replace(source, paint(source, palette.source))


def _wrap(text: str, width: int, first: str, other: str) -> Iterable[str]:
    return textwrap.wrap(
        text,
        max(width, 60),
        initial_indent=first,
        subsequent_indent=other,
        break_long_words=False,
        break_on_hyphens=False,
    )
