# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import struct
import time
from array import array
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.libbpf.facts import Line, ListFormat, SymbolTable, glob_match


def table_of(text: bytes, form: ListFormat) -> SymbolTable:
    fd = os.memfd_create("list")
    try:
        os.write(fd, text)
        return SymbolTable(Path(f"/proc/self/fd/{fd}"), form)
    finally:
        os.close(fd)


def reference_match(glob: str, name: str) -> bool:
    """The set of positions in ``name`` each prefix of ``glob`` can reach."""
    reached = {0}
    for char in glob:
        if char == "*":
            reached = set(range(min(reached), len(name) + 1)) if reached else set()
        else:
            reached = {i + 1 for i in reached if i < len(name) and char in ("?", name[i])}
    return len(name) in reached


@given(st.text("ab*?", max_size=10), st.text("abc", max_size=12))
def test_a_glob_matches_what_the_reference_matcher_says(glob: str, name: str) -> None:
    assert glob_match(glob, name) == reference_match(glob, name)


def test_many_stars_do_not_take_exponential_time() -> None:
    start = time.perf_counter()
    assert not glob_match("*a" * 60 + "*b", "a" * 4000)
    assert time.perf_counter() - start < 0.5


@given(
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=20),
    st.lists(st.text("ab*?", min_size=1, max_size=4), max_size=6),
)
def test_matching_a_table_gives_first_globs_and_counts(names: list[str], globs: list[str]) -> None:
    table = table_of("\n".join(names).encode(), ListFormat.NAMES)
    subset = array("I", range(len(table)))

    matches = table.match(subset, [(glob, None) for glob in globs])

    expected = [
        (i, next(g for g, glob in enumerate(globs) if reference_match(glob, name)))
        for i, name in enumerate(names)
        if any(reference_match(glob, name) for glob in globs)
    ]
    assert list(zip(matches.symbols, matches.globs, strict=True)) == expected
    assert matches.counts == [sum(reference_match(g, n) for n in names) for g in globs]


def test_a_module_glob_needs_a_module() -> None:
    table = table_of(b"f\nf [kvm]\nf [kvm_intel]\ng [kvm]\n", ListFormat.NAMES)
    every = array("I", range(4))

    assert list(table.match(every, [("f", None)]).symbols) == [0, 1, 2]
    assert list(table.match(every, [("f", "kvm")]).symbols) == [1]
    assert list(table.match(every, [("*", "kvm*")]).symbols) == [1, 2, 3]


def test_lines_that_are_no_symbols_are_left_out() -> None:
    text = b"\nzz T bad\nffff800000001000 t \nffff800000001000 t good\t[mod]\nffff800000001010 T"
    table = table_of(text, ListFormat.KALLSYMS)

    assert len(table) == 1
    assert table.line(0) == Line(0xFFFF800000001000, b"good", b"mod", b"t", 2**32 - 1)


def test_a_name_is_found_however_often_it_is_there() -> None:
    table = table_of(b"dup\n" * 100 + b"dupe\n", ListFormat.NAMES)

    assert table.find("dup") == list(range(100))
    assert table.find("du") == []


@given(st.lists(st.integers(0, 12), max_size=12), st.lists(st.integers(0, 12), max_size=12))
def test_a_list_is_sorted_by_address_and_keeps_the_order_of_aliases(
    first: list[int], second: list[int]
) -> None:
    addresses = sorted(first) + second  # as kallsyms is: one long ascending part
    text = "".join(f"{address:016x} t s{i}\n" for i, address in enumerate(addresses))

    table = table_of(text.encode(), ListFormat.KALLSYMS)

    found = [(line.address, line.name) for line in map(table.line, range(len(table)))]
    order = sorted(range(len(addresses)), key=lambda i: (addresses[i], i))
    assert found == [(addresses[i], f"s{i}".encode()) for i in order]


