# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.selection.kernels import Kernel, btf

from retsnoop_py.selection.explain import report, warnings
from retsnoop_py.selection.model import Selection


@pytest.fixture
def selection(tmp_path: Path) -> Selection:
    kernel = Kernel(tmp_path)
    kernel.tree.btf(btf())
    for name in ("__sys_bpf", "array_map_alloc", "array_denied", "other"):
        kernel.add(name)
    kernel.add("array_asm", traceable=False)
    return kernel.select(entry=["*sys_bpf"], allow=["array_*"], deny=["*_denied"])


def test_nothing_is_told_unasked(selection: Selection) -> None:
    assert list(report(selection, 0)) == []


def test_verbose_tells_the_counts_and_what_is_left_out(selection: Selection) -> None:
    assert list(report(selection, 1)) == [
        "Discovered 4 available kprobes, filtered down to 2, and compacted to 2 unique names!",
        "Loaded BTF for [vmlinux].",
        "Function 'array_denied' is skipped: denied by your glob: '*_denied'.",
        "1 more matching functions have no trace point (-vv lists them).",
        "Found 2 attachable functions in total.",
        "Skipped 2 functions in total.",
        "Function '__sys_bpf' is marked as an entry point.",
    ]


def test_debug_adds_globs_and_prototypes(selection: Selection) -> None:
    lines = list(report(selection, 2))

    assert lines[:3] == [
        "Allow glob '*sys_bpf' matched 1 functions.",
        "Allow glob 'array_*' matched 2 functions.",
        "Deny glob '*_denied' matched 1 functions.",
    ]
    assert "Function 'array_asm' is skipped: the kernel has no trace point in it." in lines
    assert (
        "Function '__sys_bpf' (addr 0xffffffff81000000, btf id 3, flags ENTRY|SIGN32): "
        "int __sys_bpf(int cmd)." in lines
    )
    assert not any("(internal)" in line for line in lines)


def test_extra_debug_adds_internal_globs(selection: Selection) -> None:
    assert "Deny glob 'do_exit' (internal) matched 0 functions." in list(report(selection, 3))


def test_a_function_that_was_named_and_is_not_traced_is_told_unasked(tmp_path: Path) -> None:
    kernel = Kernel(tmp_path)
    for name in ("f", "do_exit", "bpf_ktime_get_ns", "mine"):
        kernel.add(name)
    kernel.add("asm_only", traceable=False)

    selection = kernel.select(
        entry=["f"],
        allow=["bpf_ktime_get_ns", "asm_*", "asm_only", "mine", "absent*", "*_exit"],
        deny=["mine"],
    )

    never = "retsnoop-py never traces it: our own BPF programs call it for every event"
    assert list(warnings(selection)) == [
        f"function 'bpf_ktime_get_ns' is not traced: {never}",
        "function 'asm_only' is not traced: the kernel has no trace point in it",
        "-a 'absent*' matches no kernel function",
    ]


def test_functions_and_globs_without_effect_are_counted(tmp_path: Path) -> None:
    """A file of names may have thousands of them."""
    kernel = Kernel(tmp_path)
    kernel.add("f")
    asm = [f"asm{number}" for number in range(5)]
    for name in asm:
        kernel.add(name, traceable=False)

    selection = kernel.select(entry=["f"], allow=[*asm, *(f"absent{n}" for n in range(4))])

    assert list(warnings(selection)) == [
        (
            "5 functions are not traced ('asm0', 'asm1', 'asm2' and 2 more): "
            "the kernel has no trace point in it"
        ),
        "4 globs of -a match no kernel function: 'absent0', 'absent1', 'absent2' and 1 more",
    ]
