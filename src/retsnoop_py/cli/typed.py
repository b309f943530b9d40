# SPDX-License-Identifier: BSD-2-Clause
"""typer, as far as it is used: words to values, and ``--help``.

Help is rich's panels on a terminal and plain text of the same groups anywhere else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from retsnoop_py.errors import UsageError

#: ClickException, by way of BadParameter and UsageError: newer typers have their own copy of
#: click and older ones use the package, but all export this class.
_CLICK_ERROR: type[Exception] = typer.BadParameter.__mro__[2]


@dataclass(frozen=True, slots=True)
class Command:
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
    )(command.function)
    built = get_command(app)
    assert isinstance(built, TyperCommand)
    return built


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
