# SPDX-License-Identifier: BSD-2-Clause
"""How programs write that a system call failed: the error in words, by name, or by number.

The C library's texts are those of the running one, and their translations those of its message
catalogs. Other libraries and languages write some errors otherwise (``wording.toml``).
"""

from __future__ import annotations

import gettext
import os
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from retsnoop_py.kernel.errno import ERRNO_NAMES

__all__ = ["Wording"]

#: The folders of the C library's catalogs; the second folder is Ubuntu's.
_CATALOGS = (Path("/usr/share/locale"), Path("/usr/share/locale-langpack"))
#: Variables that choose the language of messages, the strongest first.
_VARIABLES = ("LANGUAGE", "LC_ALL", "LC_MESSAGES", "LANG")
#: Behind other words than errno these are exit statuses, as make(1) writes them: ``Error 1``.
_STATUSES = ("1", "2")
#: A number that the text calls an error.
_NUMBER = re.compile(
    r"(?:errno|err|error|ret|rc|returned)\W{0,3}(-?\d{1,4})\b|= ?(-\d{1,4})\b", re.I
)
#: The name of a language is a folder of catalogs, and no path.
_LANGUAGE = re.compile(r"[\w.@-]+", re.ASCII)
_NAME = re.compile(r"\bE[A-Z0-9]{2,15}\b")


@lru_cache(1)
def _others() -> dict[str, tuple[str, ...]]:
    """By name of an error: how others than the C library write it, in small letters."""
    import tomllib

    text = files(__package__).joinpath("wording.toml").read_text()
    return {name: tuple(words) for name, words in tomllib.loads(text)["words"].items()}


def _catalog(language: str) -> gettext.NullTranslations | None:
    for folder in _CATALOGS:
        try:
            return gettext.translation("libc", folder, [language])
        except OSError:
            continue
    return None


def _languages(variables: Mapping[str, str]) -> list[str]:
    """The languages that a program with these variables may write in, without plain C."""
    named = [one for name in _VARIABLES for one in variables.get(name, "").split(":")]
    plain = [one for one in dict.fromkeys(named) if _LANGUAGE.fullmatch(one)]
    return [one for one in plain if one.partition(".")[0] not in ("", "C", "POSIX")]


def _installed() -> list[str]:
    """All languages that the C library has texts in here."""
    found = [path.parts[-3] for folder in _CATALOGS for path in folder.glob("*/*/libc.mo")]
    return sorted(set(found))


class Wording:
    """Tells which errors a text speaks of; ``variables`` are the program's environment."""

    def __init__(self, variables: Mapping[str, str] | None = None) -> None:
        self._variables = os.environ if variables is None else variables
        self._tables: list[dict[int, str]] = []
        self._unread = self._read()

    def errors(self, text: str) -> frozenset[int]:
        """The errors that the text names: by the C library's words, by name or by number."""
        found = self._named(text)
        if found:
            return found
        small = text.casefold()
        for table in self._texts():
            # the longest first: a text may be the beginning of another one
            hits = [number for number, words in table.items() if words in small]
            if hits:
                longest = max(len(table[number]) for number in hits)
                return frozenset(one for one in hits if len(table[one]) == longest)
        return frozenset()

    def hinted(self, text: str) -> frozenset[int]:
        """The errors that other words in the text may stand for."""
        small = text.casefold()
        hits = {
            name
            for name, words in _others().items()
            if any(one.casefold() in small for one in words)
        }
        return frozenset(number for number, name in ERRNO_NAMES.items() if name in hits)

    def _named(self, text: str) -> frozenset[int]:
        names = set(_NAME.findall(text))
        found = {number for number, name in ERRNO_NAMES.items() if name in names}
        for match in _NUMBER.finditer(text):
            if match[1] in _STATUSES and not match[0].casefold().startswith("errno"):
                continue
            number = abs(int(match[1] or match[2]))
            if number in ERRNO_NAMES:
                found.add(number)
        return frozenset(found)

    def _texts(self) -> Iterator[dict[int, str]]:
        """The C library's texts, in small letters: its own, then of each language.

        A language's are read when none before them fits: that takes a while, with many languages.
        """
        at = 0
        while at < len(self._tables) or self._read_more():
            yield self._tables[at]
            at += 1

    def _read_more(self) -> bool:
        """Read another table; return whether one was left."""
        table = next(self._unread, None)
        if table is not None:
            self._tables.append(table)
        return table is not None

    def _read(self) -> Iterator[dict[int, str]]:
        own = {number: os.strerror(number) for number in ERRNO_NAMES if number < 512}
        own = {one: text for one, text in own.items() if not text.startswith("Unknown error")}
        yield {one: text.casefold() for one, text in own.items()}
        for language in dict.fromkeys([*_languages(self._variables), *_installed()]):
            catalog = _catalog(language)
            if catalog is not None:
                texts = {one: catalog.gettext(text) for one, text in own.items()}
                yield {one: text.casefold() for one, text in texts.items() if text != own[one]}
