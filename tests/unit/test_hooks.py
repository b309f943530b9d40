# SPDX-License-Identifier: BSD-2-Clause
"""What pre-commit runs and what ``make lint`` runs is the same."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
#: Left to make: they take longer than a commit.
SLOW = {"build.py bpf --arch x86_64", "build.py bpf --arch arm64"}


def linted() -> set[str]:
    """The commands of the target lint, without variables of make."""
    makefile = (ROOT / "Makefile").read_text()
    found = re.search(r"^lint:.*\n((?:\t.*\n)+)", makefile, re.MULTILINE)
    assert found
    lines = [line.strip().lstrip("@") for line in found[1].splitlines()]
    return {re.sub(r"\$\((?:BIN\)/|PYTHON\) |C_FILES\))", "", line).strip() for line in lines}


def hooked() -> set[str]:
    """The commands of the hooks."""
    config = (ROOT / ".pre-commit-config.yaml").read_text()
    entries = re.findall(r"^ +entry: (.*)$", config, re.MULTILINE)
    return {entry.removeprefix(".venv/bin/") for entry in entries}


def test_hooks_run_what_lint_runs() -> None:
    assert hooked() == linted() - SLOW
    assert linted() > SLOW
