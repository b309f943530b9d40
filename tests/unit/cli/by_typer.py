# SPDX-License-Identifier: BSD-2-Clause
"""A command of retsnoop-py as typer would have it: a second reader of its options."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.options.table import Option, Takes


class SynopsisCommand(TyperCommand):
    """A command whose usage line is written by hand."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """What stands behind the name in the usage line."""
        return [self.options_metavar or ""]


def build(command: Command) -> TyperCommand:
    """The typer command for ``command``.

    ``--help`` is an option of the function's own, so that it stands in a group.
    """
    app = typer.Typer(
        add_completion=False,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
    )
    app.command(
        cls=SynopsisCommand,
        # Rich keeps lines as they are without being told.
        help=command.text.replace("\b\n", ""),
        add_help_option=False,
        options_metavar=command.synopsis,
    )(_for_typer(command))
    built = get_command(app)
    assert isinstance(built, TyperCommand)
    return built


def _for_typer(command: Command) -> Callable[..., Any]:
    """A function with a parameter in typer's words for each option; gives what was said of them."""

    def called(**values: Any) -> Any:
        return values

    parameters = [
        _parameter(_name_of(option), *_option(option))
        for option in command.options
        if option.name not in COMPLETION
    ]
    if command.argument is not None:
        at = 0 if command.argument.help else len(parameters)
        parameters.insert(at, _parameter("words", *_argument(command.argument)))
    called.__name__ = command.name.rpartition(" ")[2]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return called


def _name_of(option: Option) -> str:
    """A name that no word of Python is."""
    return "option_" + option.name.replace("-", "_")


def _parameter(name: str, kind: Any, told: Any, default: Any) -> inspect.Parameter:
    if kind == list[str]:
        default = inspect.Parameter.empty  # typer makes one each time
    where = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, where, default=default, annotation=Annotated[kind, told])


def _option(option: Option) -> tuple[Any, Any, Any]:
    """Type, typer's object, default."""
    counts = option.takes is Takes.COUNT
    kind, default = _TYPES[option.takes]
    told = typer.Option(
        *option.spellings,
        metavar=option.metavar if option.metavar or counts else None,
        help=option.help or None,
        rich_help_panel=option.panel or None,
        hidden=option.hidden,
        show_default=False,
        count=counts,
        default_factory=list if kind == list[str] else None,
        autocompletion=option.complete,
    )
    return kind, told, default


#: Options that typer brings along.
COMPLETION = ("install-completion", "show-completion")
#: Types of parameters, and their defaults.
_TYPES: dict[Takes, tuple[Any, Any]] = {
    Takes.FLAG: (bool, False),
    Takes.COUNT: (int, 0),
    Takes.ONE: (str | None, None),
    Takes.MANY: (list[str], None),
}


def _argument(argument: Argument) -> tuple[Any, Any, Any]:
    """The same for the words that belong to no option."""
    kind = list[str] if argument.many else str
    told = typer.Argument(
        metavar=argument.metavar,
        help=argument.help,
        hidden=argument.hidden,
        show_default=False,
        default_factory=list if argument.many else None,
        autocompletion=argument.complete,
    )
    return kind, told, inspect.Parameter.empty
