# SPDX-License-Identifier: BSD-2-Clause
"""Output for a terminal: the progress of long operations, and tables.

rich draws both. It is imported only to draw on a terminal: a run in a pipe or of less than a
second does not import it.
"""

from __future__ import annotations

import os
import re
import select
import time
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Self, TextIO

from retsnoop_py.text import display_width
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "Aside",
    "Bar",
    "Cell",
    "Column",
    "folded",
    "has_colour",
    "table_lines",
    "takes_more",
    "terminal_width",
]

#: Seconds before anything is shown.
_PATIENCE = 1.0
#: Seconds between two lines if lines cannot be overwritten.
_LINE_INTERVAL = 5.0
_TERMINAL_INTERVAL = 0.1
#: The minimum width of a terminal with a bar; a narrower one has only the text.
_BAR_FROM = 60
_MB = 1_000_000
#: The name of a function in its declaration.
_WORD = r"(?<![\w.])[\w.]+(?=[ (])"

#: The text of a table's cell, or the text and a style of rich such as "green".
Cell = str | tuple[str, str]


def takes_more(out: TextIO) -> bool:
    """Return whether ``out`` accepts data without waiting for its reader."""
    poll = select.poll()
    try:
        poll.register(out.fileno(), select.POLLOUT)
    except OSError:
        return True  # ``out`` has no descriptor
    return bool(poll.poll(0))


class Aside:
    """A stream, such as standard error, for a signal handler, which must not block.

    Nothing is buffered, because the handler may have interrupted a write to the same stream. Text
    that a full pipe does not accept at once is dropped.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._fd = out.fileno()

    def write(self, text: str) -> None:
        """Write ``text`` if the stream accepts it at once."""
        if takes_more(self._out):
            try:
                os.write(self._fd, text.encode(errors="backslashreplace"))
            except OSError:
                pass  # the reader is gone

    def flush(self) -> None:
        """Do nothing: nothing is buffered."""

    def isatty(self) -> bool:
        """Return whether the stream is a terminal."""
        return os.isatty(self._fd)


def terminal_width(out: TextIO | Aside) -> int:
    """Return the width of the terminal ``out`` in columns; 0 if ``out`` is not a terminal."""
    if not out.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns


#: Escape sequences for the terminal: colours, and links (OSC 8).
_ESCAPES = re.compile(r"((?:\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\)+)")
_NO_STYLE = "\x1b[0m"
#: The gap between two members of a struct, where a word may be split.
_MEMBERS = re.compile(r",(?=[.{])")
_MEMBERS_OR_BLANK = re.compile(r",(?=[.{])|(?= )")


def folded(text: str, columns: int) -> str:
    """Return ``text`` with long lines wrapped at the blanks between their columns.

    A word longer than a line is split between the members of a struct (``.a=1,.b=2``), and
    otherwise stays whole. A vertical tab ends a line as well.
    """
    rows: list[str] = []
    for line in text.replace("\v", "\n").split("\n"):
        rows += [line] if len(line) <= columns and line.isascii() else _folded(line, columns)
    return "\n".join(rows)


def _folded(line: str, columns: int) -> list[str]:
    parts = _ESCAPES.split(line)
    plain = "".join(parts[::2])
    styles: dict[int, str] = {}  # by the index of the character after the style
    at = 0
    for words, style in zip(parts[::2], parts[1::2], strict=False):
        at += len(words)
        styles[at] = styles.get(at, "") + style
    rows: list[str] = []
    start, indent, active = 0, 0, ""
    while start < len(plain) or not rows:
        end, deeper = _break(plain, start, columns - indent)
        row = [" " * indent, active]
        for place in range(start, end):
            row += (styles.get(place, ""), plain[place])
            active = styles.get(place, active)
        if end == len(plain):
            row.append(styles.get(end, ""))
            active = styles.get(end, active)
        active = "" if active.endswith(_NO_STYLE) else active
        rows.append("".join(row).rstrip() + (_NO_STYLE if active else ""))
        start = end
        while start < len(plain) and plain[start] == " ":
            active = styles.get(start, active)
            start += 1
        active = "" if active.endswith(_NO_STYLE) else active
        indent = min(indent + deeper, columns // 2)
    return rows


def _break(plain: str, start: int, room: int) -> tuple[int, int]:
    """Return the end of the row that begins at ``start``, and the indent of the next row."""
    limit, wide = start, 0
    while limit < len(plain) and (wide := wide + display_width(plain[limit])) <= room:
        limit += 1
    if limit == len(plain):
        return limit, 0
    found = re.compile(r"[ !→←↔·]*").match(plain, start)
    first = found.end() if found else start
    gaps = list(re.compile(r" +").finditer(plain, first, limit + 1))
    wider = [gap for gap in gaps if len(gap[0]) > 1]
    if not gaps:
        return _inside_word(plain, first, limit), 0 if start else first + 4
    at = (wider or gaps)[-1]
    behind = wider[-2].end() if len(wider) > 1 else first + 4
    return at.start(), behind - start


def _inside_word(plain: str, start: int, limit: int) -> int:
    """Return the end of a row that ends inside its first word, which begins at ``start``."""
    members = list(_MEMBERS.finditer(plain, start, limit + 1))
    if members:
        return members[-1].end()
    after = _MEMBERS_OR_BLANK.search(plain, limit)
    return len(plain) if after is None else after.end()


def has_colour(out: TextIO | Aside) -> bool:
    """Return whether ``out`` is a terminal with colours and the user has not disabled them.

    https://no-color.org: a NO_COLOR that is not empty disables colours.
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and out.isatty()


