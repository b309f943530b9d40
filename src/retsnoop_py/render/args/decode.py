# SPDX-License-Identifier: BSD-2-Clause
"""Captured bytes read by their type. Members of structs that are zero are left out, no others."""

from __future__ import annotations

from collections.abc import Sequence

from retsnoop_py.kernel.arguments.model import DataKind, DataType, Field, IntFlags
from retsnoop_py.render.args import known
from retsnoop_py.render.args.node import CUT, Group, Leaf, Node
from retsnoop_py.render.args.text import number, plain_text, pointer, quoted

__all__ = ["Decoder"]

_CUT_LEAF = Leaf(CUT, CUT)
#: Types nested deeper than this come from a damaged recording.
_MAX_NESTING = 40
#: Members looked at for one value, and for each byte of it: ``union bpf_attr`` with all its
#: variants takes a few hundred. Types that hold two of the next would take powers of two.
_STEPS, _STEPS_PER_BYTE = 1 << 12, 1 << 6


class Decoder:
    """Reads bytes by the ``types`` of a stream, which are little endian."""

    def __init__(self, types: Sequence[DataType]) -> None:
        self._types = types
        self._left = 0

    def type(self, index: int) -> DataType | None:
        """The type of that number, None if there is none."""
        return self._types[index] if 0 <= index < len(self._types) else None

    def node(self, index: int, data: bytes, name: str = "") -> Node:
        """The value of type ``index`` at the start of ``data``, which may be too short for it.

        ``name`` is that of the member or parameter: of plain numbers it tells which are addresses.
        """
        self._left = _steps_for(data)
        return self._node(index, data, name, 0)

    def array(self, element: int, data: bytes, size: int, name: str = "") -> Node:
        """An array of ``size`` bytes with elements of type ``element``, ``data`` its beginning."""
        kind = DataType(DataKind.ARRAY, size, element=element)
        self._left = _steps_for(data)
        return self._array(kind, data, name, 0)

    def _node(self, index: int, data: bytes, name: str, depth: int) -> Node:
        kind = self.type(index)
        self._left -= 1
        if self._left < 0:
            return _CUT_LEAF
        if kind is None or depth > _MAX_NESTING:
            return Leaf(f"<{data.hex()}>", data.hex())
        if kind.kind == DataKind.ARRAY:
            return self._array(kind, data, name, depth)
        if kind.kind in (DataKind.STRUCT, DataKind.UNION):
            return self._struct(kind, data, depth)
        if len(data) < kind.size:
            return _CUT_LEAF
        return scalar(kind, int.from_bytes(data[: kind.size], "little"), kind.size * 8, name)

    def _struct(self, kind: DataType, data: bytes, depth: int) -> Node:
        special = known.struct(kind, data)
        if special is not None:
            return special
        members: list[tuple[str, Node]] = []
        data = data[: kind.size]
        is_cut = len(data) < kind.size
        for field in kind.fields:
            self._left -= 1
            if self._left < 0:
                is_cut = True
                break
            if self._begins_behind(field, len(data)):
                continue
            member = self._member(field, data, depth)
            # of one that is cut, the mark at the end tells
            if member is not None and not (member == _CUT_LEAF and is_cut):
                members.append((field.name, member))
        if kind.alias in known.WRAPPERS and len(kind.fields) == 1 and not is_cut:
            return (
                members[0][1] if members else self._node(kind.fields[0].type, data, "", depth + 1)
            )
        return Group(tuple(members), is_cut=is_cut)

    @staticmethod
    def _begins_behind(field: Field, size: int) -> bool:
        return field.bit_offset // 8 >= size

    def _member(self, field: Field, data: bytes, depth: int) -> Node | None:
        """A member's value, None if all of it is there and zero."""
        kind = self.type(field.type)
        if kind is None:
            return _CUT_LEAF
        start = field.bit_offset // 8
        if field.bits:
            end = (field.bit_offset + field.bits + 7) // 8
            if end > len(data):
                return _CUT_LEAF
            word = int.from_bytes(data[start:end], "little")
            value = word >> field.bit_offset % 8 & ((1 << field.bits) - 1)
            return scalar(kind, value, field.bits, field.name) if value else None
        captured = data[start : start + kind.size]
        if not captured.strip(b"\0") and (len(captured) == kind.size):
            return None
        return self._node(field.type, captured, field.name, depth + 1)

    def _array(self, kind: DataType, data: bytes, name: str, depth: int) -> Node:
        element = self.type(kind.element)
        data = data[: kind.size]
        is_cut = len(data) < kind.size
        if element is None or not element.size:
            return Group((), is_array=True)
        if element.flags & IntFlags.CHAR:
            if known.is_comm(data, name):
                data = data.partition(b"\0")[0]
            return _text(data, is_cut=is_cut)
        mac = known.mac(kind, element, data)
        if mac is not None:
            return mac
        # zeros at the end say nothing that the type does not
        shown = -(-len(data.rstrip(b"\0")) // element.size) if not is_cut else len(data)
        step = element.size
        members = [
            ("", self._node(kind.element, data[at : at + step], name, depth + 1))
            for at in range(0, min(shown * step, len(data)), step)
        ]
        if is_cut and members and members[-1][1] == _CUT_LEAF:
            members.pop()
        return Group(tuple(members), is_array=True, is_cut=is_cut)


def _steps_for(data: bytes) -> int:
    return _STEPS + _STEPS_PER_BYTE * len(data)


def scalar(kind: DataType, value: int, bits: int, name: str) -> Leaf:
    """A number of ``bits`` bits, unsigned as it was read, by its type."""
    if kind.kind == DataKind.PTR:
        return Leaf(pointer(value), f"{value:#x}" if value else None)
    if kind.kind in (DataKind.FLOAT, DataKind.OTHER):
        return Leaf(f"{value:#x}", f"{value:#x}")
    if kind.flags & IntFlags.BOOL and value <= 1:
        return Leaf("true" if value else "false", bool(value))
    special = known.scalar(kind, value, name)
    if special is not None:
        return special
    if kind.flags & IntFlags.SIGNED and bits and value >> (bits - 1):
        value -= 1 << bits
    if kind.kind == DataKind.ENUM:
        return known.enum(kind, value)
    if kind.flags & IntFlags.CHAR and 0 <= value < 128 and chr(value).isprintable():
        return Leaf(quoted(bytes([value])), value)
    return Leaf(number(value, bits), value)


def _text(data: bytes, *, is_cut: bool) -> Leaf:
    """An array of characters: up to the zeros it ends in, but nothing else is left out."""
    text = data.rstrip(b"\0")
    return Leaf(quoted(text, is_cut=is_cut), plain_text(text, is_cut=is_cut))
