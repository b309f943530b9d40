# SPDX-License-Identifier: BSD-2-Clause
"""A BPF object as its file tells it: source lines, CO-RE relocations, externs, programs.

The layouts are those of the kernel's ``Documentation/bpf/btf.rst`` (.BTF.ext) and of ELF. Nothing
here needs a kernel; with the BTF of one, relocations are looked up in it.
"""

from __future__ import annotations

import bisect
import functools
import re
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import read_below
from retsnoop_py.kernel.btf import Btf, Kind
from retsnoop_py.kernel.elf_file import ElfFile, StringTable
from retsnoop_py.load.model import Place
from retsnoop_py.load.relocation import Relocation
from retsnoop_py.value import Value

__all__ = ["ObjectFile", "Symbol"]

_EM_BPF = 247
_SYMBOL = struct.Struct("=IBBHQQ")
_REL = struct.Struct("=QQ")
_EXT_HEADER = struct.Struct("=HBBIIIII")
_EXT_RELO = struct.Struct("=II")
#: A line or a relocation. Later versions may put more behind it, none makes less of it.
_EXT_RECORD = struct.Struct("=4I")
_EXT_MAGIC = 0xEB9F
_INSN = 8
_CALL, _PSEUDO_CALL = 0x85, 1
#: What loads an address: that of a function, where one is passed to be called back.
_LOAD_ADDRESS = 0x18
#: Classes of jumps, and the operations among them that are none.
_JUMP_64, _JUMP_32 = 5, 6
_JUMPS = (_JUMP_64, _JUMP_32)
_NO_JUMPS = (0x80, 0x90)


def _one_of(opcodes: Iterable[int]) -> re.Pattern[bytes]:
    """A pattern for the first bytes of instructions."""
    return re.compile(b"[" + re.escape(bytes(opcodes)) + b"]")


_REFERRING = _one_of((_LOAD_ADDRESS, _CALL))
_CALLING = _one_of((_CALL,))
_JUMPING = _one_of(one for one in range(256) if one & 7 in _JUMPS and one & 0xF0 not in _NO_JUMPS)
_STT_FUNC, _STT_SECTION = 2, 3
_WEAK, _GLOBAL = 2, 1
#: Functions and instructions of one program: more are a loop in damaged data. The verifier reads no
#: more instructions (BPF_COMPLEXITY_LIMIT_INSNS).
_MAX_SUBPROGRAMS = 256
_MAX_INSTRUCTIONS = 1_000_000
#: Symbols of an object. Objects have some thousands, and a sparse file may have millions.
_MAX_SYMBOLS = 1 << 18
_CONTEXT = 2
#: Bytes of a source file, source files that are kept in memory, and folders in a name.
_MAX_SOURCE, _MAX_FILES, _MAX_PARTS = 8 << 20, 32, 32
#: How like a name another one is to be, and how long to be looked for inside of others.
_LIKENESS = 0.8
_LONG_NAME = 6


class Symbol(Value):
    """A symbol: ``section`` is a number, 0 for what the object only refers to; bytes."""

    name: str
    kind: int
    bind: int
    section: int
    value: int
    size: int
    index: int


