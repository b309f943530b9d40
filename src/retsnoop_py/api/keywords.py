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
from retsnoop_py.options.table import OPTIONS, Option, Takes, Words
from retsnoop_py.text import did_you_mean, near_names

__all__ = [
    "Config",
    "DiffOptions",
    "LoadOptions",
    "ReplayOptions",
    "SelectOptions",
    "TraceOptions",
    "no_such_keyword",
    "words",
]

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
    * ``source``: the kernel's source tree, for the text of lines that returned an error
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
    source: str | PathLike[str]
    count: int
    config: Config
    debug: Texts


class ReplayOptions(_ShowOptions, total=False):
    """What to change of what was shown live; ``kernel`` is a vmlinux to look lines up in."""

    kernel: str | PathLike[str]


class DiffOptions(TypedDict, total=False):
    """Which sessions of two recordings to compare: as those of a replay."""

    comm: Texts
    no_comm: Texts
    allow_errors: Texts
    deny_errors: Texts


class TraceOptions(_ShowOptions, SelectOptions, total=False):
    """A live run.

    * ``command``: run this, and trace it and what it starts; ``user``: as this user, in a session
      of its own; ``keep_env``: with all environment variables
    * ``duration``: end after so long
    * ``explain``: say why each system call failed (``session.explained``); needs ``command`` or
      ``pid``
    * ``inject_probe``, also ``inject``: probes to show hits of
    * ``path``: functions to follow block by block, of no more than ``max_blocks`` blocks;
      ``pinpoint``: the innermost ones of chains that failed, with ``command`` by running that again
      ``reruns`` times at most
    * ``output``: write a recording
    * ``max_functions``: refuse more (10,000)
    * ``no_messages``: leave out what the kernel says in words meanwhile (``session.said``)
    * ``no_system_changes``: leave /sys/kernel/rcu_expedited alone
    * ``trace_self``: trace this process as well, which is left out unless ``pid`` names it
    * ``verbose``: how much ``on_message`` is told
    """

    command: Iterable[str]
    user: str
    keep_env: bool
    duration: Duration
    explain: bool
    inject_probe: Texts
    inject: Texts
    path: Texts
    max_blocks: int
    pinpoint: bool
    reruns: int
    output: str | PathLike[str]
    max_functions: int
    trace_self: bool
    no_messages: bool
    no_system_changes: bool
    verbose: int


class LoadOptions(TypedDict, total=False):
    """Where BPF objects are loaded, and how.

    * ``on``: names of ``vm list``, bzImage files, ``"host"``, each but that in a guest; without it
      the kernel that runs here, which takes root
    * ``programs``, ``maps``: only these
    * ``variables``: values of read-only variables (``const volatile``), ``{"slots": 16}``, or
      shapes of such, ``{"small": {"slots": 16}, "large": {"slots": 4096}}``, each to be loaded
    * ``attach``: attach each program, too, and detach it
    * ``jobs``: guests at a time, one for each core by default; ``timeout``: seconds for each
    * ``trace``: where the kernel refuses without a word, load once more and find the condition
      (True)
    * ``logs``: the verifier's whole log in each result
    * ``kernel``: a vmlinux with DWARF of the kernel that runs here
    * ``source``: the folder with the source files of the objects, for the lines around a place
    """

    on: Texts
    programs: Texts
    maps: Texts
    variables: Mapping[str, int | Mapping[str, int]]
    attach: bool
    jobs: int
    timeout: float
    trace: bool
    logs: bool
    kernel: str | PathLike[str]
    source: str | PathLike[str]


def words(options: Mapping[str, Any], known: frozenset[str]) -> Words:
    """The same as it would be typed; ``known`` are the keywords there are.

    Raises UsageError for one there is not, and for one that is given twice.
    """
    rows = _rows()
    said: dict[str, Any] = {}
    for keyword, value in options.items():
        if keyword not in known:
            raise no_such_keyword(keyword, known)
        if value is None or keyword == "command":
            continue
        option = rows[keyword]
        if option.name in said:
            raise UsageError(f"{keyword}: given twice", "docs/api.md lists the keywords")
        found = _said(option, value)
        if found:
            said[option.name] = found
    command = options.get("command") or ()
    if isinstance(command, str):
        raise UsageError(
            f"command={command!r}: one text", "give the program and its arguments as a list"
        )
    return Words(said, tuple(map(_text, command)))


def no_such_keyword(keyword: str, known: Iterable[str]) -> UsageError:
    """The error for a keyword that is none of ``known``."""
    hints = (did_you_mean(near_names(keyword, known, 2)), "docs/api.md lists the keywords")
    return UsageError(f"{keyword}: no such option", "; ".join(filter(None, hints)))


def _rows() -> dict[str, Option]:
    """The options that Python has, by their keywords."""
    rows = {}
    for option in OPTIONS:
        if option.keyword != "":
            rows[option.name.replace("-", "_")] = option
            rows[option.keyword or option.name] = option
    return rows


def _said(option: Option, value: Any) -> Any:
    """What an option would be given on the command line; nothing of one that is switched off."""
    if option.takes is Takes.FLAG:
        return bool(value)
    if option.takes is Takes.COUNT:
        return int(value)
    if option.takes is Takes.ONE:
        return _text(value)
    if isinstance(value, bool):
        # the one can be said to be off, the other is
        return ["y" if value else "n"] if option.implied == "y" else [option.implied] * value
    if isinstance(value, Mapping):
        return [f"{key}={_text(one)}" for key, one in value.items()]
    return [_text(value)] if isinstance(value, (str, int)) else [_text(one) for one in value]


def _text(value: Any) -> str:
    """A value as it would be typed."""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    return fspath(value) if isinstance(value, PathLike) else str(value)
