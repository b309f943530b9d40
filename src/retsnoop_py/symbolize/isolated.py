# SPDX-License-Identifier: BSD-2-Clause
"""Read the files of traced processes in a child process, because the files can be malicious.

For libelf and libdw, which are written in C, an ELF file with DWARF is a program, and the owner of
the traced process chooses it. The file may crash these libraries, loop forever, or shrink while it
is mapped. So the libraries run in a process of their own (:mod:`retsnoop_py.unprivileged.process`).
This process has no privileges, no environment, no network, no files except those that it receives,
little memory, and a time limit for each request. It answers with data of known types, and a failure
costs only the symbols of one file.

:func:`serve` is the child. Its start-up time matters under emulation, so modules for the parent
only are imported where they are used.
"""

from __future__ import annotations

import json
import os
import struct
from bisect import bisect_right
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError, RetsnoopError
from retsnoop_py.foreign_json import decode
from retsnoop_py.kernel.elf_file import MAX_NAME, SHT_NOBITS, ElfFile, Section, string_at
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.unprivileged.process import Unprivileged, answer_requests
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from collections.abc import Iterator

    from retsnoop_py.libbpf.dwarf import DwarfImage


_SYMBOL = struct.Struct("=IBBHQQ")
#: STT_FUNC and STT_GNU_IFUNC.
_FUNCTIONS = frozenset({2, 10})
_SHF_ALLOC = 2
_SHF_EXECINSTR = 4
_PAGE = 4096
#: Linkers that place code in the file at other offsets than in memory, by their own names.
_OTHER_LINKERS = (b"Linker: LLD", b"mold ")
_TABLES = ((".symtab", ".strtab"), (".dynsym", ".dynstr"))
_DEBUG_FILES = Path("usr/lib/debug/.build-id")


class _Symbol(NamedTuple):
    """A function: address, size in bytes, and the offset of its name in the string table."""

    address: int
    size: int
    name: int


class Program:
    """An ELF file that processes map. ``name`` is used in messages.

    ``fd`` is the open file and ``debug`` its separate debug file; both stay open. ``lines``: also
    read source lines. Raise OSError and DataError as :class:`ElfFile` does.
    """

    def __init__(self, fd: int, name: str, debug: int | None = None, *, lines: bool) -> None:
        self.name = name
        self._lines = lines
        with ElfFile(name, fd) as elf:
            self._sections = list(_placed(elf))
            self._strings, self._symbols = _symbols(elf)
            self._debug = os.dup(fd) if elf.has_dwarf else None if debug is None else os.dup(debug)
            has_symtab = ".symtab" in elf.sections
        if debug is not None and not has_symtab:
            with ElfFile(name, debug) as elf:
                strings, symbols = _symbols(elf)
                if symbols:
                    self._strings, self._symbols = strings, symbols
        self._starts = [symbol.address for symbol in self._symbols]

    def resolve(self, offset: int, place: int) -> Resolved:
        """Return the call that returns to ``offset`` in the file; ``place`` is printed for it."""
        address = self._linked(offset)
        if address is None:
            return Resolved(place, None, 0, 0, self.name)
        symbol = self._symbol(address - 1)
        name = string_at(self._strings, symbol.name) if symbol else None
        frames = self._frames(address - 1, name)
        if symbol is None:
            return Resolved(place, None, 0, 0, self.name, frames)
        distance = address - symbol.address
        return Resolved(place, name, distance, place - distance, self.name, frames)

    def close(self) -> None:
        """Close the files that were opened for source lines."""
        if "_image" in self.__dict__ and self._image is not None:
            self._image.close()
        if self._debug is not None:
            os.close(self._debug)
            self._debug = None

    def _linked(self, offset: int) -> int | None:
        """Return the linked address of a byte of the file, or None."""
        for section in self._sections:
            if _holds(section, offset):
                return section.address + offset - section.offset
        return None

    def _symbol(self, address: int) -> _Symbol | None:
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        symbol = self._symbols[index]
        return symbol if address < symbol.address + max(symbol.size, 1) else None

    @cached_property
    def _image(self) -> DwarfImage | None:
        if not self._lines or self._debug is None:
            return None
        from retsnoop_py.libbpf.dwarf import DwarfImage

        try:
            return DwarfImage(Path(self.name), fd=self._debug)
        except RetsnoopError:
            return None

    def _frames(self, address: int, symbol: str | None) -> tuple[SourceFrame, ...]:
        """Return the inline chain, outermost first."""
        if self._image is None:
            return ()
        try:
            location = self._image.lookup(address)
        except RetsnoopError:
            return ()
        if location is None:
            return ()
        return tuple(
            SourceFrame(
                (function or symbol or "??")[:MAX_NAME], file and file[:MAX_NAME], line, column
            )
            for function, file, line, column in reversed(location.frames)
        )


