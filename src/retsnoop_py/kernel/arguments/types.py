# SPDX-License-Identifier: BSD-2-Clause
"""The types for decoding captured bytes, extracted from BTF."""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase

from retsnoop_py.kernel.arguments.model import Choice, DataKind, DataType, Field, IntFlags, Tag
from retsnoop_py.kernel.arguments.semantics import Located, Semantics, UnionRule
from retsnoop_py.kernel.btf import POINTER_SIZE, Btf, Kind, Type

__all__ = ["KNOWN_ALIASES", "TypeTable", "anonymous_enum", "natural_alignment"]

#: Maximum nesting of structs; deeper nesting means damaged data.
_MAX_NESTING = 32
_GFP_FIRST = "___GFP_DMA_BIT"
_GFP_PREFIX, _GFP_SUFFIX = "___GFP_", "_BIT"
#: Typedefs with their own notation; the renderer has a decoder for each.
KNOWN_ALIASES = frozenset(
    {"__be16", "__be32", "__be64", "gfp_t", "ktime_t", "umode_t", "uid_t", "gid_t", "dev_t"}
)


#: Members of a type that are constants: path, and name of the constants.
Named = tuple[tuple[str, str], ...]


class TypeTable:
    """Collect types; each type gets a number, and equal types the same number.

    ``semantics``: meanings that BTF lacks, which become part of the collected types.
    """

    def __init__(self, semantics: Semantics | None = None) -> None:
        self.semantics = semantics or Semantics()
        self.types: list[DataType] = []
        self.tags: list[Tag] = []
        self._numbers: dict[DataType, int] = {}
        self._known: dict[tuple[Btf, int, int, Named], int] = {}
        self._constants: dict[tuple[Btf, str], tuple[tuple[str, int], ...]] = {}
        self._tagged: set[int] = set()

    def add(self, btf: Btf, type_id: int, limit: int, depth: int = 0, named: Named = ()) -> int:
        """Return the number of type ``type_id``, of which at most ``limit`` bytes are captured.

        ``named``: members that are constants, in addition to those known by the type's name.
        """
        owner = btf
        while owner.base is not None and type_id < owner.base.end:
            owner = owner.base
        key = owner, type_id, limit, named
        known = self._known.get(key)
        if known is None:
            number = self.put(self._convert(btf, type_id, limit, depth, named))
            known = self._known[key] = number
            if self.types[number].kind in (DataKind.STRUCT, DataKind.UNION):
                self._add_tags(btf, number, limit)
        return known

    def put(self, data_type: DataType) -> int:
        """Return the number of a type that was made elsewhere."""
        number = self._numbers.setdefault(data_type, len(self.types))
        if number == len(self.types):
            self.types.append(data_type)
        return number

    def as_constants(self, btf: Btf, number: int, name: str) -> int:
        """Return type ``number``, an integer or pointer, with the constants of that name."""
        plain = self.types[number]
        values = self.constants(btf, name)
        if not values:
            return number
        if plain.kind == DataKind.PTR:
            return self.put(plain._replace(values=values))
        if plain.kind not in (DataKind.INT, DataKind.ENUM):
            return number
        signed = plain.flags & IntFlags.SIGNED
        return self.put(DataType(DataKind.ENUM, plain.size, name, "", signed, values=values))

    def constants(self, btf: Btf, name: str) -> tuple[tuple[str, int], ...]:
        """Return the constants with that name: of a BTF enum, or constants that BTF lacks."""
        key = btf, name
        known = self._constants.get(key)
        if known is None:
            found = btf.find(name, Kind.ENUM, Kind.ENUM64)
            first = self.semantics.first_constant(name)
            if found is None and first is not None:
                found = anonymous_enum(btf, first)
            values = self.semantics.constants(name) if found is None else btf.enumerators(found)
            known = self._constants[key] = tuple(values.items())
        return known

    def tagged_by_argument(self, number: int) -> Located | None:
        """Return the rule by which a call's argument selects the variant of a type, or None."""
        kind = self.types[number]
        rules = self.semantics.rules(kind.name or kind.alias)
        return next((one for one in rules if one.rule.argument), None)

    def variant(self, btf: Btf, rule: UnionRule, value: str) -> int | None:
        """Return the number of the tag's ``value``, or None."""
        return dict(self.constants(btf, rule.enum)).get(value)

    def _convert(
        self, btf: Btf, type_id: int, limit: int, depth: int, named: Named = ()
    ) -> DataType:
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
                pairs = tuple(values.items())
                return DataType(DataKind.ENUM, size, type_.name, alias, flags, values=pairs)
            case Kind.ARRAY if depth < _MAX_NESTING:
                element, count = btf.element(type_.id)
                number = self.add(btf, element, limit, depth + 1)
                return DataType(DataKind.ARRAY, size, "", alias, 0, number, count)
            case Kind.STRUCT | Kind.UNION if depth < _MAX_NESTING:
                kind = DataKind.STRUCT if type_.kind is Kind.STRUCT else DataKind.UNION
                own = self.semantics.members(type_.name or alias)
                fields = self._fields(btf, type_, limit, depth, (*own, *named))
                return DataType(kind, size, type_.name, alias, fields=fields)
            case Kind.FLOAT:
                return DataType(DataKind.FLOAT, size, type_.name, alias)
            case _:
                return DataType(DataKind.OTHER, size, type_.name, alias)

    def _fields(
        self, btf: Btf, type_: Type, limit: int, depth: int, named: Named
    ) -> tuple[Field, ...]:
        fields = []
        for name, bit_offset, member, bits in btf.members(type_.id):
            left = limit - bit_offset // 8
            if left <= 0:
                continue
            room = min(left, max(btf.size_of(member), 1))
            below = _below(named, name) if named else ()
            number = self.add(btf, member, room, depth + 1, below)
            constants = next((what for path, what in named if path == name), None)
            if constants is not None:
                number = self.as_constants(btf, number, constants)
            fields.append(Field(name, bit_offset, number, bits))
        return tuple(fields)

    # -- unions that have a tag --

    def _add_tags(self, btf: Btf, number: int, limit: int) -> None:
        kind = self.types[number]
        rules = self.semantics.rules(kind.name or kind.alias)
        if not rules or number in self._tagged:
            return
        self._tagged.add(number)
        for path, rule, _ in rules:
            owner = self._holder(number, path)
            tag = None if owner is None else self._tag(btf, owner, rule, limit)
            if tag is not None:
                self.tags.append(tag)

    def _tag(self, btf: Btf, owner: int, rule: UnionRule, limit: int) -> Tag | None:
        """Return ``rule`` as a tag of struct or union ``owner``; None if this kernel lacks it."""
        constants = dict(self.constants(btf, rule.enum)) if rule.enum else {}
        choices = {
            value: choice
            for key, meant in reversed(rule.variants.items())
            for value in _values(key, constants)
            if (choice := self._choice(btf, owner, (value, meant), limit)) is not None
        }
        found = tuple(choices.values())
        mask = ~sum(constants.get(flag, 0) for flag in rule.flags)
        if not found or rule.argument:
            return Tag(owner, found, mask=mask) if found else None
        steps = self._steps(owner, rule.tag)
        if steps is None:
            return None
        field = self.types[steps[-1][0]].fields[steps[-1][1]]
        kind = self.types[field.type]
        if kind.kind not in (DataKind.INT, DataKind.ENUM):
            return None
        offset = sum(self.types[at].fields[position].bit_offset for at, position in steps)
        signed = bool(kind.flags & IntFlags.SIGNED)
        return Tag(owner, found, offset, field.bits or kind.size * 8, signed, mask)

    def _choice(
        self, btf: Btf, owner: int, variant: tuple[int, list[str] | str], limit: int
    ) -> Choice | None:
        value, meant = variant
        if isinstance(meant, str):
            found = btf.find(meant.removeprefix("struct "), Kind.STRUCT)
            return None if found is None else Choice(value, cast=self.add(btf, found, limit))
        unions: dict[int, set[int]] = {}
        for path in meant:
            for at, position in self._steps(owner, path) or ():
                if self.types[at].kind == DataKind.UNION:
                    unions.setdefault(at, set()).add(position)
        members = tuple((at, tuple(sorted(chosen))) for at, chosen in unions.items())
        return Choice(value, members) if members else None

    def _holder(self, number: int, path: str) -> int | None:
        """Return the struct or union at ``path``, or the one that contains ``path``, or None."""
        if not path:
            return number
        steps = self._steps(number, path)
        if steps is None:
            return None
        at, position = steps[-1]
        inner = self.types[at].fields[position].type
        return inner if self.types[inner].kind in (DataKind.STRUCT, DataKind.UNION) else at

    def _steps(self, number: int, path: str) -> list[tuple[int, int]] | None:
        """Return the path to a member: types, and positions of their fields; None if missing."""
        steps: list[tuple[int, int]] = []
        for name in path.split("."):
            found = self._member(number, name)
            if found is None:
                return None
            steps += found
            at, position = steps[-1]
            number = self.types[at].fields[position].type
        return steps

    def _member(self, number: int, name: str) -> list[tuple[int, int]] | None:
        """Return the path to a member of a type, or of its anonymous members."""
        fields = self.types[number].fields
        for position, field in enumerate(fields):
            if field.name == name:
                return [(number, position)]
            below = None if field.name else self._member(field.type, name)
            if below is not None:
                return [(number, position), *below]
        return None


