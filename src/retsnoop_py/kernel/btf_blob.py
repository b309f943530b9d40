# SPDX-License-Identifier: BSD-2-Clause
"""The outer layout of a BTF blob: its header, its two sections, where each type starts."""

from __future__ import annotations

import struct

from retsnoop_py.errors import DataError
from retsnoop_py.libbpf import facts

__all__ = ["Blob"]

_MAGIC = 0xEB9F
#: ``struct btf_header``: magic, version, flags, its own length, then offset and length of the
#: types and of the strings, in bytes from the header's end.
_HEADER = struct.Struct("=HBBIIIII")
#: Behind it, since Linux 7.1: offset and length of the layout section.
_LAYOUT = struct.Struct("=II")


class Blob:
    """The sections of one BTF blob, and which ids and string offsets are its own.

    Ids and string offsets below ``start`` and ``string_start`` belong to ``base``.
    """

    __slots__ = ("end", "offsets", "start", "string_end", "string_start", "strings", "types")

    def __init__(self, data: bytes, base: Blob | None) -> None:
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
    """The layout section: a ``struct btf_layout`` for each kind its writer knew; or empty.

    It tells how long types are of kinds that are not known here.
    """
    if header < _HEADER.size + _LAYOUT.size or len(data) < header:
        return b""
    offset, length = _LAYOUT.unpack_from(data, _HEADER.size)
    if header + offset + length > len(data) or length % 4:
        raise DataError("BTF is damaged: its layout section is cut short")
    return data[header + offset : header + offset + length]
