# SPDX-License-Identifier: BSD-2-Clause
"""The types that mypy sees of the extensions are those of the C code."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("extension", ["_bpf", "_dwarf"])
def test_stubs_are_what_the_declarations_say(extension: str) -> None:
    written = (ROOT / "src/retsnoop_py" / f"{extension}.pyi").read_text()
    stub = runpy.run_path(str(ROOT / "src/native/stubs.py"))["stub"]
    assert stub(extension) == written, "run .venv/bin/python src/native/stubs.py"
