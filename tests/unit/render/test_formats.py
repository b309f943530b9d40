# SPDX-License-Identifier: BSD-2-Clause
"""How results are written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import BOOL, INT, LONG, PTR, VOID, function

from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.kernel.functions import FuncFlags, ResultKind, ResultType
from retsnoop_py.render.formats import format_result

U8 = ResultType(ResultKind.INT, 1, False, "u8")
U32 = ResultType(ResultKind.INT, 4, False, "unsigned int")
U64 = ResultType(ResultKind.INT, 8, False, "unsigned long")
ENUM = ResultType(ResultKind.ENUM, 4, False, "enum bpf_access_type")
STATES = (("TX_OK", 0), ("TX_BUSY", 16), ("__MIN", -(1 << 31)), ("NONE", -1))
STATE = ResultType(ResultKind.ENUM, 4, True, "enum netdev_tx", STATES)


@pytest.mark.parametrize(
    ("result", "register", "text"),
    [
        (VOID, 77, "[void]"),
        (INT, 0, "[0]"),
        (INT, 3, "[3]"),
        (INT, -22, "[-EINVAL]"),
        (INT, 0xFFFFFFEA, "[-EINVAL]"),
        (INT, -524, "[-ENOTSUPP]"),
        (INT, -4000, "[-4000]"),
        (INT, -4096, "[-4096]"),
        (INT, 0x5555_0000_0003, "[3]"),
        (INT, 1048575, "[1048575]"),
        (INT, 1048576, "[0x100000]"),
        (INT, -1073741824, "[-1073741824]"),
        (INT, -1073741825, "[0xbfffffff]"),
        (LONG, -1073741825, "[0xffffffffbfffffff]"),
        (LONG, -12, "[-ENOMEM]"),
        (LONG, 0xFFFFFFEA, "[0xffffffea]"),
        (PTR, 0, "[NULL]"),
        (PTR, -12, "[-ENOMEM]"),
        (PTR, -4000, "[-4000]"),
        (PTR, 0x10, "[0x10]"),
        (PTR, 0xFFFFFFFF81001000 - (1 << 64), "[0xffffffff81001000]"),
        (BOOL, 0x7F00, "[false]"),
        (BOOL, 0x7F01, "[true]"),
        (U8, 0x1FF, "[255]"),
        (STATE, 0x7_0000_0000, "[TX_OK]"),
        (STATE, 16, "[TX_BUSY]"),
        (STATE, 0x80000000, "[__MIN]"),
        (STATE, -1, "[NONE]"),
        (STATE, -22, "[-EINVAL]"),
        (STATE, 5, "[5]"),
        (U32, -1, "[0xffffffff]"),
        (U32, 0x1_0000_0007, "[7]"),
        (U64, 7, "[7]"),
        (U64, 1 << 40, "[0x10000000000]"),
        (ENUM, -22, "[-EINVAL]"),
        (ENUM, 2, "[2]"),
        (ResultType(ResultKind.UNKNOWN), 0xFFFFFFFE, "[-ENOENT]"),
        (ResultType(ResultKind.OTHER, 16, False), 5, "[5]"),
    ],
)
def test_results_look_as_retsnoop_users_know_them(
    result: ResultType, register: int, text: str
) -> None:
    assert format_result(function("f", result=result), register) == text


def test_an_unsigned_long_in_the_error_range_is_an_error() -> None:
    # get_unmapped_area() and others: IS_ERR_VALUE()
    assert format_result(function("f", result=U64), -12) == "[-ENOMEM]"


def test_flags_go_before_the_type() -> None:
    subject = function("bpf_map_lookup_elem", result=U64, flags=FuncFlags.PTR)

    assert format_result(subject, 0) == "[NULL]"
    assert format_result(subject, 4096) == "[0x1000]"


def test_every_named_error_is_shown_by_its_name() -> None:
    for number, name in ERRNO_NAMES.items():
        if number:
            assert format_result(function("f"), -number) == f"[-{name}]"


@given(
    st.integers(-(1 << 63), (1 << 63) - 1) | st.integers(-4095, 0),
    st.sampled_from(ResultKind),
    st.integers(0, 17),
    st.booleans(),
    st.sampled_from([None, *FuncFlags, FuncFlags(0)]),
)
def test_every_register_of_every_type_has_a_text(
    register: int, kind: ResultKind, size: int, signed: bool, flags: FuncFlags | None
) -> None:
    text = format_result(
        function("f", result=ResultType(kind, size, signed), flags=flags), register
    )

    assert text.startswith("[")
    assert text.endswith("]")
    assert text.isascii()
    assert len(text) <= len("[-]") + max(map(len, ERRNO_NAMES.values()))
