# SPDX-License-Identifier: BSD-2-Clause
"""Record layouts out of a compiled BPF object's BTF."""

from __future__ import annotations

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.btf import Member as BtfMember
from retsnoop_py.session.layouts import RECORD_STRUCTS, Layout, Member

_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


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
