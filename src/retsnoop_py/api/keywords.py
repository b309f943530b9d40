# SPDX-License-Identifier: BSD-2-Clause
"""The keywords of the Python interface: the options' long names, with values of Python.

A duration is text as on the command line ("500us", "2ms", "1s") or a timedelta. What is a list
may be given as one text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import timedelta
from os import PathLike, fspath
from typing import Any, TypedDict

from retsnoop_py.errors import UsageError
from retsnoop_py.options.settings import Words

__all__ = ["Config", "ReplayOptions", "SelectOptions", "TraceOptions", "words"]

Texts = str | Iterable[str]
Numbers = int | Iterable[int]
Duration = str | timedelta
#: Settings of ``-C`` by their names: ``{"bpf.ringbuf-size": 1 << 20}``.
Config = Mapping[str, str | int | bool]


class SelectOptions(TypedDict, total=False):
    """Which functions.

    * ``entry``: globs of entry functions, each call of one is followed until it returns; ``allow``:
      of further functions to see inside; ``deny``: of those to leave alone
    * ``preset``: ready-made globs for a subject, ``"bpf"`` or ``"perf"``
    * ``attach``: this mechanism alone
    * ``kernel``: a vmlinux with DWARF
    """

    entry: Texts
    allow: Texts
    deny: Texts
    preset: Texts
    attach: str
    kernel: str | PathLike[str]


class _ShowOptions(TypedDict, total=False):
    """What of the sessions, in a live run and in a replay.

    * ``pid``, ``no_pid``, ``comm``, ``no_comm``: only, or not, these processes and threads
    * ``longer``: only calls of an entry function that took at least so long
    * ``success_stacks``: calls that succeeded as well (True), or failures only (False)
    * ``allow_errors``, ``deny_errors``: only, or not, with these errors in them, by name
    * ``call_stack``, ``trace``: the stack, the default, or every traced call inside
    * ``capture_args``: the arguments of calls, also as ``arguments``
    * ``lbr``: the last branches of the CPU; True or flags by name
    * ``interim_stacks``: reports of calls that still run
    * ``user_stack``: the program's own stack
    * ``symbolize``: ``"inlines"``, ``"linenum"`` or ``"none"``
    * ``count``: end after so many sessions
    * ``config``: finer settings
    """

    pid: Numbers
    no_pid: Numbers
    comm: Texts
    no_comm: Texts
    longer: Duration
    success_stacks: bool
    allow_errors: Texts
    deny_errors: Texts
    call_stack: bool
    trace: bool
    capture_args: bool
    arguments: bool
    lbr: bool | Texts
    interim_stacks: bool
    user_stack: bool
    symbolize: str
    count: int
    config: Config
    debug: Texts


class ReplayOptions(_ShowOptions, total=False):
    """What to change of what was shown live; ``kernel`` is a vmlinux to look lines up in."""

    kernel: str | PathLike[str]


class TraceOptions(_ShowOptions, SelectOptions, total=False):
    """A live run.

    * ``command``: run this, and trace it and what it starts; ``user``: as this user
    * ``duration``: end after so long
    * ``inject_probe``, also ``inject``: probes to show hits of
    * ``path``: functions to follow block by block, of no more than ``max_blocks`` blocks
    * ``output``: write a recording
    * ``max_functions``: refuse more (10,000)
    * ``no_system_changes``: leave /sys/kernel/rcu_expedited alone
    * ``verbose``: how much ``on_message`` is told
    """

    command: Iterable[str]
    user: str
    duration: Duration
    inject_probe: Texts
    inject: Texts
    path: Texts
    max_blocks: int
    output: str | PathLike[str]
    max_functions: int
    no_system_changes: bool
    verbose: int


#: Other names, and what the words call it.
_WORDS = {
    "arguments": "capture_args",
    "inject": "inject_probe",
    "duration": "for_",
    "config": "settings",
}
_LISTS = frozenset(
    {
        *("preset", "entry", "allow", "deny", "command", "inject_probe", "path", "lbr", "debug"),
        *("pid", "no_pid", "comm", "no_comm", "allow_errors", "deny_errors"),
    }
)
_FLAGS = frozenset(
    ["call_stack", "trace", "capture_args", "interim_stacks", "user_stack", "no_system_changes"]
)


def words(options: Mapping[str, Any], known: frozenset[str]) -> Words:
    """The same as it would be typed; ``known`` are the keywords there are.

    Raises UsageError for one there is not, and for one that is given twice.
    """
    found: dict[str, Any] = {}
    for keyword, value in options.items():
        name = _WORDS.get(keyword, keyword)
        if keyword not in known or name in found:
            what = "given twice" if name in found else "no such option"
            raise UsageError(f"{keyword}: {what}", "docs/api.md lists the keywords")
        if value is not None:
            found[name] = _word(name, keyword, value)
    return Words(**found)


def _word(name: str, keyword: str, value: Any) -> Any:
    if name in _FLAGS:
        return bool(value)
    if name == "verbose":
        return int(value)
    if name == "settings":
        return [f"{key}={_text(one)}" for key, one in value.items()]
    if name == "success_stacks":
        return ["y" if value else "n"]
    if name == "lbr" and isinstance(value, bool):
        return ["any_return"] if value else []
    if name in _LISTS:
        if name == "command" and isinstance(value, str):
            raise UsageError(
                f"{keyword}={value!r}: one text", "give the program and its arguments as a list"
            )
        return [_text(value)] if isinstance(value, (str, int)) else [_text(one) for one in value]
    return _text(value)


def _text(value: Any) -> str:
    """A value as it would be typed."""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    return fspath(value) if isinstance(value, PathLike) else str(value)
