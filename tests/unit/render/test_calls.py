# SPDX-License-Identifier: BSD-2-Clause
"""The call trace view, byte by byte."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from tests.unit.session.records import INT, LONG, PTR, VOID, facts, function, session

from retsnoop_py.render.calls import CallsSection
from retsnoop_py.render.palette import ASCII, Glyphs, Palette
from retsnoop_py.session.model import Event, EventKind, Events, Tracer
from retsnoop_py.session.report import Report
from retsnoop_py.settings import ViewSettings

NAMES = {
    "__x64_sys_bpf": LONG,
    "__sys_bpf": INT,
    "array_map_alloc": PTR,
    "bpf_map_area_alloc": PTR,
    "kfree": VOID,
}
FUNCTIONS = tuple(function(name, result=kind) for name, kind in NAMES.items())
PROBES = ("kprobe:bprm_execve+0x5", "tp:sched:sched_process_exec")
ENTRY, EXIT, PROBE = EventKind.ENTRY, EventKind.EXIT, EventKind.PROBE
Told = tuple[EventKind, int, int] | tuple[EventKind, int, int, int]


def lines(
    told: Sequence[Told],
    times: Sequence[int] = (),
    *,
    cpus: Sequence[int] = (),
    marks: Glyphs | None = None,
    lost: Sequence[int] = (),
    palette: Palette | None = None,
    **views: bool,
) -> list[str]:
    """The trace of events given as kind, depth, id and, for returns, result."""
    rows = [
        Event(
            kind,
            depth,
            cpus[index] if cpus else 0,
            number,
            index + 1,
            times[index] if times else index * 1000,
            *(rest or [0]),
        )
        for index, (kind, depth, number, *rest) in enumerate(told)
        if index + 1 not in lost
    ]
    section = CallsSection(
        facts(functions=FUNCTIONS, probes=PROBES),
        ViewSettings(call_trace=True, **views),
        palette or Palette(),
        marks or Glyphs(),
    )
    subject = session(events=Events.of(rows), last_seq=len(told))
    found = section.lines(Report(subject, None, Tracer().trace(subject)))
    return "\n".join(found).split("\n")


#: As retsnoop's manual has it, the cases of its formatter in one.
TREE: tuple[Told, ...] = (
    (ENTRY, 1, 0),
    (ENTRY, 2, 1),
    (ENTRY, 3, 2),
    (ENTRY, 4, 3),
    (EXIT, 4, 3, 0xFFFFC9000031E000 - (1 << 64)),
    (EXIT, 3, 2, 0),
    (PROBE, 2, 0),
    (ENTRY, 3, 4),
    (EXIT, 3, 4, 77),
    (EXIT, 2, 1, 0xFFFFFFEA),
    (EXIT, 1, 0, -22),
)
TIMES = (0, 1_000, 2_000, 3_000, 8_539, 12_265, 13_000, 14_000, 14_007, 101_000, 1_234_567_890)


def test_a_tree_with_leaves_probes_and_all_kinds_of_results() -> None:
    assert lines(TREE, TIMES) == [
        "FUNCTION CALLS                     RESULT                     DURATION",
        "--------------------------------   --------------------  -------------",
        "→ __x64_sys_bpf",
        "    → __sys_bpf",
        "        → array_map_alloc",
        "            ↔ bpf_map_area_alloc   [0xffffc9000031e000]        5.539us",
        "        ← array_map_alloc          [NULL]                     10.265us",
        "        ◎ kprobe:bprm_execve+0x5",
        "        ↔ kfree                    [void]                      0.007us",
        "    ← __sys_bpf                    [-EINVAL]                 100.000us",
        "← __x64_sys_bpf                    [-EINVAL]             1234567.890us",
    ]


def test_ascii_keeps_the_shape() -> None:
    plain, ascii_only = lines(TREE, TIMES), lines(TREE, TIMES, marks=ASCII)

    assert all(line.isascii() for line in ascii_only)
    assert [len(line) for line in ascii_only] == [len(line) for line in plain]
    assert ascii_only[2:6] == [
        "> __x64_sys_bpf",
        "    > __sys_bpf",
        "        > array_map_alloc",
        "            = bpf_map_area_alloc   [0xffffc9000031e000]        5.539us",
    ]


def test_time_without_callees_and_the_cpu() -> None:
    told = ((ENTRY, 1, 0), (ENTRY, 2, 1), (EXIT, 2, 1, 3), (PROBE, 1, 1), (EXIT, 1, 0, 4))
    shown = lines(
        told, (0, 1, 4_000, 5_000, 10_000), cpus=(0, 0, 1, 1, 12), self_time=True, cpu=True
    )

    assert shown == [
        "FUNCTION CALLS                      RESULT  DURATION     SELF  CPU",
        "---------------------------------   ------  --------  -------  ---",
        "→ __x64_sys_bpf                                                  0",
        "    ↔ __sys_bpf                     [3]      3.999us  3.999us  0→1",
        "    ◎ tp:sched:sched_process_exec                                1",
        "← __x64_sys_bpf                     [4]     10.000us  6.001us   12",
    ]


def test_a_gap_is_told_in_words_where_it_is() -> None:
    told = ((ENTRY, 1, 0), (ENTRY, 2, 1), (EXIT, 2, 1, 0), (EXIT, 1, 0, 0))

    assert lines(told, lost=(3,)) == [
        "FUNCTION CALLS                       RESULT  DURATION",
        "----------------------------------   ------  --------",
        "→ __x64_sys_bpf",
        "    → __sys_bpf",
        "        ‼ ... missing 1 record ...   ...          ...",
        "← __x64_sys_bpf                      [0]      3.000us",
    ]


def test_nothing_arrived() -> None:
    assert lines(((ENTRY, 1, 0), (EXIT, 1, 0, 0)), lost=(1, 2))[2:] == [
        "‼ ... missing 2 records ...   ...          ...",
    ]


def test_sixty_four_levels_are_indented_and_deeper_ones_say_their_depth() -> None:
    down: list[Told] = [(ENTRY, depth, 1) for depth in range(1, 71)]
    up: list[Told] = [(EXIT, depth, 1, 0) for depth in range(70, 0, -1)]
    shown = lines([*down, *up])[2:]

    assert shown[63] == " " * 4 * 63 + "→ __sys_bpf"
    assert shown[64] == " " * 4 * 64 + "→ __sys_bpf (depth 65)"
    assert shown[69].startswith(" " * 4 * 64 + "↔ __sys_bpf (depth 70)   [0]")
    assert len({len(line) for line in shown if line.endswith("us")}) == 1


@pytest.mark.parametrize("marks", [Glyphs(), ASCII])
def test_no_line_ends_in_blanks(marks: Glyphs) -> None:
    shown = lines(TREE, TIMES, marks=marks, lost=(3, 7), self_time=True, cpu=True)

    assert all(line == line.rstrip() for line in shown)


def test_failures_are_coloured_and_nothing_else_changes() -> None:
    plain, coloured = lines(TREE, TIMES), lines(TREE, TIMES, palette=Palette(error="31"))

    assert "\x1b[31m[-EINVAL]" in coloured[-1]
    assert [line.replace("\x1b[31m", "").replace("\x1b[0m", "") for line in coloured] == plain


def test_an_output_that_cannot_encode_the_marks_gets_ascii() -> None:
    latin = io.TextIOWrapper(io.BytesIO(), encoding="latin-1")

    assert Glyphs.of(latin) == ASCII
    assert Glyphs.of(io.StringIO()) == Glyphs()
    assert Glyphs.of(io.StringIO(), ascii_only=True) == ASCII


def test_what_an_interrupt_does_is_marked() -> None:
    told = [(ENTRY, 1, 0), (ENTRY, 2, 1), (PROBE, 3, 0), (EXIT, 2, 1), (EXIT, 1, 0)]
    events = Events.of(
        Event(kind, depth, 0, number, seq, seq * 1000, 0, int(depth > 1))
        for seq, (kind, depth, number) in enumerate(told, 1)
    )
    subject = session(events=events, last_seq=len(told))
    section = CallsSection(
        facts(functions=FUNCTIONS, probes=PROBES), ViewSettings(), Palette(), Glyphs()
    )
    (text,) = section.lines(Report(subject, None, Tracer().trace(subject)))
    rows = [line.split("  [")[0].rstrip() for line in text.split("\n")[2:]]
    first, second = list(NAMES)[:2]
    assert [" ".join(row.split()[:3]) for row in rows] == [
        f"→ {first}",
        f"→ ↯ {second}",
        f"◎ ↯ {PROBES[0]}",
        f"← ↯ {second}",
        f"← {first}",
    ]
