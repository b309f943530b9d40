# SPDX-License-Identifier: BSD-2-Clause
"""The keywords of the Python interface: the options' long names, with Python values.

A duration is text as on the command line ("500us", "2ms", "1s") or a timedelta. A list may be given
as a single text.
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
    """The selection of functions.

    * ``entry``: globs of entry functions; each call of an entry function is followed until it
      returns; ``allow``: globs of further functions to trace inside; ``deny``: of functions to skip
    * ``preset``: ready-made globs for a subject, ``"bpf"`` or ``"perf"``
    * ``attach``: use only this mechanism
    * ``kernel``: a vmlinux with DWARF
    """

    entry: Texts
    allow: Texts
    deny: Texts
    preset: Texts
    attach: str
    kernel: str | PathLike[str]


class _ShowOptions(TypedDict, total=False):
    """The filters and views of sessions, in a live run and in a replay.

    * ``pid``, ``no_pid``, ``comm``, ``no_comm``: only, or not, these processes and threads
    * ``longer``: only calls of an entry function with at least this duration
    * ``success_stacks``: also successful calls (True), or failures only (False)
    * ``allow_errors``, ``deny_errors``: only, or not, sessions with these errors, by name
    * ``call_stack``, ``trace``: the stack, the default, or every traced call inside
    * ``capture_args``: the arguments of calls, also as ``arguments``
    * ``lbr``: the last branches of the CPU; True or flags by name
    * ``interim_stacks``: reports of calls that still run
    * ``user_stack``: the program's own stack
    * ``symbolize``: ``"inlines"``, ``"linenum"`` or ``"none"``
    * ``source``: the kernel's source tree, for the text of lines that returned an error
    * ``count``: end after this many sessions
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
    """Changes to the output of the live run; ``kernel`` is a vmlinux for source lines."""

    kernel: str | PathLike[str]


class DiffOptions(TypedDict, total=False):
    """The sessions of two recordings to compare: the same options as for a replay."""

    comm: Texts
    no_comm: Texts
    allow_errors: Texts
    deny_errors: Texts


class TraceOptions(_ShowOptions, SelectOptions, total=False):
    """A live run.

    * ``command``: run this command, and trace it and its children; ``user``: as this user, in its
      own session; ``keep_env``: with all environment variables
    * ``duration``: end after this time
    * ``explain``: explain why each system call failed (``session.explained``); needs ``command`` or
      ``pid``
    * ``inject_probe``, also ``inject``: probes to show hits of
    * ``path``: functions to follow block by block, with at most ``max_blocks`` blocks;
      ``pinpoint``: follow the innermost functions of failing chains; with ``command``, run it again
      at most ``reruns`` times
    * ``output``: write a recording
    * ``max_functions``: reject a larger number of functions (10,000)
    * ``no_messages``: do not record kernel messages (``session.said``)
    * ``no_system_changes``: do not change /sys/kernel/rcu_expedited
    * ``trace_self``: trace this process as well; by default it is skipped unless ``pid`` names it
    * ``verbose``: the level of detail for ``on_message``
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
    """Where and how to load BPF objects.

    * ``on``: names of ``vm list``, bzImage files, ``"host"``; each except ``"host"`` runs in a
      guest; the default is the running kernel, which requires root
    * ``programs``, ``maps``: only these
    * ``variables``: values of read-only variables (``const volatile``), ``{"slots": 16}``, or named
      sets of values, ``{"small": {"slots": 16}, "large": {"slots": 4096}}``; each set is loaded
    * ``attach``: also attach each program, and detach it
    * ``jobs``: simultaneous guests, one per core by default; ``timeout``: seconds for each
    * ``trace``: if the kernel rejects a part without a message, load it once more and find the
      condition (True)
    * ``logs``: the verifier's whole log in each result
    * ``kernel``: a vmlinux with DWARF of the running kernel
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
    """Return the options as on the command line; ``known`` are the valid keywords.

    Raises UsageError for an unknown keyword, and for an option that is given twice.
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
    """Return the error for a keyword that is not in ``known``."""
    hints = (did_you_mean(near_names(keyword, known, 2)), "docs/api.md lists the keywords")
    return UsageError(f"{keyword}: no such option", "; ".join(filter(None, hints)))


def _rows() -> dict[str, Option]:
    """Return the options of the Python interface by keyword."""
    rows = {}
    for option in OPTIONS:
        if option.keyword != "":
            rows[option.name.replace("-", "_")] = option
            rows[option.keyword or option.name] = option
    return rows


def _said(option: Option, value: Any) -> Any:
    """Return an option's value as on the command line; an empty list if it is switched off."""
    if option.takes is Takes.FLAG:
        return bool(value)
    if option.takes is Takes.COUNT:
        return int(value)
    if option.takes is Takes.ONE:
        return _text(value)
    if isinstance(value, bool):
        # only an option with the implied value "y" can be switched off explicitly
        return ["y" if value else "n"] if option.implied == "y" else [option.implied] * value
    if isinstance(value, Mapping):
        return [f"{key}={_text(one)}" for key, one in value.items()]
    return [_text(value)] if isinstance(value, (str, int)) else [_text(one) for one in value]


def _text(value: Any) -> str:
    """Return a value as it would be typed."""
    if isinstance(value, bool):
        return "y" if value else "n"
    if isinstance(value, timedelta):
        return f"{value // timedelta(microseconds=1)}us"
    return fspath(value) if isinstance(value, PathLike) else str(value)
