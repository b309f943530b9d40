# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import posixpath
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.libbpf.dwarf import DwarfImage

MODULE = 0x40800000

Chain = list[tuple[str, str, int, int]]


def run(*argv: object) -> None:
    subprocess.run([str(arg) for arg in argv], check=True, capture_output=True)


def text_addresses(image: Path) -> range:
    with image.open("rb") as file:
        section = ELFFile(file).get_section_by_name(".text")
        return range(section["sh_addr"], section["sh_addr"] + section["sh_size"])


def by_llvm(image: Path, addresses: range) -> list[Chain]:
    """The reference: every chain, innermost first."""
    asked = "".join(f"{address:#x}\n" for address in addresses)
    argv = ["llvm-symbolizer", "--functions=short", "--inlines", "-e", str(image)]
    done = subprocess.run(argv, input=asked, capture_output=True, text=True, check=True)
    chains = []
    for block in done.stdout.strip("\n").split("\n\n"):
        lines = block.split("\n")
        chain = []
        for function, place in zip(lines[0::2], lines[1::2], strict=True):
            file, line, column = place.rsplit(":", 2)
            chain.append((function, posixpath.normpath(file), int(line), int(column)))
        chains.append(chain)
    return chains


def by_us(image: DwarfImage, address: int) -> Chain:
    found = image.lookup(address)
    if found is None:
        return [("??", "??", 0, 0)]
    return [
        (
            frame.function or "??",
            posixpath.normpath(posixpath.join(found.comp_dir, frame.file or "??")),
            frame.line,
            frame.column,
        )
        for frame in found.frames
    ]


def assert_agreement(image: Path) -> None:
    addresses = text_addresses(image)
    expected = by_llvm(image, addresses)
    with DwarfImage(image) as dwarf:
        assert [by_us(dwarf, address) for address in addresses] == expected
    assert any(len(chain) == 3 for chain in expected), "the fixture has nested inlining"


@pytest.mark.parametrize("version", ["-gdwarf-4", "-gdwarf-5"])
def test_every_address_has_the_chain_that_llvm_symbolizer_gives(toolchain, tmp_path, version):
    assert_agreement(toolchain.vmlinux(tmp_path / "vmlinux", version))


def test_without_aranges_the_units_own_ranges_serve(vmlinux, tmp_path):
    plain = tmp_path / "vmlinux"
    run("objcopy", "--remove-section=.debug_aranges", vmlinux, plain)
    assert_agreement(plain)


def test_code_of_clang_has_the_same_chains(vmlinux, toolchain, tmp_path):
    objects = []
    for name in ("init/main.c", "kernel/bpf/syscall.c"):
        objects.append(tmp_path / f"{Path(name).stem}.o")
        run("clang", "-O2", "-g", "-fno-pic", "-mcmodel=kernel", "-c", toolchain.source / name,
            "-o", objects[-1])  # fmt: skip
    assert_agreement(toolchain.link(objects, tmp_path / "vmlinux"))


def test_zlib_compressed_sections_are_read(vmlinux, tmp_path):
    packed = tmp_path / "vmlinux"
    run("objcopy", "--compress-debug-sections=zlib", vmlinux, packed)
    assert_agreement(packed)


def test_sections_in_a_compression_that_cannot_be_undone_are_named(vmlinux, tmp_path):
    packed = tmp_path / "vmlinux"
    run("objcopy", "--compress-debug-sections=zlib", vmlinux, packed)
    with packed.open("r+b") as file:
        offsets = [
            section["sh_offset"]
            for section in ELFFile(file).iter_sections()
            if section["sh_flags"] & 0x800
        ]
        for offset in offsets:
            file.seek(offset)
            file.write(struct.pack("<I", 2))  # ELFCOMPRESS_ZSTD in the header, zlib behind it
    assert offsets
    with pytest.raises(DataError, match=r"section \.debug_\w+ is compressed with zstd") as caught:
        DwarfImage(packed)
    assert "--decompress-debug-sections" in str(caught.value.hint)


def test_a_relocatable_image_lies_where_its_sections_were_loaded(module, tmp_path):
    script = tmp_path / "script"
    script.write_text(
        f"SECTIONS {{ .text {MODULE:#x} : {{ *(.text) }}"
        f" .text.unlikely {MODULE + 0x2000:#x} : {{ *(.text.unlikely) }} }}"
    )
    linked = tmp_path / "linked"
    run("ld", "-T", script, "--defsym=plain=0x40000000", "-e", "0", "-o", linked, module)
    sections = {".text": MODULE, ".text.unlikely": MODULE + 0x2000}
    ranges = (text_addresses(linked), range(MODULE + 0x2000, MODULE + 0x2004))
    with DwarfImage(module, sections) as dwarf:
        for addresses in ranges:
            ours = [by_us(dwarf, address) for address in addresses]
            assert ours == by_llvm(linked, addresses)
        assert by_us(dwarf, ranges[1][0])[0][0] == "rarely"


def test_assembly_has_lines(vmlinux):
    with DwarfImage(vmlinux) as dwarf:
        unit = next(unit for unit in dwarf.units() if unit.name.endswith("entry.S"))
        found = dwarf.lookup(unit.ranges[0][0])
        assert found is not None
        assert found.is_assembly
        assert (found.unit, found.frames[0].line) == ("arch/x86/entry.S", 3)


def test_units_have_names_and_ranges(vmlinux, toolchain):
    with DwarfImage(vmlinux) as dwarf:
        units = {unit.name: unit for unit in dwarf.units()}
    assert set(units) == {"init/main.c", "kernel/bpf/syscall.c", "arch/x86/entry.S"}
    assert units["init/main.c"].comp_dir == str(toolchain.source)
    low, high = units["init/main.c"].ranges[0]
    assert low in text_addresses(vmlinux)
    assert high - 1 in text_addresses(vmlinux)


def test_tables_outlive_a_restart_of_libdw(vmlinux):
    addresses = text_addresses(vmlinux)
    with DwarfImage(vmlinux) as dwarf:
        before = [by_us(dwarf, address) for address in addresses]
        dwarf.units()
        assert dwarf.stats.resets == 1
        assert [by_us(dwarf, address) for address in addresses] == before
        assert dwarf.stats.loads == 3


def test_addresses_outside_the_image_are_unknown(vmlinux):
    with DwarfImage(vmlinux) as dwarf:
        assert dwarf.lookup(0) is None
        assert dwarf.lookup(2**64 - 1) is None


def test_an_image_without_dwarf_is_told(vmlinux, tmp_path):
    stripped = tmp_path / "vmlinux"
    run("objcopy", "--strip-debug", vmlinux, stripped)
    with pytest.raises(DataError, match=r"it has no \.debug_info section"):
        DwarfImage(stripped)


def test_what_is_not_elf_is_told(tmp_path):
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"MZ" + bytes(4096))
    with pytest.raises(DataError, match="not a 64-bit ELF file"):
        DwarfImage(path)


def test_a_missing_file_is_told(tmp_path):
    with pytest.raises(InputError, match="No such file"):
        DwarfImage(tmp_path / "vmlinux")


def test_an_image_cut_short_is_told(vmlinux, tmp_path):
    cut = tmp_path / "vmlinux"
    cut.write_bytes(vmlinux.read_bytes()[:4096])
    with pytest.raises(DataError):
        DwarfImage(cut)


def test_the_native_part_is_loaded_with_the_first_image_only():
    code = (
        "import sys, retsnoop_py.symbolize.kernel, retsnoop_py.symbolize.kernel\n"
        "print('retsnoop_py._dwarf' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
