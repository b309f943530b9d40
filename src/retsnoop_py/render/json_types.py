# SPDX-License-Identifier: BSD-2-Clause
"""The objects of ``--format json``, from which ``docs/json-schema.json`` is made.

A field that is not given has its default. Raw values of 64 bits are hex strings: many readers
of JSON cannot hold such numbers. Times are nanoseconds of CLOCK_MONOTONIC unless they are text.
``gc=False``: none of them is part of a reference loop, and there are many.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

#: Grows when a field changes its meaning or goes away; new fields may come without that.
VERSION = 1

Hex = Annotated[str, Meta(pattern="^0x[0-9a-f]+$")]
Time = Annotated[str, Meta(description="local time with its offset, ISO 8601, nanoseconds")]


class Func(Struct, omit_defaults=True, frozen=True, gc=False):
    """A traced function; ``module`` is null for the kernel proper."""

    name: str
    address: Hex
    module: str | None = None


class Result(Struct, omit_defaults=True, frozen=True, gc=False):
    """What a call returned: the raw register, and how it reads by the function's type.

    ``error`` is the name of the error it stands for, or its number, NULL for a NULL pointer.
    ``value`` is the number where it is one.
    """

    raw: Hex
    text: str
    value: int | None = None
    error: str | None = None


class Source(Struct, omit_defaults=True, frozen=True, gc=False):
    """A place in the source; ``line`` and ``column`` are 0 where they are not known."""

    function: str
    file: str | None = None
    line: int = 0
    column: int = 0


class Frame(Struct, omit_defaults=True, frozen=True, gc=False):
    """An address of the kernel's stack.

    ``symbol`` and ``offset`` are those of kallsyms. ``source`` is the chain of inlined
    functions, the one that has the code first. ``hidden``: a frame of tracing itself.
    """

    address: Hex
    symbol: str | None = None
    offset: int = 0
    module: str | None = None
    source: tuple[Source, ...] = ()
    hidden: bool = False


class Argument(Struct, omit_defaults=True, frozen=True, gc=False):
    """What a call was given, or what an injected probe found.

    ``text`` is as in the other format. ``value`` is made of numbers, texts and these nested;
    members of structs that are zero are left out, pointers that were not followed and numbers of
    more than 53 bits are texts, NULL is null. ``@name`` is the name of a kernel object, ``…``
    stands for what was not captured. One without a name is a remark on the others.
    """

    name: str
    text: str
    value: Any = None
    type: str = ""


class Call(Struct, omit_defaults=True, frozen=True, gc=False):
    """A traced call on the stack. Without ``result`` and ``duration_ns`` it had not returned.

    ``stitched``: it belongs to an earlier chain of failures. ``arguments`` are null where none
    were captured. ``interrupt``: an interrupt of the thread made it.
    """

    function: Func
    seq: int
    result: Result | None = None
    duration_ns: int | None = None
    stitched: bool = False
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False


class StackEntry(Struct, omit_defaults=True, frozen=True, gc=False):
    """A row of the merged stack: a traced call, a frame of the kernel's stack, or both."""

    call: Call | None = None
    frame: Frame | None = None


class Entered(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="entry"):
    """A call of a traced function begins; ``depth`` is 1 for the entry function.

    ``interrupt``: an interrupt of the thread makes it.
    """

    seq: int
    time_ns: int
    depth: int
    cpu: int
    function: Func
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False


class Returned(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="exit"):
    """A traced function returns.

    ``duration_ns`` and ``self_ns``, the time without traced callees, are null where missing
    records make them uncertain.
    """

    seq: int
    time_ns: int
    depth: int
    cpu: int
    function: Func
    result: Result
    duration_ns: int | None = None
    self_ns: int | None = None
    interrupt: bool = False


class ProbeHit(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="probe"):
    """An injected probe is hit by a call of depth ``depth``."""

    seq: int
    time_ns: int
    depth: int
    cpu: int
    probe: str
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False


class Missing(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="missing"):
    """Events that were lost."""

    records: int


class ToldBefore(
    Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="told_before"
):
    """Events that earlier reports of the same session have told; they come first."""

    records: int


TraceEvent = Entered | Returned | ProbeHit | Missing | ToldBefore


class Branch(Struct, omit_defaults=True, frozen=True, gc=False):
    """A branch the CPU took; ``number`` 0 is the newest of what it kept."""

    number: int
    source: Frame
    target: Frame


class Branches(Struct, omit_defaults=True, frozen=True, gc=False):
    """The last branches before a failure (LBR), newest first.

    Those of tracing itself are left out, unless ``relevant`` is false: then none of them touches
    the innermost traced function. ``error``: why the CPU gave none. ``lost``: they did not arrive.
    """

    records: tuple[Branch, ...] = ()
    error: str | None = None
    lost: bool = False
    relevant: bool = True


class UserFrame(Struct, omit_defaults=True, frozen=True, gc=False):
    """A frame of the program's stack.

    ``file`` is the program or library, ``address`` an offset in it, or the address in the process
    where the file has no build id.
    """

    address: Hex
    symbol: str | None = None
    offset: int = 0
    file: str | None = None
    source: tuple[Source, ...] = ()


class CodePlace(Struct, omit_defaults=True, frozen=True, gc=False):
    """An instruction: its address, and what DWARF says of it, innermost function first.

    ``file``, ``line`` and ``column`` are those of ``inline[0]``; without DWARF they are missing.
    ``offset`` counts from ``symbol`` where that is not the function itself but a part of it.
    ``text`` is that line, where the kernel's source is there (``--source``). ``shared``: several
    returns share this code.
    """

    address: str
    offset: int
    instruction: str
    file: str | None = None
    line: int = 0
    column: int = 0
    inline: tuple[Source, ...] = ()
    shared: bool = False
    symbol: str | None = None
    text: str | None = None


