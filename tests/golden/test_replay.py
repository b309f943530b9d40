# SPDX-License-Identifier: BSD-2-Clause
"""Recordings made on real kernels replay into the text they printed then, byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden.views import KERNELS, VIEWS, replay_text

from retsnoop_py.recording.overrides import ReplayOverrides

HERE = Path(__file__).parent


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_replay_prints_what_the_live_run_printed(kernel: str) -> None:
    live = (HERE / f"{kernel}.txt").read_text()
    assert live.count(" TID/PID ") > 20
    assert replay_text(HERE / f"{kernel}.rsn", ReplayOverrides()) == live


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_a_view_looks_as_it_did(kernel: str, view: str) -> None:
    expected = (HERE / f"{kernel}-{view}.txt").read_text()
    assert expected
    assert replay_text(HERE / f"{kernel}.rsn", VIEWS[view]) == expected


@pytest.mark.parametrize("kernel", KERNELS)
def test_no_line_ends_in_blanks(kernel: str) -> None:
    text = (HERE / f"{kernel}-raw.txt").read_text()
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