class ObjectFile:
    """One BPF object, read once.

    ``kernel``: the BTF of the kernel it is to run on, if that is at hand. ``source``: the folder
    with the source files that the object names; files elsewhere are not read. ``fd``: the object
    itself, open and left so; ``path`` is only its name then. Raises DataError for what is no BPF
    object, and what :class:`ElfFile` raises.
    """

    def __init__(
        self,
        path: Path,
        kernel: Btf | None = None,
        source: Path | None = None,
        fd: int | None = None,
    ) -> None:
        self.path = path
        self.kernel = kernel
        self._source = source
        self._sources: dict[str, tuple[str, ...]] = {}
        with ElfFile(path, fd) as elf:
            self._check_machine(elf)
            self.section_names = list(elf.sections)
            self._code = elf.read_all(
                name
                for name, section in elf.sections.items()
                if section.flags & 4 and section.size  # SHF_EXECINSTR
            )
            rels = elf.read_all(f".rel{name}" for name in self._code)
            self._rels = {name.removeprefix(".rel"): raw for name, raw in rels.items()}
            self._symtab = elf.read(".symtab")
            if len(self._symtab) > _MAX_SYMBOLS * _SYMBOL.size:
                raise DataError(f"{path} is damaged: it has more than {_MAX_SYMBOLS} symbols")
            self._names = StringTable(elf.read(".strtab"), str(path))
            self.symtab_offset = elf.sections[".symtab"].offset if self._symtab else 0
            self.has_btf = bool(elf.sections.get(".BTF"))
            self._btf_data, self._ext = elf.read(".BTF"), elf.read(".BTF.ext")
            self.license = elf.read("license").split(b"\0")[0].decode(errors="replace")
            self._numbers = dict(enumerate(elf.section_names))

    @staticmethod
    def _check_machine(elf: ElfFile) -> None:
        if elf.machine != _EM_BPF:
            raise DataError(
                f"{elf.path} is an ELF file, but not for BPF"
                f" (machine {elf.machine}, BPF is {_EM_BPF})",
                "compile it with clang -target bpf",
            )

    @functools.cached_property
    def btf(self) -> Btf | None:
        """Its own BTF; None where it has none, or one that cannot be read."""
        try:
            return Btf(self._btf_data) if self._btf_data else None
        except DataError:
            return None

    @functools.cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """All symbols, in the order of the table."""
        found = []
        whole = len(self._symtab) // _SYMBOL.size * _SYMBOL.size
        for number, row in enumerate(_SYMBOL.iter_unpack(self._symtab[:whole])):
            name, info, _, section, value, size = row
            text = self._names.at(name)
            found.append(Symbol(text, info & 15, info >> 4, section, value, size, number))
        return tuple(found)

    def read_tables(self) -> None:
        """Read all tables now: types, symbols, source lines and relocations. Raises DataError."""
        if self.btf is not None:
            self.data_sections()
        self._lines  # noqa: B018 - kept by the property
        self._relocations  # noqa: B018
        self.symbols  # noqa: B018

    def strong_externs(self) -> dict[str, int]:
        """What it refers to and must have: names, with the file offset of each one's st_info."""
        return {
            symbol.name: self.symtab_offset + symbol.index * _SYMBOL.size + 4
            for symbol in self.symbols
            if symbol.section == 0 and symbol.name and symbol.bind == _GLOBAL
        }

    # -- from an instruction the verifier names to where it stands in the file --

    def _function(self, program: str) -> Symbol | None:
        functions = [s for s in self.symbols if s.kind == _STT_FUNC and s.section]
        for symbol in functions:
            if symbol.name == program:
                return symbol
        near = [s for s in functions if program and s.name.startswith(program)]
        entries = [s for s in functions if self._numbers.get(s.section) != ".text"]
        if len(near) == 1:
            return near[0]
        return entries[0] if len(entries) == 1 else None

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an object file lives as long as the run
    def _layout(self, program: str) -> tuple[tuple[int, str, int], ...]:
        """The program as libbpf puts it together.

        For each function its first instruction's number in the program, its section and its
        offset there in bytes; functions that are called follow in the order of the calls.
        """
        main = self._function(program)
        if main is None:
            return ()
        placed: dict[tuple[str, int], int] = {}
        order: list[tuple[int, str, int]] = []
        end = 0

        def place(symbol: Symbol) -> None:
            nonlocal end
            section = self._numbers.get(symbol.section, "")
            key = (section, symbol.value)
            if key in placed or len(placed) > _MAX_SUBPROGRAMS or end > _MAX_INSTRUCTIONS:
                return
            placed[key] = end
            order.append((end, section, symbol.value))
            end += symbol.size // _INSN
            for called in self._calls(section, symbol):
                place(called)

        place(main)
        return tuple(order)

    def _calls(self, section: str, function: Symbol) -> Iterator[Symbol]:
        code = self._code.get(section, b"")
        rels = self._relocated(section)
        functions = self._functions
        for at in _instructions(code, function.value, function.size, _REFERRING):
            imm = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
            symbol = rels.get(at)
            if code[at] == _LOAD_ADDRESS:
                if symbol is None:
                    continue
                key = (symbol.section, symbol.value + imm)
            elif code[at + 1] >> 4 != _PSEUDO_CALL:
                continue
            elif symbol is None:
                key = (function.section, at + (imm + 1) * _INSN)
            elif symbol.kind == _STT_SECTION:
                key = (symbol.section, (imm + 1) * _INSN)
            else:
                key = (symbol.section, symbol.value)
            if key in functions:
                yield functions[key]

    @functools.cached_property
    def _functions(self) -> dict[tuple[int, int], Symbol]:
        """Functions by section and offset."""
        return {(s.section, s.value): s for s in self.symbols if s.kind == _STT_FUNC and s.section}

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an object file lives as long as the run
    def _relocated(self, section: str) -> dict[int, Symbol]:
        """By offset in ``section``: the symbol an instruction refers to."""
        raw = self._rels.get(section, b"")
        whole = len(raw) // _REL.size * _REL.size
        return {
            offset: self.symbols[info >> 32]
            for offset, info in _REL.iter_unpack(raw[:whole])
            if info >> 32 < len(self.symbols)
        }

    def locate(self, program: str, index: int) -> tuple[str, int] | None:
        """Section and offset in it, in bytes, of instruction ``index`` of ``program``."""
        layout = self._layout(program)
        at = bisect.bisect_right(layout, (index, "\U0010ffff", 0)) - 1
        if at < 0:
            return None
        first, section, offset = layout[at]
        return section, offset + (index - first) * _INSN

    def externs_of(self, program: str) -> set[str]:
        """What a program and the functions it calls refer to outside of the object."""
        return {symbol.name for symbol in self._referred(program) if symbol.section == 0}

    def maps_of(self, program: str) -> set[str] | None:
        """The maps it refers to by name; None where some may be referred to otherwise."""
        found = set()
        for symbol in self._referred(program):
            if self._numbers.get(symbol.section) in (".maps", "maps"):
                if symbol.kind == _STT_SECTION:
                    return None
                found.add(symbol.name)
        return found if self._layout(program) else None

    def instruction_count(self, program: str) -> int:
        """How many instructions it has with all functions it calls; 0 where that is not known."""
        return (
            sum(self._sizes.get((place, at), 0) for _, place, at in self._layout(program)) // _INSN
        )

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an object file lives as long as the run
    def has_loop(self, program: str) -> bool:
        """Whether it, or a function that it calls, jumps back."""
        for _, section, start in self._layout(program):
            code = self._code.get(section, b"")
            size = self._sizes.get((section, start), 0)
            for at in _instructions(code, start, size, _JUMPING):
                by_number = code[at] & 0xF7 == _JUMP_32
                where = slice(at + 4, at + 8) if by_number else slice(at + 2, at + 4)
                if int.from_bytes(code[where], "little", signed=True) < 0:
                    return True
        return False

    def programs(self) -> list[str]:
        """What may be a program: functions in sections of their own."""
        return [
            one.name
            for one in self.symbols
            if one.kind == _STT_FUNC and self._numbers.get(one.section, ".text") != ".text"
        ]

    def maps(self) -> list[str]:
        """Its maps, and its tables of functions."""
        tables = (".struct_ops", ".struct_ops.link")
        return [
            one.name
            for one in self.symbols
            if one.name and self._numbers.get(one.section, "") in (".maps", "maps", *tables)
        ]

    def has_function(self, program: str, function: str) -> bool:
        """Whether ``program`` calls the global function of this name, itself or by others."""
        places = self._global_places.get(function, ())
        return any((section, start) in places for _, section, start in self._layout(program)[1:])

    @functools.cached_property
    def _global_places(self) -> dict[str, set[tuple[str, int]]]:
        """Section and offset of the global functions, by name."""
        found: dict[str, set[tuple[str, int]]] = {}
        for one in self.symbols:
            if one.kind == _STT_FUNC and one.bind == _GLOBAL:
                found.setdefault(one.name, set()).add(
                    (self._numbers.get(one.section, ""), one.value)
                )
        return found

    def kconfig(self) -> dict[str, str]:
        """What it asks of the kernel's configuration, each with a value for: not set."""
        btf, unset = self.btf, {Kind.ENUM: "n", Kind.ARRAY: '""'}
        if btf is None:
            return {}
        return {
            name: unset.get(btf.resolve(type_id).kind, "n" if size == 1 else "0")
            for name, (_, size, type_id) in self.data_sections().get(".kconfig", {}).items()
            if name.startswith("CONFIG_")
        }

    def tables_of(self, struct: str) -> list[str]:
        """Its struct_ops maps that are of this struct."""
        btf = self.btf
        sections = self.data_sections()
        return [
            name
            for section in (".struct_ops", ".struct_ops.link")
            for name, (_, _, type_id) in sections.get(section, {}).items()
            if btf is not None and btf.type(type_id).name == struct
        ]

    def passes_functions(self, program: str) -> bool:
        """Whether it, or a function it calls, passes one on to be called back."""
        functions = {(s.section, s.value) for s in self.symbols if s.kind == _STT_FUNC}
        for _, section, start in self._layout(program):
            code, size = self._code.get(section, b""), self._sizes.get((section, start), 0)
            for at, symbol in self._relocated(section).items():
                if start <= at < min(start + size, len(code)) and code[at] == _LOAD_ADDRESS:
                    imm = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
                    if (symbol.section, symbol.value + imm) in functions:
                        return True
        return False

    def helpers_of(self, program: str) -> Iterator[tuple[int, int]]:
        """Number and place, an instruction's index, of each helper that it calls."""
        for first, section, start in self._layout(program):
            code, size = self._code.get(section, b""), self._sizes.get((section, start), 0)
            for at in _instructions(code, start, size, _CALLING):
                if code[at + 1] >> 4 == 0 and at not in self._relocated(section):
                    number = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
                    yield number, first + (at - start) // _INSN

    def instruction_at(self, program: str, index: int) -> bytes:
        """The eight bytes of instruction ``index``; empty where there is none."""
        found = self.locate(program, index)
        return self._code.get(found[0], b"")[found[1] : found[1] + _INSN] if found else b""

    @functools.cached_property
    def _sizes(self) -> dict[tuple[str, int], int]:
        """Bytes of each function, by section and offset."""
        return {
            (self._numbers.get(one.section, ""), one.value): one.size
            for one in self.symbols
            if one.kind == _STT_FUNC
        }

    def _referred(self, program: str) -> Iterator[Symbol]:
        for _, section, start in self._layout(program):
            end = start + self._sizes.get((section, start), 0)
            for offset, symbol in self._relocated(section).items():
                if start <= offset < end:
                    yield symbol

    def kfunc_at(self, program: str, index: int) -> str:
        """The extern that instruction ``index`` calls; empty if it calls none."""
        found = self.locate(program, index)
        symbol = self._relocated(found[0]).get(found[1]) if found else None
        return symbol.name if symbol is not None and symbol.section == 0 else ""

    def functions_like(self, name: str) -> list[str]:
        """Functions of the kernel's BTF whose names are near to ``name``, the nearest first."""
        from difflib import get_close_matches

        kernel = self.kernel
        if kernel is None:
            return []
        # strings first: of a hundred thousand types few have a name that begins so
        begins = re.compile(rb"(?<=\0)" + re.escape(name[:2].encode()) + rb"\w*(?=\0)")
        known = [one.decode() for one in begins.findall(kernel.blobs[0].strings)]
        inside = [one for one in known if name in one] if len(name) >= _LONG_NAME else []
        near = get_close_matches(name, known, 6, _LIKENESS) + sorted(inside, key=len)
        functions = kernel.functions(near)
        return [one for one in dict.fromkeys(near) if one in functions][:3]

    # -- .BTF.ext --

    @functools.cached_property
    def _strings(self) -> StringTable:
        """The strings of its BTF, which .BTF.ext refers to as well."""
        btf = self.btf
        return StringTable(btf.blobs[0].strings if btf is not None else b"", str(self.path))

    def _string(self, offset: int) -> str:
        return self._strings.at(offset)

    def _records(self, which: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The records of part ``which``, with their section: 1 lines, 2 CO-RE relocations.

        None of what is cut short, or too short for a record.
        """
        ext = self._ext
        if len(ext) < _EXT_HEADER.size or self.btf is None:
            return
        magic, _, _, header, *parts = _EXT_HEADER.unpack_from(ext)
        if magic != _EXT_MAGIC:
            return
        if min(header, len(ext)) >= _EXT_HEADER.size + _EXT_RELO.size:
            parts += _EXT_RELO.unpack_from(ext, _EXT_HEADER.size)
        if 2 * which + 1 >= len(parts):
            return
        start, length = header + parts[2 * which], parts[2 * which + 1]
        data = memoryview(ext)[start : start + length]
        if len(data) < 4:
            return
        size = int.from_bytes(data[:4], "little")
        at = 4
        while size >= _EXT_RECORD.size and at + 8 <= len(data):
            name, count = struct.unpack_from("=II", data, at)
            at += 8
            section = self._string(name)
            for _ in range(count):
                if at + size > len(data):
                    return
                yield section, _EXT_RECORD.unpack_from(data, at)
                at += size

    @functools.cached_property
    def _lines(self) -> dict[str, list[tuple[int, str, str, int, int]]]:
        """By section, sorted: offset, file, text, line, column."""
        found: dict[str, list[tuple[int, str, str, int, int]]] = {}
        for section, (offset, file, text, place) in self._records(1):
            row = (offset, self._string(file), self._string(text), place >> 10, place & 0x3FF)
            found.setdefault(section, []).append(row)
        for rows in found.values():
            rows.sort()
        return found

    @functools.cached_property
    def _texts(self) -> dict[tuple[str, int], str]:
        """The source lines that the line table quotes, by file and line."""
        return {
            (file, line): text.rstrip()
            for rows in self._lines.values()
            for _, file, text, line, _ in rows
            if text
        }

    def place_at(self, program: str, index: int) -> Place | None:
        """The source line of an instruction, with the lines around it."""
        found = self.locate(program, index)
        if found is None:
            return None
        section, offset = found
        rows = self._lines.get(section, [])
        at = bisect.bisect_right(rows, (offset, "\U0010ffff")) - 1
        if at < 0:
            return None
        _, file, text, line, column = rows[at]
        if not line:
            return None
        return Place(
            text.strip(), file, line, column, program, self._context(file, line, text.strip())
        )

    def _context(self, file: str, line: int, text: str) -> tuple[tuple[int, str], ...]:
        """Lines around ``line``: from the source folder if it has the file that was compiled.

        The object chooses the file, the line and the text, so the user has to choose the folder.
        """
        wanted = range(max(line - _CONTEXT, 1), line + _CONTEXT + 1)
        for name in _names_below(file) if self._source is not None else ():
            lines = self._source_lines(name)
            if line <= len(lines) and lines[line - 1].strip() == text:
                return tuple((n, lines[n - 1]) for n in wanted if n <= len(lines))
        quoted = ((n, self._texts.get((file, n), "")) for n in wanted)
        return tuple((n, quote) for n, quote in quoted if quote)

    def _source_lines(self, name: str) -> tuple[str, ...]:
        """The lines of a file below the source folder; none if it has no such file."""
        lines = self._sources.get(name)
        if lines is None:
            assert self._source is not None
            if len(self._sources) >= _MAX_FILES:
                self._sources.clear()
            text = read_below(self._source, name, _MAX_SOURCE)
            # compilers count \n; str.splitlines() also ends lines elsewhere
            lines = self._sources[name] = () if text is None else tuple(text.split("\n"))
        return lines

    def function_place(self, program: str) -> Place | None:
        """Where the program begins."""
        return self.place_at(program, 0)

    @functools.cached_property
    def _relocations(self) -> dict[tuple[str, int], tuple[int, int, int]]:
        """By section and offset: type, access string and kind."""
        return {
            (section, offset): (type_id, access, kind)
            for section, (offset, type_id, access, kind) in self._records(2)
        }

    def relocation_at(self, program: str, index: int) -> Relocation | None:
        """The CO-RE relocation of an instruction; None where it names no type of the object."""
        found, btf = self.locate(program, index), self.btf
        row = self._relocations.get(found) if found else None
        if row is None or btf is None:
            return None
        type_id, access, kind = row
        try:
            return Relocation(btf, type_id, self._string(access), kind, self.kernel)
        except DataError:
            return None

    def data_sections(self) -> dict[str, dict[str, tuple[int, int, int]]]:
        """Variables by section: name, with offset and size in bytes and its type's id."""
        btf = self.btf
        found: dict[str, dict[str, tuple[int, int, int]]] = {}
        if btf is None:
            return found
        for type_id in range(1, btf.end):
            type_ = btf.type(type_id)
            if type_.kind is Kind.DATASEC:
                found[type_.name] = btf.variables(type_id)
        return found


def _names_below(file: str) -> Iterator[str]:
    """Names that the source file ``file`` may have below the source folder, the longest first.

    The folder may stand for any of those above the file: for ``../src/a.c``, ``src/a.c`` and
    ``a.c``.
    """
    parts = [part for part in file.split("/") if part not in ("", ".", "..")][-_MAX_PARTS:]
    return ("/".join(parts[at:]) for at in range(len(parts)))


def _instructions(code: bytes, start: int, size: int, opcodes: re.Pattern[bytes]) -> Iterator[int]:
    """Where the whole instructions of a function with such opcodes are in the code of its section.

    A program may have a million instructions, so that none of the others is looked at in Python.
    """
    beyond = min(start + size, len(code) - _INSN + 1)
    for found in opcodes.finditer(code[start:beyond:_INSN]):
        yield start + found.start() * _INSN
