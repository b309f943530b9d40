# SPDX-License-Identifier: BSD-2-Clause
"""A bare call, ``-h`` and ``-- CMD``: what a newcomer meets first."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from retsnoop_py.cli import completion, vm
from retsnoop_py.cli import main as entry
from retsnoop_py.cli.argv import SUB_COMMANDS
from retsnoop_py.cli.declare import command_of
from retsnoop_py.cli.plain_help import help_text, short_text
from retsnoop_py.errors import UsageError

COMMANDS = ["trace", *(name for name in SUB_COMMANDS if name != "vm")]


def test_a_bare_call_says_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert entry.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 25
    assert max(map(len, lines)) <= 80
    for word in ("why -- CMD", "-e GLOB", "explain LOG", "load OBJECT", "vm run", "--help"):
        assert any(word in line for line in lines), word


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [58, 78])
def test_short_help_is_one_screen(name: str, width: int) -> None:
    command = command_of(name)
    lines = short_text(command, width).splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    assert lines[0].startswith(f"Usage: {command.name}")
    assert f"'{command.name} --help' explains all" in lines[-1]
    if width == 78:
        shown = sum(line.startswith("  -") for line in lines)
        assert shown >= min(len(command.first), 7)


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("width", [58, 78])
def test_the_whole_help_has_every_option_and_fits(name: str, width: int) -> None:
    command = command_of(name)
    text = help_text(command, width)
    assert max(map(len, text.splitlines())) <= width
    for option in command.options:
        assert option.hidden or all(f"{one}" in text for one in option.spellings), option.name


@pytest.mark.parametrize(
    "words",
    [
        ["-h"],
        ["run", "-h"],
        ["run", "--rw=x", "-h"],
        ["shell", "-h"],
        ["fetch", "-h"],
        ["list", "-h"],
    ],
)
def test_short_help_of_vm_is_one_screen(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert entry.main(["vm", *words]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


def test_h_of_a_command_that_runs_in_a_guest_is_its_own() -> None:
    assert vm.short_help(["run", "--", "ls", "-h"]) is None
    assert vm.short_help(["run", "ls", "-h"]) is None
    assert vm.short_help(["run", "-h"]) is not None


def test_a_command_without_functions_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr("retsnoop_py.cli.why.run", lambda what: asked.append(what) or 0)
    assert entry.main(["-x", "EPERM", "--", "true"]) == 0
    assert (asked[0].what.command, asked[0].what.errors) == (("true",), ("EPERM",))


def test_options_that_why_does_not_have_still_need_functions(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert entry.main(["-T", "--", "true"]) == 64
    assert "no entry functions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("old", "new"),
    [(["--attach"], ["--try-attach"]), (["--expect", "x"], ["--known-failures", "x"])],
)
def test_old_spellings_work_with_a_notice(
    old: list[str],
    new: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.bpf.o").touch()
    asked = []
    monkeypatch.setattr("retsnoop_py.cli.load.run", lambda what: asked.append(what) or 0)
    assert entry.main(["load", *old, "x.bpf.o"]) == 0
    assert (
        f"NOTE: {old[0]} is now {new[0]}; the old spelling still works" in capsys.readouterr().err
    )
    assert entry.main(["load", *new, "x.bpf.o"]) == 0
    assert capsys.readouterr().err == ""
    assert asked[0] == asked[1]


def test_completion_is_installed_only_after_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_shell", lambda: "bash")
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(UsageError, match="no terminal to ask on"):
        completion.hand_out("install-completion", agreed=False)


def test_why_takes_the_old_spelling_of_call(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []
    monkeypatch.setattr("retsnoop_py.cli.why.run", lambda what: asked.append(what) or 0)
    assert entry.main(["why", "--syscall", "bpf", "--", "true"]) == 0
    assert "NOTE: --syscall is now --call" in capsys.readouterr().err
    assert entry.main(["why", "--call", "bpf", "--", "true"]) == 0
    assert asked[0] == asked[1]
