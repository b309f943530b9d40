# SPDX-License-Identifier: BSD-2-Clause
"""Layouts of the compiled object."""

from __future__ import annotations

import pytest
from tests.unit.session.records import LAYOUTS

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.session.layouts import btf_layouts


def object_btf() -> Btf:
    obj = BpfObject(OBJECTS / "trace.bpf.o")
    try:
        return Btf(obj.btf())
    finally:
        obj.close()


def test_the_object_lays_records_out_as_the_header_says() -> None:
    assert btf_layouts(object_btf()) == LAYOUTS


def test_a_struct_that_is_not_there_is_named() -> None:
    with pytest.raises(DataError, match="lacks struct rsn_nothing"):
        btf_layouts(object_btf(), ("rsn_slot", "rsn_nothing"))


def test_a_struct_that_is_not_flat_is_refused() -> None:
    with pytest.raises(DataError, match="is not a number or text"):
        btf_layouts(object_btf(), ("task_struct",))
