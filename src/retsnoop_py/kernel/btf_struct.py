# SPDX-License-Identifier: BSD-2-Clause
"""Structs that Python and the BPF programs exchange, with the layout of the object's own BTF.

The structs are defined only once, in ``src/bpf``. A member is a number, a text or an array of
numbers; structs and arrays of structs are bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.btf import Btf, Kind

__all__ = ["BtfStruct", "constants"]

_CODES = {1: "B", 2: "H", 4: "I", 8: "Q"}


class BtfStruct:
    """The struct ``name`` of ``btf``. Raise DataError if it is missing or has bit fields."""

    def __init__(self, btf: Btf, name: str) -> None:
        found = btf.find(name, Kind.STRUCT)
        if found is None:
            raise DataError(f"the BPF object's BTF lacks struct {name}")
        self.name = name
        #: Size in bytes.
        self.size = btf.size_of(found)
        #: Number of elements of each member: 1, or the length of an array of numbers, or the bytes
        #: of a text.
        self.lengths: dict[str, int] = {}
        text, position = ["="], 0
        for member in btf.members(found):
            if member.bit_size or member.bit_offset % 8:
                raise DataError(f"struct {name}: member {member.name} is a bit field")
            code, self.lengths[member.name] = _code_of(btf, member.type_id)
            text.append(f"{member.bit_offset // 8 - position}x{code}")
            position = member.bit_offset // 8 + struct.calcsize(f"={code}")
        text.append(f"{self.size - position}x")
        self._format = struct.Struct("".join(text))

    def packer(self, *names: str) -> Callable[..., bytes]:
        """Return a function that packs values for ``names``, in the struct's order.

        An array of numbers takes as many values as it has elements. Raise DataError if the struct
        has other members, because the two definitions then differ.
        """
        if list(names) != list(self.lengths):
            raise DataError(
                f"struct {self.name} has {', '.join(self.lengths)} and not {', '.join(names)}"
            )
        return self._format.pack

    def rows(self, data: bytes) -> Iterator[dict[str, Any]]:
        """Yield consecutive structs as members by name; incomplete data at the end is ignored.

        An array of numbers is not supported, because each of its elements is one value.
        """
        whole = data[: len(data) // self.size * self.size]
        for values in self._format.iter_unpack(whole):
            yield dict(zip(self.lengths, values, strict=True))


def _code_of(btf: Btf, type_id: int) -> tuple[str, int]:
    """Return the :mod:`struct` code of a member, and its number of elements."""
    type_ = btf.resolve(type_id)
    size = btf.size_of(type_.id)
    match type_.kind:
        case Kind.INT | Kind.ENUM:
            signed = type_.kind is Kind.INT and btf.int_encoding(type_.id)[0]
            return (_CODES[size].lower() if signed else _CODES[size]), 1
        case Kind.ARRAY:
            element, length = btf.element(type_.id)
            code, _ = _code_of(btf, element)
            if code in "bB" or code.endswith("s"):
                return f"{size}s", length
            return f"{length}{code}", length
        case _:
            return f"{size}s", 1


def constants(btf: Btf, enum: str) -> dict[str, int]:
    """Return the constants of ``enum`` by name. Raise DataError if it is missing."""
    found = btf.find(enum, Kind.ENUM)
    if found is None:
        raise DataError(f"the BPF object's BTF lacks enum {enum}")
    return btf.enumerators(found)
