# SPDX-License-Identifier: BSD-2-Clause
"""Captured arguments out of the items of a log."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.session.records import FUNCTIONS, LAYOUTS, captured_item, failing_session, raw_part

from retsnoop_py.errors import DataError
from retsnoop_py.session.arguments import Captured, CapturedValue, Items
from retsnoop_py.session.collector import Collector

VALUES = (
    CapturedValue(b"\5" + bytes(7)),
    CapturedValue(b"\1" * 8, b"text\0"),
    CapturedValue(bytes(8)),
    CapturedValue(b"\2" * 8, b"", 14),
    CapturedValue(b"", b"", 28),
    CapturedValue(b"\3" * 16),
)


def test_values_come_back_as_they_were_captured() -> None:
    item = captured_item(VALUES, id=2, seq=7)
    assert Items(LAYOUTS).read(item) == (7, Captured(4, 2, VALUES))


def test_no_values() -> None:
    assert Items(LAYOUTS).read(captured_item((), id=1, seq=3)) == (3, Captured(4, 1, ()))


@given(st.data())
def test_a_damaged_item_is_an_error_or_read(data: st.DataObject) -> None:
    item = bytearray(captured_item(VALUES, id=2, seq=7))
    for _ in range(data.draw(st.integers(1, 4))):
        item[data.draw(st.integers(0, len(item) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(item)))
    try:
        Items(LAYOUTS).read(bytes(item[:cut]))
    except DataError:
        pass


def test_a_session_has_what_was_captured_at_its_events() -> None:
    head = {"start_ts": 10_000_000_000, "tid": 7}
    part = raw_part(captured_item(VALUES, id=0, seq=1) + captured_item((), id=1, seq=2), **head)
    (session,) = Collector(FUNCTIONS, LAYOUTS).feed(part + failing_session(parts=1))
    assert session.args == {1: Captured(4, 0, VALUES), 2: Captured(4, 1, ())}


def test_a_cut_item_in_a_part_is_damage() -> None:
    item = captured_item(VALUES, id=0, seq=1)
    short = struct.pack("<H", 24) + item[2:24]
    part = raw_part(short, start_ts=10_000_000_000, tid=7)
    with pytest.raises(DataError, match="do not fit"):
        Collector(FUNCTIONS, LAYOUTS).feed(part + failing_session(parts=1))
