# SPDX-License-Identifier: BSD-2-Clause
"""The memory layouts of the records' C structs, as the BPF object defines them.

Only ``src/bpf/records.h`` defines the structs. A :class:`Layout` is read from the BTF of a
compiled object. A recording contains the layouts of its own run, so later versions can read it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.kernel.btf import Btf
    from retsnoop_py.kernel.btf import Member as BtfMember

#: The structs whose layouts are needed to decode records.
RECORD_STRUCTS = (
    "rsn_slot",
    "rsn_session",
    "rsn_part",
    "rsn_event",
    "rsn_args",
    "rsn_arg",
    "rsn_path",
    "rsn_hit",
    "rsn_stats",
    "rsn_words",
)

_MAX_SIZE = 64 << 10
_CODE = re.compile(r"[bBhHiIqQ]|[1-9][0-9]{0,3}s")


class Member(NamedTuple):
    """A struct member: its offset in bytes and its :mod:`struct` code (``I``, ``16s`` ...)."""

    name: str
    offset: int
    code: str


class Layout(Value):
    """A C struct of scalars and char arrays; ``size`` in bytes, ``order`` ``<`` or ``>``."""

    name: str
    size: int
    members: tuple[Member, ...]
    order: str = "<"

    def format(self) -> struct.Struct:
        """The struct as a compiled format, padding included.

        Raises DataError if members overlap, leave the struct or have an unknown code.
        """
        if self.order not in ("<", ">") or not 0 < self.size <= _MAX_SIZE:
            raise DataError(f"struct {self.name}: byte order or size makes no sense")
        text, position = [self.order], 0
        for member in self.members:
            if not _CODE.fullmatch(member.code) or member.offset < position:
                raise DataError(f"struct {self.name}: member {member.name} makes no sense")
            text.append(f"{member.offset - position}x{member.code}")
            position = member.offset + struct.calcsize(self.order + member.code)
            if position > self.size:
                raise DataError(f"struct {self.name}: members pass its size of {self.size} bytes")
        text.append(f"{self.size - position}x")
        return struct.Struct("".join(text))

    def picker(
        self, names: Sequence[str], *, text: Sequence[str] = (), optional: Sequence[str] = ()
    ) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
        """A function from an unpacked struct plus a trailing 0 to the values of ``names``.

        Members in ``text`` must be char arrays, the others integers. A missing member in
        ``optional`` is 0: the recording is older than it. Otherwise DataError.
        """
        known = {member.name: index for index, member in enumerate(self.members)}
        for name in names:
            if name not in known:
                if name not in optional:
                    raise DataError(f"struct {self.name} has no member {name}")
            elif self.members[known[name]].code.endswith("s") != (name in text):
                raise DataError(f"struct {self.name}: member {name} has the wrong type")
        picked: Callable[[Sequence[Any]], tuple[Any, ...]] = itemgetter(
            *(known.get(name, len(self.members)) for name in names)
        )
        return picked

    def unpack(self, data: bytes) -> dict[str, int]:
        """Return the scalar members of one struct by name, e.g. the counters of ``rsn_stats``.

        Raises DataError if ``data`` is too short.
        """
        compiled = self.format()
        if len(data) < compiled.size:
            raise DataError(f"struct {self.name} needs {compiled.size} bytes, got {len(data)}")
        values = compiled.unpack_from(data)
        return {
            member.name: value
            for member, value in zip(self.members, values, strict=True)
            if isinstance(value, int)
        }


def layout_named(layouts: Iterable[Layout], name: str) -> Layout:
    """The layout of struct ``name``; DataError if it is not among them."""
    for layout in layouts:
        if layout.name == name:
            return layout
    raise DataError(f"the layout of struct {name} is missing")


_INTEGERS = {1: "B", 2: "H", 4: "I", 8: "Q"}


def btf_layouts(btf: Btf, names: tuple[str, ...] = RECORD_STRUCTS) -> tuple[Layout, ...]:
    """The layouts of the structs ``names``; DataError if one is missing or not flat."""
    from retsnoop_py.kernel.btf import Kind  # a replay has its own layouts

    found = btf.find_all(names, Kind.STRUCT)
    missing = [name for name in names if name not in found]
    if missing:
        raise DataError(f"the BPF object's BTF lacks struct {', '.join(missing)}")
    return tuple(
        Layout(
            name,
            btf.size_of(type_id),
            tuple(_member(btf, name, member) for member in btf.members(type_id)),
        )
        for name, type_id in found.items()
    )


def _member(btf: Btf, struct_name: str, member: BtfMember) -> Member:
    from retsnoop_py.kernel.btf import Kind

    type_ = btf.resolve(member.type_id)
    code = None
    if type_.kind is Kind.INT and not member.bit_size:
        code = _INTEGERS.get(type_.arg)
        if code and btf.int_encoding(type_.id)[0]:
            code = code.lower()
    elif type_.kind is Kind.ARRAY and btf.size_of(btf.element(type_.id)[0]) == 1:
        code = f"{btf.size_of(type_.id)}s"
    if code is None:
        raise DataError(f"struct {struct_name}: member {member.name} is not a number or text")
    return Member(member.name, member.bit_offset // 8, code)
