# SPDX-License-Identifier: BSD-2-Clause
"""Meanings of members and arguments that BTF lacks, from ``semantics.toml`` and the user's file.

They become part of the types and arguments in a recording, so that a replay on any machine prints
the same as the live run.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

import msgspec

from retsnoop_py.errors import DataError
from retsnoop_py.package import read, user_file
from retsnoop_py.settings_file import read_user_file
from retsnoop_py.unprivileged import settings

__all__ = ["USER_FILE", "File", "Located", "Semantics", "UnionRule", "load_semantics", "parse"]

#: The user's own file.
USER_FILE = "arguments.toml"
_SHIPPED = Path(__file__).with_name("semantics.toml")
_PATH = re.compile(r"\w+(\.\w+)*")
_MEMBER = re.compile(r"\w+(\.\w+)+")
_ARGUMENT = re.compile(r"[^\s()]+\(\w+\)")
_TAG = re.compile(r"\(\w+\)|\w+(\.\w+)*")
_CAST = re.compile(r"struct \w+")
_FORMS = {
    _PATH: "a member",
    _MEMBER: "TYPE.MEMBER",
    _ARGUMENT: "FUNCTION(ARGUMENT)",
    _TAG: "a member or (ARGUMENT)",
    _CAST: "a list of members or 'struct NAME'",
}


class UnionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An entry of ``[[unions]]``; semantics.toml describes the fields."""

    of: str | list[str]
    tag: str
    variants: dict[str, list[str] | str]
    enum: str = ""
    flags: list[str] = []
    functions: dict[str, list[str]] = {}

    @property
    def places(self) -> list[str]:
        """Return all paths in ``of``."""
        return [self.of] if isinstance(self.of, str) else self.of

    @property
    def argument(self) -> str:
        """Return the argument that is the tag; empty if the tag is a member."""
        return self.tag[1:-1] if self.tag.startswith("(") else ""


