# SPDX-License-Identifier: BSD-2-Clause
"""Captured arguments out of the items of a session's log: what they are is for others to say."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.session.layouts import Layout, layout_named

__all__ = ["NO_ROOM", "Captured", "CapturedValue", "Items"]

#: The errno that stands for a capture that reached the limit of its call.
NO_ROOM = 28
_ARGS = ("kind", "cnt", "id", "seq")
_ARG = ("value", "data")
_ALIGNMENT = 8


class CapturedValue(NamedTuple):
    """One argument: the bytes of its value, those it points to, and what went wrong with them.

    ``error`` is a positive errno, 0 for none. Without an error and data it is NULL, or not a
    pointer, or one that is not followed.
    """

    value: bytes = b""
    data: bytes = b""
    error: int = 0


class Captured(NamedTuple):
    """What was captured at one event: ``id`` is that of the function or of the probe."""

    kind: int
    id: int
    values: tuple[CapturedValue, ...]


class Items:
    """Reads ``struct rsn_args`` as ``layouts`` describe it.

    Raises DataError if they do not.
    """

    def __init__(self, layouts: Sequence[Layout]) -> None:
        head, one = layout_named(layouts, "rsn_args"), layout_named(layouts, "rsn_arg")
        self._head = head.format()
        self._pick = head.picker(_ARGS)
        self._one = one.format()
        self._pick_one = one.picker(_ARG)

    def read(self, item: bytes) -> tuple[int, Captured]:
        """The number of the event, and what was captured at it; DataError if it is damaged."""
        try:
            kind, count, number, seq = self._pick((*self._head.unpack_from(item), 0))
            start = self._head.size
            table = self._one.iter_unpack(item[start : start + count * self._one.size])
            at = _aligned(start + count * self._one.size)
            values = []
            for row in table:
                value_len, data_len = self._pick_one((*row, 0))
                value = item[at : at + value_len]
                at = _aligned(at + value_len)
                error = -min(data_len, 0)
                data = item[at : at + max(data_len, 0)]
                at = _aligned(at + len(data))
                values.append(CapturedValue(value, data, error))
        except struct.error as err:
            raise DataError(f"captured arguments are cut: {err}") from None
        if number < 0 or at > len(item) or len(values) != count:
            raise DataError(f"{count} captured arguments do not fit {len(item)} bytes")
        return seq, Captured(kind, number, tuple(values))


def _aligned(offset: int) -> int:
    return -(-offset // _ALIGNMENT) * _ALIGNMENT
