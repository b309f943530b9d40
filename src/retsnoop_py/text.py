# SPDX-License-Identifier: BSD-2-Clause
"""Text in columns: widths as a terminal shows them, and nothing a terminal would obey."""

from __future__ import annotations


def display_width(text: str) -> int:
    """How many terminal columns ``text`` takes."""
    if text.isascii():
        return len(text)
    return sum(map(_char_width, text))


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
    lines = text.split("\n")
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in lines)


def _char_width(char: str) -> int:
    import unicodedata

    if unicodedata.combining(char) or unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
