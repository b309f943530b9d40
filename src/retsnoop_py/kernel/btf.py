# SPDX-License-Identifier: BSD-2-Clause
"""Read BTF, the kernel's description of its types. Types are parsed only when needed.

The layout comes from the kernel's ``include/uapi/linux/btf.h``. Types are numbered. A split BTF (of
a module) continues the numbers of its base and may refer to types of the base.

Annotations in this module are types instead of strings as elsewhere. For a named tuple Python would
compile each string, and the first compilation takes a thirtieth of the start-up time.
"""

import struct
from array import array
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple, Self

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.functions import ResultKind, ResultType
from retsnoop_py.libbpf import facts

__all__ = ["POINTER_SIZE", "Btf", "Kind", "Member", "Param", "Type"]

_MAGIC = 0xEB9F
#: ``struct btf_header``: magic, version, flags, its own length; then the offset and the length of
#: the types and of the strings, in bytes from the end of the header.
_HEADER = struct.Struct("=HBBIIIII")
#: Follows the header since Linux 7.1: offset and length of the layout section.
_LAYOUT = struct.Struct("=II")
_TYPE = struct.Struct("=III")
#: In bytes. Every supported machine has 64-bit pointers.
POINTER_SIZE = 8
#: Maximum depth of modifiers, arrays or nested types. Deeper chains are loops in damaged data.
_MAX_CHAIN = 64


class Kind(IntEnum):
    """``BTF_KIND_*``; ``VOID`` is type 0, ``UNKNOWN`` stands for kinds of later kernels."""

    VOID = 0
    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FWD = 7
    TYPEDEF = 8
    VOLATILE = 9
    CONST = 10
    RESTRICT = 11
    FUNC = 12
    FUNC_PROTO = 13
    VAR = 14
    DATASEC = 15
    FLOAT = 16
    DECL_TAG = 17
    TYPE_TAG = 18
    ENUM64 = 19
    UNKNOWN = 128


class Type(NamedTuple):
    """A type's header. ``arg`` is its size in bytes or another type's id, depending on the kind."""

    id: int
    kind: Kind
    name: str
    arg: int
    vlen: int
    kflag: bool


class Member(NamedTuple):
    """A member of a struct or union. ``bit_size`` is 0 unless it is a bit field."""

    name: str
    bit_offset: int
    type_id: int
    bit_size: int = 0


class Param(NamedTuple):
    """A parameter of a function; a last parameter of type 0 without a name stands for ``...``."""

    name: str
    type_id: int


#: By number: calling the enum takes longer than all other steps of reading a type.
_KINDS = (*(kind for kind in Kind if kind is not Kind.UNKNOWN), *[Kind.UNKNOWN] * 108)
_TRANSPARENT = frozenset({Kind.TYPEDEF, Kind.VOLATILE, Kind.CONST, Kind.RESTRICT, Kind.TYPE_TAG})
_QUALIFIERS = {Kind.VOLATILE: "volatile", Kind.CONST: "const", Kind.RESTRICT: "restrict"}
_TAGS = {
    Kind.STRUCT: "struct",
    Kind.UNION: "union",
    Kind.ENUM: "enum",
    Kind.ENUM64: "enum",
}
_INT_SIGNED = 1
_INT_BOOL = 4


class Blob:
    """The sections of a BTF blob, and its ranges of ids and string offsets.

    Ids and string offsets below ``start`` and ``string_start`` belong to ``base``.
    """

    __slots__ = ("end", "offsets", "start", "string_end", "string_start", "strings", "types")

    def __init__(self, data: bytes, base: Self | None) -> None:
        if len(data) < _HEADER.size:
            raise DataError("not BTF: too short for a header")
        magic, version, _, header, type_off, type_len, str_off, str_len = _HEADER.unpack_from(data)
        if magic != _MAGIC or version != 1:
            raise DataError(f"not BTF of this machine: magic {magic:#x}, version {version}")
        type_off += header
        str_off += header
        if type_off + type_len > len(data) or str_off + str_len > len(data):
            raise DataError("BTF is cut short")
        if type_len % 4 or type_off % 4:
            raise DataError("BTF is damaged: its types are not aligned")
        self.types = memoryview(data)[type_off : type_off + type_len]
        self.offsets = facts.btf_index(self.types, _layout(data, header))
        self.start: int = base.end if base else 1
        self.end: int = self.start + len(self.offsets)
        self.strings = data[str_off : str_off + str_len]
        if not self.strings.endswith(b"\0"):
            raise DataError("BTF is damaged: its strings do not end")
        self.string_start: int = base.string_end if base else 0
        self.string_end: int = self.string_start + str_len


