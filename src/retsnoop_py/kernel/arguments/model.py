# SPDX-License-Identifier: BSD-2-Clause
"""Everything that a reader of captured arguments needs; part of every recording.

Types are numbered by their position in one table. A recording can therefore be read on a machine
with neither the kernel's BTF nor its architecture. All numbers are those of the traced machine,
which is little endian with 64-bit pointers.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from retsnoop_py.value import Value


class DataKind(IntEnum):
    """The kind of a :class:`DataType`."""

    INT = 1
    PTR = 2
    ARRAY = 3
    STRUCT = 4
    UNION = 5
    ENUM = 6
    FLOAT = 7
    #: Void, a function or an undefined struct: nothing can be shown.
    OTHER = 8


class IntFlags:
    """How to read an integer or an enum, as plain bits."""

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
    """A type: ``size`` in bytes, ``alias``: its typedef, ``flags`` of an INT or ENUM.

    An array has ``length`` elements of type ``element``. Members that begin after the captured
    bytes are omitted. ``values`` are the names of an ENUM's constants, of the flags of an INT, and
    of a PTR's values that are not addresses.
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
    """The meaning of a tag with this ``value``: for each union (by number) the valid members.

    Members are given by position. ``cast``: the type that replaces the whole type, -1 for none.
    """

    value: int
    members: tuple[tuple[int, tuple[int, ...]], ...] = ()
    cast: int = -1


class Tag(NamedTuple):
    """A number that selects the valid members of the unions in struct or union ``type``.

    It is ``bits`` wide, at ``bit_offset`` in the type; a negative ``bit_offset`` means an argument
    of the call. Only the bits in ``mask`` count.
    """

    type: int
    choices: tuple[Choice, ...]
    bit_offset: int = -1
    bits: int = 0
    is_signed: bool = False
    mask: int = -1


class Role(IntEnum):
    """How to read a captured argument."""

    #: The value, by its type.
    VALUE = 0
    #: A pointer, and its target.
    POINTER = 1
    #: A pointer to text.
    STRING = 2
    #: The captured bytes are the value: a struct passed in memory.
    WHOLE = 3
    #: An argument after a format.
    VARARG = 4
    #: A register without further information.
    REGISTER = 5
    #: A pointer to the name of the previous argument's target.
    NAME = 6
    #: Not captured: neither in a register nor on the stack.
    ELSEWHERE = 7
    #: The captured bytes are an array of elements of the target's type; bits 16 to 31 of the value
    #: are its size in bytes.
    LOCATED = 8


class Argument(NamedTuple):
    """A captured argument: the types of its value and of its target, -1 for none.

    ``spelled``: its type in C. ``tag``: the position of the argument that selects the variant of
    the target, -1 for none. ``variant``: the tag's value if the function implies it. ``note``: why
    a pointer is not followed.
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
    """The captured arguments of a function's calls, in order.

    ``note``: why registers are shown. ``is_cut``: the function has more parameters than are
    captured.
    """

    arguments: tuple[Argument, ...] = ()
    note: str = ""
    is_cut: bool = False


class ArgumentFacts(Value):
    """The arguments of each function and injected probe by its id, and the types of the arguments.

    If a type has several ``tags``, the first one with a known value decides about a union.
    """

    functions: tuple[CallArguments, ...] = ()
    probes: tuple[CallArguments, ...] = ()
    types: tuple[DataType, ...] = ()
    tags: tuple[Tag, ...] = ()
