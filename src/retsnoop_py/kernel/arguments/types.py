# SPDX-License-Identifier: BSD-2-Clause
"""BTF boiled down to the types that captured bytes are read by."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence

from retsnoop_py.kernel.arguments.model import DataKind, DataType, Field, IntFlags
from retsnoop_py.kernel.btf import POINTER_SIZE, Btf, Kind, Type

__all__ = ["KNOWN_ALIASES", "TypeTable", "natural_alignment"]

#: Structs nested deeper than this are damage.
_MAX_NESTING = 32
_GFP_FIRST = "___GFP_DMA_BIT"
_GFP_PREFIX, _GFP_SUFFIX = "___GFP_", "_BIT"
#: Typedefs whose values people write in a way of their own (render/known.py).
KNOWN_ALIASES = frozenset(
    {"__be16", "__be32", "__be64", "gfp_t", "ktime_t", "umode_t", "uid_t", "gid_t", "dev_t"}
)


class TypeTable:
    """Collects the types that are needed; each gets a number, equal ones the same."""

    def __init__(self) -> None:
        self.types: list[DataType] = []
        self._numbers: dict[DataType, int] = {}
        self._known: dict[tuple[int, int, int], int] = {}

    def add(self, btf: Btf, type_id: int, limit: int, depth: int = 0) -> int:
        """The number of type ``type_id``, of which no more than ``limit`` bytes are captured."""
        owner = btf
        while owner.base is not None and type_id < owner.base.end:
            owner = owner.base
        key = id(owner), type_id, limit
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self.put(self._convert(btf, type_id, limit, depth))
        return known

    def put(self, data_type: DataType) -> int:
        """The number of a type that was put together elsewhere."""
        number = self._numbers.setdefault(data_type, len(self.types))
        if number == len(self.types):
            self.types.append(data_type)
        return number

    def _convert(self, btf: Btf, type_id: int, limit: int, depth: int) -> DataType:
        alias, type_ = _behind_typedefs(btf, type_id)
        size = btf.size_of(type_.id)
        match type_.kind:
            case Kind.INT:
                return _integer(btf, type_, alias)
            case Kind.PTR:
                return DataType(DataKind.PTR, POINTER_SIZE)
            case Kind.ENUM | Kind.ENUM64:
                values = btf.enumerators(type_.id)
                signed = type_.kflag or any(value < 0 for value in values.values())
                flags = IntFlags.SIGNED if signed else 0
                named = tuple(values.items())
                return DataType(DataKind.ENUM, size, type_.name, alias, flags, values=named)
            case Kind.ARRAY if depth < _MAX_NESTING:
                element, count = btf.element(type_.id)
                number = self.add(btf, element, limit, depth + 1)
                return DataType(DataKind.ARRAY, size, "", alias, 0, number, count)
            case Kind.STRUCT | Kind.UNION if depth < _MAX_NESTING:
                kind = DataKind.STRUCT if type_.kind is Kind.STRUCT else DataKind.UNION
                fields = self._fields(btf, type_, limit, depth)
                return DataType(kind, size, type_.name, alias, fields=fields)
            case Kind.FLOAT:
                return DataType(DataKind.FLOAT, size, type_.name, alias)
            case _:
                return DataType(DataKind.OTHER, size, type_.name, alias)

    def _fields(self, btf: Btf, type_: Type, limit: int, depth: int) -> tuple[Field, ...]:
        fields = []
        for name, bit_offset, member, bits in btf.members(type_.id):
            left = limit - bit_offset // 8
            if left > 0:
                room = min(left, max(btf.size_of(member), 1))
                fields.append(Field(name, bit_offset, self.add(btf, member, room, depth + 1), bits))
        return tuple(fields)


def _behind_typedefs(btf: Btf, type_id: int) -> tuple[str, Type]:
    """The typedef that tells most of a type, and the type itself."""
    names = []
    type_ = btf.type(type_id)
    resolved = btf.resolve(type_id)
    while type_.id != resolved.id:
        if type_.kind is Kind.TYPEDEF:
            names.append(type_.name)
        type_ = btf.type(type_.arg)
    return next((name for name in names if name in KNOWN_ALIASES), next(iter(names), "")), resolved


def _integer(btf: Btf, type_: Type, alias: str) -> DataType:
    signed, boolean = btf.int_encoding(type_.id)
    flags = IntFlags.SIGNED if signed else 0
    if boolean:
        flags |= IntFlags.BOOL
    if type_.name == "char":
        flags |= IntFlags.CHAR
    values = _gfp_flags(btf) if alias == "gfp_t" else ()
    return DataType(DataKind.INT, type_.arg, type_.name, alias, flags, values=values)


def _gfp_flags(btf: Btf) -> tuple[tuple[str, int], ...]:
    """The flags of gfp_t by value; none before Linux 6.10, where they are not in BTF."""
    while btf.base is not None:
        btf = btf.base
    (blob,) = btf.blobs
    text = blob.strings.find(b"\0" + _GFP_FIRST.encode() + b"\0") + 1
    if not text:
        return ()
    # the first constant of its enum: its name is the first word behind the enum's header
    at = bytes(blob.types).find(struct.pack("=II", text, 0))
    index = bisect_right(blob.offsets, at // 4) - 1
    if at < 0 or index < 0 or btf.type(blob.start + index).kind is not Kind.ENUM:
        return ()
    return tuple(
        (f"__GFP_{name.removeprefix(_GFP_PREFIX).removesuffix(_GFP_SUFFIX)}", 1 << bit)
        for name, bit in btf.enumerators(blob.start + index).items()
        if name.startswith(_GFP_PREFIX) and name.endswith(_GFP_SUFFIX) and bit < 32
    )


def natural_alignment(btf: Btf, type_id: int, depth: int = 0) -> tuple[int, bool]:
    """The alignment of a type in bytes, and whether all its members are aligned."""
    type_ = btf.resolve(type_id)
    match type_.kind:
        case Kind.STRUCT | Kind.UNION if depth < _MAX_NESTING:
            return _of_members(btf, type_, depth)
        case Kind.ARRAY:
            return natural_alignment(btf, btf.element(type_.id)[0], depth + 1)
        case Kind.PTR:
            return POINTER_SIZE, True
        case _:
            return max(btf.size_of(type_.id), 1), True


def _of_members(btf: Btf, type_: Type, depth: int) -> tuple[int, bool]:
    largest, aligned = 1, True
    members: Sequence[tuple[str, int, int, int]] = btf.members(type_.id)
    for _, bit_offset, member, bits in members:
        alignment, inner = natural_alignment(btf, member, depth + 1)
        if bits or bit_offset % 8:
            continue
        if bit_offset // 8 % alignment:
            aligned = False
            continue
        largest, aligned = max(largest, alignment), aligned and inner
    # packed or not: a struct is not more aligned than its size is
    while type_.arg % largest:
        largest //= 2
    return largest, aligned
