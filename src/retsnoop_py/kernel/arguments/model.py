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
    captured are left out.
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

    ``spelled`` is its type in C.
    """

    name: str
    role: int
    type: int = -1
    target: int = -1
    spelled: str = ""


class CallArguments(NamedTuple):
    """What is captured of a function's calls, in order; ``note`` says why registers are shown.

    ``is_cut``: it takes more than is captured.
    """

    arguments: tuple[Argument, ...] = ()
    note: str = ""
    is_cut: bool = False


class ArgumentFacts(Value):
    """The arguments of each function and injected probe by its id, and the types they refer to."""

    functions: tuple[CallArguments, ...] = ()
    probes: tuple[CallArguments, ...] = ()
    types: tuple[DataType, ...] = ()
