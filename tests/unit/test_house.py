# SPDX-License-Identifier: BSD-2-Clause
"""Rules for the whole package."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import retsnoop_py

PACKAGE = Path(retsnoop_py.__file__).parent
#: Separate programs that other modules start: their output is for these modules.
PROGRAMS = {"vm/confined.py", "workload/__main__.py"}
_PROCESS = {"stdout", "stderr", "stdin", "argv", "exit"}


def _mine_alone(path: Path) -> Iterator[str]:
    """Yield a module's operations that only the command line may use, except in a script part."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            continue
        for one in ast.walk(node):
            if isinstance(one, ast.Call) and ast.unparse(one.func) in ("print", "input", "exit"):
                yield f"{path}:{one.lineno}: {ast.unparse(one.func)}()"
            if (
                isinstance(one, ast.Attribute)
                and one.attr in _PROCESS
                and ast.unparse(one.value) == "sys"
            ):
                yield f"{path}:{one.lineno}: sys.{one.attr}"


def test_nothing_below_the_command_line_prints_exits_or_reads_its_words() -> None:
    for path in PACKAGE.rglob("*.py"):
        inside = path.relative_to(PACKAGE)
        if inside.parts[0] != "cli" and str(inside) not in PROGRAMS:
            assert not list(_mine_alone(path))


@pytest.mark.parametrize(
    "line", ["print('x')", "import sys\nsys.exit(1)", "def f():\n    sys.stdout.write('')"]
)
def test_what_would_is_found(line: str, tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text(line)
    assert len(list(_mine_alone(tmp_path / "x.py"))) == 1


def test_sessions_know_nothing_of_how_they_are_written() -> None:
    for path in (PACKAGE / "session").glob("*.py"):
        assert "retsnoop_py.render" not in path.read_text(), path