class File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The contents of a file."""

    constants: dict[str, dict[str, int]] = {}
    anonymous: dict[str, str] = {}
    enums: dict[str, list[str]] = {}
    unions: list[UnionRule] = []
    sentinels: dict[str, dict[str, int]] = {}
    unfollowed: dict[str, list[str]] = {}


class Located(NamedTuple):
    """A rule for the union at ``path`` in a type; an empty path means the type itself.

    ``functions``: globs of functions, and the value that the tag has in these functions.
    """

    path: str
    rule: UnionRule
    functions: tuple[tuple[str, str], ...]

    def variant_in(self, function: str) -> str | None:
        """Return the value of the tag in every call of this function, or None."""
        return _first(self.functions, function)


class Semantics:
    """Lookup by names of types, functions and arguments; the first of several rules counts."""

    def __init__(self, files: Iterable[File] = ()) -> None:
        self._constants: dict[str, dict[str, int]] = {}
        self._anonymous: dict[str, str] = {}
        self._members: dict[str, dict[str, str]] = {}
        self._rules: dict[str, list[Located]] = {}
        #: By the name of the argument: globs of functions, and the meaning in these functions.
        self._enums: dict[str, list[tuple[str, str]]] = {}
        self._notes: dict[str, list[tuple[str, str]]] = {}
        for file in files:
            self._add(file)

    def _add(self, file: File) -> None:
        for name, constants in (*file.constants.items(), *file.sentinels.items()):
            self._constants.setdefault(name, constants)
        self._anonymous = file.anonymous | self._anonymous
        for enum, places in (*file.enums.items(), *((name, [name]) for name in file.sentinels)):
            for place in places:
                if place.endswith(")"):
                    glob, argument = _argument(place)
                    self._enums.setdefault(argument, []).append((glob, enum))
                else:
                    owner, _, path = place.partition(".")
                    self._members.setdefault(owner, {}).setdefault(path, enum)
        for rule in file.unions:
            functions = tuple(
                [(one, value) for value, globs in rule.functions.items() for one in globs]
            )
            for place in rule.places:
                owner, _, path = place.partition(".")
                self._rules.setdefault(owner, []).append(Located(path, rule, functions))
        for note, places in file.unfollowed.items():
            for glob, argument in map(_argument, places):
                self._notes.setdefault(argument, []).append((glob, note))

    def constants(self, name: str) -> Mapping[str, int]:
        """Return the constants with that name that BTF lacks."""
        return self._constants.get(name, {})

    def first_constant(self, enum: str) -> str | None:
        """Return the first constant of the unnamed BTF enum that is called ``enum`` here."""
        return self._anonymous.get(enum)

    def members(self, owner: str) -> tuple[tuple[str, str], ...]:
        """Return the members of a type that are constants: path, and name of the constants."""
        return tuple(self._members.get(owner, {}).items())

    def rules(self, owner: str) -> list[Located]:
        """Return the rules for the unions in a type."""
        return self._rules.get(owner, [])

    def enum_of(self, function: str, argument: str) -> str | None:
        """Return the name of the constants to which an argument belongs, or None."""
        return _first(self._enums.get(argument, ()), function)

    def note_of(self, function: str, argument: str) -> str | None:
        """Return why a pointer argument is not followed; None if it is."""
        return _first(self._notes.get(argument, ()), function)


def _argument(place: str) -> tuple[str, str]:
    """Return a glob of functions, and the name of their argument."""
    function, _, argument = place.rstrip(")").partition("(")
    return function, argument


def _first(known: Iterable[tuple[str, str]], function: str) -> str | None:
    """Return the entry of the first glob that matches ``function``; few globs are compiled."""
    for glob, what in known:
        if glob == function or ("*" in glob and fnmatchcase(function, glob)):
            return what
    return None


def load_semantics() -> Semantics:
    """Return the shipped semantics, after those of the user's own file if it exists.

    The file is below ``$XDG_CONFIG_HOME`` or ``~/.config``. Raise DataError if it cannot be read or
    is invalid.
    """
    path = user_file(USER_FILE)
    try:
        own = read_user_file(USER_FILE)
    except OSError as error:
        raise _wrong(path, error.strerror or str(error)) from None
    files = [] if own is None else [parse(own, path)]
    return Semantics([*files, parse(read(_SHIPPED), _SHIPPED)])


def parse(data: bytes, path: Path) -> File:
    """Return the contents of the file ``path``; raise DataError with the name of a wrong entry."""
    try:
        text = data.decode()
        read_text = tomllib.loads(text) if path == _SHIPPED else settings.toml(text, str(path))
        found = msgspec.convert(read_text, File)
    except ValueError as err:  # errors of TOML, UTF-8 and msgspec
        what, _, where = str(err).partition(" - at `$.")
        raise _wrong(path, f"{where.rstrip('`')}: {what}" if where else what) from None
    for entry, text, form in _texts(found):
        if not form.fullmatch(text):
            raise _wrong(path, f"{entry}: '{text}' is not {_FORMS[form]}")
    return found


def _texts(file: File) -> Iterator[tuple[str, str, re.Pattern[str]]]:
    """Yield all texts with a required form: entry, text and form."""
    for enum, places in file.enums.items():
        for place in places:
            yield f"enums.{enum}", place, _ARGUMENT if place.endswith(")") else _MEMBER
    for place in file.sentinels:
        yield "sentinels", place, _MEMBER
    for note, places in file.unfollowed.items():
        for place in places:
            yield f'unfollowed."{note}"', place, _ARGUMENT
    for number, rule in enumerate(file.unions):
        entry = f"unions[{number}]"
        for place in rule.places:
            yield f"{entry}.of", place, _PATH
        yield f"{entry}.tag", rule.tag, _TAG
        for value, meant in rule.variants.items():
            where = f"{entry}.variants.{value}"
            if isinstance(meant, str):
                yield where, meant, _CAST
            else:
                yield from ((where, member, _PATH) for member in meant)


def _wrong(path: Path, why: str) -> DataError:
    return DataError(f"{path}: {why}", "docs/arguments.md describes the format of this file")
