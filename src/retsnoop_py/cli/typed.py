# SPDX-License-Identifier: BSD-2-Clause
"""typer, as far as it is used: ``--help`` and completion; sub-commands that are typer's own.

A run has no use for it: see :mod:`retsnoop_py.cli.declare`.

Help is rich's panels on a terminal and plain text of the same groups anywhere else.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.errors import UsageError
from retsnoop_py.options.table import Option, Takes


class GroupedCommand(TyperCommand):
    """A command whose plain help keeps the groups that rich shows as panels."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """What stands behind the name in the usage line."""
        return [self.options_metavar or ""]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write one section per group, in the order of the signature."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            row = param.get_help_record(ctx)
            if row:
                # An optional value is glued to its option, which click cannot say.
                names = row[0].replace(" [=", "[=")
                title = getattr(param, "rich_help_panel", None) or "ARGUMENTS"
                groups.setdefault(title, []).append((names, row[1]))
        for title, rows in groups.items():
            with formatter.section(title):
                formatter.write_dl(rows)


def build(command: Command, *, rich: bool = False, completion: bool = False) -> TyperCommand:
    """The typer command for ``command``.

    ``--help`` is an option of the function's own, so that it stands in a group.
    ``completion`` adds the two options typer brings along.
    """
    app = typer.Typer(
        add_completion=completion,
        rich_markup_mode="rich" if rich else None,
        pretty_exceptions_enable=False,
    )
    app.command(
        cls=GroupedCommand,
        # Backspace keeps lines as they are for click; rich does so anyway.
        help=command.text.replace("\b\n", "") if rich else command.text,
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

    parameters = [_parameter(_name_of(option), *_option(option)) for option in command.options]
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


def call(command: Any, argv: Sequence[str], name: str) -> Any:
    """Run a typer command and give what its function returns, or the exit status it asked for.

    Raises :class:`UsageError` for words it does not understand.
    """
    try:
        return command.main(args=list(argv), prog_name=name, standalone_mode=False)
    except Exception as error:
        # click's, of which newer typers have a copy of their own: it is known by what it can do
        told = getattr(error, "format_message", None)
        if told is None:
            raise
        raise UsageError(told().rstrip("."), f"'{name} --help' lists the options") from None


def show_help(command: Command) -> None:
    """Print the help of ``command`` to standard output."""
    panel = command.completion_panel
    built = build(command, rich=_on_terminal(), completion=panel is not None)
    for param in built.params:
        if param.name in ("install_completion", "show_completion"):
            param.rich_help_panel = panel  # type: ignore[attr-defined]
            param.hidden = param.name == "show_completion"  # type: ignore[attr-defined]
    context = typer.Context(built, info_name=command.name, max_content_width=100)
    written = built.get_help(context)
    # Rich has printed by then and leaves nothing to write.
    if written:
        print(written)


def _on_terminal() -> bool:
    """Whether help may use boxes and colours."""
    return sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
