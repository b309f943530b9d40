# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import struct
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.images import find_image, find_module_image

RELEASE = "6.12.0-test"
PLACE = f"boot/vmlinux-{RELEASE}"


def run(*argv: object) -> None:
    subprocess.run([str(arg) for arg in argv], check=True, capture_output=True)


def search(tree, explicit=None):
    return find_image(tree.facts, explicit, root=tree.root, debuginfod=Debuginfod({}))


def search_module(tree, name="demo", vmlinux=None):
    servers = Debuginfod({})
    return find_module_image(tree.facts, name, vmlinux, root=tree.root, debuginfod=servers)


@pytest.fixture
def other_vmlinux(toolchain, tmp_path):
    """Of another build: another id."""
    return toolchain.vmlinux(tmp_path / "other" / "vmlinux", "-O1")


@pytest.fixture
def stripped(vmlinux, tmp_path):
    path = tmp_path / "stripped"
    run("objcopy", "--strip-debug", vmlinux, path)
    return path


@pytest.mark.parametrize(
    "place",
    [
        f"boot/vmlinux-{RELEASE}",
        f"lib/modules/{RELEASE}/vmlinux-{RELEASE}",
        f"lib/modules/{RELEASE}/build/vmlinux",
        f"usr/lib/modules/{RELEASE}/kernel/vmlinux",
        f"usr/lib/debug/boot/vmlinux-{RELEASE}",
        f"usr/lib/debug/boot/vmlinux-{RELEASE}.debug",
        f"usr/lib/debug/lib/modules/{RELEASE}/vmlinux",
        f"usr/lib/debug/usr/lib/modules/{RELEASE}/vmlinux",
    ],
)
def test_the_usual_places_are_searched(tree, place):
    expected = tree.install(place)
    found = search(tree)
    assert found.path == expected
    assert found.notice is None
    assert found.report[-1].endswith(f"{expected}: used")


