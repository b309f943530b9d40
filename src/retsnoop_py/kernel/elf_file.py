# SPDX-License-Identifier: BSD-2-Clause
"""The little of an ELF file that tells which image it is: notes, sections, debug links.

Reads headers only, so a 600 MB vmlinux costs a few pages. (pyelftools would do, but importing
it takes longer than all the files we look at.)
"""

from __future__ import annotations

import os
import struct
import sys
from pathlib import Path
from typing import Self

from retsnoop_py.errors import DataError
from retsnoop_py.kernel import notes
from retsnoop_py.value import Value

__all__ = ["ElfFile", "Section"]

_SHT_NOTE = 7
_SHT_NOBITS = 8
_SHF_COMPRESSED = 0x800
_COMPRESSION = {1: "zlib", 2: "zstd"}
_ET_REL = 1


class Section(Value):
    """A section header: ``address`` as linked, ``offset`` and ``size`` in the file, bytes."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


class ElfFile:
    """A 64-bit ELF file, open for reading; a context manager.

    Raises OSError where the file cannot be read, DataError where it is no 64-bit ELF file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._read_headers()
        except BaseException:
            os.close(self._fd)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read_headers(self) -> None:
        head = os.pread(self._fd, 64, 0)
        if len(head) < 64 or head[:4] != b"\x7fELF":
            raise DataError(f"{self.path} is not an ELF file")
        if head[4] != 2 or head[5] != (1 if sys.byteorder == "little" else 2):
            raise DataError(f"{self.path} is not a 64-bit ELF file of this machine's byte order")
        self.type = self._unpack("H", head[16:18])[0]
        (table,) = self._unpack("Q", head[40:48])
        entry, count, names = self._unpack("HHH", head[58:64])
        self.sections = self._read_sections(table, entry, count, names) if table else {}

    def _unpack(self, fields: str, data: bytes) -> tuple[int, ...]:
        return struct.unpack_from("=" + fields, data)

    def _read_sections(self, table: int, entry: int, count: int, names: int) -> dict[str, Section]:
        if entry < 64:
            raise DataError(f"{self.path} has a damaged section table")
        raw = os.pread(self._fd, entry * count, table)
        if len(raw) < entry * count or names >= count:
            raise DataError(f"{self.path} is cut short: its section table is missing")
        headers = [self._unpack("IIQQQQIIQQ", raw[i * entry :]) for i in range(count)]
        strings = os.pread(self._fd, headers[names][5], headers[names][4])
        found: dict[str, Section] = {}
        for name, kind, flags, address, offset, size, *_ in headers:
            text = strings[name : strings.find(b"\0", name)].decode(errors="replace")
            found.setdefault(text, Section(text, kind, flags, address, offset, size))
        return found

    @property
    def is_relocatable(self) -> bool:
        """Whether it is ET_REL, as kernel modules are."""
        return self.type == _ET_REL

    def read(self, name: str) -> bytes:
        """The bytes of section ``name`` as they are in the file, empty where there is none."""
        section = self.sections.get(name)
        if section is None or section.type == _SHT_NOBITS:
            return b""
        return os.pread(self._fd, section.size, section.offset)

    @property
    def has_dwarf(self) -> bool:
        """Whether the DWARF of functions is in this very file."""
        info = self.sections.get(".debug_info") or self.sections.get(".zdebug_info")
        return info is not None and info.type != _SHT_NOBITS and info.size > 0

    @property
    def compression(self) -> str | None:
        """How ``.debug_info`` is compressed: ``zlib``, ``zstd`` ...; None if it is not."""
        info = self.sections.get(".debug_info")
        if info is None or not info.flags & _SHF_COMPRESSED:
            return None
        (kind,) = self._unpack("I", os.pread(self._fd, 4, info.offset))
        return _COMPRESSION.get(kind, f"method {kind}")

    @property
    def build_id(self) -> str | None:
        """The GNU build id in hex.

        Linkers merge notes (Debian's vmlinux has its GNU note behind Xen's), so all are walked.
        """
        for section in self.sections.values():
            if section.type == _SHT_NOTE:
                found = notes.build_id(self.read(section.name))
                if found:
                    return found
        return None

    @property
    def debug_link(self) -> str | None:
        """The file name in ``.gnu_debuglink``."""
        name = self.read(".gnu_debuglink").split(b"\0", 1)[0]
        return os.fsdecode(name) or None

    @property
    def alternate_link(self) -> str | None:
        """The file name in ``.gnu_debugaltlink``: a supplementary file shared by several images."""
        name = self.read(".gnu_debugaltlink").split(b"\0", 1)[0]
        return os.fsdecode(name) or None

    def contains(self, *texts: bytes) -> bool:
        """Whether its DWARF strings contain any of ``texts``; True where it cannot be told."""
        names = (".debug_line_str", ".debug_str", ".debug_info")
        sections = [self.sections[name] for name in names if name in self.sections]
        if not sections or any(section.flags & _SHF_COMPRESSED for section in sections):
            return True
        contents = (self.read(section.name) for section in sections)
        return any(text in content for content in contents for text in texts)
