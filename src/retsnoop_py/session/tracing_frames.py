# SPDX-License-Identifier: BSD-2-Clause
"""Kernel stack frames that exist only because someone is tracing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache, lru_cache

from retsnoop_py.symbolize.frames import Resolved

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

#: What the names above begin with, but for underscores: most names do not, and making the pattern
#: takes as long as showing two hundred sessions.
_BEGINS = (
    *("aggr_", "arch_ftrace_", "arch_kretprobe_", "arch_rethook_", "asm_exc_int3", "bpf_get_"),
    *("bpf_prog_", "bpf_trace_", "bpf_trampoline_", "call_direct_", "do_int3", "exc_int3"),
    *("fprobe_", "ftrace_", "function_graph_enter", "kprobe_", "kretprobe_", "opt_pre_handler"),
    *("optimized_callback", "optprobe_template_", "pre_handler_kretprobe", "rethook_"),
    *("return_to_handler", "trace_call_bpf", "traceiter_", "trampoline_handler"),
)

#: What kallsyms calls the module of JIT images.
_BPF_MODULES = ("bpf", "[bpf]")

#: Where a call that the compiler put at the start of a function for ftrace returns to: x86
#: without and with ENDBR, arm64 without and with BTI.
FENTRY_RETURNS = frozenset((0x5, 0x9, 0x8, 0xC))


@cache
def _names() -> re.Pattern[str]:
    """``_NAMES``, made when it is needed."""
    return re.compile(_NAMES, re.VERBOSE)


@lru_cache(maxsize=65536)
def is_tracing_name(name: str) -> bool:
    """Whether code of this name runs only for tracing."""
    return name.lstrip("_").startswith(_BEGINS) and _names().fullmatch(name) is not None


def is_tracing_frame(frame: Resolved) -> bool:
    """Whether a frame is tracing's own: a trampoline, a handler, a BPF program."""
    return frame.name is not None and (frame.module in _BPF_MODULES or is_tracing_name(frame.name))


def hidden_frames(frames: Sequence[Resolved], traced: frozenset[int]) -> list[bool]:
    """For each frame, outermost first, whether it tells about tracing instead of the kernel.

    Frames of ``traced`` function addresses are never hidden as artefacts: they were asked for.
    But a function that a BPF trampoline called has a frame ``F+0x5`` below the trampoline's, which
    is no call of F's: F's own frame comes next, or, when F has just returned, none does. Where F
    ended in a jump to another function, that one's frames come next, and F has no other.
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
    """Whether the first of two frames is where a BPF trampoline in the second one returns to."""
    first, *inner = frames
    return (
        bool(first.name and inner)
        and first.offset in FENTRY_RETURNS
        and (inner[0].name or "").startswith("bpf_trampoline_")
    )


def _same_function(one: Resolved, other: Resolved) -> bool:
    """The cold part of a function is a symbol of its own."""
    return one.start == other.start or (other.name or "").partition(".cold")[0] == one.name