def test_the_build_id_directory_is_searched(tree):
    build_id = tree.facts.build_id
    expected = tree.install(f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    assert search(tree).path == expected


def test_nothing_found_is_one_line_and_every_place_is_in_the_report(tree):
    found = search(tree)
    assert found.path is None
    assert f"no debug information of Linux {RELEASE} found; stacks" in found.notice
    assert "\n" not in found.notice
    assert len(found.report) == len(found.tried) == 12
    assert all(line.endswith("no such file") for line in found.report)


def test_an_image_of_another_build_is_passed_over(tree, other_vmlinux):
    wrong = tree.install(PLACE, other_vmlinux)
    right = tree.install(f"usr/lib/debug/{PLACE}")
    with ElfFile(other_vmlinux) as elf:
        reason = f"wrong build id {elf.build_id} != {tree.facts.build_id}"
    found = search(tree)
    assert found.path == right
    assert (str(wrong), reason) in found.tried


def test_the_notice_names_the_image_that_will_not_do(tree, other_vmlinux):
    wrong = tree.install(PLACE, other_vmlinux)
    assert f"({wrong}: wrong build id" in search(tree).notice


def test_an_image_without_dwarf_is_passed_over(tree, stripped):
    tree.install(PLACE, stripped)
    found = search(tree)
    assert found.path is None
    assert "it has no DWARF" in found.notice


def test_a_debug_link_is_followed(tree, vmlinux, tmp_path):
    debug = tmp_path / "vmlinux.debug"
    linked = tmp_path / "linked"
    run("objcopy", "--only-keep-debug", vmlinux, debug)
    run("objcopy", "--strip-debug", f"--add-gnu-debuglink={debug}", vmlinux, linked)
    tree.install(PLACE, linked)
    for place in ("boot/.debug/vmlinux.debug", "boot/vmlinux.debug"):
        expected = tree.install(place, debug)
        assert search(tree).path == expected
        assert search(tree, tree.root / PLACE).path == expected


def test_an_unreadable_place_is_told(tree):
    (tree.root / PLACE).mkdir(parents=True)
    assert "Is a directory" in dict(search(tree).tried)[str(tree.root / PLACE)]


def test_a_file_that_is_no_elf_is_passed_over(tree):
    tree.write(PLACE, b"MZ\0\0" * 64)
    assert "not an ELF file" in search(tree).notice


def test_zstd_that_cannot_be_decompressed_is_told(tree, vmlinux, tmp_path):
    packed = tmp_path / "packed"
    run("objcopy", "--compress-debug-sections=zlib", vmlinux, packed)
    tree.install(PLACE, packed)
    assert search(tree).path == tree.root / PLACE
    with packed.open("r+b") as file:
        sections = [s for s in ELFFile(file).iter_sections() if s["sh_flags"] & 0x800]
        for section in sections:
            file.seek(section["sh_offset"])
            file.write(struct.pack("<I", 2))
    tree.install(PLACE, packed)
    assert "compressed with zstd" in search(tree).notice
    with pytest.raises(DataError, match="zstd") as caught:
        search(tree, packed)
    assert "objcopy" in caught.value.hint


def test_an_image_whose_supplementary_file_is_missing_is_told(tree, vmlinux, tmp_path):
    link = tmp_path / "link"
    link.write_bytes(b"common.debug\0" + bytes(20))
    linked = tmp_path / "linked"
    run("objcopy", f"--add-section=.gnu_debugaltlink={link}", vmlinux, linked)
    with ElfFile(linked) as elf:
        assert elf.alternate_link == "common.debug"
    tree.install(PLACE, linked)
    assert "supplementary file is missing" in search(tree).notice


def test_without_the_kernels_build_id_no_image_is_believed(tree):
    tree.install(PLACE)
    (tree.root / "sys/kernel/notes").unlink()
    assert "does not report its build ID" in search(tree).notice


def test_a_named_image_is_used(tree, vmlinux):
    assert search(tree, vmlinux).path == vmlinux


def test_a_named_image_that_is_missing_is_told(tree):
    with pytest.raises(InputError, match="-k /no/vmlinux: no such file") as caught:
        search(tree, Path("/no/vmlinux"))
    assert "leave -k out" in caught.value.hint


def test_a_named_directory_is_told(tree):
    with pytest.raises(InputError, match="is a directory"):
        search(tree, tree.root)


def test_a_named_image_of_another_build_is_told_with_both_ids(tree, other_vmlinux):
    tree.install(PLACE)
    with pytest.raises(
        DataError, match=f"wrong build id [0-9a-f]+ != {tree.facts.build_id}"
    ) as caught:
        search(tree, other_vmlinux)
    assert "another kernel" in caught.value.hint


def test_a_named_image_without_dwarf_is_told(tree, stripped):
    with pytest.raises(DataError, match="it has no DWARF") as caught:
        search(tree, stripped)
    assert "debug package" in caught.value.hint


def test_a_named_image_without_dwarf_leads_to_its_debug_file(tree, stripped):
    build_id = tree.facts.build_id
    expected = tree.install(f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug")
    assert search(tree, stripped).path == expected


def test_a_named_compressed_kernel_is_told(tree, tmp_path):
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"MZ" + bytes(100))
    with pytest.raises(DataError, match="is not an ELF file") as caught:
        search(tree, path)
    assert "bzImage" in caught.value.hint


@pytest.mark.parametrize(
    "place",
    [
        f"usr/lib/debug/lib/modules/{RELEASE}/kernel/drivers/demo.ko",
        f"usr/lib/debug/lib/modules/{RELEASE}/kernel/drivers/demo.ko.debug",
        f"usr/lib/debug/usr/lib/modules/{RELEASE}/kernel/drivers/demo.ko.debug",
        f"lib/modules/{RELEASE}/kernel/drivers/demo.ko",
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_a_modules_debug_file_is_found(tree, module, place, indexed):
    tree.load("demo", module)
    if indexed:
        tree.write(f"lib/modules/{RELEASE}/modules.dep", "kernel/drivers/demo.ko.xz: kernel/x.ko\n")
    expected = tree.install(place, module)
    assert search_module(tree).path == expected


def test_an_index_that_is_a_fifo_does_not_keep_the_search_waiting(tree, module):
    tree.load("demo", module)
    place = f"lib/modules/{RELEASE}/kernel/drivers/demo.ko"
    expected = tree.install(place, module)
    os.mkfifo(tree.root / f"lib/modules/{RELEASE}/modules.dep")
    assert search_module(tree).path == expected


def test_a_modules_debug_file_is_found_by_build_id(tree, module):
    tree.load("demo", module)
    build_id = tree.facts.module_build_id("demo")
    place = f"usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"
    expected = tree.install(place, module)
    assert search_module(tree).path == expected


def test_modules_beside_a_vmlinux_unpacked_anywhere_are_found(tree, module):
    tree.load("demo_x", module)
    expected = tree.install(f"cache/usr/lib/debug/lib/modules/{RELEASE}/kernel/demo-x.ko", module)
    beside = tree.install(f"cache/usr/lib/debug/boot/vmlinux-{RELEASE}")
    assert search_module(tree, "demo_x", beside).path == expected
    assert search_module(tree, "demo_x").path is None


def test_a_module_of_another_build_is_passed_over(tree, module, toolchain, tmp_path):
    tree.load("demo", module)
    source = toolchain.compile("init/main.c", tmp_path / "main.o")
    run("ld", "-r", "--build-id", "-o", tmp_path / "demo.ko", source)
    tree.install(f"lib/modules/{RELEASE}/kernel/demo.ko", tmp_path / "demo.ko")
    found = search_module(tree)
    assert found.path is None
    assert any("wrong build id" in reason for _, reason in found.tried)
