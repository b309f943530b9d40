# SPDX-License-Identifier: BSD-2-Clause
"""typer, as far as it is used: running the sub-commands of ``vm``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retsnoop_py.errors import UsageError
from retsnoop_py.text import did_you_mean, near_names


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
        path = getattr(getattr(error, "ctx", None), "command_path", name)
        option = getattr(error, "option_name", "")
        near = near_names(option, getattr(error, "possibilities", None) or ())
        message = f"unknown option {option}" if near else told().rstrip(".")
        hint = did_you_mean(near) or f"'{path} --help' lists the options"
        raise UsageError(message, hint) from None
