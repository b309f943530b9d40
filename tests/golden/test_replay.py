# SPDX-License-Identifier: BSD-2-Clause
"""A replay of a recording from a real kernel prints the expected text, byte for byte."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path

import pytest
from tests.golden.json_text import words_of_json, words_of_text
from tests.golden.views import CALLERS, KERNELS, VIEWS, recordings, replay_text, stem

from retsnoop_py.recording.format import decode_header
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.settings import OutputFormat

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", recordings())
def test_a_replay_prints_what_the_live_run_printed(name: str) -> None:
    live = (HERE / f"{name}.txt").read_text()
    assert live.count(" TID/PID ") > (20 if name in KERNELS else 3)
    assert replay_text(HERE / f"{name}.rsn", ReplayOverrides()) == live


@pytest.mark.parametrize("name", recordings())
def test_text_and_json_have_the_same_content(name: str) -> None:
    text = replay_text(HERE / f"{name}.rsn", ReplayOverrides())
    lines = replay_text(HERE / f"{name}.rsn", ReplayOverrides(format=OutputFormat.JSON))

    assert words_of_json(lines) == words_of_text(text)
    assert json.loads(lines.splitlines()[-1])["sessions"] == text.count(" TID/PID ")


@pytest.mark.parametrize("name", recordings())
def test_no_recording_contains_a_path_of_the_machine_that_made_it(name: str) -> None:
    frames = list(read_frames(HERE / f"{name}.rsn"))
    assert decode_header(frames[0].payload).command[0] in ("python", CALLERS)
    for frame in frames:
        assert not re.search(rb"/(home|root|work|tmp)/", frame.payload)


@pytest.mark.parametrize(("name", "view"), VIEWS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_view_prints_the_expected_text(kernel: str, name: str, view: str) -> None:
    expected = (HERE / f"{stem(kernel, name, view)}.txt").read_text()
    assert expected
    assert replay_text(HERE / f"{stem(kernel, name)}.rsn", VIEWS[name, view]) == expected


@pytest.mark.parametrize("is_ascii", [False, True], ids=["utf-8", "ascii"])
def test_values_are_cut_to_any_width(is_ascii: bool) -> None:
    path, sizes = HERE / "6.12-args.rsn", []
    for width in (*range(1, 14), 120, 249, 250):
        text = replay_text(path, ReplayOverrides(width=width, ascii=is_ascii))
        assert text.isascii() or not is_ascii
        sizes.append(len(text))
    assert sizes == sorted(sizes)


@pytest.mark.parametrize("path", sorted(HERE.glob("*.txt")), ids=lambda path: path.stem)
def test_no_line_ends_in_blanks(path: Path) -> None:
    text = path.read_text()
    assert [line for line in text.splitlines() if line != line.rstrip()] == []


def test_identical_stacks_are_counted_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    path, key = HERE / "6.12.rsn", "Identical stacks, "

    def text(out: io.StringIO | None = None, **changes: bool) -> str:
        return replay_text(path, ReplayOverrides(counts=True, success=False, **changes), out)

    assert text() == (HERE / "6.12-errors.txt").read_text()
    assert text(Window(), each=True).count(" TID/PID ") == 21
    assert key not in text(Window())  # no stack occurs more than three times


class Window(io.StringIO):
    """A terminal with as many columns as the variable COLUMNS."""

    def isatty(self) -> bool:
        return True


_DASHES = re.compile(r"-{3,}")
#: A place to break a long struct.
_MEMBERS = re.compile(r",(?=[.{])")


@pytest.mark.parametrize("columns", [60, 80, 100])
@pytest.mark.parametrize("name", recordings())
def test_stacks_and_trees_fit_the_window(
    name: str, columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    path = HERE / f"{name}.rsn"
    fitted = replay_text(path, ReplayOverrides(counts=True, each=True), Window())
    whole = replay_text(path, ReplayOverrides())
    without_rules = [
        _MEMBERS.sub(", ", _DASHES.sub("---", text)).split() for text in (fitted, whole)
    ]
    assert without_rules[0] == without_rules[1], "a word is missing or in another order"
    for line in fitted.splitlines():
        # a captured value has no blanks at which it could be broken
        words = _MEMBERS.sub(", ", line).split()
        assert len(line) <= columns or max(map(len, words)) > columns // 2, line
        assert line == line.rstrip()