def _layout(data: bytes, header: int) -> bytes:
    """Return the layout section: a ``struct btf_layout`` for each kind; or empty.

    The section has the length of types whose kind this module does not know.
    """
    if header < _HEADER.size + _LAYOUT.size or len(data) < header:
        return b""
    offset, length = _LAYOUT.unpack_from(data, _HEADER.size)
    if header + offset + length > len(data) or length % 4:
        raise DataError("BTF is damaged: its layout section is cut short")
    return data[header + offset : header + offset + length]


class Btf:
    """A BTF blob; ``base``: for a module, the BTF of vmlinux.

    Raise :class:`DataError` if ``data`` is not BTF, or damaged.
    """

    def __init__(self, data: bytes, base: Self | None = None) -> None:
        below: tuple[Blob, ...] = base.blobs if base else ()
        self.base = base
        self._own = Blob(data, below[0] if below else None)
        #: This blob, then its bases.
        self.blobs: tuple[Blob, ...] = (self._own, *below)
        #: Ids run from 1 up to this number (exclusive).
        self.end = self._own.end
        self._names: dict[int, str] = {}
        # Strings can end in one another, so their total exceeds the table; damaged BTF can reach
        # 1000 times.
        self._room = 4 * sum(len(blob.strings) for blob in self.blobs) + (64 << 10)
        self._declarators: dict[int, tuple[str, str]] = {}
        self._results: dict[int, ResultType] = {}
        #: Ids by name and kinds: a search reads all types.
        self._found: dict[tuple[str, tuple[Kind, ...]], int | None] = {}

    # -- types by id --

    def _locate(self, type_id: int) -> tuple[memoryview, int]:
        """Return the section that contains a type, and the type's offset there in bytes."""
        for blob in self.blobs:
            if blob.start <= type_id < blob.end:
                return blob.types, 4 * blob.offsets[type_id - blob.start]
        raise DataError(f"BTF is damaged: there is no type {type_id}")

    def _string(self, offset: int) -> str:
        known = self._names.get(offset)
        if known is None:
            known = self._names[offset] = self._read_string(offset)
            self._room -= len(known)
            if self._room < 0:
                raise DataError("BTF is damaged: its strings lie one in another")
        return known

    def _read_string(self, offset: int) -> str:
        for blob in self.blobs:
            if blob.string_start <= offset < blob.string_end:
                offset -= blob.string_start
                end = blob.strings.index(b"\0", offset)
                return blob.strings[offset:end].decode(errors="replace")
        raise DataError(f"BTF is damaged: there is no string {offset}")

    def type(self, type_id: int) -> Type:
        """Return the header of type ``type_id``."""
        if type_id == 0:
            return Type(0, Kind.VOID, "void", 0, 0, False)
        name, info, arg = _TYPE.unpack_from(*self._locate(type_id))
        kind = _KINDS[info >> 24 & 0x7F]
        return Type(type_id, kind, self._string(name), arg, info & 0xFFFFFF, info >> 31 == 1)

    def _tail(self, type_: Type, words: int) -> tuple[int, ...]:
        types, offset = self._locate(type_.id)
        return tuple(types[offset + 12 : offset + 12 + 4 * words].cast("I"))

    def resolve(self, type_id: int) -> Type:
        """Return the type behind typedefs, qualifiers and tags."""
        for _ in range(_MAX_CHAIN):
            type_ = self.type(type_id)
            if type_.kind not in _TRANSPARENT:
                return type_
            type_id = type_.arg
        raise DataError(f"BTF is damaged: type {type_id} refers to itself")

    def size_of(self, type_id: int) -> int:
        """Return a type's size in bytes; 0 for void, functions, forward declarations, new kinds."""
        count = 1
        for _ in range(_MAX_CHAIN):
            type_ = self.resolve(type_id)
            match type_.kind:
                case Kind.PTR:
                    return count * POINTER_SIZE
                case Kind.ARRAY:
                    type_id, _, elements = self._tail(type_, 3)
                    count *= elements
                case Kind.VAR:
                    type_id = type_.arg
                case Kind.FUNC | Kind.FUNC_PROTO | Kind.FWD | Kind.VOID | Kind.UNKNOWN:
                    return 0
                case _:
                    return count * type_.arg
        raise DataError(f"BTF is damaged: array type {type_id} refers to itself")

    def element(self, type_id: int) -> tuple[int, int]:
        """Return the element type and the number of elements of an array."""
        element, _, count = self._tail(self._expect(type_id, Kind.ARRAY), 3)
        return element, count

    def int_encoding(self, type_id: int) -> tuple[bool, bool]:
        """Return whether an integer type is signed, and whether it is a boolean."""
        encoding = self._tail(self._expect(type_id, Kind.INT), 1)[0] >> 24 & 0xF
        return bool(encoding & _INT_SIGNED), bool(encoding & _INT_BOOL)

    def members(self, type_id: int) -> tuple[Member, ...]:
        """Return the members of a struct or union, in order; anonymous ones have an empty name."""
        type_ = self._expect(type_id, Kind.STRUCT, Kind.UNION)
        words = self._tail(type_, 3 * type_.vlen)
        members = []
        for i in range(0, len(words), 3):
            name, member_type, offset = words[i : i + 3]
            bits = offset >> 24 if type_.kflag else 0
            if type_.kflag:
                offset &= 0xFFFFFF
            members.append(Member(self._string(name), offset, member_type, bits))
        return tuple(members)

    def enumerators(self, type_id: int) -> dict[str, int]:
        """Return the constants of an enum and their values."""
        type_ = self._expect(type_id, Kind.ENUM, Kind.ENUM64)
        step = 3 if type_.kind is Kind.ENUM64 else 2
        bits = 64 if type_.kind is Kind.ENUM64 else 32
        words = self._tail(type_, step * type_.vlen)
        values = {}
        for i in range(0, len(words), step):
            value = words[i + 1] | (words[i + 2] << 32 if step == 3 else 0)
            if self._is_signed_enum(type_, value) and value >> (bits - 1):
                value -= 1 << bits
            values[self._string(words[i])] = value
        return values

    @staticmethod
    def _is_signed_enum(type_: Type, value: int) -> bool:
        # Before 6.0 enums had no sign. A 32-bit value that is -errno as a signed number is
        # negative.
        return type_.kflag or (type_.kind is Kind.ENUM and value >= (1 << 32) - 4095)

    def variables(self, type_id: int) -> dict[str, tuple[int, int, int]]:
        """Return the variables of a data section: offset and size in bytes, and type id."""
        type_ = self._expect(type_id, Kind.DATASEC)
        words = self._tail(type_, 3 * type_.vlen)
        found = {}
        for i in range(0, len(words), 3):
            variable = self.type(words[i])
            found[variable.name] = (words[i + 1], words[i + 2], variable.arg)
        return found

    def params(self, proto_id: int) -> tuple[Param, ...]:
        """Return the parameters of a function prototype."""
        type_ = self._expect(proto_id, Kind.FUNC_PROTO)
        words = self._tail(type_, 2 * type_.vlen)
        return tuple(Param(self._string(words[i]), words[i + 1]) for i in range(0, len(words), 2))

    def _expect(self, type_id: int, *kinds: Kind) -> Type:
        type_ = self.resolve(type_id)
        if type_.kind not in kinds:
            wanted = " or ".join(kind.name.lower() for kind in kinds)
            raise DataError(f"BTF type {type_id} is a {type_.kind.name.lower()}, not a {wanted}")
        return type_

    # -- types by name --

    def find_all(self, names: Iterable[str], *kinds: Kind) -> dict[str, int]:
        """Return the ids of the types with these kinds and names, found in one pass over the blob.

        The first type of each name counts; missing names are omitted. In a split BTF only its own
        types are searched.
        """
        wanted = list(dict.fromkeys(names))
        found = self.ids_of(wanted, *kinds)
        return {name: number for name, number in zip(wanted, found, strict=True) if number}

    def ids_of(self, names: Sequence[str], *kinds: Kind) -> "array[int]":
        """Return the ids that :meth:`find_all` finds, in the order of ``names``; 0 if missing."""
        own = self._own
        # b"".join copies nothing if there is only one base.
        base_strings = b"".join(blob.strings for blob in reversed(self.blobs[1:]))
        found = facts.btf_find(
            (own.types, own.strings, base_strings),
            own.offsets,
            sum(1 << kind for kind in kinds if kind is not Kind.UNKNOWN),
            names,
        )
        first = own.start - 1
        return array("I", [index and first + index for index in found]) if first else found

    def find(self, name: str, *kinds: Kind) -> int | None:
        """Return the id of the first type with this name and these kinds, here or in the base."""
        key = name, kinds
        if key not in self._found:
            found = self.find_all([name], *kinds).get(name)
            if found is None and self.base is not None:
                found = self.base.find(name, *kinds)
            self._found[key] = found
        return self._found[key]

    def functions(self, names: Iterable[str]) -> dict[str, int]:
        """Return the ids of the functions with these names."""
        return self.find_all(names, Kind.FUNC)

    def struct(self, name: str) -> tuple[Member, ...] | None:
        """Return the members of ``struct name``; None if BTF has no such struct."""
        type_id = self.find(name, Kind.STRUCT)
        return None if type_id is None else self.members(type_id)

    # -- prototypes --

    def prototype(self, func_id: int) -> tuple[ResultType, str]:
        """Return the result type of function ``func_id``, and its prototype in C."""
        func = self.type(func_id)
        if func.kind is not Kind.FUNC:
            raise DataError(f"BTF type {func_id} is a {func.kind.name.lower()}, not a function")
        proto = self.type(func.arg)
        if proto.kind is not Kind.FUNC_PROTO:
            raise DataError(f"BTF is damaged: function {func_id} has no prototype")
        before, after = self._declarator(proto.arg)
        return self.result(proto.arg), f"{before}{func.name}{self._param_list(proto)}{after}"

    def returns(self, functions: "array[int]") -> "array[int]":
        """Return the ids of the types that ``functions`` (ids, of this BTF or its base) return."""
        return facts.btf_returns(
            [(blob.types, blob.offsets, blob.start) for blob in self.blobs], functions
        )

    def result(self, type_id: int) -> ResultType:
        """Return how to read a result of type ``type_id``."""
        known = self._results.get(type_id)
        if known is None:
            known = self._results[type_id] = self._result(type_id)
        return known

    def _result(self, type_id: int) -> ResultType:
        type_ = self.resolve(type_id)
        name = self.declare(type_id)
        size = self.size_of(type_.id)
        match type_.kind:
            case Kind.VOID:
                return ResultType(ResultKind.VOID, 0, False, name)
            case Kind.PTR:
                return ResultType(ResultKind.PTR, size, False, name)
            case Kind.INT:
                signed, boolean = self.int_encoding(type_.id)
                kind = ResultKind.BOOL if boolean else ResultKind.INT
                return ResultType(kind, size, signed and not boolean, name)
            case Kind.ENUM | Kind.ENUM64:
                constants = self.enumerators(type_.id)
                signed = type_.kflag or any(value < 0 for value in constants.values())
                return ResultType(ResultKind.ENUM, size, signed, name, tuple(constants.items()))
            case _:
                return ResultType(ResultKind.OTHER, size, False, name)

    def declare(self, type_id: int, name: str = "") -> str:
        """Return a C declaration of ``name`` with type ``type_id``; without a name, the type."""
        before, after = self._declarator(type_id)
        return f"{before}{name}{after}".rstrip()

    def _declarator(self, type_id: int, depth: int = 0) -> tuple[str, str]:
        """Return the text before and after the name in a declaration."""
        known = self._declarators.get(type_id)
        if known is None:
            if depth > _MAX_CHAIN:
                raise DataError(f"BTF is damaged: type {type_id} refers to itself")
            known = self._declarators[type_id] = self._new_declarator(self.type(type_id), depth + 1)
        return known

    def _new_declarator(self, type_: Type, depth: int) -> tuple[str, str]:
        match type_.kind:
            case Kind.PTR:
                before, after = self._declarator(type_.arg, depth)
                # The pointer binds to the left of an array or a parameter list.
                return (f"{before}(*", f"){after}") if after else (f"{before}*", "")
            case Kind.ARRAY:
                element, _, count = self._tail(type_, 3)
                before, after = self._declarator(element, depth)
                return before, f"[{count or ''}]{after}"
            case Kind.FUNC_PROTO:
                before, after = self._declarator(type_.arg, depth)
                return before, f"{self._param_list(type_, depth)}{after}"
            case Kind.TYPE_TAG:
                return self._declarator(type_.arg, depth)
            case Kind.CONST | Kind.VOLATILE | Kind.RESTRICT:
                qualifier = _QUALIFIERS[type_.kind]
                before, after = self._declarator(type_.arg, depth)
                if before.endswith("*"):
                    return f"{before}{qualifier} ", after
                return f"{qualifier} {before}", after
            case Kind.FWD:
                return f"{'union' if type_.kflag else 'struct'} {type_.name} ", ""
        tag = _TAGS.get(type_.kind)
        return f"{tag} {type_.name or '{...}'} " if tag else f"{type_.name or '?'} ", ""

    def _param_list(self, proto: Type, depth: int = 0) -> str:
        texts = []
        words = self._tail(proto, 2 * proto.vlen)
        for name, type_id in zip(words[::2], words[1::2], strict=True):
            before, after = self._declarator(type_id, depth)
            # BTF writes ``...`` as a last parameter of type 0.
            texts.append(f"{before}{self._string(name)}{after}".rstrip() if type_id else "...")
        return f"({', '.join(texts) or 'void'})"
