# SPDX-License-Identifier: BSD-2-Clause
"""What BTF is made of.

Annotations are types here, not strings as elsewhere: for a named tuple Python would compile each
of the strings, and the first one takes a thirtieth of the time of a start.
"""

from enum import IntEnum
from typing import NamedTuple

__all__ = ["Kind", "Member", "Param", "Type"]


class Kind(IntEnum):
    """``BTF_KIND_*``; ``VOID`` is type 0, ``UNKNOWN`` stands for kinds that came later."""

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
    """A type's header. ``arg`` is its size in bytes or the type it refers to, by kind."""

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
    """A parameter of a function; a last one of type 0 without a name stands for ``...``."""

    name: str
    type_id: int
