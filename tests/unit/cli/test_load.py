# SPDX-License-Identifier: BSD-2-Clause
"""``load --try-attach`` on the running kernel: it asks, or needs ``--yes``."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from retsnoop_py.cli import declare, load
from retsnoop_py.cli.argv import normalise

WORDS = [sys.executable, "-I", "-m", "retsnoop_py", "load"]
#: What the run says next if it goes on: the file is no object, and nothing needs root before that.
GOES_ON = 66


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "x.bpf.o"
    made.touch()
    return made


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    argv = [*WORDS, *map(str, words), "--known-failures", "/nonexistent"]
    return subprocess.run(
        argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )


def test_without_a_terminal_nothing_is_attached_here(path: Path) -> None:
    done = run(path, "--try-attach")
    assert done.returncode == 77
    assert "--try-attach on the running kernel needs --yes" in done.stderr
    assert "--on KERNEL,... attaches in a virtual machine" in done.stderr


@pytest.mark.parametrize(
    "words", [["--try-attach", "--yes"], ["--try-attach", "--on", "6.12"], ["--yes"], []]
)
def test_a_run_that_needs_no_answer_goes_on(words: list[str], path: Path) -> None:
    assert run(path, *words).returncode == GOES_ON


def test_a_kernel_list_with_the_running_one_asks_too(path: Path) -> None:
    assert run(path, "--try-attach", "--on", "host,6.12").returncode == 77


@pytest.mark.parametrize(
    ("answer", "status"), [(b"y\n", GOES_ON), (b"yes\n", GOES_ON), (b"n\n", 77), (b"\n", 77)]
)
def test_the_answer_on_a_terminal_decides(answer: bytes, status: int, path: Path) -> None:
    ours, theirs = pty.openpty()
    argv = [*WORDS, str(path), "--try-attach", "--known-failures", "/nonexistent"]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        os.write(ours, answer)
        said = b""
        while process.poll() is None or b"[y/N]" not in said:
            said += os.read(ours, 4096)
            if b"[y/N]" in said:
                break
        assert process.wait(60) == status
    os.close(ours)
    assert b"runs the programs of x.bpf.o in the running kernel" in said


def test_a_name_cannot_forge_the_question(tmp_path: Path) -> None:
    hostile = tmp_path / "x\x1b[2J\n.bpf.o"
    hostile.touch()
    ours, theirs = pty.openpty()
    argv = [*WORDS, str(hostile), "--try-attach"]
    with subprocess.Popen(argv, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        said = b""
        while b"[y/N]" not in said:
            said += os.read(ours, 4096)
        os.write(ours, b"n\n")
        assert process.wait(60) == 77
    os.close(ours)
    assert b"\x1b[2J" not in said


def test_what_goes_to_a_guest_does_not_ask(path: Path) -> None:
    words = normalise(["--try-attach", str(path)], declare.command_table(load.COMMAND))
    asked = load.COMMAND.call(words)
    assert not asked.yes
    assert asked.loading.argv()[1:] == ["--try-attach", "--yes"]


def test_help_recommends_a_guest_for_objects_that_nobody_vouches_for() -> None:
    done = subprocess.run([*WORDS, "--help"], capture_output=True, text=True, check=True)
    assert "Use --on for objects that you do not trust" in " ".join(done.stdout.split())
