# SPDX-License-Identifier: BSD-2-Clause
"""Failures that a program found itself, by the words that it wrote: the rows of own_words.toml."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from msgspec import Struct

from retsnoop_py.cause.complaint import LINES, lines_of
from retsnoop_py.cause.events import Witnessed
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason
from retsnoop_py.cause.tables import read_table

__all__ = ["Words", "instead_of_call", "own_decision", "own_words"]

_ERRORS = 2


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the head of the file explains each field."""

    pattern: str
    text: str
    advice: tuple[str, ...]
    instead: bool = False
    output: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[Words, ...]


@lru_cache(1)
def own_words() -> tuple[Words, ...]:
    """All rows."""
    return read_table("own_words.toml", _File).words


def own_decision(witnessed: Witnessed) -> Reason | None:
    """Return the meaning of the last line of standard error with a rule; None without one."""
    for line in reversed(lines_of(witnessed)[-LINES:]):
        rows = [one for one in own_words() if one.output or line.stream == _ERRORS]
        found = _meaning(line.text, rows)
        if found is not None:
            return found
    return None


def instead_of_call(text: str) -> Reason | None:
    """Return the meaning of a line that names an error of one of several calls of a search."""
    return _meaning(text, [one for one in own_words() if one.instead])


def _meaning(text: str, rows: Iterable[Words]) -> Reason | None:
    for row in rows:
        found = re.search(row.pattern, text.strip())
        if found is not None:
            names = [one for one in found.groups() if one is not None]
            words = row.text.format(*map(show, names))
            return Reason("program", words, row.advice, is_seen_later=False)
    return None
