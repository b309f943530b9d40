# SPDX-License-Identifier: BSD-2-Clause
"""One stack out of two: the calls that were traced and the frames the kernel unwound.

Those with the same calls and addresses are worked out once (:class:`Stacker`).

A call and a frame are the same when the frame's symbol starts at the function's address.
Names only help where addresses cannot: the cold part of a function is a symbol of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from operator import attrgetter
from typing import NamedTuple

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import Call, Session, StackRow
from retsnoop_py.settings import StackSettings
from retsnoop_py.symbolize.frames import Resolved, Symbolizer

# BPF images carry a tag of 16 hex digits in their name: bpf_prog_add() and the like stay.
_NAMES = r"""
      bpf_trampoline_\d+ (?:_\d+)?
      | bpf_prog_[0-9a-f]{16} (?:_.*)?
      | _{2,}bpf_prog_run(?:_args)?\d*
      # the kernel's own BPF helpers that take this very stack
      | _*bpf_get_(?:task_)?stack(?:_.*)?
      | bpf_trace_run\d+ | __bpf_trace_\w+ | __traceiter_\w+
      | trace_call_bpf | kprobe_multi_link_\w+ | kprobe_perf_func | kretprobe_perf_func
      # return probes: the trampoline a hooked function returns to, and its handlers
      | (?:__|arch_)?(?:kretprobe|rethook)_trampoline(?:_handler|_callback)?
      | kretprobe_(?:rethook_handler|dispatcher) | pre_handler_kretprobe
      | (?:__kretprobe_)?trampoline_handler | kretprobe_hook | rethook_(?:hook|try_hook)
      # entry probes: by ftrace, by a jump, by a breakpoint
      | fprobe_\w+ | kprobe_ftrace_handler | kprobe_dispatcher | kprobe_trace_func
      | aggr_(?:pre|post)_handler | opt_pre_handler
      | ftrace_(?:trampoline|call|regs_call|regs_caller|caller|stub\w*|ops_\w+func|graph_\w+)
      | arch_ftrace_ops_list_func | call_direct_funcs
      | (?:__ftrace_)?return_to_handler | ftrace_return_to_handler | function_graph_enter\w*
      | optimized_callback | optprobe_template_\w+
      | (?:asm_)?exc_int3 | do_int3 | kprobe_int3_handler
      | kprobe_(?:breakpoint|brk)_handler
      """

#: First letters of the names above, without underscores: most names have others, and compiling the
#: pattern takes as long as showing two hundred sessions.
_BEGINS = (
    *("aggr_", "arch_ftrace_", "arch_kretprobe_", "arch_rethook_", "asm_exc_int3", "bpf_get_"),
    *("bpf_prog_", "bpf_trace_", "bpf_trampoline_", "call_direct_", "do_int3", "exc_int3"),
    *("fprobe_", "ftrace_", "function_graph_enter", "kprobe_", "kretprobe_", "opt_pre_handler"),
    *("optimized_callback", "optprobe_template_", "pre_handler_kretprobe", "rethook_"),
    *("return_to_handler", "trace_call_bpf", "traceiter_", "trampoline_handler"),
)

#: The module names of JIT images in kallsyms.
_BPF_MODULES = ("bpf", "[bpf]")

#: Return offsets of the ftrace call that the compiler puts at the start of a function: x86
#: without and with ENDBR, arm64 without and with BTI.
FENTRY_RETURNS = frozenset((0x5, 0x9, 0x8, 0xC))


@cache
def _names() -> re.Pattern[str]:
    """``_NAMES``, made when it is needed."""
    return re.compile(_NAMES, re.VERBOSE)


@lru_cache(maxsize=65536)
def is_tracing_name(name: str) -> bool:
    """Return True if code of this name runs only for tracing."""
    return name.lstrip("_").startswith(_BEGINS) and _names().fullmatch(name) is not None


def is_tracing_frame(frame: Resolved) -> bool:
    """Return True if a frame belongs to tracing: a trampoline, a handler, a BPF program."""
    return frame.name is not None and (frame.module in _BPF_MODULES or is_tracing_name(frame.name))


def hidden_frames(frames: Sequence[Resolved], traced: frozenset[int]) -> list[bool]:
    """Return for each frame, outermost first, whether it belongs to tracing.

    Frames of ``traced`` function addresses are never hidden as artefacts, because the user
    requested them. Exception: a function F called by a BPF trampoline has a frame ``F+0x5`` below
    the frame of the trampoline. This frame is not a call by F. The real frame of F comes next, or
    is missing if F has just returned. If F ended in a jump to another function, the frames of that
    function come next, and F has no other frame.
    """
    hidden = [is_tracing_frame(frame) and frame.start not in traced for frame in frames]
    is_last = True
    for index in range(len(frames) - 1, -1, -1):
        if _calls_trampoline(frames[index : index + 2]):
            own = index + 2 < len(frames) and _same_function(frames[index], frames[index + 2])
            hidden[index] |= own or (is_last and frames[index].start in traced)
        is_last &= hidden[index]
    return hidden


def _calls_trampoline(frames: Sequence[Resolved]) -> bool:
    """Return True if a BPF trampoline (the second frame) returns to the first frame."""
    first, *inner = frames
    return (
        bool(first.name and inner)
        and first.offset in FENTRY_RETURNS
        and (inner[0].name or "").startswith("bpf_trampoline_")
    )


def _same_function(one: Resolved, other: Resolved) -> bool:
    """The cold part of a function is a symbol of its own."""
    return one.start == other.start or (other.name or "").partition(".cold")[0] == one.name


#: A function's address may be that of its ftrace call, behind ENDBR or BTI.
_MAX_PROLOGUE = 16


def resolve_stack(session: Session, symbolizer: Symbolizer) -> list[Resolved]:
    """The session's kernel stack resolved, outermost first."""
    frames = [symbolizer.resolve(address) for address in session.kstack[1:]]
    if session.kstack:
        # The innermost entry may be an instruction pointer instead of a return address. Only a
        # function's very first byte tells: the byte before it belongs to another function.
        innermost = symbolizer.resolve(session.kstack[0], is_return=False)
        if innermost.offset:
            innermost = symbolizer.resolve(session.kstack[0])
        frames.insert(0, innermost)
    frames.reverse()
    return frames


