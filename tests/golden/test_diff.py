# SPDX-License-Identifier: BSD-2-Clause
"""Compare the same workload on two kernels with the expected text.

``retsnoop-py diff -v A.rsn B.rsn`` in this folder creates the texts again.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from retsnoop_py.cli.main import main

HERE = Path(__file__).parent


@pytest.mark.parametrize(
    ("a", "b", "text"),
    [
        ("5.10.rsn", "6.12.rsn", "diff-5.10-6.12.txt"),
        ("5.10-calls.rsn", "6.12-calls.rsn", "diff-5.10-6.12-calls.txt"),
    ],
)
def test_a_comparison_prints_the_expected_text(
    a: str, b: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(HERE)
    assert main(["diff", "-v", a, b]) == 3
    assert capsys.readouterr().out == Path(text).read_text()
