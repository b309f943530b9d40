# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from tests.bench.selections import common, listed_functions, plain, sample, small_set

OUTPUT = """\
Discovered 40499 available kprobes, filtered down to 2, and compacted to 2 unique names!
Function 'bpf_throw' is skipped: it never returns.
Attached (dry run) to function #1 'bpf_map_put'.
Attached (dry run) to function #2 'bpf_nat [nf_nat]'.
Attached (dry run) to function #3 'bpf_map_put.part.0'.
Total 3 kernel functions attached (dry run) by kprobe.multi successfully!
"""


def test_a_dry_run_lists_what_would_be_attached_and_nothing_else() -> None:
    names = ("bpf_map_put", "bpf_nat [nf_nat]", "bpf_map_put.part.0")
    assert listed_functions(OUTPUT) == names


def test_functions_of_modules_are_not_plain() -> None:
    assert plain(listed_functions(OUTPUT)) == ("bpf_map_put", "bpf_map_put.part.0")


def test_the_equal_set_is_what_every_tool_takes() -> None:
    assert common([("c", "a", "b", "a"), ("b", "d", "c")]) == ("b", "c")
    assert common([]) == ()


def test_a_sample_is_spread_over_all_names() -> None:
    assert sample(tuple("abcdefghij"), 3) == ("a", "d", "g")
    assert sample(("a", "b"), 3) == ("a", "b")


def test_a_small_set_has_its_size_and_the_entry_function() -> None:
    names = tuple(f"f{number:03}" for number in range(200))
    chosen = small_set((*names, "entry"), "entry", 100)
    assert chosen[0] == "entry"
    assert len(set(chosen)) == 100
