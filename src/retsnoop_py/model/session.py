# SPDX-License-Identifier: BSD-2-Clause
"""The objects of ``--format json``, from which ``docs/json-schema.json`` is generated.

A missing field has its default. Raw 64-bit values are hex strings: many JSON readers cannot hold
such numbers. Times are nanoseconds of CLOCK_MONOTONIC unless they are text.
The key of a field ``hex_address`` is ``address``; the property ``address`` is the number.
``gc=False``: the objects are never part of a reference loop, and there are many.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from msgspec import Meta, Struct

#: Increased if a field changes its meaning or is removed. New fields need no new version.
VERSION = 1

Hex = Annotated[str, Meta(pattern="^0x[0-9a-f]+$")]
Time = Annotated[str, Meta(description="local time with its offset, ISO 8601, nanoseconds")]
#: How sure a part of an answer is. ``observed``: each link was read in the kernel or from the
#: command's own text as the call failed. ``inferred``: a link was read after the command ended, or
#: rests on code or order alone. ``unknown``: retsnoop-py cannot decide it.
Certainty = Literal["observed", "inferred", "unknown"]


#: The keys in JSON of fields that Python reads as a number through a property.
_KEYS = {"hex_address": "address", "hex_raw": "raw"}


class Func(Struct, omit_defaults=True, frozen=True, gc=False, rename=_KEYS):
    """A traced function; ``module`` is null for the kernel proper."""

    name: str
    hex_address: Hex
    module: str | None = None

    @property
    def address(self) -> int:
        """The address as a number."""
        return int(self.hex_address, 16)

    @property
    def label(self) -> str:
        """``name`` or ``name [module]``."""
        return f"{self.name} [{self.module}]" if self.module else self.name


class Result(Struct, omit_defaults=True, frozen=True, gc=False, rename=_KEYS):
    """The result of a call: the raw register, and its value by the function's type.

    ``error`` is the name of the error or its number, NULL for a NULL pointer. ``value`` is the
    number, if the result is one.
    """

    hex_raw: Hex
    text: str
    value: int | None = None
    error: str | None = None

    @property
    def raw(self) -> int:
        """The 64-bit result register, signed."""
        number = int(self.hex_raw, 16)
        return number - (1 << 64) if number >> 63 else number


class Source(Struct, omit_defaults=True, frozen=True, gc=False):
    """A place in the source; ``line`` and ``column`` are 0 if unknown."""

    function: str
    file: str | None = None
    line: int = 0
    column: int = 0


class Frame(Struct, omit_defaults=True, frozen=True, gc=False, rename=_KEYS):
    """An address of the kernel's stack.

    ``symbol`` and ``offset`` are those of kallsyms. ``source`` is the chain of inlined
    functions, innermost first. ``hidden``: the frame belongs to tracing itself.
    """

    hex_address: Hex
    symbol: str | None = None
    offset: int = 0
    module: str | None = None
    source: tuple[Source, ...] = ()
    hidden: bool = False

    @property
    def address(self) -> int:
        """The address as a number."""
        return int(self.hex_address, 16)


class Argument(Struct, omit_defaults=True, frozen=True, gc=False):
    """An argument of a call, or a value that an injected probe captured.

    ``text`` is the text format. ``value`` consists of numbers, texts, lists and objects.
    Zero members of structs are omitted. Pointers that were not followed and numbers of more than
    53 bits are texts. NULL is null. ``@name`` is the name of a kernel object, ``…`` marks missing
    data. An entry without a name is a remark about the other arguments.
    """

    name: str
    text: str
    value: Any = None
    type: str = ""


class Call(Struct, omit_defaults=True, frozen=True, gc=False):
    """A traced call on the stack. Without ``result`` and ``duration_ns``, it had not returned.

    ``stitched``: it belongs to an earlier chain of failures. ``arguments`` is null if none were
    captured. ``interrupt``: the call ran in an interrupt of the thread.
    """

    function: Func
    seq: int
    result: Result | None = None
    duration_ns: int | None = None
    stitched: bool = False
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False

    @property
    def error(self) -> str | None:
        """The name of the returned error, or None."""
        return None if self.result is None else self.result.error


class StackEntry(Struct, omit_defaults=True, frozen=True, gc=False):
    """A row of the merged stack: a traced call, a frame of the kernel's stack, or both."""

    call: Call | None = None
    frame: Frame | None = None


class Entered(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="entry"):
    """The start of a call of a traced function; ``depth`` is 1 for the entry function.

    ``interrupt``: the call runs in an interrupt of the thread.
    """

    kind: ClassVar[Literal["entry"]] = "entry"
    seq: int
    time_ns: int
    depth: int
    cpu: int
    function: Func
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False


