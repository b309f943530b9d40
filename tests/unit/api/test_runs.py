# SPDX-License-Identifier: BSD-2-Clause
"""What a caller says, as settings; runs that have not begun."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import retsnoop_py as rs
from retsnoop_py.api.keywords import TraceOptions, words
from retsnoop_py.cli import declare, trace
from retsnoop_py.cli.argv import normalise
from retsnoop_py.options.settings import trace_settings
from retsnoop_py.settings import Settings


def said(**options: Any) -> Settings:
    return trace_settings(words(options, TraceOptions.__optional_keys__))


def typed(line: str) -> Settings:
    settings = trace.COMMAND.call(normalise(line.split(), declare.trace_table()))
    assert isinstance(settings, Settings)
    return settings


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"entry": "*_sys_bpf"}, "-e *_sys_bpf"),
        ({"entry": ["a", "b"], "allow": ["*m*"], "deny": "x"}, "-e a -e b -a *m* -d x"),
        ({"preset": "bpf", "command": ["ls", "-l"]}, "-c bpf -- ls -l"),
        ({"preset": "bpf", "command": ["ls"], "user": "root"}, "-c bpf --user root -- ls"),
        ({"entry": "a", "pid": 7, "no_pid": [8, 9]}, "-e a -p 7 -P 8 -P 9"),
        ({"entry": "a", "pid": 7, "explain": True}, "-e a -p 7 --explain"),
        ({"entry": "a", "comm": "x", "no_comm": ["y"]}, "-e a -n x -N y"),
        ({"entry": "a", "longer": "500us", "duration": "2s"}, "-e a -L 500us --for 2s"),
        ({"entry": "a", "longer": timedelta(milliseconds=3)}, "-e a -L 3ms"),
        ({"entry": "a", "success_stacks": True}, "-e a -S"),
        ({"entry": "a", "success_stacks": False, "trace": True}, "-e a -T -Sn"),
        ({"entry": "a", "allow_errors": ["EINVAL", "NULL"]}, "-e a -x EINVAL -x NULL"),
        ({"entry": "a", "deny_errors": "EPERM", "call_stack": True}, "-e a -X EPERM -E"),
        ({"entry": "a", "arguments": True, "inject": "tp:a:b"}, "-e a -A -J tp:a:b"),
        ({"entry": "a", "capture_args": True, "inject_probe": ["tp:a:b"]}, "-e a -A -J tp:a:b"),
        ({"path": ["f"], "max_blocks": 99}, "--path f --max-blocks 99"),
        ({"entry": "a", "lbr": True}, "-e a -B"),
        ({"entry": "a", "lbr": ["any", "call"]}, "-e a -Bany -Bcall"),
        ({"entry": "a", "lbr": False, "interim_stacks": True}, "-e a -I"),
        ({"entry": "a", "user_stack": True, "symbolize": "inlines"}, "-e a --user-stack -ss"),
        ({"entry": "a", "count": 3, "max_functions": 9}, "-e a --count 3 --max-functions 9"),
        ({"entry": "a", "output": Path("x.rsn"), "kernel": "vm"}, "-e a -o x.rsn -k vm"),
        ({"entry": "a", "attach": "fentry", "no_system_changes": True}, "-e a -F --no-sys"),
        (
            {"entry": "a", "config": {"bpf.ringbuf-size": 4096, "stacks.dec-offs": True}},
            "-e a -C bpf.ringbuf-size=4096 -C stacks.dec-offs=y",
        ),
        ({"entry": "a", "debug": "full-lbr", "verbose": 2}, "-e a --debug full-lbr -vv"),
    ],
)
def test_keywords_mean_what_options_mean(options: dict[str, Any], line: str) -> None:
    assert said(**options) == typed(line)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"entrie": "a"}, "entrie: no such option"),
        ({"entry": "a", "format": "json"}, "format: no such option"),
        ({"entry": "a", "arguments": True, "capture_args": True}, "capture_args: given twice"),
        ({"entry": "a", "command": "ls -l"}, "one text"),
        ({}, "no entry functions"),
        ({"entry": "a", "longer": "soon"}, "-L soon: not a duration"),
        ({"entry": "a", "pid": "me"}, "not a process id"),
    ],
)
def test_what_makes_no_sense_is_an_error_of_ours(options: dict[str, Any], message: str) -> None:
    with pytest.raises(rs.UsageError, match=message) as caught:
        rs.trace(**options)
    assert caught.value.exit_status == 64


def test_a_run_that_has_not_begun_says_so() -> None:
    run = rs.trace(entry="*_sys_bpf")
    for ask in (lambda: next(iter(run)), lambda: run.functions, lambda: run.mechanism):
        with pytest.raises(rs.UsageError, match="not begun"):
            ask()
    assert run.exit_status is None
    assert run.losses == {}
