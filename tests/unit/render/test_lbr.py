# SPDX-License-Identifier: BSD-2-Clause
"""The branches as text, byte by byte."""

from __future__ import annotations

from tests.unit.session.records import session

from retsnoop_py.render.palette import Palette
from retsnoop_py.render.stack import BranchSection
from retsnoop_py.session.report import BranchRow, BranchView, Report
from retsnoop_py.settings import StackSettings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame

USER_COPY = Resolved(
    0xFFFFFFFF8150002F,
    "_copy_from_user",
    0x2F,
    0xFFFFFFFF81500000,
    None,
    (SourceFrame("_copy_from_user", "lib/u.c", 21),),
)
SYS_BPF = Resolved(
    0xFFFFFFFF812000CC,
    "__sys_bpf",
    0xCC,
    0xFFFFFFFF81200000,
    None,
    (SourceFrame("__sys_bpf", "bpf/foo.c", 20),),
)
INLINED = Resolved(
    0xFFFFFFFF81200CA0,
    "__sys_bpf",
    0xCA0,
    0xFFFFFFFF81200000,
    None,
    (
        SourceFrame("__sys_bpf", "bpf/foo.c", 9),
        SourceFrame("map_create", "bpf/foo.c", 63),
    ),
)
NOWHERE = Resolved(0xFFFFFFFFC0001000, None, 0, 0, None)
ROWS = (BranchRow(7, USER_COPY, SYS_BPF), BranchRow(4, INLINED, NOWHERE))


def lines(
    view: BranchView | None,
    mode: SymbolizeMode = SymbolizeMode.INLINES,
    palette: Palette | None = None,
    **stacks: bool,
) -> list[str]:
    section = BranchSection(StackSettings(**stacks), mode, palette or Palette())
    return section.lines(Report(session(), branches=view))


def test_branches_are_in_columns_with_what_is_inlined_below() -> None:
    assert lines(BranchView(ROWS)) == [
        "[#07] _copy_from_user+0x2f (lib/u.c:21)    ->  __sys_bpf+0xcc     (bpf/foo.c:20)",
        "[#04] __sys_bpf+0xca0      (bpf/foo.c:9)   ->  0xffffffffc0001000",
        "      . map_create         (bpf/foo.c:63)",
    ]
    assert lines(BranchView((BranchRow(12, SYS_BPF, INLINED),))) == [
        "[#12] __sys_bpf+0xcc (bpf/foo.c:20)  ->  __sys_bpf+0xca0 (bpf/foo.c:9)",
        "                                         . map_create    (bpf/foo.c:63)",
    ]


def test_without_source_lines_there_are_symbols() -> None:
    assert lines(BranchView(ROWS), SymbolizeMode.NONE) == [
        "[#07] _copy_from_user+0x2f   ->  __sys_bpf+0xcc",
        "[#04] __sys_bpf+0xca0        ->  0xffffffffc0001000",
    ]


def test_addresses_stand_in_front_of_the_symbols() -> None:
    shown = lines(BranchView(ROWS[1:]), emit_addrs=True, dec_offs=True)

    assert shown[0].startswith("[#04] ffffffff81200ca0 __sys_bpf+3232 (bpf/foo.c:9)   ->  ")
    assert shown[0].endswith("  ->  ffffffffc0001000 0xffffffffc0001000")
    assert shown[1] == "                       . map_create   (bpf/foo.c:63)"


def test_what_is_missing_is_said() -> None:
    assert lines(None) == []
    assert lines(BranchView(lost=True)) == ["LBR data was dropped and is missing in this sample!"]
    assert lines(BranchView(error=2)) == ["Failed to capture LBR entries: -2 (ENOENT)"]
    assert lines(BranchView(error=4000)) == ["Failed to capture LBR entries: -4000"]
    assert lines(BranchView(ROWS, relevant=False), SymbolizeMode.NONE)[-1] == (
        "[LBR] No relevant LBR data were captured, showing unfiltered LBR stack!"
    )


def test_colours_do_not_move_columns() -> None:
    palette = Palette(source="2", warning="1;33")
    painted = lines(BranchView(ROWS), palette=palette)

    plain = [line.replace("\x1b[2m", "").replace("\x1b[0m", "") for line in painted]
    assert plain == lines(BranchView(ROWS))
    assert lines(BranchView(lost=True), palette=palette)[0].startswith("\x1b[1;33m")
