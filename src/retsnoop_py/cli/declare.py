# SPDX-License-Identifier: BSD-2-Clause
"""What a command is, and what a normalised command line says to it.

Two readers make use of the rows of options. :func:`words_of` is all a run needs;
:mod:`retsnoop_py.cli.typed` makes typer's objects of them, for help and completion. A unit test
holds both to the same values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retsnoop_py.cli.argv import Kind, Normalised, Spec
from retsnoop_py.options.table import Option, Takes, Words
from retsnoop_py.value import Value

__all__ = ["Argument", "Command", "command_of", "spec_of", "words_of"]


class Argument(Value):
    """The words that belong to no option: any number of them, or exactly one.

    ``complete``: the texts that start with one, for the shell.
    """

    metavar: str
    help: str | None = None
    hidden: bool = False
    many: bool = False
    complete: Callable[[str], list[str]] | None = None


class Command(Value):
    """One command: its name, its options, and what its help says.

    ``request`` makes of the words of options, and those that belong to none, what is to be done;
    it raises UsageError or InputError. ``synopsis`` stands behind the name in the help's first
    line, ``usage`` is all that ``--usage`` prints. ``completion_panel`` names the group of typer's
    completion option.
    """

    request: Callable[[Words, list[str]], Any]
    options: tuple[Option, ...]
    argument: Argument | None
    name: str
    synopsis: str
    text: str
    usage: str
    completion_panel: str | None = None

    def call(self, line: Normalised) -> Any:
        """What ``line`` asks for."""
        words = [*(word.text for word in line.words), *(line.command or ())]
        return self.request(words_of(self.options, line), words)


def command_of(name: str) -> Command:
    """The command called ``name``, "trace" for the one without a name; all but vm, typer's own."""
    from importlib import import_module

    command: Command = import_module(f"retsnoop_py.cli.{name}").COMMAND
    return command


def spec_of(option: Option) -> Spec:
    """What the normaliser needs to know of an option."""
    how = Kind.VALUE if option.implied is None else Kind.OPTIONAL
    if option.takes in (Takes.FLAG, Takes.COUNT):
        how = Kind.FLAG
    implied = option.implied or ""
    return Spec(option.name, option.short, how, option.metavar, implied, option.dashed)


def words_of(options: tuple[Option, ...], line: Normalised) -> Words:
    """What ``line`` says of ``options``; the words behind ``--`` are the command."""
    given: dict[str, list[str | None]] = {}
    for name, text in line.options:
        given.setdefault(name, []).append(text)
    said: dict[str, Any] = {}
    for option in options:
        texts = given.get(option.name)
        if not texts:
            continue
        match option.takes:
            case Takes.FLAG:
                said[option.name] = True
            case Takes.COUNT:
                said[option.name] = len(texts)
            case Takes.ONE:
                said[option.name] = texts[-1]
            case Takes.MANY:
                said[option.name] = texts
    return Words(said, tuple(line.command or ()))