class Bar:
    """``WHAT DONE of TOTAL UNIT...``: a bar on a terminal, a line every five seconds elsewhere.

    Call :meth:`update` as often as convenient; leaving the context wipes the bar. Nothing is
    shown in the first second. ``unit`` is the unit of the counts; ``bytes`` are shown as MB. The
    bar overwrites one line. It uses no thread and does not hide the cursor, so a run killed at any
    moment leaves a usable terminal.
    """

    def __init__(self, what: str, unit: str, out: TextIO | Aside) -> None:
        self._what = what
        self._unit = unit
        self._out = out
        self._overwrites = self._out.isatty() and os.environ.get("TERM") != "dumb"
        self._started = time.monotonic()
        self._next = self._started + _PATIENCE
        self._shown = False
        self._drawing: _Drawing | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._overwrites:
            self._out.write("\r\x1b[K")
            self._out.flush()

    def update(self, done: int, total: int = 0, what: str = "") -> None:
        """Show that ``done`` of ``total`` units are done; a ``total`` of 0 is unknown.

        A non-empty ``what`` is the new description of the operation.
        """
        self._what = what or self._what
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + (_TERMINAL_INTERVAL if self._overwrites else _LINE_INTERVAL)
        self._shown = True
        text = f"{self._what} {self._amount(done, total)}..."
        if self._overwrites:
            self._out.write(f"\r{self._drawn(text, done, total, now)}\x1b[K")
        else:
            self._out.write(f"{text}\n")
        self._out.flush()

    def _amount(self, done: int, total: int) -> str:
        if self._unit == "bytes":
            return f"{done / _MB:.1f} of {total / _MB:.1f} MB" if total else f"{done / _MB:.1f} MB"
        return f"{done:,} of {total:,} {self._unit}" if total else f"{done:,} {self._unit}"

    def _drawn(self, text: str, done: int, total: int, now: float) -> str:
        """Return ``text`` and, if the width allows and the total is known, bar, speed and time."""
        width = terminal_width(self._out) - 1
        if not total or width < _BAR_FROM:
            return text[:width]
        if self._drawing is None:
            try:
                self._drawing = _Drawing(has_colour(self._out))
            except ImportError:  # build.py downloads before rich is installed
                return text[:width]
        return self._drawing.line(text, (done, total), self._pace(done, total, now), width)

    def _pace(self, done: int, total: int, now: float) -> str:
        if not done:
            return ""
        took = now - self._started
        left = int(took * (total - done) / done)
        speed = f"{done / _MB / took:.1f} MB/s, " if self._unit == "bytes" else ""
        return f"{speed}{left // 60}:{left % 60:02} left"


class _Drawing:
    """Draws a line of progress. Raises ImportError if rich is not installed."""

    def __init__(self, colour: bool) -> None:
        self._console = _console(0, colour)

    def line(self, text: str, part: tuple[int, int], pace: str, width: int) -> str:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        done, total = part
        line = Table.grid(padding=(0, 1), expand=True)
        line.add_column(no_wrap=True)
        line.add_column(ratio=1)
        line.add_column(no_wrap=True, justify="right")
        line.add_row(_text(text, ""), ProgressBar(total, done), pace)
        return _lines(self._console, line, width)[0]


class Column(Value):
    """A column of a table: its title, its style for rich, whether its text may be wrapped.

    A column with a ``ratio`` gets its share of the space that the other columns leave. A column
    with a ``width`` is exactly that wide.
    """

    title: str = ""
    style: str = ""
    wraps: bool = True
    is_right: bool = False
    ratio: int | None = None
    width: int | None = None


def table_lines(
    columns: Sequence[Column],
    rows: Iterable[Sequence[Cell]],
    width: int,
    *,
    colour: bool,
    bold: Iterable[str] = (),
) -> list[str]:
    """Return the lines of a table ``width`` columns wide; titles only if a column has a title.

    The lines have no line ends. Words of ``bold`` are highlighted if a blank or ``(`` follows.

    Text is never read as rich's markup. Line ends in it start a new line. The caller escapes all
    other control characters (:func:`retsnoop_py.text.printable`).
    """
    from rich.table import Table

    names = set(bold)
    titled = any(column.title for column in columns)
    table = Table(box=None, show_header=titled, padding=(0, 2, 0, 0), pad_edge=False)
    for column in columns:
        table.add_column(
            _text(column.title, ""),
            style=column.style,
            no_wrap=not column.wraps,
            overflow="fold",
            justify="right" if column.is_right else "left",
            ratio=column.ratio,
            width=column.width,
        )
    for row in rows:
        told = [(cell, "") if isinstance(cell, str) else cell for cell in row]
        texts = [_text(text, style) for text, style in told]
        for text in texts if names else ():
            text.highlight_regex(_WORD, lambda word: "bold" if word in names else "none")
        table.add_row(*texts)
    return _lines(_console(width, colour), table, width)


def _text(text: str, style: str) -> Any:
    from rich.text import Text

    made = Text(text)
    if style:
        made.stylize(style)  # the text only, not the blanks that fill its cell
    return made


def _console(width: int, colour: bool) -> Console:
    from rich.console import Console

    return Console(
        width=width or None,
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        highlight=False,
        emoji=False,
    )


def _lines(console: Console, shown: Any, width: int) -> list[str]:
    """Return ``shown`` drawn in ``width`` columns, as lines without trailing blanks."""
    with console.capture() as drawn:
        console.print(shown, width=width)
    return [line.rstrip() for line in drawn.get().rstrip("\n").split("\n")]
