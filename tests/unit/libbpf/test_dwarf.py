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
from retsnoop_py.libbpf.dwarf import DwarfImage, Variable

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


#: Variables that the code keeps where it is told to, while it passes the labels.
VARIABLES = {
    "held.h": """\
struct thing { int count; long size; };
typedef struct { long all; } whole_t;
enum kind { NONE, SOME };
static inline __attribute__((always_inline)) void see(enum kind inner)
{
	__asm__ volatile("in_header: nop" :: "c"(inner));
}
""",
    "held.c": """\
#include "held.h"
__attribute__((noinline, noipa)) void fill(void *, long);
long f(long given)
{
	const struct thing *t;
	unsigned char small;
	enum kind some;
	__asm__ volatile("" : "=b"(t), "=a"(small), "=c"(some));
	__asm__ volatile("in_registers: nop" :: "b"(t), "a"(small), "c"(some));
	see(some);
	return t->count + small + some;
}
long g(long given)
{
	struct thing own[2], one;
	whole_t **whole;
	fill(&one, given);
	__asm__ volatile("in_memory: nop" ::: "memory");
	fill(own, one.size);
	__asm__ volatile("" : "=d"(whole));
	__asm__ volatile("behind_two: nop" :: "d"(whole));
	return own[1].size + one.count + (*whole)->all;
}
void fill(void *to, long with) { *(volatile long *)to = with; }
""",
}
RAX, RDX, RCX, RBX, RSP = 0, 1, 2, 3, 7


@pytest.fixture(scope="module", params=["-gdwarf-4", "-gdwarf-5"])
def held(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("held")
    for name, text in VARIABLES.items():
        (folder / name).write_text(text)
    argv = ["gcc", "-O2", request.param, "-fno-pie", "-mno-red-zone", "-nostdlib", "-static"]
    run(
        *argv,
        "-fno-asynchronous-unwind-tables",
        "-Wl,-e,0",
        "-o",
        folder / "held",
        folder / "held.c",
    )
    return folder / "held"


def variables_at(image: Path, label: str) -> dict[str, Variable]:
    listed = subprocess.run(["nm", str(image)], check=True, capture_output=True, text=True).stdout
    (address,) = (
        int(line.split()[0], 16) for line in listed.splitlines() if line.endswith(f" {label}")
    )
    with DwarfImage(image) as dwarf:
        found = dwarf.variables(address)
    return {one.name: one for one in found}


def test_variables_in_registers_have_their_types_sizes_and_places(held: Path) -> None:
    found = variables_at(held, "in_registers")
    told = {
        name: (one.where, one.register, one.size, one.kind, one.type) for name, one in found.items()
    }
    assert told["t"] == ("register", RBX, 8, "struct", "thing")
    assert told["small"] == ("register", RAX, 1, "number", "unsigned char")
    assert told["some"] == ("register", RCX, 4, "enum", "kind")
    assert found["t"].pointers == 1
    assert found["small"].pointers == 0
    assert "inner" not in found


def test_those_of_an_inline_function_are_told_as_such(held: Path) -> None:
    found = variables_at(held, "in_header")
    inner, some = found["inner"], found["some"]
    assert (inner.register, inner.depth, inner.in_header) == (RCX, 1, True)
    assert (some.register, some.depth, some.in_header) == (RCX, 0, False)


def test_those_on_the_stack_are_told_by_the_stack_pointer(held: Path) -> None:
    found = variables_at(held, "in_memory")
    one, own = found["one"], found["own"]
    assert (one.where, one.register, one.size, one.kind) == ("memory", RSP, 16, "struct")
    assert (own.where, own.register, own.size, own.kind) == ("memory", RSP, 32, "other")
    # they do not overlap, and lie in the frame
    first, second = sorted(((one.offset, one.size), (own.offset, own.size)))
    assert 0 <= first[0] <= first[0] + first[1] <= second[0]


def test_a_struct_without_a_name_goes_by_its_typedef(held: Path) -> None:
    whole = variables_at(held, "behind_two")["whole"]
    assert (whole.register, whole.kind, whole.type, whole.pointers) == (RDX, "struct", "whole_t", 2)


def test_where_nothing_is_known_there_are_no_variables(held: Path, vmlinux: Path) -> None:
    with DwarfImage(held) as dwarf:
        assert dwarf.variables(0x10) == ()
    with DwarfImage(vmlinux) as dwarf:
        assert {one.name for one in dwarf.variables(text_addresses(vmlinux)[0])} <= {"value"}
