# SPDX-License-Identifier: BSD-2-Clause
"""What the shell asks for on TAB: a group of all commands, with trace as the unnamed one."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup
from typer.main import get_command

from retsnoop_py.cli import help as pages
from retsnoop_py.cli import trace, typed
from retsnoop_py.cli.positional import SUB_COMMANDS


class Commands(TyperGroup):
    """The sub-commands, loaded when needed; any other first word belongs to trace."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put the word in front that people leave out."""
        if args and args[0] not in SUB_COMMANDS:
            args = ["trace", *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - click's signature
        """The command of that name, None if there is none."""
        known = pages.commands()
        if cmd_name in known:
            return typed.build(known[cmd_name])
        if cmd_name == "vm":
            from retsnoop_py.cli import vm

            return get_command(vm.app)
        return None

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - click's signature
        """The names worth completing."""
        return list(SUB_COMMANDS)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        """Sub-commands, or the options of trace."""
        if not incomplete.startswith("-"):
            return super().shell_complete(ctx, incomplete)
        command = self.get_command(ctx, "trace")
        return command.shell_complete(
            command.make_context("trace", [], parent=ctx, resilient_parsing=True), incomplete
        )


def run() -> int:
    """Answer the request in the environment; ends the program by :class:`SystemExit`."""
    # Building any app with completion is what makes typer know the shells.
    typed.build(trace.COMMAND, completion=True)
    Commands(name="retsnoop-py", add_help_option=False).main(prog_name="retsnoop-py")
    return 0
