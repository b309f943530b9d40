# SPDX-License-Identifier: BSD-2-Clause
"""ELF files written by hand, so that any of their numbers can be wrong."""

from __future__ import annotations

import struct
from typing import NamedTuple

PROGBITS, SYMTAB, STRTAB, NOTE = 1, 2, 3, 7
ALLOC = 2
#: Where the first section's contents are, in the file and as linked.
FIRST = 64
BUILD_ID = bytes(range(20))


class Part(NamedTuple):
    """A section; ``size`` and ``offset`` may be other than its contents are."""

    name: str
    type: int
    data: bytes
    flags: int = 0
    size: int | None = None
    offset: int | None = None


def symbol(name: int, address: int, size: int = 16) -> bytes:
    """A global function in section 1."""
    return struct.pack("<IBBHQQ", name, 2 | 1 << 4, 0, 1, address, size)


def note(build_id: bytes = BUILD_ID) -> Part:
    """The section with the build id."""
    data = struct.pack("<III", 4, len(build_id), 3) + b"GNU\0" + build_id
    return Part(".note.gnu.build-id", NOTE, data, ALLOC)


def program(*parts: Part, **header: int) -> bytes:
    """A file with a text section, ``parts`` and their names; ``header`` may be changed.

    ``count``, ``entry`` and ``names`` are of the section table, ``table`` its place; ``segments``,
    ``segment`` and ``noted`` are place, entry size and number of the segments: one for each note.
    """
    text = Part(".text", PROGBITS, b"\x90" * 256, ALLOC)
    names = b"\0" + b"".join(f"{part.name}\0".encode() for part in (text, *parts)) + b".shstrtab\0"
    sections = (text, *parts, Part(".shstrtab", STRTAB, names))
    body, table, segments = b"", bytes(64), b""
    for part in sections:
        at = FIRST + len(body)
        place = at if part.offset is None else part.offset
        size = len(part.data) if part.size is None else part.size
        name = names.find(f"\0{part.name}\0".encode()) + 1
        table += struct.pack(
            "<IIQQQQIIQQ", name, part.type, part.flags, at, place, size, 0, 0, 8, 0
        )
        if part.type == NOTE:
            segments += struct.pack("<IIQQQQQQ", 4, 4, place, at, at, size, size, 4)
        body += part.data
    values = {
        "table": FIRST + len(body) + len(segments),
        "entry": 64,
        "count": len(sections) + 1,
        "names": len(sections),
        "segments": FIRST + len(body),
        "segment": 56,
        "noted": len(segments) // 56,
    } | header
    ident = b"\x7fELF\x02\x01\x01" + bytes(9)
    head = struct.pack("<HHIQQQ", 3, 62, 1, 0, values["segments"], values["table"])
    numbers = ("segment", "noted", "entry", "count", "names")
    rest = struct.pack("<IHHHHHH", 0, 64, *(values[number] for number in numbers))
    return ident + head + rest + body + segments + table


def symbols(*entries: bytes, names: bytes = b"\0outer\0") -> tuple[Part, Part]:
    """A symbol table and its names."""
    return Part(".symtab", SYMTAB, b"".join(entries)), Part(".strtab", STRTAB, names)
