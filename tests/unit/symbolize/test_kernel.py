# SPDX-License-Identifier: BSD-2-Clause
""""""

from __future__ import annotations

from contextlib import nullcontext, suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import DataError, InputError, UnavailableError
from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.settings import SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.symbolize.kernel import CompileUnits, KernelSymbolizer, compile_pattern
from retsnoop_py.symbolize.sources import KernelImages

KASLR = 0x1A000000
MODULE = 0xFFFFFFFFC0800000
PLACE = "boot/vmlinux-6.12.0-test"


def symbolizer(tree, mode=SymbolizeMode.AUTO, explicit=None):
    facts = tree.facts
    return KernelSymbolizer(facts, mode, KernelImages(facts, explicit))


def inlined_address(image):
    """An address (as linked) at which check() is inlined in outer() in start_kernel()."""
    with DwarfImage(image) as dwarf:
        unit = next(unit for unit in dwarf.units() if unit.name == "init/main.c")
        for low, high in unit.ranges:
            for address in range(low, high):
                found = dwarf.lookup(address)
                if found and len(found.frames) == 3:
                    return address
    raise AssertionError("no such address")


def test_a_chain_starts_with_the_function_that_has_the_code(tree, vmlinux):
    tree.install(PLACE)
    at = inlined_address(vmlinux) + KASLR
    with symbolizer(tree) as symbols:
        found = symbols.resolve(at, is_return=False)
    assert (found.name, found.module) == ("start_kernel", None)
    assert found.start + found.offset == at
    assert [frame.function for frame in found.frames] == ["start_kernel", "outer", "check"]
    assert [frame.file for frame in found.frames] == ["init/main.c"] * 2 + ["include/check.h"]


def test_lines_mode_gives_the_innermost_place_only(tree, vmlinux):
    tree.install(PLACE)
    at = inlined_address(vmlinux) + KASLR
    with symbolizer(tree, SymbolizeMode.LINES) as symbols:
        frames = symbols.resolve(at, is_return=False).frames
    assert [(frame.function, frame.file) for frame in frames] == [("check", "include/check.h")]


def test_none_mode_gives_names_only(tree, vmlinux):
    tree.install(PLACE)
    at = inlined_address(vmlinux) + KASLR
    with symbolizer(tree, SymbolizeMode.NONE) as symbols:
        found = symbols.resolve(at, is_return=False)
    assert (found.name, found.frames) == ("start_kernel", ())


def test_without_images_there_are_names_only(tree, vmlinux):
    at = inlined_address(vmlinux) + KASLR
    with KernelSymbolizer(tree.facts, SymbolizeMode.INLINES, None) as symbols:
        assert symbols.mode is SymbolizeMode.NONE
        assert symbols.resolve(at, is_return=False).name == "start_kernel"


def test_auto_mode_without_an_image_gives_names_only(tree, vmlinux):
    with symbolizer(tree) as symbols:
        assert symbols.mode is SymbolizeMode.NONE
        assert symbols.resolve(inlined_address(vmlinux) + KASLR).frames == ()


def test_a_return_address_has_the_place_of_the_call_before_it(tree, vmlinux):
    tree.install(PLACE)
    at = inlined_address(vmlinux) + KASLR
    with symbolizer(tree) as symbols:
        call = symbols.resolve(at, is_return=False)
        back = symbols.resolve(at + 1)
    assert back.frames == call.frames
    assert back.offset == call.offset + 1


def test_a_call_at_the_very_end_of_a_function_belongs_to_that_function(tree):
    tree.install(PLACE)
    facts = tree.facts
    end = facts.kallsyms.address_of("map_create")
    before, offset = facts.kallsyms.lookup(end - 1)
    with symbolizer(tree) as symbols:
        found = symbols.resolve(end)
        assert symbols.resolve(end, is_return=False).name == "map_create"
    assert (found.name, found.offset) == (before.name, offset + 1)


