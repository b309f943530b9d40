# SPDX-License-Identifier: BSD-2-Clause
"""The call stack view, byte by byte."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import INT, LONG, PTR, call, function, session

from retsnoop_py.render.palette import ASCII, Glyphs, Palette
from retsnoop_py.render.renderers import BlockRenderer, Clock
from retsnoop_py.render.stack import StackSection
from retsnoop_py.session.model import Call, Session, StackRow
from retsnoop_py.session.report import Report
from retsnoop_py.session.stacks import Stack
from retsnoop_py.settings import BpfSettings, StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

HEADER = "22:13:21.000000 -> 22:13:22.000000 TID/PID 250/240 (worker/loader):"


def renderer(
    mode: SymbolizeMode = SymbolizeMode.INLINES,
    palette: Palette | None = None,
    marks: Glyphs | None = None,
    **stacks: bool,
) -> BlockRenderer:
    palette = palette or Palette()
    section = StackSection(StackSettings(**stacks), mode, palette, marks or Glyphs())
    clock = Clock(1_700_000_000_000_000_000, 0)
    return BlockRenderer([section], BpfSettings(ringbuf_size=1 << 20), clock, palette, ())


def frame(name: str | None, offset: int, *sources: tuple[str, str, int]) -> Resolved:
    start = 0x1000 * (len(name) if name else 0)
    frames = tuple(SourceFrame(function, file, line) for function, file, line in sources)
    return Resolved(start + offset, name, offset, start, None, frames)


def stack(*rows: StackRow, subject: Session | None = None) -> Report:
    return Report(subject or session(), Stack.of(rows))


def lines(text: str) -> list[str]:
    """The block without its header and the empty lines around the rows."""
    head, empty, *rows, last, _, end = text.split("\n")
    assert (head, empty, last, end) == (HEADER, "", "", "")
    return rows


def failed(name: str, result: int, us: int, **marks: bool) -> Call:
    kind = {"bpf_map_alloc_percpu": PTR, "bpf_map_area_alloc": PTR, "__x64_sys_bpf": LONG}
    return call(function(name, result=kind.get(name, INT)), result, us * 1000 + 999, **marks)


SYSCALL = "kernel/bpf/syscall.c"
ENTRY_S = "arch/x86/entry/entry_64.S:120)"
COMMON = "arch/x86/entry/common.c"
ENTRY = StackRow(
    None,
    frame(
        "entry_SYSCALL_64_after_hwframe",
        0x63,
        ("entry_SYSCALL_64", "arch/x86/entry/entry_64.S", 120),
    ),
)
DO_SYSCALL = StackRow(
    None,
    frame("do_syscall_64", 0x35, ("do_syscall_64", COMMON, 80), ("do_syscall_x64", COMMON, 50)),
)
X64 = StackRow(
    failed("__x64_sys_bpf", -12, 73),
    frame("__x64_sys_bpf", 0x1A, ("__x64_sys_bpf", SYSCALL, 5067)),
)
SYS = StackRow(
    failed("__sys_bpf", -12, 70), frame("__sys_bpf", 0x38B, ("__sys_bpf", SYSCALL, 4947))
)
STITCHED = StackRow(failed("bpf_map_alloc_percpu", 0, 2, stitched=True), None)


def test_a_stack_with_source_lines_inlined_frames_and_a_stitched_tail() -> None:
    block = renderer().session(
        stack(
            ENTRY,
            DO_SYSCALL,
            X64,
            SYS,
            StackRow(failed("array_map_alloc", -12, 50), None),
            STITCHED,
        )
    )

    assert block.split("\n") == [
        HEADER,
        "",
        "                    entry_SYSCALL_64_after_hwframe+0x63  (entry_SYSCALL_64 @ " + ENTRY_S,
        "                    do_syscall_64+0x35                   (arch/x86/entry/common.c:80)",
        "                    . do_syscall_x64                     (arch/x86/entry/common.c:50)",
        "    73us [-ENOMEM]  __x64_sys_bpf+0x1a                   (kernel/bpf/syscall.c:5067)",
        "    70us [-ENOMEM]  __sys_bpf+0x38b                      (kernel/bpf/syscall.c:4947)",
        "    50us [-ENOMEM]  array_map_alloc",
        "!⌇   2us [NULL]     bpf_map_alloc_percpu",
        "",
        "",
        "",
    ]


def test_one_mark_says_where_to_look() -> None:
    """5.10 finds no frame for the entry function either, and interrupts begin no error."""
    outer = StackRow(failed("__x64_sys_bpf", -12, 73), None)
    inner = StackRow(failed("array_map_alloc", -12, 50), None)
    softirq = StackRow(failed("net_rx_action", -12, 3)._replace(interrupt=True), None)

    rows = lines(renderer().session(stack(outer, SYS, inner, softirq)))

    assert [row[0] for row in rows] == [" ", " ", "!", " "]
    assert [row[0] for row in lines(renderer().session(stack(outer, SYS)))] == [" ", " "]


def test_an_unfinished_stack() -> None:
    rows = (
        StackRow(failed("__x64_sys_bpf", 0, 0, finished=False), frame("__x64_sys_bpf", 0x18)),
        StackRow(failed("__sys_bpf", 0, 0, finished=False), frame("__sys_bpf", 0x38B)),
        StackRow(failed("array_map_alloc", -12, 50), frame("array_map_alloc", 0x105)),
        StackRow(failed("bpf_map_area_alloc", 0, 2), None),
    )

    assert lines(renderer().session(stack(*rows))) == [
        "     ... [...]      __x64_sys_bpf+0x18",
        "     ... [...]      __sys_bpf+0x38b",
        "    50us [-ENOMEM]  array_map_alloc+0x105",
        "!    2us [NULL]     bpf_map_area_alloc",
    ]


def test_addresses_and_hidden_frames() -> None:
    trampoline = Resolved(0xA06D, "bpf_trampoline_6", 0x6D, 0xA000, "bpf")
    rows = (
        DO_SYSCALL,
        StackRow(
            failed("__sys_bpf", -12, 70),
            Resolved(
                0x238B, "__sys_bpf", 0x38B, 0x2000, None, (SourceFrame("__sys_bpf", SYSCALL, 4947),)
            ),
        ),
        StackRow(
            failed("array_map_alloc", -12, 50, stitched=True),
            Resolved(0x4105, "array_map_alloc", 0x105, 0x4000, None),
        ),
        StackRow(None, trampoline, hidden=True),
        StackRow(failed("bpf_map_area_alloc", 0, 2, stitched=True), None),
    )
    subject = renderer(emit_addrs=True, unfiltered=True)

    assert lines(subject.session(stack(*rows))) == [
        "                     000000000000d035 do_syscall_64+0x35     (arch/x86/entry/common.c:80)",
        "                                      . do_syscall_x64       (arch/x86/entry/common.c:50)",
        "    70us [-ENOMEM]   000000000000238b __sys_bpf+0x38b        (kernel/bpf/syscall.c:4947)",
        " ⌇  50us [-ENOMEM]   0000000000004105 array_map_alloc+0x105",
        "                    ~000000000000a06d bpf_trampoline_6+0x6d",
        "!⌇   2us [NULL]                       bpf_map_area_alloc",
    ]


def test_decimal_offsets_and_long_durations() -> None:
    rows = (
        StackRow(failed("__sys_bpf", -7, 1091), frame("__sys_bpf", 35)),
        StackRow(failed("f", -7, 42), None),
    )

    assert lines(renderer(dec_offs=True).session(stack(*rows))) == [
        "   1091us [-E2BIG]  __sys_bpf+35",
        "!    42us [-E2BIG]  f",
    ]


def test_without_results_the_column_is_empty() -> None:
    rows = (
        StackRow(None, frame("do_syscall_64", 1)),
        StackRow(None, Resolved(0xAB, None, 0, 0, None)),
    )

    assert lines(renderer().session(stack(*rows))) == [
        "           do_syscall_64+0x1",
        "           0xab",
    ]


@pytest.mark.parametrize(
    ("mode", "sources"),
    [
        (SymbolizeMode.NONE, ["do_syscall_64+0x35"]),
        (
            SymbolizeMode.LINES,
            ["do_syscall_64+0x35  (do_syscall_x64 @ arch/x86/entry/common.c:50)"],
        ),
        (
            SymbolizeMode.INLINES,
            [
                "do_syscall_64+0x35  (arch/x86/entry/common.c:80)",
                ". do_syscall_x64    (arch/x86/entry/common.c:50)",
            ],
        ),
    ],
)
def test_the_mode_says_how_much_of_the_source_is_shown(
    mode: SymbolizeMode, sources: list[str]
) -> None:
    assert [line.strip() for line in lines(renderer(mode).session(stack(DO_SYSCALL)))] == sources


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (SourceFrame("f", "mm/a.c", 0), "(mm/a.c)"),
        (SourceFrame("g", "mm/a.c", 0), "(g @ mm/a.c)"),
        (SourceFrame("g", None, 0), "(g)"),
        (SourceFrame("f", None, 0), ""),
    ],
)
def test_a_source_may_lack_its_line_or_its_file(source: SourceFrame, shown: str) -> None:
    row = StackRow(None, Resolved(0x1010, "f", 0x10, 0x1000, None, (source,)))

    assert lines(renderer().session(stack(row))) == [f"           f+0x10  {shown}".rstrip()]


def test_names_in_the_header_are_escaped_and_may_be_wide() -> None:
    subject = session(task_comm="\x1b[31m", proc_comm="日本")

    assert (
        renderer()
        .session(stack(subject=subject))
        .startswith("22:13:21.000000 -> 22:13:22.000000 TID/PID 250/240 (\\x1b[31m/日本):\n\n\n")
    )


def test_ids_of_a_pid_namespace_are_in_the_header_where_they_differ() -> None:
    for ids, told in (((3, 2), " (3/2 in its PID namespace)"), ((250, 240), "")):
        subject = session(ns_tid=ids[0], ns_tgid=ids[1], pid_ns=4026532201)
        header = renderer().session(stack(subject=subject)).splitlines()[0]
        assert header == HEADER.replace(" (worker", f"{told} (worker")


@pytest.mark.parametrize(
    ("loss", "warning"),
    [
        ({"dropped": 1}, "1 record dropped. Consider increasing -C bpf.ringbuf-size=2097152."),
        ({"dropped": 2}, "2 records dropped. Consider increasing -C bpf.ringbuf-size=2097152."),
        ({"too_deep": 3}, "3 calls nested too deep to be kept."),
        ({"lost_exits": 1}, "1 return never seen."),
        ({"lost_entries": 2}, "2 returns without a call seen."),
    ],
)
def test_an_incomplete_session_says_so_under_its_stack(loss: dict[str, int], warning: str) -> None:
    rows = lines(renderer().session(stack(X64, subject=session(**loss))))

    assert len(rows) == 2
    assert rows[1].startswith(f"WARNING! Sample data incomplete! {warning}")


def test_a_thread_that_died_says_in_which_function() -> None:
    subject = session(call("do_exit", finished=False), died=True)

    assert renderer().session(stack(subject=subject)).split("\n")[1:] == [
        "WARNING! Sample data incomplete! The thread exited inside do_exit.",
        "",
        "",
        "",
    ]


def test_an_output_that_cannot_encode_the_stitch_mark_gets_another() -> None:
    assert "!*   2us [NULL]" in renderer(marks=ASCII).session(stack(STITCHED))


def test_colour_changes_nothing_but_colour() -> None:
    rows = (ENTRY, DO_SYSCALL, X64, STITCHED)
    subject = session(dropped=1)
    palette = Palette(error="31", mark="33", source="2", warning="1;33")
    plain = renderer().session(stack(*rows, subject=subject))
    coloured = renderer(palette=palette).session(stack(*rows, subject=subject))

    assert "\x1b[31m[-ENOMEM]\x1b[0m" in coloured
    assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == plain


NAMES = st.text(st.characters(codec="utf-8"), max_size=12)


@given(
    st.lists(
        st.tuples(
            st.integers(-(1 << 63), (1 << 63) - 1),
            st.integers(0, (1 << 64) - 1),
            st.booleans(),
            st.booleans(),
            NAMES,
        ),
        max_size=5,
    ),
    st.booleans(),
)
def test_no_line_ends_in_blanks_and_every_block_in_two_empty_lines(
    calls: list[tuple[int, int, bool, bool, str]], emit_addrs: bool
) -> None:
    rows = [
        StackRow(
            call(function(f"f{name}"), result, latency, finished=finished),
            frame(name, latency) if framed else None,
        )
        for result, latency, finished, framed, name in calls
    ]
    text = renderer(emit_addrs=emit_addrs).session(stack(*rows))

    assert text.endswith("\n\n\n")
    assert len(text.split("\n")) == 4 + len(rows) + bool(rows)
    assert all(line == line.rstrip() for line in text.split("\n"))
