# SPDX-License-Identifier: BSD-2-Clause
"""User stacks as text, byte by byte."""

from __future__ import annotations

import pytest
from tests.unit.session.records import facts, session

from retsnoop_py.render.formats import user_mode
from retsnoop_py.render.palette import Palette
from retsnoop_py.render.stack import UserStackSection
from retsnoop_py.session.report import Report
from retsnoop_py.settings import Settings, StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

STACK = (
    Resolved(
        0x103F,
        "main",
        0x3F,
        0x1000,
        "/usr/bin/loader",
        (SourceFrame("main", "loader.c", 10), SourceFrame("load", "load.h", 7)),
    ),
    Resolved(0x201D, "bpf", 0x1D, 0x2000, "/usr/lib/libbpf.so.1"),
    Resolved(0x7F0000001234, None, 0, 0, None),
)


def lines(
    mode: SymbolizeMode = SymbolizeMode.INLINES, palette: Palette | None = None, **stacks: bool
) -> list[str]:
    section = UserStackSection(StackSettings(**stacks), mode, palette or Palette())
    return section.lines(Report(session(), user_stack=STACK))


def test_frames_have_symbols_lines_and_files() -> None:
    assert lines() == [
        "User stack:",
        "    main+0x3f       (loader.c:10)  /usr/bin/loader",
        "    . load          (load.h:7)",
        "    bpf+0x1d                       /usr/lib/libbpf.so.1",
        "    0x7f0000001234",
    ]


def test_without_lines_there_are_symbols_and_files() -> None:
    assert lines(SymbolizeMode.NONE, dec_offs=True) == [
        "User stack:",
        "    main+63         /usr/bin/loader",
        "    bpf+29          /usr/lib/libbpf.so.1",
        "    0x7f0000001234",
    ]


def test_addresses_stand_in_front_of_the_symbols() -> None:
    assert lines(SymbolizeMode.LINES, emit_addrs=True)[1] == (
        "    000000000000103f main+0x3f       (main @ load.h:7)  /usr/bin/loader"
    ).replace("(main @ load.h:7)", "(load @ load.h:7)")


def test_without_a_stack_there_is_nothing() -> None:
    section = UserStackSection(StackSettings(), SymbolizeMode.INLINES, Palette())
    assert section.lines(Report(session())) == []


def test_colours_do_not_move_columns() -> None:
    painted = lines(palette=Palette(source="2"))
    assert [line.replace("\x1b[2m", "").replace("\x1b[0m", "") for line in painted] == lines()


@pytest.mark.parametrize(
    ("asked", "could", "shown"),
    [
        (SymbolizeMode.AUTO, SymbolizeMode.NONE, SymbolizeMode.INLINES),
        (SymbolizeMode.NONE, SymbolizeMode.NONE, SymbolizeMode.INLINES),
        (SymbolizeMode.NONE, SymbolizeMode.INLINES, SymbolizeMode.NONE),
        (SymbolizeMode.LINES, SymbolizeMode.INLINES, SymbolizeMode.LINES),
    ],
)
def test_programs_may_have_lines_where_the_kernel_has_none(
    asked: SymbolizeMode, could: SymbolizeMode, shown: SymbolizeMode
) -> None:
    # a run that was told not to look for lines recorded none
    assert user_mode(facts(symbolize=could), Settings(symbolize=asked)) is shown
