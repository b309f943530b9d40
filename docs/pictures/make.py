# SPDX-License-Identifier: BSD-2-Clause
"""The pictures of README and docs, from recordings: ``python docs/pictures/make.py``.

Each is what a command writes to a terminal, with its colours; nothing is drawn by hand. A picture
has no fonts of its own and fetches none.
"""

from __future__ import annotations

import os
import pty
import re
import shlex
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from fcntl import ioctl
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import escape

from rich.cells import cell_len
from rich.console import Console
from rich.style import Style
from rich.text import Text

CONSOLE = Console(color_system="standard", force_terminal=True)
HERE = Path(__file__).parent
ROOT = HERE.parents[1]
#: Columns of the terminal. Longer lines are wrapped where blanks separate their columns.
WIDTH = 128
#: Columns of README's first picture: 400 pixels, the width of a phone, leave 6 for a character.
NARROW = 60


class Picture(NamedTuple):
    """What a picture shows: arguments of retsnoop-py, the folder of its files, columns."""

    command: str
    folder: Path
    columns: int = WIDTH


#: By file name.
PICTURES = {
    "why": Picture("why mount.rsn", HERE, NARROW),
    "calls": Picture("replay deadline.rsn", HERE),
    "stack": Picture("replay 6.12.rsn -E -x ENOMEM --count 1", ROOT / "tests/golden"),
    "diff": Picture("diff -x E2BIG 5.10.rsn 6.12.rsn", ROOT / "tests/golden"),
}
#: Pixels: a character, a row, what is left free around all of them.
CELL, ROW, MARGIN = 8.4, 19, 14
INK, PAPER = "#d6d9e0", "#181a1f"
#: By the numbers that a terminal has for them.
COLOURS = {0: "#5c6370", 1: "#ef6b73", 2: "#89ca78", 3: "#e0b461", 4: "#61afef", 5: "#c678dd"}
FORM = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">
<rect width="{width}" height="{height}" rx="8" fill="{paper}"/>
<g font-family="ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace" font-size="14" \
fill="{ink}">
{words}
</g>
</svg>
"""


def written(words: list[str], folder: Path, columns: int) -> str:
    """Return what the command writes to a terminal of so many columns."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    environment = {"PATH": os.environ["PATH"], "TERM": "xterm-256color", "LANG": "C.UTF-8"}
    program = Path(sys.executable).parent / "retsnoop-py"
    running = subprocess.Popen(
        [program, *words], cwd=folder, env=environment, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    found = b""
    while True:
        try:
            more = os.read(ours, 65536)
        except OSError:  # the other side is closed
            break
        if not more:
            break
        found += more
    os.close(ours)
    if running.wait() not in (0, 3, 32):  # what the command told, or found
        raise SystemExit(f"{shlex.join(words)} ended with {running.returncode}: {found.decode()}")
    return found.decode().replace("\r\n", "\n")


def fitted(line: Text, width: int) -> list[Text]:
    """Return rows of at most ``width`` columns, wrapped where blanks separate the columns."""
    rows = []
    start = re.match(r"[ !↔→←·]*", line.plain)
    indent = len(start[0]) if start else 0
    while line.cell_len > width:
        breaks = [match for match in re.finditer(r" {2,}", line.plain[:width]) if match.start()]
        breaks = [match for match in breaks if match.start() > indent]
        breaks = breaks or list(re.finditer(r" ", line.plain[:width]))[-1:]
        at = breaks[-1]
        row, rest = line.divide([at.end()])
        row.rstrip()
        rows.append(row)
        # below the column that goes on
        indent = breaks[-2].end() if len(breaks) > 1 else indent + 4
        line = Text(" " * indent).append_text(rest)
    return [*rows, line]


def drawn(text: Text, y: int) -> Iterator[str]:
    """A row as SVG: each word at its column, for viewers' characters are of any width."""
    column = 0
    for segment in text.render(CONSOLE):
        style = segment.style or Style()
        number = style.color.number if style.color else None
        how = f' fill="{COLOURS[number]}"' if number is not None else ""
        how += ' font-weight="bold"' if style.bold else ""
        how += ' opacity="0.6"' if style.dim else ""
        for word in re.finditer(r"\S+", segment.text):
            x = MARGIN + CELL * (column + cell_len(segment.text[: word.start()]))
            length = CELL * cell_len(word[0])
            place = f'x="{x:.1f}" y="{y}" textLength="{length:.1f}"'
            yield f"<text {place}{how}>{escape(word[0])}</text>"
        column += cell_len(segment.text)


def picture(name: str) -> str:
    """Return the picture as SVG; the same output gives the same bytes."""
    command, folder, columns = PICTURES[name]
    rows = [Text.assemble(("$ ", "green"), (f"retsnoop-py {command}", "bold"))]
    for line in written(shlex.split(command), folder, columns).rstrip("\n").split("\n"):
        rows += fitted(Text.from_ansi(line), columns)
    words = [word for at, row in enumerate(rows) for word in drawn(row, MARGIN * 2 + ROW * at)]
    width, height = round(2 * MARGIN + CELL * columns), 2 * MARGIN + ROW * len(rows)
    return FORM.format(width=width, height=height, ink=INK, paper=PAPER, words="\n".join(words))


def main(names: list[str]) -> int:
    """Make these pictures, or all."""
    for name in names or PICTURES:
        (HERE / f"{name}.svg").write_text(picture(name))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
