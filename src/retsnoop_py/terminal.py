# SPDX-License-Identifier: BSD-2-Clause
"""What people see on a terminal: the progress of what takes long, and tables.

rich draws both. It is imported when there is something to draw and somebody to see it: a run
in a pipe, and one that is done within a second, go without.
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
#: Seconds between two lines where lines cannot be overwritten.
_LINE_INTERVAL = 5.0
_TERMINAL_INTERVAL = 0.1
#: Columns below which a bar leaves too little for the words.
_BAR_FROM = 60
_MB = 1_000_000
#: The name of a function in its declaration.
_WORD = r"(?<![\w.])[\w.]+(?=[ (])"

#: Text of a table's cell, or text and how rich is to show it, such as "green".
Cell = str | tuple[str, str]


def takes_more(out: TextIO) -> bool:
    """Whether something can be written to ``out`` without waiting for who reads it."""
    poll = select.poll()
    try:
        poll.register(out.fileno(), select.POLLOUT)
    except OSError:
        return True  # it is no file
    return bool(poll.poll(0))


class Aside:
    """A stream, such as standard error, for a signal's handler, which must not wait for anybody.

    Nothing is buffered: the handler may have interrupted who writes there. What cannot be written
    at once, since nobody reads the pipe, is left out.
    """

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._fd = out.fileno()

    def write(self, text: str) -> None:
        """Write it, if that can be done at once."""
        if takes_more(self._out):
            try:
                os.write(self._fd, text.encode(errors="backslashreplace"))
            except OSError:
                pass  # nobody is left to be told

    def flush(self) -> None:
        """Nothing is buffered."""

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return os.isatty(self._fd)


def terminal_width(out: TextIO | Aside) -> int:
    """The columns of the terminal that ``out`` is; 0 where it is none."""
    if not out.isatty():
        return 0
    from shutil import get_terminal_size

    return get_terminal_size().columns


#: What a terminal obeys: colours, and links (OSC 8).
_ESCAPES = re.compile(r"((?:\x1b\[[\d;]*m|\x1b\]8;;[^\x1b]*\x1b\\)+)")
_NO_STYLE = "\x1b[0m"
#: Between the members of a struct, where a word may be parted.
_MEMBERS = re.compile(r",(?=[.{])")
_MEMBERS_OR_BLANK = re.compile(r",(?=[.{])|(?= )")


def folded(text: str, columns: int) -> str:
    """``text`` with its long lines continued below, where blanks part their columns.

    A word that is too long alone is parted between the members of a struct (``.a=1,.b=2``), and
    otherwise stays whole. A vertical tab ends a line as well.
    """
    rows: list[str] = []
    for line in text.replace("\v", "\n").split("\n"):
        rows += [line] if len(line) <= columns and line.isascii() else _folded(line, columns)
    return "\n".join(rows)


def _folded(line: str, columns: int) -> list[str]:
    parts = _ESCAPES.split(line)
    plain = "".join(parts[::2])
    styles: dict[int, str] = {}  # by the character they stand before
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
    """Where a row that begins at ``start`` ends, and how much further in the next one begins."""
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
    """Where a row ends whose first word, from ``start``, is longer than the row."""
    members = list(_MEMBERS.finditer(plain, start, limit + 1))
    if members:
        return members[-1].end()
    after = _MEMBERS_OR_BLANK.search(plain, limit)
    return len(plain) if after is None else after.end()


def has_colour(out: TextIO | Aside) -> bool:
    """Whether to write ``out`` in colour: to a terminal that has some, and nobody objects.

    https://no-color.org: a NO_COLOR that is not empty switches colour off.
    """
    return not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb" and out.isatty()


class Bar:
    """``WHAT DONE of TOTAL UNIT...``: a bar on a terminal, a line every five seconds elsewhere.

    Call :meth:`update` as often as convenient; leaving the context wipes the bar. Nothing is
    shown in the first second. ``unit`` is what is counted; ``bytes`` are shown as MB. The bar
    is one line that is written over, without a thread and with the cursor left alone, so that
    a run killed at any moment leaves a usable terminal.
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
        """Say that ``done`` of ``total`` are done; 0: how many there are is not known.

        ``what`` says what is being done from now on, where that changes.
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
        """``text`` and, where there is room and an end to see, a bar, the speed, the time left."""
        width = terminal_width(self._out) - 1
        if not total or width < _BAR_FROM:
            return text[:width]
        if self._drawing is None:
            try:
                self._drawing = _Drawing(has_colour(self._out))
            except ImportError:  # build.py fetches before anything is installed
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
    """Draws a line of progress. Raises ImportError where rich is not installed."""

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
    """A column of a table: its title, how rich is to show it, whether its text may be wrapped.

    A column with a ``ratio`` takes its share of what the others leave of the terminal; one with
    a ``width`` takes so many columns whatever is in it.
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
    """A table ``width`` columns wide, without line ends; titles only if a column has one.

    Words of ``bold`` stand out where a blank or ``(`` follows them.

    Text is taken as it is, never as rich's markup; control characters are to be written out
    before (:func:`retsnoop_py.text.printable`), but for line ends, which are obeyed.
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
    """What ``shown`` looks like in ``width`` columns, as lines without blanks at their ends."""
    with console.capture() as drawn:
        console.print(shown, width=width)
    return [line.rstrip() for line in drawn.get().rstrip("\n").split("\n")]
