# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import struct

import pytest
from elftools.elf.elffile import ELFFile

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile


def note(owner: bytes, kind: int, data: bytes) -> bytes:
    padded = owner + bytes(-len(owner) % 4)
    return struct.pack("=III", len(owner), len(data), kind) + padded + data + bytes(-len(data) % 4)


def test_sections_and_build_id_are_those_pyelftools_reads(vmlinux):
    with vmlinux.open("rb") as file:
        reference = ELFFile(file)
        sections = {s.name: (s["sh_addr"], s["sh_size"]) for s in reference.iter_sections()}
        notes = reference.get_section_by_name(".note.gnu.build-id").iter_notes()
        build_id = next(iter(notes))["n_desc"]
    with ElfFile(vmlinux) as elf:
        assert {name: (s.address, s.size) for name, s in elf.sections.items()} == sections
        assert elf.build_id == build_id
        assert elf.has_dwarf
        assert elf.compression is None
        assert elf.debug_link is None
        assert elf.alternate_link is None


def test_the_build_id_is_found_behind_other_notes_of_a_merged_section(vmlinux, tmp_path):
    build_id = bytes(range(20))
    merged = (
        note(b"Xen\0", 4, b"\1\2\3") + note(b"GNU\0", 5, bytes(16)) + note(b"GNU\0", 3, build_id)
    )
    image = bytearray(vmlinux.read_bytes())
    with vmlinux.open("rb") as file:
        elf = ELFFile(file)
        header = elf["e_shoff"] + elf.get_section_index(".note.gnu.build-id") * elf["e_shentsize"]
    struct.pack_into("=QQ", image, header + 24, len(image), len(merged))  # offset, size
    path = tmp_path / "vmlinux"
    path.write_bytes(bytes(image) + merged)
    with ElfFile(path) as elf:
        assert elf.build_id == build_id.hex()


def test_strings_of_the_dwarf_can_be_searched(module):
    with ElfFile(module) as elf:
        assert elf.contains(b"kernel/bpf/")
        assert not elf.contains(b"drivers/net/")


@pytest.mark.parametrize("length", [0, 10, 63])
def test_a_header_cut_short_is_told(vmlinux, tmp_path, length):
    path = tmp_path / "cut"
    path.write_bytes(vmlinux.read_bytes()[:length])
    with pytest.raises(DataError, match="is not an ELF file"):
        ElfFile(path)


def test_a_missing_section_table_is_told(vmlinux, tmp_path):
    path = tmp_path / "cut"
    path.write_bytes(vmlinux.read_bytes()[:4096])
    with pytest.raises(DataError, match="cut short"):
        ElfFile(path)


def test_a_32_bit_file_is_told(vmlinux, tmp_path):
    image = bytearray(vmlinux.read_bytes())
    image[4] = 1
    path = tmp_path / "image"
    path.write_bytes(image)
    with pytest.raises(DataError, match="64-bit"):
        ElfFile(path)