class ConditionOperand(Struct, omit_defaults=True, frozen=True, gc=False):
    """An operand of a condition: an expression in C, or a register where that is not known.

    ``value`` is null where it could not be read.
    """

    name: str
    value: int | None = None


class Decision(Struct, omit_defaults=True, frozen=True, gc=False):
    """The last condition that could have avoided the result.

    ``condition`` is what held, in C; null where that is not known. ``taken``: its jump was; null
    where it is none. ``check``: it asks only if a called function had failed.
    """

    place: CodePlace
    condition: str | None = None
    taken: bool | None = None
    operands: tuple[ConditionOperand, ...] = ()
    check: bool = False


class Origin(Struct, omit_defaults=True, frozen=True, gc=False):
    """Where a call made its result and what decided that it did; ``seq`` is that of its entry.

    ``made``: ``constant``, ``callee`` (by the function ``callee``, null if it is not known),
    ``memory``, ``argument``, ``computed`` or ``unknown``. ``path`` has the blocks that ran, the
    last 64 and those that can only have run between them; ``earlier`` hits came before.
    ``unknown`` says why something is missing.
    """

    function: Func
    seq: int
    result: Result
    made: str
    callee: str | None = None
    returned: CodePlace | None = None
    decided: Decision | None = None
    path: tuple[CodePlace, ...] = ()
    earlier: int = 0
    unknown: str | None = None


class SessionLost(Struct, omit_defaults=True, frozen=True, gc=False):
    """What is missing from a session: how many records, calls and returns.

    ``missed``: calls of traced functions that the kernel kept from BPF programs, the first of them
    inside ``missed_inside``; ``missed_shared``: some of them may be those of other threads.
    """

    records: int = 0
    too_deep: int = 0
    exits: int = 0
    entries: int = 0
    missed: int = 0
    missed_inside: Func | None = None
    missed_shared: bool = False


class PidNamespace(Struct, omit_defaults=True, frozen=True, gc=False):
    """The PID namespace of a thread, as in a container, by its inode, and its ids in there.

    ``inode`` is that of /proc/PID/ns/pid.
    """

    inode: int
    tid: int
    pid: int


class KernelMessage(Struct, omit_defaults=True, frozen=True, gc=False):
    """What the kernel said in words, in the thread of a call while that ran.

    ``source``: ``printk``, for the kernel's log, ``netlink``, an extended acknowledgement,
    ``fs_context``, the log of a file system context, ``verifier`` and ``btf``, what a loader of BPF
    that gave no log would have found in it, or ``io_uring``, a request that was refused.
    ``left_out``: so many messages before this one were too many to keep. ``instruction``: that of
    the program which the verifier speaks of, where that is known.
    """

    source: str
    text: str
    left_out: int = 0
    instruction: int | None = None


class Session(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="type", tag="session"):
    """One call of an entry function by one thread.

    ``stack``, ``trace``, ``branches`` and ``user_stack`` (outermost first) are null where they
    were not asked for. ``report`` is ``stitch`` or ``probe`` for a call that goes on: a chain of
    calls is about to be forgotten, an injected probe was hit; ``running`` for one that had not
    returned when tracing ended. ``failed``: the chain of failures reaches the entry function.
    ``died``: the thread exited inside the call. ``tid`` and ``pid`` are the kernel's own;
    ``namespace`` is null where its PID namespace has the same. ``warnings`` are those that text has
    under the session. ``origin`` is about the innermost call of the stack that was followed
    (``--path``), ``paths`` about all that were. ``said``: the kernel's own messages meanwhile.
    """

    version: int
    start: Time
    end: Time
    start_ns: int
    end_ns: int
    tid: int
    pid: int
    thread: str
    process: str
    cpu: int
    failed: bool
    report: Literal["final", "stitch", "probe", "running"] = "final"
    died: bool = False
    trace: list[TraceEvent] | None = None
    stack: list[StackEntry] | None = None
    branches: Branches | None = None
    user_stack: tuple[UserFrame, ...] | None = None
    namespace: PidNamespace | None = None
    lost: SessionLost = SessionLost()
    warnings: tuple[str, ...] = ()
    origin: Origin | None = None
    paths: tuple[Origin, ...] = ()
    said: tuple[KernelMessage, ...] = ()


class Summary(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="type", tag="summary"):
    """The last line: how many sessions were shown, each counter of losses, what was said.

    It is missing if the run was killed.
    """

    version: int
    sessions: int
    lost: dict[str, int]
    warnings: tuple[str, ...] = ()
    kernel: str = ""
    machine: str = ""
    mechanism: str = ""
    tool_version: str = ""


class RunResult(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="type", tag="run"):
    """What came of a run, on one of several kernels (``on``) or here: ``--summary``, ``--on``.

    ``verdict``: ``ok``; ``failed``: so did CMD; ``unexpected``: what was caught is not as
    ``--fail-on``, ``--expect`` or ``--expect-none`` have it, ``why`` says what; ``error``: the run
    could not be made; and of a kernel ``crashed``, ``unbooted``, ``timeout``. ``sessions`` are
    failing ones, by the error that their entry function returned. ``command_status``: CMD's own,
    128+N if signal N ended it.
    """

    version: int
    verdict: Literal["ok", "failed", "unexpected", "error", "crashed", "unbooted", "timeout"]
    exit_status: int
    on: str = ""
    kernel: str = ""
    sessions: dict[str, int] = {}
    lost: dict[str, int] = {}
    command_status: int | None = None
    why: tuple[str, ...] = ()
    recording: str = ""


Line = Session | Summary | RunResult
