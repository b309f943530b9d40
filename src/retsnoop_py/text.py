# SPDX-License-Identifier: BSD-2-Clause
"""Text for people: width on a terminal, escaped control characters, plurals, suggestions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

#: See :func:`close_names`: all functions of a kernel are less, and the worst names take 5 s.
_COMPARED = 60_000_000
_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def display_width(text: str) -> int:
    """Return the width of ``text`` in terminal columns."""
    if text.isascii():
        return len(text)
    # a row of a call trace has one or two such characters: an arrow, an ellipsis
    return len(text) + sum(map(_wider, _NOT_ASCII.findall(text)))


def pad(text: str, width: int) -> str:
    """Return ``text`` padded at the right with blanks to ``width`` columns."""
    return text + " " * (width - display_width(text))


def printable(text: str) -> str:
    r"""Return ``text`` with every control character escaped, as ``\x1b``.

    A thread may have any name, including escape sequences and line ends, and a recording may be
    forged. So every foreign name, note and message passes through here on its way to a terminal.
    """
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() else char.encode("unicode_escape").decode() for char in text
    )


def printable_lines(text: str) -> str:
    """Return ``text`` with control characters escaped, except line ends and tabs."""
    return "\n".join(map(printable_line, text.split("\n")))


def printable_line(text: str) -> str:
    """Return a line of input with control characters escaped, except tabs."""
    return "\t".join(map(printable, text.split("\t")))


def printable_json(text: str) -> str:
    r"""Return a JSON document with all control characters as ``\uNNNN``.

    The decoded document stays the same.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else json_escaped(char) for char in text)


def json_escaped(char: str) -> str:
    r"""Return a character as ``\uNNNN``, as two beyond the Basic Multilingual Plane."""
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i : i + 2].hex()}" for i in range(0, len(units), 2))


@lru_cache(1 << 12)
def _wider(char: str) -> int:
    """Return the width of ``char`` in columns, minus one: 1, 0 or -1."""
    import unicodedata

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return -1
    return int(unicodedata.east_asian_width(char) in ("W", "F"))


def counted(number: int, noun: str) -> str:
    """Return ``1 function``, ``2 functions``: for nouns that have a plural with s."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


#: The maximum difference in similarity between the best suggestion and further ones.
_ALIKE = 0.1
#: From this length on, half of a word's letters are too few to suggest it.
_SHORT = 3


def named(names: Sequence[str], most: int = 3) -> str:
    """Return ``'a', 'b', 'c' and 7 more``: the first ``most`` names and the number of others."""
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
    """Return the names of ``known`` that are similar to ``name``, the nearest first.

    Names after the nearest are included only if they are about as similar.
    """
    from difflib import SequenceMatcher

    # In a word of two letters, one letter may be wrong.
    found = close_names(name, known, most, 0.5 if len(name) < _SHORT else 0.6)
    matcher = SequenceMatcher(b=name)
    ratios = []
    for one in found:
        matcher.set_seq1(one)
        ratios.append(matcher.ratio())
    return [one for one, ratio in zip(found, ratios, strict=True) if ratio > ratios[0] - _ALIKE]


def did_you_mean(names: Sequence[str]) -> str | None:
    """Return the hint that suggests ``names``; None if ``names`` is empty."""
    return f"did you mean {' or '.join(names)}?" if names else None


def parse_release(text: str) -> tuple[int, int]:
    """Return ``6.12.3-amd64`` as (6, 12); (0, 0) if ``text`` is not a release."""
    major, _, rest = text.partition(".")
    minor = ""
    for letter in rest:
        if not letter.isdigit():
            break
        minor += letter
    return (int(major), int(minor)) if major.isdigit() and minor else (0, 0)


def wrapped(text: str, indent: int, columns: int) -> list[str]:
    """Return plain ``text`` as lines of at most ``columns``; 0: as one line."""
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