def test_a_return_trampoline_keeps_its_own_name(tree):
    tree.install(PLACE)
    kallsyms = tree.root / "proc/kallsyms"
    kallsyms.write_text(kallsyms.read_text().replace(" start_kernel", " arch_rethook_trampoline"))
    facts = tree.facts
    at = facts.kallsyms.address_of("arch_rethook_trampoline")
    with symbolizer(tree) as symbols:
        found = symbols.resolve(at, is_return=False)
    assert (found.name, found.offset) == ("arch_rethook_trampoline", 0)


def test_assembly_has_its_line_under_the_name_of_kallsyms(tree):
    tree.install(PLACE)
    facts = tree.facts
    entry = facts.kallsyms.address_of("entry_point")
    with symbolizer(tree) as symbols:
        frames = symbols.resolve(entry, is_return=False).frames
    assert frames == (SourceFrame("entry_point", "arch/x86/entry.S", 3, 0),)


def test_addresses_of_a_module_come_from_its_own_debug_file(tree, module):
    tree.install(PLACE)
    tree.load("demo", module)
    tree.install("usr/lib/debug/lib/modules/6.12.0-test/kernel/demo.ko", module)
    with symbolizer(tree) as symbols:
        found = symbols.resolve(MODULE, is_return=False)
        cold = symbols.resolve(MODULE + 0x1000, is_return=False)
    assert (found.name, found.module) == ("map_create", "demo")
    assert (found.frames[0].function, found.frames[0].file) == (
        "map_create",
        "kernel/bpf/syscall.c",
    )
    assert [frame.function for frame in cold.frames] == ["rarely"]


def test_a_module_without_a_debug_file_has_names_only(tree, module):
    tree.install(PLACE)
    tree.load("demo", module)
    images = KernelImages(tree.facts)
    with KernelSymbolizer(tree.facts, SymbolizeMode.AUTO, images) as symbols:
        found = symbols.resolve(MODULE + 1)
        assert (found.name, found.module, found.frames) == ("map_create", "demo", ())
        assert any("module demo" in line for line in images.report)


def test_a_bpf_program_has_its_name_only(tree):
    tree.install(PLACE)
    with (tree.root / "proc/kallsyms").open("a") as file:
        file.write("ffffffffc0100000 t bpf_prog_6deef7357e7b4530_demo\t[bpf]\n")
    with symbolizer(tree) as symbols:
        found = symbols.resolve(0xFFFFFFFFC0100010)
    assert found.name == "bpf_prog_6deef7357e7b4530_demo"
    assert (found.module, found.frames) == ("bpf", ())


def test_an_address_that_nothing_covers_has_no_name(tree):
    tree.install(PLACE)
    with symbolizer(tree) as symbols:
        assert symbols.resolve(0x1000) == Resolved(0x1000, None, 0, 0, None)


def test_an_image_damaged_after_it_was_found_is_told_once(tree, vmlinux):
    path = tree.install(PLACE)
    at = inlined_address(vmlinux) + KASLR
    images = KernelImages(tree.facts)
    path.write_bytes(b"\x7fELF gone")
    with KernelSymbolizer(tree.facts, SymbolizeMode.AUTO, images) as symbols:
        assert symbols.resolve(at, is_return=False).name == "start_kernel"
        assert symbols.resolve(at + 1).frames == ()
        assert len(images.warnings) == 1
        assert "no source lines" in images.warnings[0]


def test_an_image_given_by_name_is_opened_at_once(tree, tmp_path):
    path = tree.install("elsewhere/vmlinux")
    with symbolizer(tree, explicit=path) as symbols:
        assert symbols.mode is SymbolizeMode.INLINES
    broken = tmp_path / "vmlinux"
    broken.write_text("nothing")
    with pytest.raises(DataError):
        KernelImages(tree.facts, broken)


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
    with pytest.raises(InputError, match=r"kernel/\[ab has a \[ without a \]"):
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
