# SPDX-License-Identifier: BSD-2-Clause
"""typer, as far as it is used: ``--help`` and completion; sub-commands that are typer's own.

A run has no use for it: see :mod:`retsnoop_py.cli.declare`.

Help is rich's panels on a terminal and plain text of the same groups anywhere else.
"""

from __future__ import annotations

import inspect
import os
import sys
import typing
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from retsnoop_py.cli.declare import Argument, Command, Option, Param, params
from retsnoop_py.errors import UsageError

#: ClickException, by way of BadParameter and UsageError: newer typers have their own copy of
#: click and older ones use the package, but all export this class.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


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
    )(_for_typer(command.function))
    built = get_command(app)
    assert isinstance(built, TyperCommand)
    return built


def _for_typer(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with what is declared of its parameters in typer's words."""

    def called(**values: Any) -> Any:
        return function(**values)

    declared = {param.name: _annotation(param) for param in params(function)}
    signature = inspect.signature(function)
    called.__name__ = function.__name__
    called.__annotations__ = declared
    called.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[
            parameter.replace(annotation=declared[name])
            for name, parameter in signature.parameters.items()
        ],
        return_annotation=inspect.Signature.empty,
    )
    return called


def _annotation(param: Param) -> Any:
    """The type of a parameter with typer's own object for it."""
    made = _argument if isinstance(param.declared, Argument) else _option
    return Annotated[param.type, made(param)]


def _option(param: Param) -> Any:
    option = typing.cast("Option", param.declared)
    return typer.Option(
        *option.names,
        metavar=option.metavar if option.metavar or option.count else None,
        help=option.help,
        rich_help_panel=option.panel,
        hidden=option.hidden,
        show_default=False,
        count=option.count,
        default_factory=list if param.type == list[str] else None,
        autocompletion=option.complete,
    )


def _argument(param: Param) -> Any:
    argument = typing.cast("Argument", param.declared)
    return typer.Argument(
        metavar=argument.metavar,
        help=argument.help,
        hidden=argument.hidden,
        show_default=False,
        default_factory=list if param.type == list[str] else None,
    )


def call(command: Any, argv: Sequence[str], name: str) -> Any:
    """Run a typer command and give what its function returns, or the exit status it asked for.

    Raises :class:`UsageError` for words it does not understand.
    """
    try:
        return command.main(args=list(argv), prog_name=name, standalone_mode=False)
    except _CLICK_ERROR as error:
        message = error.format_message()  # type: ignore[attr-defined]
        raise UsageError(message.rstrip("."), f"'{name} --help' lists the options") from None


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