class Returned(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="exit"):
    """The return of a traced function.

    ``self_ns`` is the time without traced callees. ``duration_ns`` and ``self_ns`` are null if
    missing records make them uncertain.
    """

    kind: ClassVar[Literal["exit"]] = "exit"
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
    """A hit of an injected probe in a call of depth ``depth``."""

    kind: ClassVar[Literal["probe"]] = "probe"
    seq: int
    time_ns: int
    depth: int
    cpu: int
    probe: str
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False


class Missing(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="missing"):
    """Events that were lost."""

    kind: ClassVar[Literal["missing"]] = "missing"
    records: int


class ToldBefore(
    Struct, omit_defaults=True, frozen=True, gc=False, tag_field="event", tag="told_before"
):
    """Events that earlier reports of the same session contain; they precede all others."""

    kind: ClassVar[Literal["told_before"]] = "told_before"
    records: int


#: A row of a call trace.
Event = Entered | Returned | ProbeHit | Missing | ToldBefore


class Branch(Struct, omit_defaults=True, frozen=True, gc=False):
    """A branch of the CPU; ``number`` 0 is the newest."""

    number: int
    source: Frame
    target: Frame


class Branches(Struct, omit_defaults=True, frozen=True, gc=False):
    """The last branches before a failure (LBR), newest first.

    Branches of tracing itself are omitted. If ``relevant`` is false, they are included, because no
    branch touches the innermost traced function. ``error``: the reason why the CPU recorded
    none. ``lost``: the branches did not arrive.
    """

    records: tuple[Branch, ...] = ()
    error: str | None = None
    lost: bool = False
    relevant: bool = True


class UserFrame(Struct, omit_defaults=True, frozen=True, gc=False, rename=_KEYS):
    """A frame of the program's stack.

    ``file`` is the program or library. ``address`` is an offset in the file, or the address in the
    process if the file has no build id.
    """

    hex_address: Hex
    symbol: str | None = None
    offset: int = 0
    file: str | None = None
    source: tuple[Source, ...] = ()

    @property
    def address(self) -> int:
        """The address as a number."""
        return int(self.hex_address, 16)


class CodePlace(Struct, omit_defaults=True, frozen=True, gc=False, rename=_KEYS):
    """An instruction: its address, and its places by DWARF, innermost function first.

    ``file``, ``line`` and ``column`` are those of ``inline[0]``; without DWARF they are missing.
    ``offset`` counts from ``symbol`` if that is a separate part of the function. ``text`` is the
    source line, if the kernel's source is available (``--source``). ``shared``: several returns
    share this code.
    """

    hex_address: Hex
    offset: int
    instruction: str
    file: str | None = None
    line: int = 0
    column: int = 0
    inline: tuple[Source, ...] = ()
    shared: bool = False
    symbol: str | None = None
    text: str | None = None

    @property
    def address(self) -> int:
        """The address as a number."""
        return int(self.hex_address, 16)


class ConditionOperand(Struct, omit_defaults=True, frozen=True, gc=False):
    """An operand of a condition: an expression in C, or a register if the expression is unknown.

    ``value`` is null if it could not be read.
    """

    name: str
    value: int | None = None


class Decision(Struct, omit_defaults=True, frozen=True, gc=False):
    """The last condition that could have avoided the result.

    ``condition`` is the true condition in C, null if unknown. ``taken``: its jump was taken; null
    if it is not a jump. ``check``: it only tests whether a called function failed. ``elements``: a
    loop rejected that many elements; this is the condition of the one that passed the most tests.
    ``ended``: the condition ended a loop, because none of its elements matched. ``unnamed``: the
    number of earlier tests that belong to the condition and are missing in it, because they have no
    expression in C. ``refuted``: the parts of the condition that recorded values contradict. The
    condition is then ``inferred``. ``cases``: earlier tests compared the same value with other
    numbers, as a ``switch`` does.
    """

    place: CodePlace
    condition: str | None = None
    taken: bool | None = None
    operands: tuple[ConditionOperand, ...] = ()
    check: bool = False
    elements: int = 0
    ended: bool = False
    unnamed: int = 0
    refuted: tuple[str, ...] = ()
    cases: bool = False


