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
    assert {one.argv[2] for one in parts.PARTS if one.argv[0] == "make"} <= known


def test_each_thorough_file_and_test_is_there() -> None:
    from tests.unit import conftest

    unit = Path(conftest.__file__).parent
    for one in (name for names in conftest.THOROUGH.values() for name in names):
        file, _, test = one.partition("::")
        assert (unit / file).is_file(), one
        assert not test or f"\ndef {test}(" in (unit / file).read_text(), one