def _below(named: Named, member: str) -> Named:
    """Return the part of ``named`` inside ``member``; an anonymous member may have all."""
    if not member:
        return named
    start = f"{member}."
    return tuple((path.removeprefix(start), what) for path, what in named if path.startswith(start))


def _values(key: str, constants: Mapping[str, int]) -> list[int]:
    """Return the numbers of a tag's value, or of a glob of values."""
    if key in constants:
        return [constants[key]]
    if key.lstrip("-").isdecimal():
        return [int(key)]
    return [value for name, value in constants.items() if fnmatchcase(name, key)]


def _behind_typedefs(btf: Btf, type_id: int) -> tuple[str, Type]:
    """Return the most informative typedef of a type, and the type itself."""
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
    """Return the flags of gfp_t by value; empty before Linux 6.10, without flags in BTF."""
    found = anonymous_enum(btf, _GFP_FIRST)
    bits = {} if found is None else btf.enumerators(found)
    return tuple(
        (f"__GFP_{name.removeprefix(_GFP_PREFIX).removesuffix(_GFP_SUFFIX)}", 1 << bit)
        for name, bit in bits.items()
        if name.startswith(_GFP_PREFIX) and name.endswith(_GFP_SUFFIX) and bit < 32
    )


def anonymous_enum(btf: Btf, first: str) -> int | None:
    """Return the enum of vmlinux with the first constant ``first`` of value 0, or None."""
    while btf.base is not None:
        btf = btf.base
    (blob,) = btf.blobs
    text = blob.strings.find(b"\0" + first.encode() + b"\0") + 1
    if not text:
        return None
    # The name of the first constant is the first word after the enum's header.
    at = bytes(blob.types).find(struct.pack("=II", text, 0))
    index = bisect_right(blob.offsets, at // 4) - 1
    if at < 0 or index < 0 or btf.type(blob.start + index).kind is not Kind.ENUM:
        return None
    return blob.start + index


def natural_alignment(btf: Btf, type_id: int, depth: int = 0) -> tuple[int, bool]:
    """Return the alignment of a type in bytes, and whether all its members are aligned."""
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
    # Packed or not, a struct is not more aligned than its size.
    while type_.arg % largest:
        largest //= 2
    return largest, aligned
