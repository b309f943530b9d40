# SPDX-License-Identifier: BSD-2-Clause
"""Columns, times and colour."""

from __future__ import annotations

import io
import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cpu_limit import at_most

import retsnoop_py
from retsnoop_py.render.palette import Palette, paint
from retsnoop_py.session.stream_header import Clock
from retsnoop_py.text import close_names, display_width, pad, parse_release, printable


@pytest.mark.parametrize(
    ("text", "width"),
    [("abc", 3), ("⌇", 1), ("日本", 4), ("e\u0301", 1), ("ü", 1), ("", 0), ("a\u200db", 2)],
)
def test_width_is_what_a_terminal_shows(text: str, width: int) -> None:
    assert display_width(text) == width
    assert display_width(pad(text, 10)) == 10


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bash", "bash"),
        ("kworker/0:1", "kworker/0:1"),
        ("grün", "grün"),
        ("\x1b[2J", "\\x1b[2J"),
        ("a\nb", "a\\nb"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202eabc", "\\u202eabc"),
    ],
)
def test_nothing_printed_is_obeyed_by_a_terminal(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(st.text())
def test_printable_text_is_printable(text: str) -> None:
    assert printable(text).isprintable()


@pytest.mark.parametrize(
    ("ns", "offset_ns", "utc_offset_s", "text"),
    [
        (0, 0, 0, "00:00:00.000000"),
        (1_999, 0, 0, "00:00:00.000001"),
        (0, 1_700_000_000_123_456_789, 0, "22:13:20.123456"),
        (0, 1_700_000_000_123_456_789, 7200, "00:13:20.123456"),
        (0, 1_700_000_000_123_456_789, -12600, "18:43:20.123456"),
        (86_399_999_999_999, 0, 0, "23:59:59.999999"),
    ],
)
def test_times_are_local_and_cut_to_microseconds(
    ns: int, offset_ns: int, utc_offset_s: int, text: str
) -> None:
    assert Clock(offset_ns, utc_offset_s).time_of_day(ns) == text


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert Palette.of(io.StringIO()) == Palette()
    assert Palette.of(Terminal()).error

    monkeypatch.setenv("TERM", "dumb")
    assert Palette.of(Terminal()) == Palette()

    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert Palette.of(Terminal()) == Palette()


def test_places_are_links_where_the_source_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a tree/fs").mkdir(parents=True)
    (tmp_path / "a tree/fs/open.c").touch()
    (tmp_path / "secret.c").touch()
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    palette = Palette.of(Terminal()).linking(tmp_path / "a tree")
    url = f"file://{os.uname().nodename}{tmp_path}/a%20tree/fs/open.c"
    link = f"\x1b]8;;{url}\x1b\\fs/open.c:12\x1b]8;;\x1b\\"
    assert palette.place("(fs/open.c:12)") == paint(f"({link})", palette.source)
    for other in ("fs/missing.c:1", "../secret.c:1", f"{tmp_path}/secret.c:1", "vfs_open+0x12"):
        assert palette.place(other) == paint(other, palette.source)
    assert Palette.of(io.StringIO()).linking(tmp_path) == Palette()


def test_blanks_and_plain_text_are_not_painted() -> None:
    assert paint("x", "31") == "\x1b[31mx\x1b[0m"
    assert paint("  ", "31") == "  "
    assert paint("x", "") == "x"


def test_releases_of_kernels_are_compared_by_their_first_two_numbers() -> None:
    assert parse_release("6.12.3-amd64") == (6, 12)
    assert parse_release("what") == (0, 0)


def test_only_one_place_compares_names() -> None:
    folder = Path(retsnoop_py.__file__).parent
    found = [path.name for path in folder.rglob("*.py") if "get_close_matches" in path.read_text()]
    assert found == ["text.py"]


@pytest.mark.thorough
def test_the_comparison_of_names_ends_soon() -> None:
    chance = random.Random(1)
    name, *known = ("".join(chance.choices("ab", k=199)) for _ in range(20_001))
    with at_most(20):
        close_names(name, known, 3)
