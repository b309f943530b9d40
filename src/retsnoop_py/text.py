# SPDX-License-Identifier: BSD-2-Clause
"""Text for people: columns as a terminal shows them, nothing it would obey, plurals, guesses."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

#: See :func:`close_names`: all functions of a kernel are less, and the worst names take 5 s.
_COMPARED = 60_000_000
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def display_width(text: str) -> int:
    """How many terminal columns ``text`` takes."""
    if text.isascii():
        return len(text)
    # a row of a call trace has one or two such characters: an arrow, an ellipsis
    return len(text) + sum(map(_wider, _NOT_ASCII.findall(text)))


def pad(text: str, width: int) -> str:
    """``text`` filled with blanks to ``width`` columns, at the right."""
    return text + " " * (width - display_width(text))


def printable(text: str) -> str:
    r"""``text`` with every control character written out, as ``\x1b``.

    A thread may call itself anything, escape sequences and line ends included, and a recording
    may have been made to: every name, note and message that comes from elsewhere is written
    through here on its way to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """The same of several lines: line ends and tabs stay what they are."""
    return "\n".join(map(printable_line, text.split("\n")))


def printable_line(text: str) -> str:
    """The same of one line that comes from input: tabs stay, a line end is written out."""
    return "\t".join(map(printable, text.split("\t")))


def printable_json(text: str) -> str:
    r"""A JSON document with everything that a terminal would obey as ``\uNNNN``.

    A program reads the same from it.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json_escaped(char) for char in text)


def json_escaped(char: str) -> str:
    r"""A character as ``\uNNNN``, twice beyond the Basic Multilingual Plane."""
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


@lru_cache(1 << 12)
def _wider(char: str) -> int:
    """How many columns more than one ``char`` takes: 1, 0 or -1."""
    import unicodedata

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return -1
    return int(unicodedata.east_asian_width(char) in ("W", "F"))


def counted(number: int, noun: str) -> str:
    """``1 function``, ``2 functions``: for nouns whose plural has an s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


#: How much less like a word another one may be that is offered as well.
_ALIKE = 0.1
#: The length from which half of a word's letters are too few to know it by.
_SHORT = 3


def named(names: Sequence[str], most: int = 3) -> str:
    """``'a', 'b', 'c' and 7 more``: the first of ``names``, and how many there are besides."""
    shown = ", ".join(f"'{name}'" for name in names[:most])
    more = len(names) - most
    return f"{shown} and {more:,} more" if more > 0 else shown


def close_names(
    name: str, known: Iterable[str], most: int, cutoff: float = 0.6, room: int = _COMPARED
) -> list[str]:
    """Return at most ``most`` of ``known`` that are like ``name``, the nearest first (difflib).

    ``room`` limits the characters of ``name`` times those of the others: difflib takes 3 ms for two
    names of 200 similar characters, and somebody else may have made a hundred thousand of them.
    """
    from difflib import get_close_matches

    compared = []
    for one in known:
        room -= (len(one) + 1) * (len(name) + 1)
        if room < 0:
            break
        compared.append(one)
    return get_close_matches(name, compared, most, cutoff)


def near_names(name: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Those of ``known`` that ``name`` may have been meant to be, the nearest first.

    Others beside the nearest only if they are about as near.
    """
    from difflib import SequenceMatcher

    # of two letters one may be wrong
    found = close_names(name, known, most, 0.5 if len(name) < _SHORT else 0.6)
    matcher = SequenceMatcher(b=name)
    ratios = []
    for one in found:
        matcher.set_seq1(one)
        ratios.append(matcher.ratio())
    return [one for one, ratio in zip(found, ratios, strict=True) if ratio > ratios[0] - _ALIKE]


def did_you_mean(names: Sequence[str]) -> str | None:
    """The hint that offers ``names``; None if there are none."""
    return f"did you mean {' or '.join(names)}?" if names else None


def parse_release(text: str) -> tuple[int, int]:
    """``6.12.3-amd64`` as (6, 12); (0, 0) for what is no release."""
    major, _, rest = text.partition(".")
    minor = ""
    for letter in rest:
        if not letter.isdigit():
            break
        minor += letter
    return (int(major), int(minor)) if major.isdigit() and minor else (0, 0)


def wrapped(text: str, indent: int, columns: int) -> list[str]:
    """``text``, which is plain, as lines of so many ``columns``; 0: as one."""
    from textwrap import wrap

    before = " " * indent
    if not columns:
        return [before + text]
    return wrap(
        text,
        max(columns, indent + 20),
        initial_indent=before,
        subsequent_indent=before,
        break_long_words=False,
        break_on_hyphens=False,
    )
