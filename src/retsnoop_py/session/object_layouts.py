# SPDX-License-Identifier: BSD-2-Clause
"""Record layouts out of a compiled BPF object."""

from __future__ import annotations

import struct
from pathlib import Path

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.btf import Member as BtfMember
from retsnoop_py.session.layouts import RECORD_STRUCTS, Layout, Member

# ELF64, little endian: e_shoff; e_shentsize, e_shnum, e_shstrndx; then a section header.
_SECTIONS_AT = struct.Struct("<40xQ")
_SECTION_COUNTS = struct.Struct("<58xHHH")
_SECTION = struct.Struct("<II8x8xQQ24x")
_ELF64_LITTLE = b"\x7fELF\x02\x01"

_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def object_layouts(path: Path) -> tuple[Layout, ...]:
    """The layouts of :data:`RECORD_STRUCTS` in the BPF object at ``path``.

    Raises DataError if it is not an object with BTF, or its BTF lacks one of them.
    """
    return btf_layouts(Btf(btf_section(path.read_bytes())))


def btf_layouts(btf: Btf, names: tuple[str, ...] = RECORD_STRUCTS) -> tuple[Layout, ...]:
    """The layouts of the structs ``names``; DataError if one is missing or not flat."""
    found = btf.find_all(names, Kind.STRUCT)
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"the BPF object's BTF lacks struct {', '.join(missing)}")
    return tuple(
        Layout(
            name,
            btf.size_of(type_id),
            tuple(_member(btf, name, member) for member in btf.members(type_id)),
        )
        for name, type_id in found.items()
    )


def btf_section(elf: bytes) -> bytes:
    """The contents of the ``.BTF`` section of a 64-bit little-endian ELF file."""
    try:
        return _section(elf, b".BTF")
    except (struct.error, IndexError):
        raise DataError("the BPF object is damaged") from None


def _section(elf: bytes, wanted: bytes) -> bytes:
    if not elf.startswith(_ELF64_LITTLE):
        raise DataError("the BPF object is not a 64-bit little-endian ELF file")
    (start,) = _SECTIONS_AT.unpack_from(elf)
    step, count, names_index = _SECTION_COUNTS.unpack_from(elf)
    sections = [_SECTION.unpack_from(elf, start + index * step) for index in range(count)]
    names = sections[names_index][2]
    for name, _, offset, size in sections:
        if elf.startswith(wanted + b"\0", names + name):
            return elf[offset : offset + size]
    raise DataError("the BPF object has no BTF")


def _member(btf: Btf, struct_name: str, member: BtfMember) -> Member:
    type_ = btf.resolve(member.type_id)
    code = None
    if type_.kind is Kind.INT and not member.bit_size:
        code = _INTEGERS.get(type_.arg)
        if code and btf.int_encoding(type_.id)[0]:
            code = code.lower()
    elif type_.kind is Kind.ARRAY and btf.size_of(btf.element(type_.id)[0]) == 1:
        code = f"{btf.size_of(type_.id)}s"
    if code is None:
        raise DataError(f"struct {struct_name}: member {member.name} is not a number or text")
    return Member(member.name, member.bit_offset // 8, code)
