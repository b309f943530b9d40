# SPDX-License-Identifier: BSD-2-Clause
"""The examples of docs/api.md that need no kernel; tests/live/test_api.py runs the others."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.examples import PAGE, examples

import retsnoop_py as rs
from retsnoop_py.api.keywords import LoadOptions, ReplayOptions, TraceOptions

GOLDEN = Path(__file__).parents[2] / "golden"


@pytest.mark.parametrize("code", examples())
def test_an_example_runs(code: str, tmp_path: Path) -> None:
    shutil.copy(GOLDEN / "6.12.rsn", tmp_path / "failure.rsn")
    shutil.copy(GOLDEN / "5.10.rsn", tmp_path / "good.rsn")
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout
    assert done.stderr == ""


def test_the_examples_are_those_that_the_tests_run() -> None:
    counts = [len(examples(where)) for where in ("", "live", "load", "vm")]
    assert sum(counts) == PAGE.read_text().count("```python")
    assert all(counts)


def test_every_keyword_is_listed() -> None:
    listed = PAGE.read_text().partition("## Options")[2]
    keywords = (each.__optional_keys__ for each in (TraceOptions, ReplayOptions, LoadOptions))
    for keyword in frozenset().union(*keywords):
        assert f"`{keyword}`" in listed


def test_every_name_can_be_had_and_nothing_is_imported_before() -> None:
    code = (
        "import sys, retsnoop_py as rs\n"
        "assert {m for m in sys.modules if m.startswith('retsnoop_py')} == {'retsnoop_py'}\n"
        "for name in rs.__all__:\n"
        "    assert getattr(rs, name) is not None\n"
        "assert callable(rs.select) and callable(rs.doctor) and callable(rs.render.text)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert set(rs.__all__) <= set(dir(rs))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        rs.nothing  # noqa: B018
