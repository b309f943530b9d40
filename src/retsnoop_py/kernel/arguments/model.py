# SPDX-License-Identifier: BSD-2-Clause
"""What a reader of captured arguments has to know of them; part of every recording.

Types are numbered by their place in one table, so that a recording can be read on a machine that
has neither the kernel's BTF nor its architecture. All numbers are of the traced machine, which
is little endian with 64-bit pointers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from retsnoop_py.value import Value


class DataKind(IntEnum):
    """What a :class:`DataType` is."""

    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FLOAT = 7
    #: Void, a function, a struct nobody has defined: nothing to show.
    OTHER = 8


class IntFlags:
    """How an integer or an enum reads, as plain bits."""

    SIGNED = 1
    CHAR = 2
    BOOL = 4


class Field(NamedTuple):
    """A member of a struct or union; ``bits`` is 0 unless it is a bit field."""

    name: str
    bit_offset: int
    type: int
    bits: int = 0


class DataType(NamedTuple):
    """A type: ``size`` in bytes, ``alias`` the typedef it goes by, ``flags`` of an INT or ENUM.

    An array has ``length`` elements of type ``element``. Members that begin behind what is
    captured are left out. ``values`` are the names of an ENUM's constants, of the flags of an INT,
    and of a PTR's values that are no addresses.
    """

    kind: int
    size: int
    name: str = ""
    alias: str = ""
    flags: int = 0
    element: int = 0
    length: int = 0
    fields: tuple[Field, ...] = ()
    values: tuple[tuple[str, int], ...] = ()


class Choice(NamedTuple):
    """What a tag of this ``value`` chooses: of each union, by number, the members that are meant.

    These by position. ``cast`` is the type that the whole is instead, -1 for none.
    """

    value: int
    members: tuple[tuple[int, tuple[int, ...]], ...] = ()
    cast: int = -1


class Tag(NamedTuple):
    """A number that tells which members of the unions in struct or union ``type`` are meant.

    It is ``bits`` wide, ``bit_offset`` into the type, or an argument of the call if that is
    negative; only what is in ``mask`` counts.
    """

    type: int
    choices: tuple[Choice, ...]
    bit_offset: int = -1
    bits: int = 0
    is_signed: bool = False
    mask: int = -1


class Role(IntEnum):
    """How a captured argument is to be read."""

    #: The value by its type.
    VALUE = 0
    #: A pointer, and what it points to.
    POINTER = 1
    #: A pointer to text.
    STRING = 2
    #: The data is the value: a struct passed in memory.
    WHOLE = 3
    #: One of the arguments behind a format.
    VARARG = 4
    #: A register of which nothing more is known.
    REGISTER = 5
    #: A pointer to the name of what the argument before it points to.
    NAME = 6
    #: Not captured: it is not in a register or on the stack.
    ELSEWHERE = 7
    #: The data is an array of elements of the target's type; bits 16 to 31 of the value are its
    #: size in bytes.
    LOCATED = 8


class Argument(NamedTuple):
    """One captured thing: the types of its value and of what it points to, -1 for none.

    ``spelled`` is its type in C. ``tag``: the position of the argument that tells which variant of
    the target is meant, -1 for none; ``variant``: the tag's value where the function implies it.
    ``note`` says why a pointer is not followed.
    """

    name: str
    role: int
    type: int = -1
    target: int = -1
    spelled: str = ""
    tag: int = -1
    variant: int | None = None
    note: str = ""


class CallArguments(NamedTuple):
    """What is captured of a function's calls, in order; ``note`` says why registers are shown.

    ``is_cut``: it takes more than is captured.
    """

    arguments: tuple[Argument, ...] = ()
    note: str = ""
    is_cut: bool = False


class ArgumentFacts(Value):
    """The arguments of each function and injected probe by its id, and the types they refer to.

    Of several ``tags`` of a type the first that knows its value decides on a union.
    """

    functions: tuple[CallArguments, ...] = ()
    probes: tuple[CallArguments, ...] = ()
    types: tuple[DataType, ...] = ()
    tags: tuple[Tag, ...] = ()
