# SPDX-License-Identifier: BSD-2-Clause
"""Branches at real addresses of a real kernel, from their records to text and JSON."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from tests.golden.branches import with_branches
from tests.golden.json_text import words_of_json, words_of_text
from tests.golden.views import KERNELS, replay_text

from retsnoop_py.cli.replay import show
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.settings import OutputFormat

HERE = Path(__file__).parent


@pytest.fixture
def recording(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A recording with branches, of the kernel under test."""
    path = tmp_path / "branches.rsn"
    with_branches(HERE / f"{request.param}-calls.rsn", path)
    return path


def sections(text: str) -> list[list[str]]:
    """Return the branches of each session."""
    blocks = [block for block in text.split("\n\n\n") if block.strip()]
    return [[line for line in block.splitlines() if line.startswith("[#")] for block in blocks]


@pytest.mark.parametrize("recording", ["6.12"], indirect=True)
def test_branches_have_symbols_source_lines_and_inlined_functions(recording: Path) -> None:
    expected = (HERE / "6.12-branches.txt").read_text()
    assert replay_text(recording, ReplayOverrides()) == expected
    assert "      . " in expected, "no branch is in an inlined function"


@pytest.mark.parametrize("recording", KERNELS, indirect=True)
def test_branches_of_tracing_are_omitted_on_every_kernel(recording: Path) -> None:
    shown = sections(replay_text(recording, ReplayOverrides()))
    assert shown
    for lines in shown:
        assert lines[-1].startswith("[#02] ")
        numbers = [int(line[2:4]) for line in lines]
        assert numbers == list(range(numbers[0], 1, -1))


@pytest.mark.parametrize("recording", ["7.2"], indirect=True)
def test_options_of_a_replay_change_the_output(recording: Path) -> None:
    full = sections(replay_text(recording, ReplayOverrides(lbr_full=True)))
    assert all(lines[-1].startswith("[#00] 0xffffffffc0000000") for lines in full)
    few = sections(replay_text(recording, ReplayOverrides(lbr_max=2)))
    assert all([line[:6] for line in lines] == ["[#03] ", "[#02] "] for lines in few)
    out = io.StringIO()
    assert show(recording, ReplayOverrides(emit_addrs=True), out, io.StringIO()) == 0
    assert "[#02] ffffffff" in out.getvalue()


@pytest.mark.parametrize("recording", KERNELS, indirect=True)
@pytest.mark.parametrize("lbr_full", [False, True])
def test_text_and_json_have_the_same_content(recording: Path, lbr_full: bool) -> None:
    text = replay_text(recording, ReplayOverrides(lbr_full=lbr_full))
    lines = replay_text(recording, ReplayOverrides(lbr_full=lbr_full, format=OutputFormat.JSON))

    assert words_of_json(lines) == words_of_text(text)
