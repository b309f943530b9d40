# SPDX-License-Identifier: BSD-2-Clause
"""Messages on standard error contain names of input; ``report`` makes them harmless."""

from __future__ import annotations

import ast
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import retsnoop_py
from retsnoop_py import package
from retsnoop_py.cli import declare, load
from retsnoop_py.cli.argv import normalise
from retsnoop_py.cli.verdict import UNEXPECTED, Judge
from retsnoop_py.load.model import LoadResult
from retsnoop_py.settings import VerdictSettings

PACKAGE = Path(retsnoop_py.__file__).parent
#: Other code that writes to standard error, by file, and why no name of input is in the text.
ALLOWED = {
    "cli/__init__.py": "before the package can be imported: Python is too old",
    "cli/explain.py": "commands of a GitHub job, which stop commands around such text",
    "cli/load.py": "the same, and the question behind a message",
    "cli/manual.py": "run when a package is made",
    "cli/report.py": "the rules themselves",
    "cli/replay.py": "the notes of a replay, as printable text",
    "render/renderers.py": "a stream of the caller, as printable text",
    "vm/confined.py": "a program of its own, whose output is a part of an error",
    "workload/__main__.py": "a test program",
}
HOSTILE = "x\n::error::FORGED\x1b[31m##[add-mask]a"


def messages(tree: ast.Module) -> Iterator[int]:
    """Yield the line of each call that writes to standard error."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        streams = [each.value for each in node.keywords if each.arg == "file"]
        if isinstance(node.func, ast.Attribute) and node.func.attr in ("write", "writelines"):
            streams.append(node.func.value)
        if any(ast.unparse(each).endswith(("stderr", "err")) for each in streams) or any(
            "sys.stderr" in ast.unparse(each) for each in streams
        ):
            yield node.lineno


def test_only_one_module_writes_messages() -> None:
    rooms = (PACKAGE / room for room in ("api", "capture", "cli", "load", "render", "vm"))
    files = {path for room in rooms for path in room.rglob("*.py")} | {PACKAGE / "listener.py"}
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in files
        if (lines := list(messages(ast.parse(path.read_text()))))
    }
    assert {name: lines for name, lines in found.items() if name not in ALLOWED} == {}


@pytest.mark.parametrize(
    "line",
    ["print(name, file=sys.stderr)", "sys.stderr.write(name)", "err.write(name)"],
)
def test_a_message_is_found(line: str) -> None:
    assert list(messages(ast.parse(line))) == [1]


def harmless(text: str) -> bool:
    """Return whether a job and a terminal obey nothing in the output ``text``."""
    lines = text.splitlines()
    token = lines[0].partition("::stop-commands::")[2]
    return bool(token) and lines[-1] == f"::{token}::" and "\x1b" not in text


@pytest.mark.parametrize("is_variable", [True, False])
def test_an_unexpected_result_is_no_command(
    is_variable: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A container in a job need not have the job's variables; --github is enough."""
    if is_variable:
        monkeypatch.setenv("GITHUB_ACTIONS", "true")
    else:
        monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    result = LoadResult(1, "6.12", HOSTILE, "program", "refused", HOSTILE, errno="EINVAL")
    (tmp_path / "x.o").touch()
    words = [str(tmp_path / "x.o"), "--known-failures", "f"]
    words += [] if is_variable else ["--github"]
    asked = load.COMMAND.call(normalise(words, declare.command_table(load.COMMAND)))
    assert load._status(asked, [result], [], []) == UNEXPECTED
    assert harmless(capsys.readouterr().err)


def test_an_unexpected_call_is_no_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    judge = Judge(VerdictSettings())
    monkeypatch.setattr(judge.caught, "surprises", lambda: [HOSTILE])
    assert judge.status(0, 0) == UNEXPECTED
    assert harmless(capsys.readouterr().err)


@pytest.mark.parametrize("words", [("load",), ("explain", "--object")])
def test_an_error_of_a_command_with_github_is_no_command(
    words: tuple[str, ...], tmp_path: Path
) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "GITHUB_ACTIONS"}
    hostile = tmp_path / "x\n::error::FORGED.o"
    (tmp_path / "log").touch()
    argv = [*package.program(), *words, str(hostile), "--github"]
    argv += [str(tmp_path / "log")] if "--object" in words else []
    done = subprocess.run(argv, env=environment, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 66
    lines = done.stderr.splitlines()
    at = lines.index("::error::FORGED.o: No such file or directory")
    token = lines[0].removeprefix("::stop-commands::")
    assert lines.index(f"::{token}::") > at
