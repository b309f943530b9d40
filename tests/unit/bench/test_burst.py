# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import sys
from pathlib import Path

from tests.bench.burst import rows_of

GOLDEN = Path(__file__).parents[2] / "golden"


def test_rows_are_those_of_call_traces() -> None:
    tool = str(Path(sys.executable).parent / "retsnoop-py")
    text = (GOLDEN / "6.12-calls.txt").read_text()
    rows = sum(line.strip()[:1] in set("→←↔") for line in text.splitlines() if line.strip())

    assert rows_of(tool, GOLDEN / "6.12-calls.rsn") == rows > 50
