# SPDX-License-Identifier: BSD-2-Clause
"""A view that cannot be made is told, and nothing is run without it. The rest takes root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from retsnoop_py.vm import read_only


def test_without_a_view_nothing_is_run(tmp_path: Path) -> None:
    program = [sys.executable, "-I", "-S", read_only.__file__, str(tmp_path / "missing")]
    argv = [*program, "touch", str(tmp_path / "ran")]
    done = subprocess.run(argv, check=False, capture_output=True, text=True)
    assert done.returncode == read_only.FAILED
    assert done.stderr.startswith("cannot make a read-only view of the files: ")
    assert list(tmp_path.iterdir()) == []
