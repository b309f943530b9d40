# SPDX-License-Identifier: BSD-2-Clause
"""How a command says what it takes: annotations of its parameters, which cost nothing to make.

Two readers make use of them. :func:`call` gives a normalised command line to the function,
which is all a run needs; :mod:`retsnoop_py.cli.typed` makes typer's objects of them, for help
and completion. A unit test holds both to the same values.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

from retsnoop_py.cli.argv import Kind, Normalised, Spec
from retsnoop_py.errors import UsageError
from retsnoop_py.value import Value


class Option:
    """An option: its names with dashes, and what its help says.

    ``count``: each time it is given adds one. ``complete`` gives the values that start with a
    text, for the shell. ``implied``: what it means without a value, which is then glued or
    absent. ``dashed``: a separate value may start with ``-``.
    """

    def __init__(  # noqa: PLR0913 - as many as an option has properties
        self,
        *names: str,
        metavar: str = "",
        help: str | None = None,  # noqa: A002 - as typer calls it
        panel: str | None = None,
        hidden: bool = False,
        count: bool = False,
        complete: Callable[[str], list[str]] | None = None,
        implied: str | None = None,
        dashed: bool = False,
    ) -> None:
        self.names = names
        self.metavar = metavar
        self.help = help
        self.panel = panel
        self.hidden = hidden
        self.count = count
        self.complete = complete
        self.implied = implied
        self.dashed = dashed

    def spec(self, kind: Any) -> Spec:
        """What the normaliser needs to know of it; ``kind`` is the type of its values."""
        long = next(name[2:] for name in self.names if name.startswith("--"))
        short = next((name[1:] for name in self.names if not name.startswith("--")), None)
        if kind is bool or self.count:
            how = Kind.FLAG
        else:
            how = Kind.VALUE if self.implied is None else Kind.OPTIONAL
        return Spec(long, short, how, self.metavar, self.implied or "", self.dashed)


class Argument(Value):
    """The words that belong to no option: all of them for a list, else exactly one."""

    metavar: str
    help: str | None = None
    hidden: bool = False


class Command(Value):
    """One command: its function, its name, and what its help says.

    ``synopsis`` stands behind the name in the help's first line, ``usage`` is all that
    ``--usage`` prints. ``completion_panel`` names the group of typer's completion option.
    """

    function: Callable[..., Any]
    name: str
    synopsis: str
    text: str
    usage: str
    completion_panel: str | None = None


class Param(Value):
    """A parameter of a command's function: its name, its type, what is declared of it."""

    name: str
    type: Any
    declared: Option | Argument


@functools.cache
def params(function: Callable[..., Any]) -> tuple[Param, ...]:
    """The parameters of ``function`` that the command line fills, in their order."""
    hints = typing.get_type_hints(function, include_extras=True)
    return tuple(
        [
            Param(name, hint.__origin__, extra)
            for name, hint in hints.items()
            for extra in getattr(hint, "__metadata__", ())
            if isinstance(extra, (Option, Argument))
        ]
    )


def specs(function: Callable[..., Any]) -> list[Spec]:
    """What the normaliser needs to know of the options of ``function``."""
    return [p.declared.spec(p.type) for p in params(function) if isinstance(p.declared, Option)]


def call(command: Command, line: Normalised) -> Any:
    """Call the function of ``command`` with the values in ``line``; gives what it returns.

    Raises :class:`UsageError` for more or fewer words than it takes.
    """
    given: dict[str, list[str | None]] = {}
    for name, value in line.options:
        given.setdefault(name, []).append(value)
    filled: dict[str, Any] = {}
    for param in params(command.function):
        if isinstance(param.declared, Argument):
            filled[param.name] = _words(param, line)
            continue
        values = given.get(param.declared.spec(param.type).long, [])
        if param.type is bool:
            filled[param.name] = bool(values)
        elif param.declared.count:
            filled[param.name] = len(values)
        elif param.type == list[str]:
            filled[param.name] = values
        elif values:
            filled[param.name] = values[-1]
    return command.function(**filled)


def _words(param: Param, line: Normalised) -> Any:
    """The positional words as a value of ``param``."""
    words = [*(word.text for word in line.words), *(line.command or ())]
    if param.type == list[str]:
        return words
    if len(words) != 1:
        raise UsageError(f"one {param.declared.metavar} is needed, not {len(words)}")
    return words[0]
