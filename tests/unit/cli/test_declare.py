# SPDX-License-Identifier: BSD-2-Clause
"""A command gets the values typer would give it, without typer."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.cli import declare, replay, tables, trace, typed
from retsnoop_py.cli.argv import normalise
from retsnoop_py.errors import UsageError
from retsnoop_py.value import replace

TABLE = tables.trace_table(trace.trace)
#: Options that end a run before any values are made.
PRINTING = ("help", "usage", "version", "config-help", "install-completion", "show-completion")
TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)


def echo(command: declare.Command) -> declare.Command:
    """The command with a function that gives back the values it is called with."""
    parameters = inspect.signature(command.function).parameters
    defaults = {name: p.default for name, p in parameters.items() if p.default is not p.empty}

    @functools.wraps(command.function)
    def values(**given: Any) -> dict[str, Any]:
        return {**defaults, **given}

    return replace(command, function=values)


TRACE, REPLAY = echo(trace.COMMAND), echo(replay.COMMAND)
BY_TYPER = typed.build(TRACE)


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
    assert declare.call(TRACE, line) == by_typer


def test_every_option_of_a_trace_arrives() -> None:
    flags = [spec for spec in TABLE.specs if spec.long not in PRINTING]
    words = [f"--{s.long}" if s.kind.value == "flag" else f"--{s.long}=x" for s in flags]
    values = declare.call(TRACE, normalise([*words, *words, "--", "cmd"], TABLE))
    assert values["entry"] == ["x", "x"]
    assert values["output"] == "x"
    assert values["verbose"] == 2
    assert values["dry_run"] is True
    assert values["command"] == ["cmd"]
    unset = declare.call(TRACE, normalise([], TABLE))
    changed = {name for name, value in values.items() if value != unset[name]}
    assert set(values) - changed == {"config_help", "version", "help_", "usage"}


def test_a_single_word_is_a_value() -> None:
    table = tables.replay_table(replay.replay, trace.trace)
    assert declare.call(REPLAY, normalise(["a.rsn", "-v"], table))["file"] == "a.rsn"
    assert declare.call(REPLAY, normalise(["--", "-a"], table))["file"] == "-a"
    with pytest.raises(UsageError, match="one FILE is needed, not 2"):
        declare.call(REPLAY, normalise(["a", "b"], table))


@pytest.mark.parametrize("function", [trace.trace, replay.replay])
def test_every_parameter_is_declared(function: Callable[..., Any]) -> None:
    assert [param.name for param in declare.params(function)] == list(
        inspect.signature(function).parameters
    )