def test_a_list_may_be_longer_than_what_is_read_at_once() -> None:
    names = [f"function_{i}" for i in range(20_000)]
    text = "".join(f"{0x1000 + 8 * i:016x} t {name}\n" for i, name in enumerate(names))

    table = table_of(text.encode(), ListFormat.KALLSYMS)

    assert [table.line(i).name.decode() for i in range(len(table))] == names
    assert table.line(7).size == 8
    assert table.bytes == len(text)
    assert table.count("function_1999") == 11


def test_a_line_without_end_is_no_symbol() -> None:
    text = b"0000000000001000 t " + b"x" * 200_000 + b"\n0000000000002000 t good\n"
    table = table_of(text, ListFormat.KALLSYMS)
    assert [table.line(i).name for i in range(len(table))] == [b"good"]


def record(address: int, kind: str | int, name: str = "", module: str = "") -> bytes:
    """What the program in ksyms.c writes of a symbol."""
    if isinstance(kind, int):
        return struct.pack("=QB", address, kind)
    texts = b"".join(text.encode() + b"\0" for text in (name, module) if text)
    return struct.pack("=QB", address, ord(kind) | (128 if module else 0)) + texts


def test_records_of_the_program_read_as_lines_do() -> None:
    text = (
        b"ffffffff81000000 T _stext\nffffffff81000000 t first\nffffffff81000010 d data\n"
        b"ffffffff81000018 D more\nffffffff81000020 t __pfx_second\nffffffff81000030 W second\n"
        b"ffffffff81000080 T _etext\n"
        b"ffffffffc0000100 t mine\t[mod]\nffffffffc0000000 d var\t[mod]\n"
        b"ffffffffc0000010 T exported\t[mod]\nffffffffc0000300 t image\t[bpf]\n"
    )
    base, module = 0xFFFFFFFF81000000, 0xFFFFFFFFC0000000
    records = b"".join(
        (
            record(base, "T", "_stext"),
            record(base, "t", "first"),
            record(base + 0x10, 0),
            record(base + 0x18, 0),
            record(base + 0x20, 0),
            record(base + 0x30, "W", "second"),
            record(base + 0x80, "T", "_etext"),
            record(module + 0x100, "t", "mine", "mod"),
            record(module, 1),
            record(module + 0x10, "T", "exported", "mod"),
            record(module + 0x200, "t", "bpf_prog_0123456789abcdef_rsn_ksyms", "bpf"),
            record(module + 0x300, "t", "image", "bpf"),
            record(module + 0x300, "t", "image", "__builtin__kprobes"),  # shown twice at the end
        )
    )
    tables = table_of(text, ListFormat.KALLSYMS), table_of(records, ListFormat.KSYMS)
    expected, found = ([table.line(i) for i in range(len(table))] for table in tables)

    assert found == expected
    assert [line.name for line in found][-3:] == [b"exported", b"mine", b"image"]


@pytest.mark.parametrize("damage", [record(1, 2), record(1, "t", "cut")[:-1], b"\1\2"])
def test_records_with_a_name_too_long_or_cut_short_are_refused(damage: bytes) -> None:
    with pytest.raises(OSError, match=r"too long|Input/output"):
        table_of(record(1, "t", "first") + damage, ListFormat.KSYMS)


@pytest.mark.parametrize("first", [record(1, "t", "n" * 9000), record(1, 0)])
def test_no_name_is_read_that_is_not_kept(first: bytes) -> None:
    """The last symbol is compared with the one before it. ``make test-sanitized`` sees the read."""
    unkept = record(1, "t", "__cfi_" + "n" * 8994)
    table = table_of(first + unkept, ListFormat.KSYMS)

    names = [table.line(i).name for i in range(len(table))]
    assert names == ([b"n" * 9000] if len(first) > 9 else [])


def test_data_without_any_function_is_an_empty_list() -> None:
    assert len(table_of(record(1, 0) + record(1, 0), ListFormat.KSYMS)) == 0
