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
    """All ``count`` calls of a system call that failed with the same error.

    ``function`` is the kernel's function for the system call. ``probing`` is the usual purpose of
    such failures if they belong to a program's normal work: for example, the search for a file
    along a path. ``chosen``: ``explained`` is about this failure.
    """

    syscall: str
    function: str
    error: str
    count: int
    probing: str | None = None
    chosen: bool = False


class FailingChainCall(Struct, omit_defaults=True, frozen=True):
    """A function of the failing chain: its result, and the frame in which it called the next."""

    function: Func
    result: Result | None = None
    frame: Frame | None = None


class GivenOperand(Struct, omit_defaults=True, frozen=True):
    """An operand of the condition that is an argument of the system call.

    ``name`` is the expression in the condition. ``argument`` is the argument's number from 1,
    ``parameter`` its name in the kernel. ``member``: the operand is in the data that the
    argument points to. The code of each function on the way shows this.
    """

    name: str
    argument: int
    parameter: str
    member: bool = False


class Reported(Struct, omit_defaults=True, frozen=True):
    """The evidence for choosing this call among the failed calls.

    ``sure``: the command's own output is about this call, or the user named it. ``certainty`` is
    then ``observed``; otherwise, it is ``unknown`` if another failure has equal evidence, else
    ``inferred``. ``evidence`` lists facts for and against this call. ``line`` is the line that the
    command printed. ``alike`` lists other failures with equal evidence.
    """

    sure: bool
    certainty: Certainty
    evidence: tuple[str, ...] = ()
    line: str | None = None
    alike: tuple[str, ...] = ()


class ExplainedCall(Struct, omit_defaults=True, frozen=True):
    """The failed call that the answer explains.

    ``time`` is the end of the call, as in sessions. ``user`` is the innermost place in the program
    itself, outside of libraries. ``chain`` lists the functions that failed, outermost first.
    ``origin`` is the call that created the error, and ``origin.decided`` its deciding condition;
    missing if no function could be followed. ``given`` lists its operands that are arguments of the
    call. If that condition tested results of other calls,
    ``tested`` lists the origins of these results, outer calls first. If ``origin`` received the
    error from a function that cannot be followed, ``deduced`` is the origin inside that function.
    It is derived from the function's code, and only if the arguments alone decide. ``said`` lists
    the kernel's messages during the call. ``what`` is the operation in words, ``reason`` the reason
    of its failure, and ``reported`` the evidence for choosing this call. ``certainty`` applies to
    the condition: ``observed`` if every function from the system call to the condition was seen to
    pass on the value, ``inferred`` if a link rests on equal errors or on code alone, ``unknown``
    without a condition.
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
    given: tuple[GivenOperand, ...] = ()


class Waiting(Struct, omit_defaults=True, frozen=True):
    """A thread of the command, and the reason of its wait when the command was stopped.

    ``call`` is the system call, missing if the thread was in none; ``arguments`` are its arguments
    as text. ``since_s`` is the time in the call in seconds, null if the call began before the
    watch. ``kind`` is a word of docs/why.md, and ``fields`` are the facts of that kind.
    ``sentence`` and ``advice`` are as in the text. ``certainty``: observed, inferred or unknown.
    ``kernel_stack``: the kernel's functions, outermost first; ``address`` is 0x0 if several
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
    """The time that ``why`` used: seconds of real time, all runs together.

    ``total``: from the start of retsnoop-py to the answer. ``command``: while the command ran.
    ``attach``: choosing functions, loading and attaching, before the command started. ``detach``:
    detaching. ``other``: everything else, such as the search for the reason.
    """

    total: float
    command: float
    attach: float
    detach: float
    other: float


class Why(Struct, omit_defaults=True, frozen=True, tag_field="type", tag="why"):
    """The reason of a command's failure, from the kernel's view.

    ``runs`` is the number of times that the command ran. ``exit_status`` is the status of the first
    run: 128+N if signal N ended it, 124 if its time (--for) was over; null for a process that
    retsnoop-py did not start. ``failures`` are all system calls that failed in the first run,
    ordered by the last failure of each. ``unknown`` is the reason for a missing explanation.
    ``reason`` is the reason of the command's end, if no call is explained. ``waiting`` lists the
    waits of the command's threads if --for or a signal ended it; the wait that explains most is
    first. ``warnings`` are the warnings of the runs. ``certainty`` applies to the claim that the
    command failed because of this call or reason. ``cost`` is the time that the answer took; null
    for a recording.
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
