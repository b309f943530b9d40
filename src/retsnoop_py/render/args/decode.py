# SPDX-License-Identifier: BSD-2-Clause
"""Decode captured bytes by their type. Struct members with the value zero are omitted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from retsnoop_py.kernel.arguments.model import Choice, DataKind, DataType, Field, IntFlags, Tag
from retsnoop_py.render.args import kernel_types
from retsnoop_py.render.args.node import CUT, Group, Leaf, Node, number, plain_text, pointer, quoted

__all__ = ["Decoder"]

_CUT_LEAF = Leaf(CUT, CUT)
#: Types nested deeper than this come from a damaged recording.
_MAX_NESTING = 40
#: Maximum members to decode per value, and per byte of it: ``union bpf_attr`` with all its
#: variants needs a few hundred. Types that contain two of the next type need powers of two.
_STEPS, _STEPS_PER_BYTE = 1 << 12, 1 << 6
#: The selected members of unions: positions by type number.
Meant = Mapping[int, Sequence[int]]
_ALL: Meant = {}


class _Tagged(NamedTuple):
    """A tag, and its choices by value."""

    tag: Tag
    choices: dict[int, Choice]


class Decoder:
    """Decode little-endian bytes by the ``types`` and ``tags`` of a stream."""

    def __init__(self, types: Sequence[DataType], tags: Sequence[Tag] = ()) -> None:
        self._types = types
        self._left = 0
        self._tags: dict[int, list[_Tagged]] = {}
        for tag in tags:
            choices = {choice.value: choice for choice in tag.choices}
            self._tags.setdefault(tag.type, []).append(_Tagged(tag, choices))

    def type(self, index: int) -> DataType | None:
        """Return the type with this number, None if it does not exist."""
        return self._types[index] if 0 <= index < len(self._types) else None

    def node(self, index: int, data: bytes, name: str = "", variant: int | None = None) -> Node:
        """Return the value of type ``index`` at the start of ``data``, which may be too short.

        ``name`` is the name of the member or parameter; it shows which plain numbers are
        addresses. ``variant`` is the value of the tag, if the tag is an argument of the call.
        """
        self._left = _steps_for(data)
        for tag, choices in self._tags.get(index, ()):
            choice = choices.get(variant & tag.mask) if variant is not None else None
            if tag.bit_offset < 0 and choice is not None:
                return self._node(index, data, name, 0, dict(choice.members))
        return self._node(index, data, name, 0)

    def array(self, element: int, data: bytes, size: int, name: str = "") -> Node:
        """Return an array of ``size`` bytes of ``element`` type; ``data``: its captured start."""
        kind = DataType(DataKind.ARRAY, size, element=element)
        self._left = _steps_for(data)
        return self._array(kind, data, name, 0)

    def _node(self, index: int, data: bytes, name: str, depth: int, meant: Meant = _ALL) -> Node:
        kind = self.type(index)
        self._left -= 1
        if self._left < 0:
            return _CUT_LEAF
        if kind is None or depth > _MAX_NESTING:
            return Leaf(f"<{data.hex()}>", data.hex())
        if kind.kind == DataKind.ARRAY:
            return self._array(kind, data, name, depth)
        if kind.kind in (DataKind.STRUCT, DataKind.UNION):
            return self._tagged(index, kind, data, depth, meant)
        if len(data) < kind.size:
            return _CUT_LEAF
        return scalar(kind, int.from_bytes(data[: kind.size], "little"), kind.size * 8, name)

    def _tagged(self, index: int, kind: DataType, data: bytes, depth: int, meant: Meant) -> Node:
        """Return a struct or union; tags select the members of its unions."""
        special = kernel_types.struct(kind, data)
        if special is not None:
            return special
        for tag, choices in self._tags.get(index, ()):
            value = _value_of(tag, data, kind.size)
            choice = None if value is None else choices.get(value)
            if choice is None:
                continue
            self._left -= 1 + len(choice.members)
            if choice.cast >= 0:
                return self._node(choice.cast, data, "", depth + 1)
            meant = {**dict(choice.members), **meant}
        return self._struct(kind, data, depth, meant, meant.get(index))

    def _struct(
        self, kind: DataType, data: bytes, depth: int, meant: Meant, chosen: Sequence[int] | None
    ) -> Node:
        """Return a struct; ``chosen``: positions of its selected members, None for all."""
        members: list[tuple[str, Node]] = []
        data = data[: kind.size]
        is_cut = len(data) < kind.size
        end = 0
        for position, field in enumerate(kind.fields):
            self._left -= 1
            if self._left < 0:
                is_cut = True
                break
            if self._begins_behind(field, len(data)):
                continue
            if chosen is not None and position not in chosen:
                continue
            end = max(end, self._end(field))
            member = self._member(field, data, depth, meant)
            # for a truncated member, the mark at the end is enough
            if member is None or (member == _CUT_LEAF and is_cut):
                continue
            if (
                not field.name
                and isinstance(member, Group)
                and self._is_chosen(field, meant, chosen)
            ):
                members.extend(member.members)
            else:
                members.append((field.name, member))
        if chosen is not None and data[end:].strip(b"\0"):
            members.append(_behind(data, end))
        if kind.alias in kernel_types.WRAPPERS and len(kind.fields) == 1 and not is_cut:
            return (
                members[0][1] if members else self._node(kind.fields[0].type, data, "", depth + 1)
            )
        return Group(tuple(members), is_cut=is_cut)

    def _end(self, field: Field) -> int:
        """Return the offset of the first byte after a member."""
        kind = self.type(field.type)
        size = 0 if kind is None else kind.size
        return (field.bit_offset + (field.bits or size * 8) + 7) // 8

    @staticmethod
    def _is_chosen(field: Field, meant: Meant, chosen: Sequence[int] | None) -> bool:
        """Return True if only one alternative is left, so braces are not needed."""
        return chosen is not None or field.type in meant

    @staticmethod
    def _begins_behind(field: Field, size: int) -> bool:
        return field.bit_offset // 8 >= size

    def _member(self, field: Field, data: bytes, depth: int, meant: Meant) -> Node | None:
        """Return the value of a member, None if it is complete and zero."""
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
        found = self._node(field.type, captured, field.name, depth + 1, meant)
        return None if len(captured) == kind.size and _is_zero(found) else found

    def _array(self, kind: DataType, data: bytes, name: str, depth: int) -> Node:
        element = self.type(kind.element)
        data = data[: kind.size]
        is_cut = len(data) < kind.size
        if element is None or not element.size:
            return Group((), is_array=True)
        if element.flags & IntFlags.CHAR:
            if kernel_types.is_comm(data, name):
                data = data.partition(b"\0")[0]
            return _text(data, is_cut=is_cut)
        mac = kernel_types.mac(kind, element, data)
        if mac is not None:
            return mac
        # zeros at the end add nothing to the type
        shown = -(-len(data.rstrip(b"\0")) // element.size) if not is_cut else len(data)
        step = element.size
        members = [
            ("", self._node(kind.element, data[at : at + step], name, depth + 1))
            for at in range(0, min(shown * step, len(data)), step)
        ]
        if is_cut and members and members[-1][1] == _CUT_LEAF:
            members.pop()
        while not is_cut and members and _is_zero(members[-1][1]):
            members.pop()
        return Group(tuple(members), is_array=True, is_cut=is_cut)


def _is_zero(node: Node) -> bool:
    """Return True if all members of a struct are zero; padding is ignored."""
    return isinstance(node, Group) and not (node.members or node.is_cut or node.label)


def _steps_for(data: bytes) -> int:
    return _STEPS + _STEPS_PER_BYTE * len(data)


def _value_of(tag: Tag, data: bytes, size: int) -> int | None:
    """Return the value of a tag in ``data``; None if it is missing or truncated."""
    start, end = tag.bit_offset // 8, -(-(tag.bit_offset + tag.bits) // 8)
    if not 0 <= start < end <= min(len(data), size) or tag.bits <= 0:
        return None
    value = int.from_bytes(data[start:end], "little") >> tag.bit_offset % 8
    value &= (1 << tag.bits) - 1
    if tag.is_signed and value >> (tag.bits - 1):
        value -= 1 << tag.bits
    return value & tag.mask


def _behind(data: bytes, end: int) -> tuple[str, Leaf]:
    """Return a union's bytes after the selected member; the name is not valid in C."""
    rest = data[end:].rstrip(b"\0").hex()
    return f"@{end}", Leaf(f"<{rest}>", rest)


