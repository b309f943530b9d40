# SPDX-License-Identifier: BSD-2-Clause
"""The reason of a failed system call: the objects of ``why --format json`` and of its page."""

from __future__ import annotations

from msgspec import Struct

from retsnoop_py.model.session import (
    Argument,
    Certainty,
    Frame,
    Func,
    KernelMessage,
    Origin,
    Reason,
    Result,
    Source,
)

__all__ = [
    "VERSION",
    "Certainty",
    "Cost",
    "ExplainedCall",
    "FailedCall",
    "FailingChainCall",
    "Reason",
    "Reported",
    "Waiting",
    "Why",
]

#: Increased if a field changes its meaning or is removed. New fields need no new version.
VERSION = 1


class FailedCall(Struct, omit_defaults=True, frozen=True):
    """Calls of one system call that failed with one error, ``count`` of them.

    ``function`` is the kernel's function of it. ``probing`` says what such failures are for, where
    they mostly belong to a program's ordinary work, as looking for a file along a path.
    ``chosen``: it is the one that is explained.
    """

    syscall: str
    function: str
    error: str
    count: int
    probing: str | None = None
    chosen: bool = False


class FailingChainCall(Struct, omit_defaults=True, frozen=True):
    """A function of the failing chain: what it returned, and where it called the next one."""

    function: Func
    result: Result | None = None
    frame: Frame | None = None


class Reported(Struct, omit_defaults=True, frozen=True):
    """Why this call was chosen among those that failed.

    ``sure``: the command's own words are about it, or the user named it. ``certainty`` is
    ``observed`` then, ``unknown`` if another failure has equal evidence, else ``inferred``.
    ``evidence``: what speaks for it, and against. ``line``: what the command wrote. ``alike``:
    other failures with equal evidence.
    """

    sure: bool
    certainty: Certainty
    evidence: tuple[str, ...] = ()
    line: str | None = None
    alike: tuple[str, ...] = ()


class ExplainedCall(Struct, omit_defaults=True, frozen=True):
    """The call that is explained.

    ``time`` is that of its end, as in sessions. ``user`` is the innermost place in the program
    itself, which called the library that made the call. ``chain``: the functions that failed,
    outermost first. ``origin``: the call that made the error, of which ``origin.decided`` says by
    which condition; missing where no function could be followed. ``tested``: of calls whose results
    that condition tested why they gave them, from the outer one to the inner. ``deduced``: why the
    function gave its error that ``origin`` has it from, which nothing can follow; told from its
    code, where its arguments alone decide.
    ``said``: messages of the kernel meanwhile. ``what``: what the call was to do, in words;
    ``reason``: why it could not; ``reported``: why it is this call that is explained.
    ``certainty`` is that of the condition: ``observed`` if every function from the system call to
    the condition was seen to hand on the value, ``inferred`` if a link rests on equal errors or on
    code alone, ``unknown`` without a condition.
    """

    syscall: str
    error: str
    tid: int
    pid: int
    thread: str
    process: str
    time: str
    certainty: Certainty
    arguments: tuple[Argument, ...] = ()
    user: Source | None = None
    chain: tuple[FailingChainCall, ...] = ()
    origin: Origin | None = None
    tested: tuple[Origin, ...] = ()
    deduced: Origin | None = None
    said: tuple[KernelMessage, ...] = ()
    unknown: str | None = None
    what: str | None = None
    reason: Reason | None = None
    reported: Reported | None = None


class Waiting(Struct, omit_defaults=True, frozen=True):
    """A thread of the command, and what it waited for when the command was ended.

    ``call`` is the system call, missing where it was in none, ``arguments`` its arguments as text.
    ``since_s``: for how many seconds it had been in the call; null if the call began before the
    watch. ``kind`` is a word of docs/why.md, and ``fields`` are the facts of that kind.
    ``sentence`` and ``advice`` are as in the text. ``certainty``: observed, inferred or unknown.
    ``kernel_stack``: the kernel's functions, outermost first; ``address`` is 0x0 where several
    functions have the name.
    """

    pid: int
    tid: int
    name: str
    call: str = ""
    arguments: str = ""
    since_s: float | None = None
    kind: str = "unknown"
    fields: dict[str, int | str] = {}
    sentence: str = ""
    advice: tuple[str, ...] = ()
    certainty: Certainty = "unknown"
    kernel_stack: tuple[Frame, ...] = ()


class Cost(Struct, omit_defaults=True, frozen=True):
    """Where the time of ``why`` went: seconds of real time, all runs together.

    ``total``: from the start of retsnoop-py until the answer. ``command``: while the command ran.
    ``attach``: choosing functions, loading and attaching, before the command started. ``detach``:
    detaching. ``other``: everything else, such as the search for the reason.
    """

    total: float
    command: float
    attach: float
    detach: float
    other: float


class Why(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="why"):
    """Why a command failed, as far as the kernel knows.

    ``runs``: so often the command was run. ``exit_status`` is that of its first run, 128+N if
    signal N ended it, 124 if its time (--for) was over; null for a process that was not started
    here. ``failures``: all system calls that failed in the first run, in the order in which their
    last ones came. ``unknown`` says why
    nothing is explained. ``reason``: why the command ended, where no call of it is explained.
    ``waiting``: what the threads of the command waited for, if it was ended by --for or a signal;
    what explains most first.
    ``warnings`` are those of the runs. ``certainty``: how sure it is that the command failed by
    this call or reason. ``cost``: the time that the answer took; null for a recording.
    """

    version: int
    kernel: str
    machine: str
    runs: int
    certainty: Certainty
    command: tuple[str, ...] = ()
    exit_status: int | None = None
    failures: tuple[FailedCall, ...] = ()
    explained: ExplainedCall | None = None
    unknown: str | None = None
    reason: Reason | None = None
    waiting: tuple[Waiting, ...] = ()
    warnings: tuple[str, ...] = ()
    cost: Cost | None = None