class Origin(Struct, omit_defaults=True, frozen=True, gc=False):
    """The source of a call's result and the deciding condition; ``seq`` is the call's entry.

    ``made``: ``constant``, ``callee`` (by the function ``callee``, null if unknown), ``memory``,
    ``argument``, ``computed`` or ``unknown``. ``path`` lists the executed blocks: the last 64
    recorded blocks, and the blocks that must have run between them. ``earlier`` counts the hits
    before ``path``. ``unknown`` is the reason for missing data.
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


class Lost(Struct, omit_defaults=True, frozen=True, gc=False):
    """Missing data of a session: the numbers of records, calls and returns.

    ``missed``: calls of traced functions for which the kernel ran no BPF program; the first was
    inside ``missed_inside``. ``missed_shared``: some may belong to other threads.
    """

    records: int = 0
    too_deep: int = 0
    exits: int = 0
    entries: int = 0
    missed: int = 0
    missed_inside: Func | None = None
    missed_shared: bool = False


class PidNamespace(Struct, omit_defaults=True, frozen=True, gc=False):
    """The PID namespace of a thread, as in a container, and the thread's IDs there.

    ``inode`` is the inode of /proc/PID/ns/pid.
    """

    inode: int
    tid: int
    pid: int


class KernelMessage(Struct, omit_defaults=True, frozen=True, gc=False):
    """A message that the kernel wrote in the thread of a call while the call ran.

    ``source``: ``printk`` (the kernel log), ``netlink`` (an extended acknowledgement),
    ``fs_context`` (the log of a file system context), ``io_uring`` (a rejected request),
    ``verifier`` or ``btf``. The last two are text for a BPF loader that passed no log buffer.
    ``left_out`` counts the messages dropped before this one. ``instruction`` is the instruction of
    the BPF program that the verifier's message is about, if known.
    """

    source: str
    text: str
    left_out: int = 0
    instruction: int | None = None


class Reason(Struct, omit_defaults=True, frozen=True):
    """The reason of a failure, in the user's terms.

    ``kind`` is a word of docs/why.md. ``advice`` lists the changes to make, in order. ``later``:
    the reason was read after the command ended and may have changed since the failure; its
    ``certainty`` is ``inferred``.
    """

    kind: str
    text: str
    certainty: Certainty
    advice: tuple[str, ...] = ()
    later: bool = False


class ExplainedFailure(Struct, omit_defaults=True, frozen=True, gc=False):
    """Why the system call of a session failed (``--explain``).

    ``what`` is the operation and its object; ``reason`` is null if unknown.
    """

    syscall: str
    error: str
    what: str
    reason: Reason | None = None


class Session(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="type", tag="session"):
    """One call of an entry function by one thread.

    ``stack``, ``trace``, ``branches`` and ``user_stack`` (outermost first) are null if they
    were not requested. ``report`` is ``stitch`` or ``probe`` for a call that continues:
    ``stitch`` if a chain of calls is about to be discarded, ``probe`` if an injected probe was hit.
    It is ``running`` for a call that had not returned when tracing ended. ``failed``: the chain of
    failures reaches the entry function. ``died``: the thread exited inside the call. ``tid`` and
    ``pid`` are those of the initial PID namespace; ``namespace`` is null if the thread has the same
    IDs in its own. ``warnings`` are the warnings that the text format prints under the session.
    ``origin`` describes the innermost followed call of the stack (``--path``), ``paths`` describes
    all followed calls. ``said`` lists the kernel's messages during the session. ``explained`` is
    null without ``--explain``, and if no failed system call was seen around the session.
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
    trace: list[Event] | None = None
    stack: list[StackEntry] | None = None
    branches: Branches | None = None
    user_stack: tuple[UserFrame, ...] | None = None
    namespace: PidNamespace | None = None
    lost: Lost = Lost()
    warnings: tuple[str, ...] = ()
    origin: Origin | None = None
    paths: tuple[Origin, ...] = ()
    said: tuple[KernelMessage, ...] = ()
    explained: ExplainedFailure | None = None


class Summary(Struct, omit_defaults=True, frozen=True, gc=False, tag_field="type", tag="summary"):
    """The last line: the number of printed sessions, all loss counters, and the messages.

    A killed run has no summary.
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
    """The result of a run, on one of several kernels (``on``) or here: ``--summary``, ``--on``.

    ``verdict``: ``ok``; ``failed``: CMD failed; ``unexpected``: the failures contradict
    ``--fail-on``, ``--expect`` or ``--expect-none``, with the reason in ``why``; ``error``: the run
    was not possible; ``crashed``, ``unbooted`` and ``timeout`` describe the kernel. ``sessions``
    counts failing sessions by the error of their entry function. ``command_status``: CMD's exit
    status, 128+N if signal N killed it.
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
