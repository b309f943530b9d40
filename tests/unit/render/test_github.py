# SPDX-License-Identifier: BSD-2-Clause
"""Results for a job at GitHub, of objects that were made to give the runner commands."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.load.test_outcome import KERNELS, RESULTS, refused

from retsnoop_py.cli import main as entry
from retsnoop_py.load.model import Explanation, Place
from retsnoop_py.load.outcome import reasons
from retsnoop_py.render.github import (
    github_json,
    github_lines,
    github_summary,
    unobeyed,
)
from retsnoop_py.render.load_results import matrix_rows

EVIL = "::stop-commands::x"
LOG = Path(__file__).parents[1] / "load/agent.log"


def obeyed(lines: Sequence[str]) -> list[str]:
    """The lines that GitHub's runner takes as commands, as it reads them."""
    found, token = [], ""
    for line in lines:
        text = line.strip()
        if token:
            token = "" if text == f"::{token}::" else token
        elif text.startswith("::stop-commands::"):
            token = text.removeprefix("::stop-commands::")
        elif text.startswith("::") or "##[" in text:
            found.append(text)
    assert not token
    return found


def test_github_gets_an_error_at_the_line_and_a_table() -> None:
    why = reasons(RESULTS)
    lines = list(github_lines(why))
    assert lines[0].startswith("::error file=a%2Cb.bpf.c,line=42,title=")
    assert lines[0].endswith("::It may be NULL.")
    assert lines[1].startswith("::group::")
    assert lines[-1] == "::endgroup::"
    summary = github_summary(matrix_rows(RESULTS, KERNELS, why), KERNELS, why)
    assert "| a.bpf.o | program on_open | EACCES [1] | EACCES [1] |" in summary


def test_no_line_has_what_a_terminal_obeys() -> None:
    """A job's log is also read on terminals, and a reason has names out of the object."""
    nasty = "a\x1b]0;x\x07\u202e\r\nb"
    place = Place(nasty, nasty, 42, 9, nasty)
    why = Explanation("x", nasty, nasty, nasty, (nasty,), place=place)
    lines = list(github_lines(reasons([refused("5.10", nasty, why)])))
    assert [line for line in lines if not line.isprintable()] == []


def test_no_line_of_an_object_is_a_command() -> None:
    place = Place(EVIL, f"{EVIL}\n{EVIL}", 42, 9, EVIL, ((41, EVIL), (42, "##[error]x")))
    why = Explanation("x", EVIL, f"{EVIL} {'y' * 90} {EVIL}", EVIL, (EVIL,), (), (EVIL,))
    for one in (why, Explanation("x", "t", "r", kernel=(EVIL, "##[error]x"), place=place)):
        lines = list(github_lines(reasons([refused("5.10", f"p\n{EVIL}", one)])))
        assert not any("\n" in line for line in lines)
        assert [re.sub(r"\W.*", "", line[2:]) for line in obeyed(lines)] == [
            "error",
            "group",
            "endgroup",
        ]


def test_the_token_that_ends_foreign_text_is_another_one_each_time() -> None:
    first, second = list(unobeyed(["a"])), list(unobeyed(["a"]))
    assert first[1] == second[1] == "a"
    assert first[0] != second[0]
    assert len(first[2]) > 20
    assert first[0].removeprefix("::stop-commands::") == first[2].strip(":")


def test_json_has_no_command_and_says_the_same() -> None:
    line = json.dumps({"name": "##[error]"})
    assert "##[" not in github_json(line)
    assert json.loads(github_json(line)) == json.loads(line)


@pytest.mark.parametrize(
    "name", ["p`<img src=x>`\n# pwn", "``` x", "a|b", "\\|x", "[a](b)", "*x* _y_ &lt;", "`"]
)
def test_a_name_is_no_markup_in_the_summary(name: str) -> None:
    results = [refused("5.10", name)]
    why = reasons(results)
    summary = github_summary(matrix_rows(results, ["5.10"], why), ["5.10"], why)
    head, _, row, blank, reason, last = summary.split("\n")
    assert (head, blank, last) == ("| object | part | 5.10 |", "", "")
    assert row.count("|") == 4
    assert not re.search(r"[<>`*\\]|\]\(", row)
    fence, text = re.fullmatch(r"1\. (`+)(.*)\1: It may be NULL\.", reason).groups()  # type: ignore[union-attr]
    assert max(map(len, re.findall("`+", text)), default=0) < len(fence)


def test_explain_gives_a_job_annotations_and_no_commands_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "log"
    log.write_text(f"libbpf: prog '{EVIL}': BPF program load failed: EACCES\n" + LOG.read_text())
    assert entry.main(["explain", "--github", str(log)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert {one.split("::")[1].split()[0] for one in obeyed(lines)} <= {
        "error",
        "group",
        "endgroup",
    }
    assert any(one.startswith("::error ") for one in lines)
    assert entry.main(["explain", "--github", "--format", "json", str(log)]) == 0
    told = capsys.readouterr()
    assert all(json.loads(line) for line in told.out.splitlines())
    assert "::error " in told.err
