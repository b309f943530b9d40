# SPDX-License-Identifier: BSD-2-Clause
"""Functions by columns are the same values as one by one."""

from __future__ import annotations

import pytest

from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType

INT = ResultType(ResultKind.INT)
FUNCTIONS = (
    Function("one", 0x1000, 16, FuncFlags.ENTRY | FuncFlags.SIGN32, INT, None, 7, "int one(void)"),
    Function("two", 0x2000, 32, FuncFlags.CANT_FAIL, INT, "veth"),
    Function("three", 0x3000, 48, FuncFlags.ENTRY | FuncFlags.CANT_FAIL, INT),
)


def test_a_table_equals_its_functions() -> None:
    table = FunctionTable.of(FUNCTIONS)
    assert table == FUNCTIONS
    assert tuple(table) == FUNCTIONS
    assert hash(table) == hash(FUNCTIONS)
    assert table != FUNCTIONS[:2]
    assert table != (*FUNCTIONS[:2], FUNCTIONS[0])
    assert FunctionTable.of(table) is table


def test_functions_are_read_by_id_and_made_once() -> None:
    table = FunctionTable.of(FUNCTIONS)
    assert table[-1] == FUNCTIONS[2]
    assert table[1:] == FUNCTIONS[1:]
    assert table[1] is table.by_id[1]
    with pytest.raises(IndexError):
        _ = table[3]
    with pytest.raises(IndexError):
        _ = table.by_id[3]


def test_flags_are_searched_and_changed_in_a_copy() -> None:
    table = FunctionTable.of(FUNCTIONS)
    assert table.having(FuncFlags.ENTRY) == [0, 2]
    assert table.having(FuncFlags.ENTRY | FuncFlags.CANT_FAIL) == [2]
    changed = table.with_flags({1: int(FuncFlags.PTR)})
    assert changed[1].flags is FuncFlags.PTR
    assert table[1].flags is FuncFlags.CANT_FAIL
    assert changed[0] == FUNCTIONS[0]
    assert table.with_flags({}) is table


def test_a_size_is_calculated_from_the_distance_to_the_next_symbol() -> None:
    table = FunctionTable(
        ["f"], ["veth"], [0x1000], [0], [INT], [None], [64], lambda *given: given[1] // 2
    )
    assert table[0].size == 32
