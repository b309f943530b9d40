# SPDX-License-Identifier: BSD-2-Clause
"""Progress and tables: drawn on a terminal, plain lines in a pipe."""

from __future__ import annotations

import io
import re
import subprocess
import sys

import pytest

from retsnoop_py import terminal
from retsnoop_py.terminal import Bar, Column, folded, has_colour, table_lines, terminal_width


class Screen(io.StringIO):
    """A stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return a clock that advances only when a test moves it."""
    now = [0.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def width(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    return monkeypatch


def test_nothing_is_shown_of_what_is_done_within_a_second(clock: list[float]) -> None:
    out = Screen()
    with Bar("Attaching", "functions", out) as progress:
        clock[0] = 0.9
        progress.update(900, 1000)
    assert not out.getvalue()


def test_a_pipe_gets_a_line_every_five_seconds_and_nothing_else(clock: list[float]) -> None:
    out = io.StringIO()
    with Bar("Attaching", "functions", out) as progress:
        for second in range(1, 9):
            clock[0] = float(second)
            progress.update(second * 1000, 8000)
    assert out.getvalue() == (
        "Attaching 1,000 of 8,000 functions...\nAttaching 6,000 of 8,000 functions...\n"
    )


def test_a_terminal_gets_a_bar_with_the_time_left_and_it_is_wiped(
    clock: list[float], width: pytest.MonkeyPatch
) -> None:
    out = Screen()
    with Bar("Attaching", "functions", out) as progress:
        clock[0] = 2.0
        progress.update(250, 1000)
    shown = out.getvalue()
    assert shown.startswith("\rAttaching 250 of 1,000 functions... \x1b[")
    assert " 0:06 left\x1b[K" in shown
    assert shown.endswith("\r\x1b[K")
    assert "\n" not in shown
    assert "\x1b[?25" not in shown, "the cursor stays as it is"


def test_colour_of_the_bar_is_switched_off_by_no_color(
    clock: list[float], width: pytest.MonkeyPatch
) -> None:
    width.setenv("NO_COLOR", "1")
    out = Screen()
    with Bar("Attaching", "functions", out) as progress:
        clock[0] = 2.0
        progress.update(250, 1000)
    assert set(re.findall(r"\x1b\[[^A-Za-z]*[A-Za-z]", out.getvalue())) == {"\x1b[K"}


@pytest.mark.parametrize("columns", [20, 40, 80, 200])
def test_progress_never_takes_a_second_line(
    columns: int, clock: list[float], width: pytest.MonkeyPatch
) -> None:
    width.setenv("COLUMNS", str(columns))
    width.setenv("NO_COLOR", "1")
    out = Screen()
    with Bar("Reading symbols of the kernel", "functions", out) as progress:
        clock[0] = 2.0
        progress.update(250, 1000)
        clock[0] = 3.0
        progress.update(250)
    drawn = [part.removesuffix("\x1b[K") for part in out.getvalue().split("\r")]
    assert len(drawn) == 4
    assert all(len(line) < columns for line in drawn)


def test_bytes_are_told_in_megabytes(clock: list[float]) -> None:
    out = io.StringIO()
    with Bar("Fetching linux.deb", "bytes", out) as progress:
        clock[0] = 2.0
        progress.update(12_345_678, 37_000_000)
        clock[0] = 9.0
        progress.update(20_000_000, what="Unpacking linux.deb")
    assert out.getvalue() == (
        "Fetching linux.deb 12.3 of 37.0 MB...\nUnpacking linux.deb 20.0 MB...\n"
    )


def test_a_bar_for_bytes_tells_the_speed(clock: list[float], width: pytest.MonkeyPatch) -> None:
    out = Screen()
    with Bar("Fetching", "bytes", out) as progress:
        clock[0] = 4.0
        progress.update(20_000_000, 370_000_000)
    assert re.search(
        r"Fetching 20\.0 of 370\.0 MB\.\.\. .* 5\.0 MB/s, 1:10 left\x1b", out.getvalue()
    )


def test_without_rich_a_terminal_gets_the_words(
    clock: list[float], width: pytest.MonkeyPatch
) -> None:
    width.setitem(sys.modules, "rich.progress_bar", None)
    width.setitem(sys.modules, "rich.console", None)
    out = Screen()
    with Bar("Fetching", "bytes", out) as progress:
        clock[0] = 2.0
        progress.update(1_000_000, 4_000_000)
    assert out.getvalue() == "\rFetching 1.0 of 4.0 MB...\x1b[K\r\x1b[K"


COLUMNS = (Column("answer"), Column("what", wraps=False), Column("detail", ratio=1))
ROWS = [
    (("yes", "green"), "fentry", "[bold]not markup[/bold] and :smile: stay what they are"),
    ("no", "kprobe", "one\ntwo"),
]


def test_a_table_fits_its_width_and_keeps_the_text() -> None:
    lines = table_lines(COLUMNS, ROWS, 50, colour=False)
    assert lines == [
        "answer  what    detail",
        "yes     fentry  [bold]not markup[/bold] and",
        "                :smile: stay what they are",
        "no      kprobe  one",
        "                two",
    ]


def test_a_table_in_colour_has_the_same_text() -> None:
    lines = table_lines(COLUMNS, ROWS, 50, colour=True)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip() for line in lines]
    assert "\x1b[32m" in lines[1]
    assert plain == table_lines(COLUMNS, ROWS, 50, colour=False)


def test_a_table_without_titles_has_no_line_for_them() -> None:
    assert table_lines((Column(), Column()), [("a", "b")], 20, colour=False) == ["a  b"]


def test_what_is_no_terminal_has_no_width_and_no_colour(width: pytest.MonkeyPatch) -> None:
    assert terminal_width(io.StringIO()) == 0
    assert terminal_width(Screen()) == 80
    assert has_colour(Screen())
    assert not has_colour(io.StringIO())
    width.setenv("TERM", "dumb")
    assert not has_colour(Screen())


def test_a_run_in_a_pipe_imports_no_rich() -> None:
    code = (
        "import sys; from retsnoop_py.cli.main import main; "
        "status = main(['--version']); from retsnoop_py.terminal import Bar; "
        "Bar('x', 'functions', sys.stderr).update(1, 2); "
        "print(status, 'rich' in sys.modules, file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "0 False\n"


def test_colours_take_no_columns_and_end_with_their_row() -> None:
    text = "  \x1b[31mone two\x1b[0m"
    assert folded(text, 9) == text
    assert folded(text, 8) == "  \x1b[31mone\x1b[0m\n    \x1b[31mtwo\x1b[0m"


def test_a_link_takes_no_columns() -> None:
    text = "a  \x1b[2m\x1b]8;;file://host/b\x1b\\b:1\x1b]8;;\x1b\\\x1b[0m"
    assert folded(text, 6) == text
    rows = folded(text, 5).split("\n")
    assert rows == ["a", "  " + text.removeprefix("a  ")]


def test_what_has_no_blanks_is_not_folded() -> None:
    assert folded("x" * 30, 20) == "x" * 30
    assert folded("a  " + "x" * 30, 20) == "a\n    " + "x" * 30


def test_a_struct_that_is_too_long_is_parted_between_its_members() -> None:
    text = "  f  arg=&{.first=1,.second=2,.third=3} next=4"
    assert folded(text, 24).split("\n") == [
        "  f",
        "      arg=&{.first=1,",
        "      .second=2,",
        "      .third=3} next=4",
    ]
    # also where not even the first member fits
    assert folded("x  arg=&{.the_first_member=1,.b=2} c", 20).split("\n") == [
        "x",
        "    arg=&{.the_first_member=1,",
        "    .b=2} c",
    ]
