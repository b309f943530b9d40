# SPDX-License-Identifier: BSD-2-Clause
"""What the kernel said in words, below what failed meanwhile: ``the kernel said: ...``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from retsnoop_py.text import counted, printable, wrapped

if TYPE_CHECKING:
    from retsnoop_py.render import json_types as to
    from retsnoop_py.session.model import KernelMessage
    from retsnoop_py.session.report import Report

__all__ = ["MessageSection", "message_lines"]

_LEAD = "the kernel said: "


def message_lines(
    messages: Sequence[KernelMessage] | Sequence[to.KernelMessage], indent: int, columns: int
) -> Iterator[str]:
    """A line for each line of the messages, in so many ``columns``; 0: of any length."""
    for message in messages:
        if message.left_out:
            yield f"{' ' * indent}({counted(message.left_out, 'more message')})"
        lead, text = _LEAD, message.text
        if message.instruction is not None:
            text += f" (instruction {message.instruction})"
        for line in text.split("\n"):
            yield from wrapped(lead + printable(line), indent, columns)
            lead = " " * len(_LEAD)


class MessageSection:
    """Writes what the kernel said, in so many ``columns``; 0: in lines of any length."""

    def __init__(self, columns: int) -> None:
        self._columns = columns

    def lines(self, report: Report) -> list[str]:
        """Its lines; none if it said nothing."""
        said = report.session.said
        return list(message_lines(said, 0, self._columns)) if said else []

    template = lines