def build_stack(
    session: Session, symbolizer: Symbolizer, settings: StackSettings
) -> tuple[StackRow, ...]:
    """Merge a session's calls with its kernel stack, outermost first.

    A call without a frame gets a row of its own just before the next call that has one, or at
    the end. The innermost call of a return probe is such a one: it has returned already.
    """
    frames = resolve_stack(session, symbolizer)
    if session.call_sites and len(frames) >= len(session.calls):
        return _rows_by_call_site(session.calls, frames)
    traced = frozenset([call.function.address for call in session.calls])
    hidden = hidden_frames(frames, traced)
    shown = [index for index, is_hidden in enumerate(hidden) if not is_hidden]
    matches = match_calls(session.calls, [frames[index] for index in shown])
    call_at = {shown[frame]: call for call, frame in enumerate(matches) if frame is not None}
    rows: list[StackRow] = []
    told = 0
    for index, frame in enumerate(frames):
        if hidden[index]:
            if settings.unfiltered:
                rows.append(StackRow(None, frame, True))
            continue
        position = call_at.get(index)
        if position is None:
            rows.append(StackRow(None, frame))
            continue
        rows += [StackRow(call, None) for call in session.calls[told:position]]
        rows.append(StackRow(session.calls[position], frame))
        told = position + 1
    rows += [StackRow(call, None) for call in session.calls[told:]]
    return tuple(rows)


def _rows_by_call_site(calls: Sequence[Call], frames: Sequence[Resolved]) -> tuple[StackRow, ...]:
    """The rows where the innermost ``frames`` are the places the calls return to, one each."""
    outer = len(frames) - len(calls)
    rows = [StackRow(None, frame) for frame in frames[:outer]]
    for position, call in enumerate(calls):
        site = frames[outer + position]
        if position and is_frame_of(calls[position - 1].function, site):
            rows[-1] = StackRow(calls[position - 1], site)
        else:
            rows.append(StackRow(None, site))
        rows.append(StackRow(call, None))
    return tuple(rows)


def is_inside(session: Session, symbolizer: Symbolizer) -> bool:
    """Return True if the kernel stack contains a running call of the session, or is empty."""
    frames = resolve_stack(session, symbolizer)
    running = [call.function for call in session.calls if not call.finished]
    return not frames or any(
        is_frame_of(function, frame) for function in running for frame in frames
    )


def match_calls(calls: Sequence[Call], frames: Sequence[Resolved]) -> list[int | None]:
    """For each call, outermost first, the index of its frame or None; indexes only grow."""
    keep_last = not calls or _still_running(calls[-1], frames)
    outer = calls if keep_last else calls[:-1]
    matches = _match_forward(outer, frames)
    if None in matches:
        matches = _match_most(outer, frames)
    if not keep_last:
        after = next((m + 1 for m in reversed(matches) if m is not None), 0)
        matches += _match_forward(calls[-1:], frames, after)
    return matches


def is_frame_of(function: Function, frame: Resolved) -> bool:
    """Return True if ``frame`` lies in ``function``."""
    if frame.name is None:
        return False
    distance = function.address - frame.start
    if distance == 0:
        return True
    if frame.module != function.module:
        return False
    name, cold, _ = frame.name.partition(".cold")
    if name != function.name:
        return False
    # Same name, other address: another copy of the function, unless an address is unknown.
    return bool(cold) or 0 < distance <= _MAX_PROLOGUE or not (function.address and frame.start)


