# SPDX-License-Identifier: BSD-2-Clause
"""Calls and kernel frames in one stack, merged once for all that are the same."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import FUNCTIONS, KSTACK, Symbols, call, function, session, symbols

from retsnoop_py.session.model import Call, StackRow
from retsnoop_py.session.stacks import Stack, Stacker, build_stack, is_tracing_name, match_calls
from retsnoop_py.settings import StackSettings
from retsnoop_py.symbolize.frames import Resolved

#: Every function is 0x1000 long, a-z one after another from here.
BASE = 0xFFFFFFFF81000000


def start_of(name: str) -> int:
    return BASE + (ord(name[0]) - ord("a")) * 0x1000


TRAMPOLINE = ("bpf_trampoline_6442494949", BASE + 0x100000, 0x1000)
PROGRAM = ("bpf_prog_0123456789abcdef_rsn_exit", BASE + 0x101000, 0x1000)
SYMBOLS = [(chr(c), start_of(chr(c)), 0x1000) for c in range(ord("a"), ord("z") + 1)]


def build(
    calls: str, frames: Sequence[str | int], *, unfiltered: bool = False
) -> tuple[StackRow, ...]:
    """Calls ``abc`` (outermost first) merged with frames ``a+0x20`` (outermost first)."""
    traced = [call(function(name, start_of(name))) for name in calls]
    addresses = [
        frame
        if isinstance(frame, int)
        else start_of(frame) + int(frame.partition("+")[2] or "20", 16)
        for frame in frames
    ]
    subject = session(*traced, kstack=addresses[::-1])
    symbolizer = Symbols(*SYMBOLS, TRAMPOLINE, PROGRAM)
    return build_stack(subject, symbolizer, StackSettings(unfiltered=unfiltered))


def shown(stack: Sequence[StackRow]) -> str:
    """``a`` a call with its frame, ``!a`` one without, ``(a)`` a frame alone, ``~`` hidden."""
    words = []
    for row in stack:
        if row.call and row.frame:
            assert row.frame.name == row.call.function.name
            words.append(row.call.function.name)
        elif row.call:
            words.append(f"!{row.call.function.name}")
        else:
            assert row.frame
            name = row.frame.name or hex(row.frame.address)
            words.append(f"~{name}" if row.hidden else f"({name})")
    return " ".join(words)


@pytest.mark.parametrize(
    ("calls", "frames", "rows"),
    [
        # the innermost call has returned when its return probe takes the stack
        ("abc", "x a y b", "(x) a (y) b !c"),
        ("abc", "x a b z", "(x) a b (z) !c"),
        # taken inside it: all have a frame
        ("abc", "x a b c+5", "(x) a b c"),
        ("abc", "x a b c+9", "(x) a b c"),
        # one missing frame costs one mark
        ("abcd", "a c", "a !b c !d"),
        ("abcd", "x b y c", "(x) !a b (y) c !d"),
        ("abcde", "a x d", "a (x) !b !c d !e"),
        # none at all
        ("ab", "", "!a !b"),
        ("", "x y", "(x) (y)"),
        ("ab", "x y", "(x) (y) !a !b"),
        # recursion
        ("aaa", "a a", "a a !a"),
        ("abab", "a b a", "a b a !b"),
        ("ba", "a b", "(a) b !a"),
        # a stack that was cut holds the innermost frames
        ("aaaaab", "a a", "!a !a !a a a !b"),
        ("abcabcd", "c a b c", "!a !b c a b c !d"),
        # a frame of a call that is none: another activation further in
        ("abcd", "b c a", "!a b c (a) !d"),
    ],
)
def test_calls_meet_their_frames(calls: str, frames: str, rows: str) -> None:
    assert shown(build(calls, frames.split())) == rows


def test_the_stack_of_a_thread_that_died_holds_its_innermost_call() -> None:
    traced = [call(function(name, start_of(name)), finished=False) for name in "aa"]
    kstack = [start_of("x") + 8, start_of("a") + 0x30, start_of("a") + 0x20]
    subject = session(*traced, kstack=kstack, died=True)

    assert shown(build_stack(subject, Symbols(*SYMBOLS), StackSettings())) == "a a (x)"


def test_another_function_of_the_same_name_is_not_the_frame() -> None:
    traced = call(function("a", 0x5000)), call(function("b", start_of("b")))
    subject = session(*traced, kstack=[start_of("a") + 0x20])

    assert shown(build_stack(subject, Symbols(*SYMBOLS), StackSettings())) == "(a) !a !b"


def test_the_cold_part_of_a_function_is_its_frame() -> None:
    traced = call(function("a", start_of("a"))), call(function("b", start_of("b")))
    subject = session(*traced, kstack=[0x9010])
    stack = build_stack(subject, Symbols(("a.cold", 0x9000, 0x100)), StackSettings())

    assert stack[0].call == traced[0]
    assert stack[0].frame is not None
    assert stack[0].frame.name == "a.cold"


def test_an_address_behind_endbr_is_the_same_function() -> None:
    traced = call(function("a", start_of("a") + 4)), call(function("b", start_of("b")))
    subject = session(*traced, kstack=[start_of("a") + 0x20])

    assert shown(build_stack(subject, Symbols(*SYMBOLS), StackSettings())) == "a !b"


def test_an_alias_of_another_name_is_matched_by_address() -> None:
    frame = Resolved(0x5010, "__se_a", 0x10, 0x5000, None)

    assert match_calls([call(function("a", 0x5000)), call("b")], [frame]) == [0, None]


def test_functions_of_modules_need_their_module_when_only_the_name_is_known() -> None:
    calls = [call(function("a", 0, module="ext4")), call("b")]

    def frame(module: str | None) -> Resolved:
        return Resolved(0x5010, "a", 0x10, 0x5000, module)

    assert match_calls(calls, [frame("xfs")]) == [None, None]
    assert match_calls(calls, [frame("ext4")]) == [0, None]


def test_tracing_itself_is_left_out() -> None:
    stack = build("ab", ["x", "a", TRAMPOLINE[1] + 8, PROGRAM[1] + 8])

    assert shown(stack) == "(x) a !b"


def test_unfiltered_keeps_tracing_as_hidden_rows() -> None:
    stack = build("ab", ["x", "a", TRAMPOLINE[1] + 8], unfiltered=True)

    assert shown(stack) == "(x) a ~bpf_trampoline_6442494949 !b"


@pytest.mark.parametrize("offset", ["5", "9"])
def test_the_two_frames_around_a_trampoline_are_one(offset: str) -> None:
    frames = ["x", f"a+{offset}", TRAMPOLINE[1] + 8, "a+20", "b+5", TRAMPOLINE[1] + 8]

    assert shown(build("ab", frames)) == "(x) a !b"
    assert build("ab", frames)[1].frame == Resolved(
        start_of("a") + 0x20, "a", 0x20, start_of("a"), None
    )


def test_a_function_that_an_fexit_program_saw_return_looks_as_with_a_kprobe() -> None:
    frames = ["x", "a+20", "b+5", TRAMPOLINE[1] + 8, PROGRAM[1] + 8]

    assert shown(build("ab", frames)) == "(x) a !b"


def test_a_function_that_jumped_to_another_stands_in_front_of_it() -> None:
    """Its own frame went with the jump; the place that the trampoline returns to is left."""
    frames = ["x", "a+5", TRAMPOLINE[1] + 8, "y", "b+5", TRAMPOLINE[1] + 8, PROGRAM[1] + 8]

    assert shown(build("ab", frames)) == "(x) a (y) !b"


def test_two_frames_of_a_function_without_a_trampoline_between_both_stay() -> None:
    assert shown(build("ab", ["a+5", "x", "a+20"])) == "a (x) (a) !b"


def test_an_unknown_address_stays_a_row() -> None:
    assert shown(build("ab", [0x1234, "a"])) == "(0x1234) a !b"


def test_a_traced_function_is_never_tracing_itself() -> None:
    traced = call(function("trace_call_bpf", 0x7000)), call("b")
    subject = session(*traced, kstack=[0x7010])
    stack = build_stack(subject, Symbols(("trace_call_bpf", 0x7000, 0x100)), StackSettings())

    assert shown(stack) == "trace_call_bpf !b"


@pytest.mark.parametrize(
    ("offset", "asked"),
    [(0, [(0x20, True), (0, False)]), (4, [(0x20, True), (4, False), (4, True)])],
)
def test_only_the_innermost_entry_may_be_no_return_address(
    offset: int, asked: list[tuple[int, bool]]
) -> None:
    symbolizer = Symbols(*SYMBOLS)
    subject = session(kstack=[start_of("a") + offset, start_of("a") + 0x20])
    build_stack(subject, symbolizer, StackSettings())

    assert [
        (address - start_of("a"), is_return) for address, is_return in symbolizer.asked
    ] == asked


@pytest.mark.parametrize(
    "name",
    [
        "bpf_trampoline_6442494949",
        "bpf_trampoline_6442494949_1",
        "bpf_prog_0123456789abcdef",
        "bpf_prog_0123456789abcdef_rsn_exit",
        "___bpf_prog_run",
        "__bpf_prog_run256",
        "bpf_get_stack",
        "bpf_trace_run1",
        "__bpf_trace_sched_process_exit",
        "__traceiter_sched_process_exit",
        "bpf_get_stack_raw_tp",
        "____bpf_get_stack",
        "arch_rethook_trampoline",
        "arch_rethook_trampoline_callback",
        "rethook_trampoline_handler",
        "kretprobe_trampoline",
        "__kretprobe_trampoline",
        "arch_kretprobe_trampoline",
        "trampoline_handler",
        "kretprobe_rethook_handler",
        "kprobe_multi_link_prog_run",
        "kprobe_multi_link_exit_handler",
        "trace_call_bpf",
        "kprobe_dispatcher",
        "kretprobe_dispatcher",
        "kretprobe_perf_func",
        "fprobe_handler",
        "fprobe_exit_handler",
        "ftrace_trampoline",
        "ftrace_call",
        "ftrace_regs_call",
        "return_to_handler",
        "__ftrace_return_to_handler",
        "optimized_callback",
        "kprobe_ftrace_handler",
        "kprobe_int3_handler",
        "exc_int3",
        "asm_exc_int3",
    ],
)
def test_names_of_tracing(name: str) -> None:
    assert is_tracing_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "bpf_prog_add",
        "bpf_prog_load",
        "bpf_prog_test_run_xdp",
        "bpf_prog_run_generic_xdp",
        "bpf_get_stackid",
        "bpf_trampoline_link_prog",
        "bpf_trampoline_get",
        "kprobe_register",
        "register_kprobe",
        "create_local_trace_kprobe",
        "ftrace_set_filter_ips",
        "do_syscall_64",
        "rethook_alloc",
        "register_fprobe_ips",
    ],
)
def test_names_of_the_kernel(name: str) -> None:
    assert not is_tracing_name(name)


@given(st.text("abc", max_size=9), st.text("abcx", max_size=12))
def test_every_call_and_every_frame_is_in_the_stack_once_and_in_order(
    calls: str, frames: str
) -> None:
    stack = build(calls, list(frames))

    assert "".join(row.call.function.name for row in stack if row.call) == calls
    assert "".join(row.frame.name or "" for row in stack if row.frame) == frames


def test_call_sites_stand_between_the_calls_they_connect() -> None:
    """a calls b by way of m, which is not traced; b calls c; the kernel could not unwind."""
    traced = [call(function(name, start_of(name))) for name in "abc"]
    sites = [start_of("b") + 0x30, start_of("m") + 0x20, start_of("y") + 0x10]
    subject = session(*traced, kstack=[*sites, start_of("z") + 0x8], call_sites=True)
    stack = build_stack(subject, Symbols(*SYMBOLS), StackSettings())
    assert shown(stack) == "(z) (y) !a (m) b !c"


def calls(scale: int = 1, **last: bool) -> tuple[Call, ...]:
    made = [call(function, -scale, 1000 * scale) for function in FUNCTIONS]
    made[-1] = made[-1]._replace(**last)
    return tuple(made)


def test_stacks_of_equal_calls_share_their_shape_and_keep_their_values() -> None:
    stacker, settings = Stacker(symbols(), StackSettings()), StackSettings()
    for scale in (1, 2, 3):
        subject = session(*calls(scale), kstack=KSTACK)
        stack = stacker.stack(subject)

        assert tuple(stack) == build_stack(subject, symbols(), settings)
        assert stack.shape is stacker.stack(session(*calls(), kstack=KSTACK)).shape


def test_other_calls_or_addresses_are_another_shape() -> None:
    stacker = Stacker(symbols(), StackSettings())
    subjects = (
        session(*calls(), kstack=KSTACK),
        session(*calls(finished=False), kstack=KSTACK),
        session(*calls(stitched=True), kstack=KSTACK),
        session(*calls()[:2], kstack=KSTACK),
        session(*calls(), kstack=KSTACK[1:]),
        session(*calls(), kstack=KSTACK, call_sites=True),
    )

    assert len({id(stacker.stack(subject).shape) for subject in subjects}) == len(subjects)


def test_a_stack_of_traced_calls_alone_is_bare() -> None:
    stacker = Stacker(symbols(), StackSettings())

    assert stacker.stack(session(*calls())).shape.is_bare
    assert not stacker.stack(session(*calls(), kstack=KSTACK)).shape.is_bare
    assert tuple(Stack.of(stacker.stack(session(*calls())))) == tuple(
        stacker.stack(session(*calls()))
    )
