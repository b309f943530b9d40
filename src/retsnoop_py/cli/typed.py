# SPDX-License-Identifier: BSD-2-Clause
"""The interface to typer, which runs the sub-commands of ``vm``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retsnoop_py.errors import UsageError
from retsnoop_py.text import did_you_mean, near_names


def call(command: Any, argv: Sequence[str], name: str) -> Any:
    """Run a typer command; return the result of its function, or the requested exit status.

    Raises :class:`UsageError` for an invalid command line.
    """
    try:
        return command.main(args=list(argv), prog_name=name, standalone_mode=False)
    except Exception as error:
        # newer versions of typer have their own click, so test for the method, not the class
        told = getattr(error, "format_message", None)
        if told is None:
            raise
        path = getattr(getattr(error, "ctx", None), "command_path", name)
        option = getattr(error, "option_name", "")
        near = near_names(option, getattr(error, "possibilities", None) or ())
        message = f"unknown option {option}" if near else told().rstrip(".")
        hint = did_you_mean(near) or f"'{path} --help' lists the options"
        raise UsageError(message, hint) from None