def _still_running(last: Call, frames: Sequence[Resolved]) -> bool:
    """Return True if the stack was taken inside the innermost call.

    This is the case if the thread died there, or if a BPF trampoline called the function.
    """
    if not last.finished or not frames:
        return True
    return frames[-1].offset in FENTRY_RETURNS and is_frame_of(last.function, frames[-1])


def _match_forward(
    calls: Sequence[Call], frames: Sequence[Resolved], start: int = 0
) -> list[int | None]:
    """Give each call the first fitting frame after the one before; right if all have one."""
    matches: list[int | None] = []
    for call in calls:
        for index in range(start, len(frames)):
            if is_frame_of(call.function, frames[index]):
                matches.append(index)
                start = index + 1
                break
        else:
            matches.append(None)
    return matches


def _match_most(calls: Sequence[Call], frames: Sequence[Resolved]) -> list[int | None]:
    """Match as many calls as possible, the innermost ones first.

    Stacks that were cut miss their outermost frames, so in a recursion the frames there are
    belong to the innermost calls.
    """
    fits = [[is_frame_of(call.function, frame) for frame in frames] for call in calls]
    # most[i][j]: how many of the first i calls have a frame among the first j
    most = [[0] * (len(frames) + 1)]
    for row in fits:
        above, here = most[-1], [0]
        for index, fit in enumerate(row):
            here.append(max(above[index] + 1 if fit else 0, above[index + 1], here[index]))
        most.append(here)
    matches: list[int | None] = [None] * len(calls)
    call, frame = len(calls), len(frames)
    while call and frame:
        if fits[call - 1][frame - 1] and most[call][frame] == most[call - 1][frame - 1] + 1:
            call, frame = call - 1, frame - 1
            matches[call] = frame
        elif most[call - 1][frame] >= most[call][frame - 1]:
            call -= 1
        else:
            frame -= 1
    return matches


# --- stacks of a shape ---------------------------------------------------------------------------

#: Shapes with so many rows together are kept.
_ROOM = 1 << 16
#: The members of a call that a shape depends on; the number represents the function.
_CALL_KEY = attrgetter("func_id", "finished", "stitched", "interrupt")


class ShapeRow(NamedTuple):
    """A row of the stacks of a shape: ``call`` is the position of the call among the session's."""

    call: int | None
    frame: Resolved | None
    hidden: bool = False


class StackShape:
    """The common data of stacks with equal addresses and calls: all but times and results.

    ``calls`` are the calls of one of these stacks.
    """

    __slots__ = ("calls", "is_bare", "rows")

    def __init__(self, rows: tuple[ShapeRow, ...], calls: Sequence[Call]) -> None:
        self.rows = rows
        self.calls = calls
        #: True if no row is a frame of the kernel's stack.
        self.is_bare = not any(row.frame and not row.hidden for row in rows)


class Stack:
    """The merged stack of a session, outermost row first."""

    __slots__ = ("calls", "shape")

    def __init__(self, shape: StackShape, calls: Sequence[Call]) -> None:
        self.shape = shape
        self.calls = calls

    @classmethod
    def of(cls, rows: Iterable[StackRow]) -> Stack:
        """Return a stack of these rows, with calls in their order."""
        rows = tuple(rows)
        calls = [row.call for row in rows if row.call is not None]
        return cls(_shape(rows, calls), calls)

    def __iter__(self) -> Iterator[StackRow]:
        calls = self.calls
        for position, frame, hidden in self.shape.rows:
            yield StackRow(None if position is None else calls[position], frame, hidden)


class Stacker:
    """Makes stacks, and remembers their shapes."""

    def __init__(self, symbolizer: Symbolizer, settings: StackSettings) -> None:
        self._symbolizer = symbolizer
        self._settings = settings
        self._shapes: BoundedCache[object, StackShape] = BoundedCache(_ROOM)

    def stack(self, session: Session) -> Stack:
        """The merged stack of ``session``."""
        calls = session.calls
        key = session.kstack, session.call_sites, tuple(map(_CALL_KEY, calls))
        shape = self._shapes.get(key)
        if shape is None:
            shape = _shape(build_stack(session, self._symbolizer, self._settings), calls)
            self._shapes.keep(key, shape, len(shape.rows) + 1)
        return Stack(shape, calls)


def _shape(rows: Iterable[StackRow], calls: Sequence[Call]) -> StackShape:
    positions = {id(call): position for position, call in enumerate(calls)}
    return StackShape(
        tuple(
            ShapeRow(None if row.call is None else positions[id(row.call)], row.frame, row.hidden)
            for row in rows
        ),
        calls,
    )
