# SPDX-License-Identifier: BSD-2-Clause
"""Structs that cross between us and the programs are laid out as the object's BTF says."""

from __future__ import annotations

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.btf_struct import BtfStruct, constants


@pytest.fixture
def btf() -> Btf:
    writer = BtfWriter()
    word, signed = writer.int("u32", 4), writer.int("long", 8, SIGNED)
    inner = writer.struct("inner", 8, [("a", word, 0), ("b", word, 32)])
    writer.struct("outer", 32, [("n", word, 0), ("s", signed, 64), ("i", inner, 192)])
    return Btf(writer.bytes())


def test_values_are_packed_with_the_padding_between_them(btf: Btf) -> None:
    outer = BtfStruct(btf, "outer")
    packed = outer.packer("n", "s", "i")(7, -1, b"\1")
    assert packed == b"\7" + bytes(7) + b"\xff" * 8 + bytes(8) + b"\1" + bytes(7)
    assert list(outer.rows(packed + b"rest")) == [{"n": 7, "s": -1, "i": b"\1" + bytes(7)}]


def test_who_packs_other_members_than_there_are_is_told(btf: Btf) -> None:
    with pytest.raises(DataError, match=r"struct outer has n, s, i and not n, s"):
        BtfStruct(btf, "outer").packer("n", "s")
    with pytest.raises(DataError, match="lacks struct missing"):
        BtfStruct(btf, "missing")
    with pytest.raises(DataError, match="lacks enum missing"):
        constants(btf, "missing")


def test_names_of_the_log_are_as_long_as_the_programs_have_them(object_btf: Btf) -> None:
    row = BtfStruct(object_btf, "debug_func")
    packed = row.packer("name", "result")(b"x", constants(object_btf, "debug_result")["DEBUG_INT"])
    assert len(packed) == row.size == row.lengths["name"] + 4
