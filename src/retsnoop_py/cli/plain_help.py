# SPDX-License-Identifier: BSD-2-Clause
"""Print the help of a command: panels on a terminal, plain text with the same groups elsewhere.

The text comes from the options' rows instead of typer, because importing typer takes most of the
time.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence

from retsnoop_py.cli.declare import Command
from retsnoop_py.options.table import PANELS, Option

__all__ = ["help_text", "short_text", "show_help", "show_short_help"]

#: Maximum number of lines of the short help, so that it fits a terminal of 24 lines with a prompt.
_SHORT = 23
_MOST_EXAMPLES = 3
#: SGR parameters.
_BORDER, _NAMES = "2", "1;36"
#: Maximum and minimum number of columns of the help.
_WIDEST, _NARROWEST = 100, 50
_IN_A_PIPE = 80
#: If an option's spellings are wider, its text begins on a separate line.
_MOST_NAMES = 30
#: Minimum number of columns of this text.
_LEAST_TEXT = 10


def show_help(command: Command) -> None:
    """Print the help of ``command``: panels on a terminal, plain text elsewhere."""
    is_terminal = sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb"
    if is_terminal and sys.stdout.encoding.lower().startswith("utf"):
        print(panels(command, max(_columns(), _NARROWEST)))
    else:
        print(help_text(command, max(min(_columns(), _WIDEST) - 2, _NARROWEST)))


def show_short_help(command: Command) -> None:
    """Print the short help of ``command``: its purpose, examples and its first options."""
    print(short_text(command, max(min(_columns(), _WIDEST) - 2, _NARROWEST)))


def short_text(command: Command, width: int) -> str:
    """Return the short help as plain text of ``width`` columns; it fits a screen of 80 by 24."""
    paragraphs = command.text.strip("\n").split("\n\n")
    about = " ".join(paragraphs[0].split("\n"))
    lines = [*_wrapped(f"Usage: {command.name} ", command.synopsis, width), ""]
    lines += _wrapped("", about, width)
    for paragraph in paragraphs:
        mark, title, *rest = [*paragraph.split("\n"), ""]
        if (mark, title) == ("\b", "Examples:"):
            shown = [one for one in rest if one and len(one) <= width][:_MOST_EXAMPLES]
            lines += ["", title, *shown]
    known = {option.name: option for option in command.options}
    first = [known[name] for name in command.first]
    rows = [(_spelled(one), one.help.partition(". ")[0].rstrip(".") + ".") for one in first]
    number = sum(not option.hidden for option in command.options)
    last = f"'{command.name} --help' explains all {number} options."
    table = [f"  {names}{text}".rstrip() for names, text in _table(rows, width - 2)] if rows else []
    room = _SHORT - len(lines) - 3
    # as many whole options as fit
    while len(table) > room:
        rows.pop()
        table = [f"  {names}{text}".rstrip() for names, text in _table(rows, width - 2)]
    return "\n".join([*lines, *(["", *table] if table else []), "", last])


def _columns() -> int:
    """Return the columns, without shutil, whose import takes a tenth of the start-up time."""
    said = os.environ.get("COLUMNS", "")
    if said.isascii() and said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns or _IN_A_PIPE
    except (OSError, ValueError):
        return _IN_A_PIPE


def help_text(command: Command, width: int) -> str:
    """Return the help of ``command`` as plain text of ``width`` columns, in groups."""
    lines = _prose(command, width)
    for title, rows in _groups(command).items():
        lines += ["", title if title.endswith("?") else f"{title}:"]
        lines += [f"  {names}{text}".rstrip() for names, text in _table(rows, width - 2)]
    return "\n".join(lines)


def panels(command: Command, width: int) -> str:
    """Return the help for a terminal of ``width`` columns: panels, with colours."""
    lines = [*_prose(command, min(width, _WIDEST) - 2), ""]
    for title, rows in _groups(command).items():
        rule = "─" * (width - len(title) - 5)
        lines.append(_paint(f"╭─ {title} {rule}╮", _BORDER))
        side = _paint("│", _BORDER)
        for names, text in _table(rows, width - 4):
            room = width - 4 - len(names)
            lines.append(f"{side} {_paint(names, _NAMES)}{text:{room}} {side}")
        lines.append(_paint(f"╰{'─' * (width - 2)}╯", _BORDER))
    return "\n".join(lines)


def _paint(text: str, code: str) -> str:
    """Return ``text`` in colour, unless NO_COLOR is set."""
    return text if os.environ.get("NO_COLOR") else f"\x1b[{code}m{text}\x1b[0m"


def _prose(command: Command, width: int) -> list[str]:
    lines = _wrapped(f"Usage: {command.name} ", command.synopsis, width)
    for paragraph in command.text.strip("\n").split("\n\n"):
        first, *rest = paragraph.split("\n")
        # A paragraph with a backspace keeps its lines.
        kept = [row for line in rest for row in _kept(f"  {line}".rstrip(), width)]
        lines += ["", *(kept if first == "\b" else _wrapped("  ", " ".join([first, *rest]), width))]
    return lines


def _kept(line: str, width: int) -> list[str]:
    """Return a line of examples; its comment goes below the command if both do not fit."""
    if len(line) <= width:
        return [line]
    from retsnoop_py.terminal import folded

    return folded(line, width).split("\n")


def _groups(command: Command) -> dict[str, list[tuple[str, str]]]:
    """Return for each title the spellings and the help of its options."""
    groups: dict[str, list[tuple[str, str]]] = {}
    words = command.argument
    if words is not None and not words.hidden and words.help:
        needed = "" if words.many else "  [required]"
        groups["ARGUMENTS"] = [(words.metavar, words.help + needed)]
    for panel in PANELS:
        rows = [
            (_spelled(option), option.help)
            for option in command.options
            if option.panel == panel and not option.hidden
        ]
        if rows:
            groups[panel] = rows
    return groups


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[tuple[str, str]]:
    """Yield lines of ``width`` columns: spellings, padded with blanks, and text."""
    second = min(max(len(names) for names, _ in rows), _MOST_NAMES) + 2
    for names, text in rows:
        told = _wrapped("", text, max(width - second, _LEAST_TEXT))
        if len(names) > second - 2:
            told.insert(0, "")
        yield f"{names:{second}}", told[0]
        for line in told[1:]:
            yield " " * second, line


def _spelled(option: Option) -> str:
    """Return the spellings of an option, the letter first, with its text."""
    names = ", ".join(sorted(option.spellings, key=lambda one: one.startswith("--")))
    gap = "" if not option.metavar or option.metavar.startswith("[=") else " "
    return f"{names}{gap}{option.metavar}"


def _wrapped(before: str, text: str, width: int) -> list[str]:
    import textwrap

    return textwrap.wrap(text, width, initial_indent=before, subsequent_indent=" " * len(before))