def debug_file(build_id: str | None, root: Path = Path("/")) -> Path | None:
    """Return the separate debug file of an image; None if it is not installed."""
    if not build_id:
        return None
    path = root / _DEBUG_FILES / build_id[:2] / f"{build_id[2:]}.debug"
    return path if path.is_file() else None


def _placed(elf: ElfFile) -> Iterator[Section]:
    """Yield the mapped sections, with their offsets in the original file.

    A debug file has only the sections' addresses. GNU's linker places code in the file as in
    memory, so the addresses give the offsets. Other linkers do not, so no section is yielded for
    them.
    """
    found = [s for s in elf.sections.values() if s.flags & _SHF_ALLOC]
    code = [s for s in found if s.flags & _SHF_EXECINSTR]
    if not code or code[0].type != SHT_NOBITS:
        yield from (s for s in found if s.type != SHT_NOBITS)
        return
    said = elf.read(".comment")
    if any(name in said for name in _OTHER_LINKERS):
        return
    base = min(s.address for s in found if s.address) & ~(_PAGE - 1)
    yield from (replace(s, offset=s.address - base) for s in code)


def _holds(section: Section, offset: int) -> bool:
    return section.offset <= offset < section.offset + section.size


def _symbols(elf: ElfFile) -> tuple[bytes, list[_Symbol]]:
    """Return the string table and the functions of the better symbol table, sorted by address.

    If several symbols have the same address and size, the one with the shortest name counts. Names
    are read only when needed.
    """
    for table, strings in _TABLES:
        raw, names = elf.read(table), elf.read(strings)
        whole = raw[: len(raw) // _SYMBOL.size * _SYMBOL.size]
        found: dict[int, _Symbol] = {}
        for name, info, _, section, address, size in _SYMBOL.iter_unpack(whole):
            if info & 15 not in _FUNCTIONS or not section or not address:
                continue
            known = found.get(address)
            if (
                known is None
                or known.size < size
                or (known.size == size and _length(names, name) < _length(names, known.name))
            ):
                found[address] = _Symbol(address, size, name)
        if found:
            return names, sorted(found.values())
    return b"", []


def _length(names: bytes, offset: int) -> int:
    end = names.find(b"\0", offset, offset + MAX_NAME)
    return (end if end >= 0 else offset + MAX_NAME) - offset


#: Seconds for one request, and for all failed requests together. This limits the time that
#: malicious files can take.
_REQUEST_S = 20.0
_PATIENCE_S = 60.0
#: Number of files that stay open, so that a new child can receive them after a crash.
_MAX_KEPT = 64
#: Maximum size of an answer in bytes: 64 frames with two names of 4,096 characters each, and more.
_MAX_ANSWER = 4 << 20


class _Request(NamedTuple):
    """A request. With ``name``, a file and possibly its debug file are sent along.

    Without an offset, only the build id is requested.
    """

    number: int
    name: str = ""
    offset: int | None = None
    place: int = 0
    lines: bool = False


class _Answer(NamedTuple):
    """The build id in hex, or the resolved address; neither if the file cannot be read."""

    build_id: str | None = None
    resolved: Resolved | None = None


class _File(NamedTuple):
    fd: int
    debug: int | None
    name: str


class ProgramReader:
    """Read build ids and symbols of untrusted files.

    ``lines``: also read source lines if the file has DWARF. ``warnings`` has the rejected files and
    the reasons. No method raises because of a file's contents.
    """

    def __init__(self, *, lines: bool) -> None:
        import msgspec

        self._lines = lines
        self._process = Unprivileged(__name__, _MAX_ANSWER)
        self._files: list[_File | None] = []
        #: Numbers of files that the child has, and of files that no child receives again.
        self._sent: set[int] = set()
        self._bad: set[int] = set()
        self._patience = _PATIENCE_S
        self.warnings: list[str] = []
        self._encode = msgspec.json.encode
        self._decoder = msgspec.json.Decoder(_Answer)

    def start(self) -> None:
        """Start the child early, because its start takes a moment."""
        try:
            self._process.start()
        except OSError as error:
            self._patience = 0
            self.warnings.append(f"no symbols of programs: no process to read them: {error}")

    @property
    def child(self) -> int | None:
        """Return the process id of the child, or None."""
        return self._process.pid

    def close(self) -> None:
        """Stop the child and close the files."""
        self._stop()
        for file in self._files:
            if file is not None:
                _close(file)
        self._files.clear()

    def build_id(self, fd: int, name: str) -> str | None:
        """Return the build id in hex of the file open as ``fd``, or None."""
        answer = self._ask(_Request(-1, name), name, (fd,))
        return None if answer is None else answer.build_id

    def add(self, fd: int, debug: int | None, name: str) -> int:
        """Return a number for the file open as ``fd`` and its debug file; takes over both."""
        self._files.append(_File(fd, debug, name))
        return len(self._files) - 1

    def resolve(self, number: int, offset: int, place: int) -> Resolved | None:
        """Return the call that returns to ``offset`` in a file; None if the file cannot be read."""
        file = self._files[number]
        if number in self._bad or (file is None and number not in self._sent):
            return None
        request = _Request(number, "", offset, place, self._lines)
        fds: tuple[int, ...] = ()
        name = "a program" if file is None else file.name
        if file is not None and number not in self._sent:
            request = request._replace(name=name)
            fds = (file.fd,) if file.debug is None else (file.fd, file.debug)
        answer = self._ask(request, name, fds)
        if answer is None or answer.resolved is None:
            self._bad.add(number)
            return None
        self._sent.add(number)
        if file is not None and number >= _MAX_KEPT:
            _close(file)
            self._files[number] = None
        return answer.resolved

    def _ask(self, request: _Request, name: str, fds: tuple[int, ...]) -> _Answer | None:
        if self._patience <= 0:
            return None
        if self.child is None:
            self.start()
        if self.child is None:
            return None
        try:
            answer = self._process.ask(self._encode(request), fds, _REQUEST_S)
            return decode(self._decoder, answer)
        except TimeoutError:
            self._patience -= _REQUEST_S
            self._give_up(name, f"it takes longer than {_REQUEST_S:.0f} s")
        except (OSError, DataError):
            self._patience -= 1
            self._give_up(name, "it is damaged, and the process that reads it crashed")
        return None

    def _give_up(self, name: str, why: str) -> None:
        self._stop()
        self.warnings.append(f"no symbols of {name}: {why}")
        if self._patience <= 0:
            self.warnings.append("no more symbols of programs: too many files cannot be read")

    def _stop(self) -> None:
        self._sent.clear()
        self._process.stop()


def _close(file: _File) -> None:
    os.close(file.fd)
    if file.debug is not None:
        os.close(file.debug)


class _Child:
    """State of the child."""

    def __init__(self, kind: type[Program]) -> None:
        self._kind = kind
        self._programs: dict[int, Program] = {}

    def answer(self, data: bytes, fds: list[int]) -> bytes:
        """Answer a request, which the files ``fds`` accompany."""
        return json.dumps(self._answer(_Request(*json.loads(data)), fds)).encode()

    def _answer(self, request: _Request, fds: list[int]) -> _Answer:
        try:
            if request.offset is None:
                with ElfFile(request.name, fds[0]) as elf:
                    return _Answer(elf.build_id)
            if fds:
                files = [*fds, None][:2]
                made = self._kind(files[0] or 0, request.name, files[1], lines=request.lines)
                self._programs[request.number] = made
            program = self._programs[request.number]
            return _Answer(resolved=program.resolve(request.offset, request.place))
        except (OSError, DataError, MemoryError):
            return _Answer()


def serve(descriptor: int) -> None:
    """Run the child: answer requests on a socket until the parent closes it."""
    from retsnoop_py.libbpf import dwarf

    dwarf.load()
    answer_requests(descriptor, _Child(Program).answer)
