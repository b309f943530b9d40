# SPDX-License-Identifier: BSD-2-Clause
"""Read the parts of an ELF file that identify an image: notes, sections, debug links.

The module reads headers only, so a vmlinux of 600 MB costs a few pages. It trusts no header,
because a traced process can map a malicious file: every read has a maximum size and stays inside
the file. pyelftools does not have these limits. It reads as many bytes as a header declares, and
reads a string up to the next NUL. Importing pyelftools also takes longer than reading all these
files. The tests compare both readers.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Self

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.value import Value

_HEADER = struct.Struct("=III")
_NT_GNU_BUILD_ID = 3


class Note(Value):
    """An ELF note: its owner (``GNU``, ``Linux`` ...), its type and its contents."""

    owner: str
    type: int
    data: bytes


def walk(data: bytes) -> Iterator[Note]:
    """Yield all notes of a section or file, including sections that the linker merged.

    Stop at the first data that is not a note.
    """
    offset = 0
    while offset + _HEADER.size <= len(data):
        name_size, data_size, type_ = _HEADER.unpack_from(data, offset)
        if not name_size:
            offset += 4  # every note has an owner: this is padding between merged sections
            continue
        name_at = offset + _HEADER.size
        data_at = name_at + (name_size + 3 & ~3)
        offset = data_at + (data_size + 3 & ~3)
        if data_at + data_size > len(data):
            return
        owner = data[name_at : name_at + name_size].rstrip(b"\0").decode(errors="replace")
        yield Note(owner, type_, data[data_at : data_at + data_size])


def build_id(data: bytes) -> str | None:
    """Return the GNU build id in hex, at any position among the notes, or None."""
    for note in walk(data):
        if note.owner == "GNU" and note.type == _NT_GNU_BUILD_ID and note.data:
            return note.data.hex()
    return None


#: Maximum length of a name in bytes. Longer names, possible in C++ programs, are cut.
MAX_NAME = 4096
#: Maximum size of a read in bytes: the debug strings of a large module, or the symbols of a large
#: program. A sparse file can have any size.
_MAX_READ = 256 << 20
#: Limits for the number of note sections, the bytes of each and the digits of a build id. Linkers
#: write 40 digits.
_MAX_NOTES = 16
_MAX_NOTE_BYTES = 1 << 16
_MAX_BUILD_ID = 128
#: A linker can store a string as the end of another string, so all strings together may need
#: somewhat more bytes than their table.
_STRINGS_PER_BYTE = 4
_MORE_STRINGS = 64 << 10
#: First bytes of a 64-bit ELF file with this machine's byte order.
_MAGIC = b"\x7fELF\x02" + (b"\1" if sys.byteorder == "little" else b"\2")

#: The kernel searches a program's build id in this number of bytes at the start of the file.
_FIRST_PAGE = 4096
_SEGMENT = struct.Struct("=IIQQQQQQ")
_PT_NOTE = 4

_SHT_NULL = 0
_SHT_NOTE = 7
SHT_NOBITS = 8
_SHF_COMPRESSED = 0x800
_COMPRESSION = {1: "zlib", 2: "zstd"}


class Section(Value):
    """A section header: ``address`` as linked, ``offset`` and ``size`` in the file, in bytes."""

    name: str
    type: int
    flags: int
    address: int
    offset: int
    size: int


def noted_build_id(fd: int) -> str | None:
    """Return the GNU build id in hex of the program open as ``fd``, searched as the kernel does.

    Only the notes on the first page are searched, so one read is enough for any file. Return None
    if the page has no build id; the rest of the file may have one. Raise OSError.
    """
    page = os.pread(fd, _FIRST_PAGE, 0)
    if len(page) < 64 or page[:6] != _MAGIC:
        return None
    (table,) = struct.unpack_from("=Q", page, 32)
    entry, count = struct.unpack_from("=HH", page, 54)
    if entry != _SEGMENT.size:
        return None
    whole = page[table : table + entry * count]
    seen = 0
    for kind, _, offset, _, _, size, *_ in _SEGMENT.iter_unpack(
        whole[: len(whole) // entry * entry]
    ):
        if kind == _PT_NOTE and seen < _MAX_NOTES:
            seen += 1
            found = build_id(page[offset : offset + size])
            if found and len(found) <= _MAX_BUILD_ID:
                return found
    return None


def string_at(table: bytes, offset: int) -> str:
    """Return the string at ``offset`` of a string table, cut to :data:`MAX_NAME` bytes."""
    end = table.find(b"\0", offset, offset + MAX_NAME)
    if end < 0:
        end = offset + MAX_NAME
    return table[offset:end].decode(errors="backslashreplace")


class StringTable:
    """The strings of a table by offset. Each string is read once.

    A string may be the end of another string. Raise DataError if the strings are many times larger
    than the table, as in a damaged file.
    """

    def __init__(self, table: bytes, what: str) -> None:
        self._table = table
        self._what = what
        self._known: dict[int, str] = {}
        self._room = len(table) * _STRINGS_PER_BYTE + _MORE_STRINGS

    def at(self, offset: int) -> str:
        """Return the string at ``offset``, as :func:`string_at` reads it."""
        known = self._known.get(offset)
        if known is None:
            known = self._known[offset] = string_at(self._table, offset)
            self._room -= len(known)
            if self._room < 0:
                raise DataError(f"{self._what} is damaged: its strings lie one in another")
        return known


def _link_in(section: bytes) -> str | None:
    """Return the file name at the beginning of a section, or None."""
    name = section[:MAX_NAME].split(b"\0", 1)[0]
    return os.fsdecode(name) or None


class ElfFile:
    """A 64-bit ELF file, open for reading; a context manager.

    ``fd``: an open file descriptor of the file, which stays open; then ``path`` is only a name for
    messages. Raise OSError if the file cannot be read. Raise DataError for other files, and for
    headers that point outside of the file.
    """

    def __init__(self, path: Path | str, fd: int | None = None) -> None:
        self.path = Path(path)
        self._fd = open_regular(self.path) if fd is None else os.dup(fd)
        try:
            self._size = os.fstat(self._fd).st_size
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
        if head[:6] != _MAGIC:
            raise DataError(f"{self.path} is not a 64-bit ELF file of this machine's byte order")
        #: EM_* of elf.h.
        (self.machine,) = self._unpack("H", head[18:20])
        #: Names by section number; two sections may have the same name.
        self.section_names: list[str] = []
        (table,) = self._unpack("Q", head[40:48])
        entry, count, names = self._unpack("HHH", head[58:64])
        self.sections = self._read_sections(table, entry, count, names) if table else {}

    def _unpack(self, fields: str, data: bytes) -> tuple[int, ...]:
        return struct.unpack_from("=" + fields, data)

    def _pread(self, offset: int, size: int, what: str) -> bytes:
        """Return ``size`` bytes at ``offset``; raise DataError if too large or outside the file."""
        if size > _MAX_READ:
            raise DataError(f"{self.path}: its {what} of {size} bytes is too large")
        if offset + size > self._size:
            raise DataError(f"{self.path} is cut short: its {what} is missing")
        data = os.pread(self._fd, size, offset)
        if len(data) < size:  # the file became shorter
            raise DataError(f"{self.path} is cut short: its {what} is missing")
        return data

    def _read_sections(self, table: int, entry: int, count: int, names: int) -> dict[str, Section]:
        if entry < 64:
            raise DataError(f"{self.path} has a damaged section table")
        if names >= count:
            raise DataError(f"{self.path} is cut short: its section table is missing")
        raw = self._pread(table, entry * count, "section table")
        headers = [
            self._unpack("IIQQQQIIQQ", raw[i * entry : (i + 1) * entry]) for i in range(count)
        ]
        strings = self._pread(headers[names][4], headers[names][5], "section names")
        texts = StringTable(strings, str(self.path))
        self.section_names = [texts.at(header[0]) for header in headers]
        found: dict[str, Section] = {}
        rows = zip(self.section_names, headers, strict=True)
        for text, (_, kind, flags, address, offset, size, *_) in rows:
            found.setdefault(text, Section(text, kind, flags, address, offset, size))
        return found

    def read_all(self, names: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of sections ``names``; raise DataError if sections overlap."""
        wanted = {name: self.sections[name] for name in names if name in self.sections}
        kept = (section for section in wanted.values() if section.type != SHT_NOBITS)
        if sum(section.size for section in kept) > self._size:
            raise DataError(f"{self.path} is damaged: its sections overlap")
        return {name: self.read(name) for name in wanted}

    def read(self, name: str) -> bytes:
        """Return the bytes of section ``name`` in the file; empty if it does not exist."""
        section = self.sections.get(name)
        if section is None or section.type == SHT_NOBITS:
            return b""
        return self._pread(section.offset, section.size, f"section {name}")

    @property
    def is_whole(self) -> bool:
        """Return True if the file contains all bytes of its sections."""
        kept = (s for s in self.sections.values() if s.type not in (_SHT_NULL, SHT_NOBITS))
        return all(section.offset + section.size <= self._size for section in kept)

    @property
    def has_dwarf(self) -> bool:
        """Return True if this file itself has the DWARF of functions."""
        info = self.sections.get(".debug_info") or self.sections.get(".zdebug_info")
        return info is not None and info.type != SHT_NOBITS and info.size > 0

    @property
    def compression(self) -> str | None:
        """Return the compression of ``.debug_info``: ``zlib``, ``zstd`` ...; or None."""
        info = self.sections.get(".debug_info")
        if info is None or not info.flags & _SHF_COMPRESSED:
            return None
        (kind,) = self._unpack("I", self._pread(info.offset, 4, "section .debug_info"))
        return _COMPRESSION.get(kind, f"method {kind}")

    @property
    def build_id(self) -> str | None:
        """Return the GNU build id in hex, or None.

        All notes are searched, because linkers merge notes: in Debian's vmlinux the GNU note
        follows Xen's.
        """
        sections = [s for s in self.sections.values() if s.type == _SHT_NOTE]
        for section in sections[:_MAX_NOTES]:
            size = min(section.size, _MAX_NOTE_BYTES)
            found = build_id(self._pread(section.offset, size, "notes"))
            if found and len(found) <= _MAX_BUILD_ID:
                return found
        return None

    @property
    def debug_link(self) -> str | None:
        """Return the file name in ``.gnu_debuglink``; None if missing or with a directory."""
        link = _link_in(self.read(".gnu_debuglink"))
        return None if link and ("/" in link or link in (".", "..")) else link

    @property
    def alternate_link(self) -> str | None:
        """Return the file name in ``.gnu_debugaltlink``: a DWARF file shared by several images."""
        return _link_in(self.read(".gnu_debugaltlink"))

    def contains(self, *texts: bytes) -> bool:
        """Return True if the DWARF strings contain one of ``texts`` or cannot be searched."""
        names = (".debug_line_str", ".debug_str", ".debug_info")
        sections = [self.sections[name] for name in names if name in self.sections]
        if not sections or any(section.flags & _SHF_COMPRESSED for section in sections):
            return True
        contents = (self.read(section.name) for section in sections)
        return any(text in content for content in contents for text in texts)