def scalar(kind: DataType, value: int, bits: int, name: str) -> Leaf:
    """Return a number of ``bits`` bits, given as unsigned, by its type."""
    if kind.kind == DataKind.PTR:
        return kernel_types.sentinel(kind, value) or Leaf(
            pointer(value), f"{value:#x}" if value else None
        )
    if kind.kind in (DataKind.FLOAT, DataKind.OTHER):
        return Leaf(f"{value:#x}", f"{value:#x}")
    if kind.flags & IntFlags.BOOL and value <= 1:
        return Leaf("true" if value else "false", bool(value))
    special = kernel_types.scalar(kind, value, name)
    if special is not None:
        return special
    if kind.flags & IntFlags.SIGNED and bits and value >> (bits - 1):
        value -= 1 << bits
    if kind.kind == DataKind.ENUM:
        return kernel_types.enum(kind, value)
    if kind.flags & IntFlags.CHAR and 0 <= value < 128 and chr(value).isprintable():
        return Leaf(quoted(bytes([value])), value)
    return Leaf(number(value, bits), value)


def _text(data: bytes, *, is_cut: bool) -> Leaf:
    """Return an array of characters without the zeros at its end."""
    text = data.rstrip(b"\0")
    return Leaf(quoted(text, is_cut=is_cut), plain_text(text, is_cut=is_cut))
