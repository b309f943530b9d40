# SPDX-License-Identifier: BSD-2-Clause
"""ELF notes, as the kernel shows its own and its modules' in sysfs."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from retsnoop_py.value import Value

__all__ = ["Note", "build_id", "walk"]

_HEADER = struct.Struct("=III")
_NT_GNU_BUILD_ID = 3


class Note(Value):
    """One note: whose it is (``GNU``, ``Linux`` ...), its type there, its contents."""

    owner: str
    type: int
    data: bytes


def walk(data: bytes) -> Iterator[Note]:
    """All notes of a section or file; sections merged by the linker are walked through.

    Stops at the first thing that is not a note.
    """
    offset = 0
    while offset + _HEADER.size <= len(data):
        name_size, data_size, type_ = _HEADER.unpack_from(data, offset)
        if not name_size:
            offset += 4  # no note is without an owner: padding between merged sections
            continue
        name_at = offset + _HEADER.size
        data_at = name_at + (name_size + 3 & ~3)
        offset = data_at + (data_size + 3 & ~3)
        if data_at + data_size > len(data):
            return
        owner = data[name_at : name_at + name_size].rstrip(b"\0").decode(errors="replace")
        yield Note(owner, type_, data[data_at : data_at + data_size])


def build_id(data: bytes) -> str | None:
    """The GNU build id among the notes, in hex; it need not be the first of them."""
    for note in walk(data):
        if note.owner == "GNU" and note.type == _NT_GNU_BUILD_ID and note.data:
            return note.data.hex()
    return None
