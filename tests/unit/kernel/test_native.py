# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import time
from array import array

from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.kernel.native import ListFormat, SymbolTable, glob_match


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
    table = SymbolTable("\n".join(names).encode(), ListFormat.NAMES)
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
    table = SymbolTable(b"f\nf [kvm]\nf [kvm_intel]\ng [kvm]\n", ListFormat.NAMES)
    every = array("I", range(4))

    assert list(table.match(every, [("f", None)]).symbols) == [0, 1, 2]
    assert list(table.match(every, [("f", "kvm")]).symbols) == [1]
    assert list(table.match(every, [("*", "kvm*")]).symbols) == [1, 2, 3]


def test_lines_that_are_no_symbols_are_left_out() -> None:
    text = b"\nzz T bad\nffff800000001000 t \nffff800000001000 t good\t[mod]\nffff800000001010 T"
    table = SymbolTable(text, ListFormat.KALLSYMS)

    assert len(table) == 1
    assert table.line(0) == (0xFFFF800000001000, b"good", b"mod", b"t")


def test_a_name_is_found_however_often_it_is_there() -> None:
    table = SymbolTable(b"dup\n" * 100 + b"dupe\n", ListFormat.NAMES)

    assert table.find("dup") == list(range(100))
    assert table.find("du") == []


@given(st.lists(st.integers(0, 12), max_size=12), st.lists(st.integers(0, 12), max_size=12))
def test_a_list_is_sorted_by_address_and_keeps_the_order_of_aliases(
    first: list[int], second: list[int]
) -> None:
    addresses = sorted(first) + second  # as kallsyms is: one long ascending part
    text = "".join(f"{address:016x} t s{i}\n" for i, address in enumerate(addresses))

    table = SymbolTable(text.encode(), ListFormat.KALLSYMS, by_address=True)

    found = [(line.address, line.name) for line in map(table.line, range(len(table)))]
    order = sorted(range(len(addresses)), key=lambda i: (addresses[i], i))
    assert found == [(addresses[i], f"s{i}".encode()) for i in order]
