# SPDX-License-Identifier: BSD-2-Clause
"""``make test-all`` runs each part, continues after an interruption, and reports the failures."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests import parts
from tests.live import kernels

ROOT = Path(parts.__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def _own_record(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record and the logs of a repository of this test's own."""
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b", "-C", str(tmp_path)]
    (tmp_path / "file").write_text("1\n")
    for words in (["init", "-q"], ["add", "file"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], check=True)
    monkeypatch.setattr(parts, "ROOT", tmp_path)
    monkeypatch.setattr(parts, "RECORD", tmp_path / ".git" / "test-all.json")
    monkeypatch.setattr(parts, "LOGS", tmp_path / ".git" / "logs")
    monkeypatch.setattr(parts, "QUICK_LOGS", tmp_path / ".git" / "quick-logs")


def part(name: str, script: str) -> parts.Part:
    return parts.Part(name, ["sh", "-c", script], f"the part {name}")


def test_what_passed_is_not_run_again_until_a_file_changes(tmp_path: Path) -> None:
    count = tmp_path / ".git" / "count"
    counted = part("counted", f"echo x >>{count}")
    for _ in range(2):
        assert parts.run_all([counted], again=False) == []
    assert count.read_text() == "x\n"
    (tmp_path / "file").write_text("2\n")
    assert parts.run_all([counted], again=False) == []
    assert parts.run_all([counted], again=True) == []
    assert count.read_text() == "x\nx\nx\n"


def test_a_new_file_counts_and_a_lock_of_another_git_does_not(tmp_path: Path) -> None:
    before = parts.tree()
    (tmp_path / ".git" / "index.lock").touch()
    assert parts.tree() == before
    (tmp_path / "new").write_text("1\n")
    assert parts.tree() != before
    (tmp_path / "new").unlink()
    (tmp_path / "file").unlink()
    assert parts.tree() != before


def test_after_a_failure_the_others_run_and_its_log_is_shown(
    capsys: pytest.CaptureFixture[str],
) -> None:
    failing = part("failing", "echo why it failed; exit 3")
    assert parts.run_all([failing, part("fine", "true")], again=False) == ["failing"]
    out = capsys.readouterr().out
    assert "why it failed" in out
    assert "failing                FAILED (status 3)" in out
    assert "fine                   passed in" in out
    assert not parts.passed("failing", parts.tree())


def test_an_unknown_part_is_named_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert parts.main(["live-2.6"]) == 2
    assert re.match(r"no part called live-2\.6; the parts are lint .*", capsys.readouterr().err)


def test_ctrl_c_ends_what_was_started_and_keeps_what_passed(tmp_path: Path) -> None:
    child = tmp_path / ".git" / "child"
    endless = f"echo $$ >{child}.new; mv {child}.new {child}; exec sleep 1000"
    script = f"""
import sys
from pathlib import Path
from tests import parts
parts.ROOT, parts.RECORD, parts.LOGS = Path({str(tmp_path)!r}), *(
    Path({str(tmp_path)!r}) / ".git" / name for name in ("test-all.json", "logs"))
parts.PARTS = (
    parts.Part("quick", ["true"], "ends"),
    parts.Part("long", ["sh", "-c", {endless!r}], "does not"),
)
sys.exit(parts.main([]))
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL)
    while not child.exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    assert not Path(f"/proc/{child.read_text().strip()}").exists()
    assert parts.passed("quick", parts.tree())


def test_rows_run_at_once_and_their_parts_one_after_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = tmp_path / ".git" / "a", tmp_path / ".git" / "b"
    met = "touch {0}; while [ ! -e {1} ]; do sleep 0.01; done"
    first = part("first", met.format(a, b)), part("then", f"test -e {b}; echo 3 passed")
    assert parts.run_rows([first, [part("beside", met.format(b, a))]]) == []
    out = capsys.readouterr().out
    assert "3 passed\n  then       passed in 0.0 min" in out
    assert out.index("first      passed") < out.index("then       the part")


def test_after_a_failure_no_further_part_begins(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [[part("bad", "echo why it failed; exit 3"), part("next", "true")], [part("ok", "true")]]
    assert parts.run_rows(rows) == ["bad"]
    out = capsys.readouterr().out
    assert "why it failed\n  bad        FAILED (status 3)" in out
    assert "ok         passed" in out
    assert "next" not in out


def test_ctrl_c_ends_all_rows(tmp_path: Path) -> None:
    children = [tmp_path / ".git" / name for name in "ab"]
    endless = "echo $$ >{0}.new; mv {0}.new {0}; exec sleep 1000"
    rows = [[["sh", "-c", endless.format(child)]] for child in children]
    script = f"""
import sys
from pathlib import Path
from tests import parts
parts.ROOT = parts.QUICK_LOGS = Path({str(tmp_path)!r})
parts.QUICK = [[parts.Part("p", argv, "does not end") for argv in row] for row in {rows!r}]
sys.exit(parts.main(["--test"]))
"""
    process = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.DEVNULL)
    while not all(child.exists() for child in children):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    assert process.wait() == 130
    for child in children:
        assert not Path(f"/proc/{child.read_text().strip()}").exists()


def test_make_test_runs_what_make_test_all_runs_in_its_first_parts() -> None:
    """Everything that needs no kernel, in one way or another."""
    quick = {one.name for row in parts.QUICK for one in row}
    assert quick - {"host", "quick", "site"} <= {one.name for one in parts.PARTS}
    assert {"lint", "python", "sanitized", "fuzz", "source"} <= quick


def test_every_kernel_of_the_live_tests_has_a_part() -> None:
    names = {one.name for one in parts.PARTS}
    every = (*kernels.ALL, *kernels.QUICK)
    assert {f"live-{name.replace('/', '-')}" for name in every} <= names


def test_the_hook_runs_make_check() -> None:
    hook = ROOT / ".githooks" / "pre-commit"
    assert hook.stat().st_mode & 0o111
    assert "make --no-print-directory check" in hook.read_text()
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^check: lint test-unit test-golden ", makefile, re.MULTILINE)


def test_each_part_of_make_is_a_target() -> None:
    targets = re.findall(r"^([a-z-]+(?: [a-z-]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    known = {word for target in targets for word in target.split()}
    every = (*parts.PARTS, *(one for row in parts.QUICK for one in row))
    assert {one.argv[2] for one in every if one.argv[0] == "make"} <= known


def test_each_thorough_file_and_test_is_there() -> None:
    from tests.unit import conftest

    unit = Path(conftest.__file__).parent
    for one in (name for names in conftest.THOROUGH.values() for name in names):
        file, _, test = one.partition("::")
        assert (unit / file).is_file(), one
        assert not test or f"\ndef {test}(" in (unit / file).read_text(), one
