# SPDX-License-Identifier: BSD-2-Clause
"""A command gets the values typer would give it, without typer; each option is declared once."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.cli.by_typer import build

from retsnoop_py.cli import declare, diff, doctor, explain, functions, replay, trace, typed
from retsnoop_py.cli import list as lists
from retsnoop_py.cli.argv import normalise
from retsnoop_py.cli.plain_help import help_text
from retsnoop_py.errors import UsageError
from retsnoop_py.options.table import EVERY, OPTIONS, PANELS, Option, Takes, options_of
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.settings import Settings

TABLE = declare.trace_table()
#: Options that end a run before any values are made.
PRINTING = ("help", "usage", "version", "config-help", "install-completion", "show-completion")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
BY_TYPER = build(trace.COMMAND)
COMMANDS = (
    trace.COMMAND,
    replay.COMMAND,
    functions.COMMAND,
    doctor.COMMAND,
    lists.COMMAND,
    explain.COMMAND,
    diff.COMMAND,
)


def lines() -> st.SearchStrategy[list[str]]:
    specs = [spec for spec in TABLE.specs if spec.long not in PRINTING]
    words = [
        st.just(f"--{spec.long}")
        if spec.kind.value == "flag"
        else TEXT.map(f"--{spec.long}={{}}".format)
        for spec in specs
    ]
    command = st.lists(TEXT, max_size=3).map(lambda rest: ["--", *rest])
    return st.tuples(st.lists(st.one_of(words), max_size=12), st.just([]) | command).map(
        lambda parts: parts[0] + parts[1]
    )


@given(lines())
def test_the_values_are_those_typer_gives(words: list[str]) -> None:
    line = normalise(words, TABLE)
    by_typer = typed.call(BY_TYPER, line.argv, "retsnoop-py")
    command = by_typer.pop("words")
    ours = declare.words_of(trace.COMMAND.options, line)
    assert list(ours.command) == command
    told = {name.removeprefix("option_").replace("_", "-"): v for name, v in by_typer.items()}
    nothing = ("", 0, False, None, [])
    assert {n: v for n, v in told.items() if v not in nothing or n in ours.said} == ours.said


def test_every_option_of_a_trace_arrives() -> None:
    flags = [spec for spec in TABLE.specs if spec.long not in PRINTING]
    words = [f"--{s.long}" if s.kind.value == "flag" else f"--{s.long}=x" for s in flags]
    found = declare.words_of(trace.COMMAND.options, normalise([*words, *words, "--", "cmd"], TABLE))
    assert set(found.said) == {spec.long for spec in flags}
    assert found.texts("entry") == ["x", "x"]
    assert found.text("output") == "x"
    assert found.count("verbose") == 2
    assert found.has("dry-run")
    assert found.command == ("cmd",)
    assert not declare.words_of(trace.COMMAND.options, normalise([], TABLE)).said


def test_a_single_word_is_a_value() -> None:
    table = declare.command_table(replay.COMMAND, is_replay=True)
    assert str(replay.COMMAND.call(normalise(["a.rsn", "-v"], table)).path) == "a.rsn"
    assert str(replay.COMMAND.call(normalise(["--", "-a"], table)).path) == "-a"
    with pytest.raises(UsageError, match="needs one recording, not 2"):
        replay.COMMAND.call(normalise(["a", "b"], table))


def test_each_option_is_declared_once() -> None:
    for spelling in {one for option in OPTIONS for one in option.spellings}:
        assert sum(spelling in option.spellings for option in OPTIONS) == 1, spelling
    assert {name for option in OPTIONS for name in option.commands} == set(EVERY)
    for command in COMMANDS:
        assert len({option.name for option in command.options}) == len(command.options)


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: str(option.name))
def test_its_place_is_one_of_the_settings(option: Option) -> None:
    group, _, field = option.place.rpartition(".")
    if not option.place:
        assert option.read is None
        return
    settings = getattr(Settings(), group) if group else Settings()
    assert hasattr(settings, field)
    assert option.read is not None or option.takes in (Takes.FLAG, Takes.COUNT)
    if "replay" in option.commands:
        assert field in ReplayOverrides.fields


def test_what_a_replay_takes_a_trace_takes_too() -> None:
    taken = {option.name for option in options_of("trace")}
    assert {option.name for option in options_of("replay")} <= taken


@pytest.mark.parametrize("width", [50, 78, 98])
@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_plain_help_has_each_option_once_in_lines_that_fit(
    command: declare.Command, width: int
) -> None:
    text = help_text(command, width)
    # what comes before the groups has examples, which are kept as they are written
    told = text[min(text.find(f"\n{one}") % len(text) for one in PANELS) :].splitlines()
    for option in command.options:
        rows = [line for line in told if f", {option.spellings[-1]}" in line[:40]]
        rows += [line for line in told if line.startswith(f"  {option.spellings[0]}")]
        assert option.hidden or rows, option.name
    assert max(map(len, told)) <= width


def test_plain_help_goes_without_typer() -> None:
    argv = [sys.executable, "-X", "importtime", "-m", "retsnoop_py", "--help"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("Usage: retsnoop-py [OPTIONS] [-- CMD ARG...]\n\n  Find out")
    assert "--entry GLOB            Follow each call" in ran.stdout
    assert " typer" not in ran.stderr
