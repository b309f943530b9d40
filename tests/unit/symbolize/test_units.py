# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import InputError, UnavailableError
from retsnoop_py.symbolize.sources import KernelImages
from retsnoop_py.symbolize.units import CompileUnits, compile_pattern

KASLR = 0x1A000000
MODULE = 0xFFFFFFFFC0800000
PLACE = "boot/vmlinux-6.12.0-test"


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("kernel/bpf/*.c", "kernel/bpf/syscall.c", True),
        ("kernel/*.c", "kernel/bpf/syscall.c", True),
        ("bpf/*.c", "kernel/bpf/syscall.c", False),
        ("*syscall.c", "kernel/bpf/syscall.c", True),
        ("kernel/bpf/s?scall.c", "kernel/bpf/syscall.c", True),
        ("kernel?bpf/syscall.c", "kernel/bpf/syscall.c", True),
        ("kernel/bpf/[st]yscall.c", "kernel/bpf/syscall.c", True),
        ("kernel/bpf/[!s]yscall.c", "kernel/bpf/syscall.c", False),
        ("kernel/bpf/[a-r]yscall.c", "kernel/bpf/syscall.c", False),
        ("kernel/bpf/[]]x.c", "kernel/bpf/]x.c", True),
        ("**/syscall.c", "kernel/bpf/syscall.c", True),
        ("kernel/**/syscall.c", "kernel/syscall.c", True),
        ("kernel/bpf/syscall.c", "kernel/bpf/syscallxc", False),
        ("Kernel/*", "kernel/fork.c", False),
    ],
)
def test_patterns_match_as_in_retsnoop(pattern, path, matches):
    assert bool(compile_pattern(pattern).fullmatch(path)) is matches


def test_a_class_without_end_is_told():
    with pytest.raises(InputError, match=r"kernel/\[ab has a \[ without its \]"):
        compile_pattern("kernel/[ab")


@given(st.text(alphabet="a*?[]!-/.^\\", max_size=12), st.text(alphabet="ab/.-", max_size=8))
def test_any_pattern_is_compiled_or_refused(pattern, path):
    with suppress(InputError) if "[" in pattern else nullcontext():
        compile_pattern(pattern).fullmatch(path)


def test_units_of_vmlinux_are_given_at_runtime_addresses(tree):
    tree.install(PLACE)
    facts = tree.facts
    with KernelImages(facts) as images:
        found = CompileUnits(images).functions_in(":kernel/bpf/*.c")
    map_create = facts.kallsyms.address_of("map_create")
    start_kernel = facts.kallsyms.address_of("start_kernel")
    assert any(low <= map_create < high for low, high in found)
    assert not any(low <= start_kernel < high for low, high in found)


def test_units_of_loaded_modules_are_found_too(tree, module):
    tree.install(PLACE)
    tree.load("demo", module)
    tree.install("usr/lib/debug/lib/modules/6.12.0-test/kernel/demo.ko", module)
    with KernelImages(tree.facts) as images:
        units = CompileUnits(images)
        found = units.functions_in("kernel/bpf/syscall.c")
        assert not [low for low, _ in units.functions_in("init/*.c") if low >= MODULE]
    for start in (MODULE, MODULE + 0x1000):  # .text and .text.unlikely
        assert any(low <= start < high for low, high in found)


def test_a_pattern_that_matches_no_file_gives_nothing(tree):
    tree.install(PLACE)
    with KernelImages(tree.facts) as images:
        assert CompileUnits(images).functions_in("sound/*.c") == []


def test_without_an_image_the_next_step_is_told(tree):
    with (
        KernelImages(tree.facts) as images,
        pytest.raises(UnavailableError, match=r":kernel/\* needs a kernel image") as caught,
    ):
        CompileUnits(images).functions_in(":kernel/*")
    assert "-k VMLINUX" in str(caught.value.hint)
