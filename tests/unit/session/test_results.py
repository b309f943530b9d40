# SPDX-License-Identifier: BSD-2-Clause
"""Result registers read by type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import BOOL, INT, LONG, PTR, VOID, function

from retsnoop_py.kernel.functions import ERROR_SHIFT, FuncFlags, ResultKind, ResultType
from retsnoop_py.session.results import error_of, value_of

U8 = ResultType(ResultKind.INT, 1, False, "u8")
S16 = ResultType(ResultKind.INT, 2, True, "short")
U32 = ResultType(ResultKind.INT, 4, False, "unsigned int")
U64 = ResultType(ResultKind.INT, 8, False, "u64")
CANT_FAIL = FuncFlags.CANT_FAIL
UNKNOWN = ResultType(ResultKind.UNKNOWN)
GUESSED = FuncFlags.SIGN32 | FuncFlags.GUESSED


@pytest.mark.parametrize(
    ("result", "flags", "register", "value"),
    [
        (INT, None, 0xFFFFFFEA, -22),
        (INT, None, 0x7FFF_FFFF_0000_0005, 5),
        (LONG, None, -22, -22),
        (LONG, None, 0xFFFFFFEA, 0xFFFFFFEA),
        (PTR, None, -12, (1 << 64) - 12),
        (U8, None, 0x1FF, 0xFF),
        (S16, CANT_FAIL, 0x1FFFE, -2),
        (U32, None, -1, 0xFFFFFFFF),
        (U64, None, -1, (1 << 64) - 1),
        (BOOL, None, 0xFFFFFF00, 0),
        (BOOL, None, 0xFFFFFF01, 1),
        (VOID, None, 77, 0),
        (U64, FuncFlags(0), -2, -2),
        (U64, FuncFlags.PTR, -2, (1 << 64) - 2),
        (ResultType(ResultKind.UNKNOWN), FuncFlags.SIGN32, 0x1_FFFF_FFFF, -1),
        (UNKNOWN, GUESSED, 0xFFFF_D5C6_40B9_E000 - (1 << 64), 0xFFFF_D5C6_40B9_E000),
        (UNKNOWN, GUESSED, 0xFFFF_FFEA, -22),
        (UNKNOWN, GUESSED, -22, -22),
        (UNKNOWN, GUESSED, 7, 7),
        (UNKNOWN, GUESSED, 0x1_FFFF_FFEA, 0x1_FFFF_FFEA),
        (ResultType(ResultKind.OTHER, 12, False), FuncFlags(0), -3, (1 << 64) - 3),
    ],
)
def test_only_the_bits_of_the_type_count(
    result: ResultType, flags: FuncFlags | None, register: int, value: int
) -> None:
    assert value_of(function("f", result=result, flags=flags), register) == value


@pytest.mark.parametrize(
    ("result", "flags", "register", "error"),
    [
        (INT, None, 0xFFFFFFEA, 22),
        (INT, None, 22, None),
        (INT, None, 0, None),
        (INT, None, -4095, 4095),
        (INT, None, -4096, None),
        (PTR, None, 0, 0),
        (PTR, None, -12, 12),
        (PTR, None, 0xFFFFFFF4, None),
        (LONG, None, 0xFFFFFFEA, None),
        (U32, None, -22, None),
        (BOOL, None, 0, None),
        (VOID, None, -22, None),
        (U64, FuncFlags(0), -2, 2),
        (U64, FuncFlags.PTR, 0, 0),
        (U64, FuncFlags.PTR | CANT_FAIL, 0, None),
        (UNKNOWN, GUESSED, 0xFFFF_FFEA, 22),
        (UNKNOWN, GUESSED, -22, 22),
        (UNKNOWN, GUESSED, 0xFFFF_8881_FFFF_FFEA - (1 << 64), None),
        (PTR, FuncFlags.PTR | FuncFlags.NULL_OK, 0, None),
        (PTR, FuncFlags.PTR | FuncFlags.NULL_OK, -2, 2),
        (PTR, FuncFlags.PTR | FuncFlags(2 << ERROR_SHIFT), -2, None),
        (PTR, FuncFlags.PTR | FuncFlags(2 << ERROR_SHIFT), 0, 0),
        (INT, FuncFlags.SIGN32 | FuncFlags(2 << ERROR_SHIFT), 0xFFFFFFFE, None),
        (INT, FuncFlags.SIGN32 | FuncFlags(2 << ERROR_SHIFT), -3, 3),
    ],
)
def test_errors_are_those_of_functions_that_can_fail(
    result: ResultType, flags: FuncFlags | None, register: int, error: int | None
) -> None:
    assert error_of(function("f", result=result, flags=flags), register) == error


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.sampled_from([1, 2, 4, 8]), st.booleans())
def test_a_value_is_always_one_of_its_type(register: int, size: int, signed: bool) -> None:
    subject = function("f", result=ResultType(ResultKind.INT, size, signed), flags=CANT_FAIL)
    value = value_of(subject, register)

    low = -(1 << (size * 8 - 1)) if signed else 0
    assert low <= value < low + (1 << (size * 8))
    assert (value - register) % (1 << (size * 8)) == 0
