# SPDX-License-Identifier: BSD-2-Clause
"""Read a BPF object file: source lines, CO-RE relocations, externs, programs.

The layouts come from the kernel's ``Documentation/bpf/btf.rst`` (.BTF.ext) and from ELF. No running
kernel is needed. With a kernel's BTF, relocations are resolved against that BTF.
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
from retsnoop_py.text import close_names
from retsnoop_py.value import Value

__all__ = ["ObjectFile", "Symbol"]

_EM_BPF = 247
_SYMBOL = struct.Struct("=IBBHQQ")
_REL = struct.Struct("=QQ")
_EXT_HEADER = struct.Struct("=HBBIIIII")
_EXT_RELO = struct.Struct("=II")
#: A line or a relocation. Later versions may append fields; no version has fewer.
_EXT_RECORD = struct.Struct("=4I")
_EXT_MAGIC = 0xEB9F
_INSN = 8
_CALL, _PSEUDO_CALL = 0x85, 1
#: Opcode that loads an address, such as the address of a callback function.
_LOAD_ADDRESS = 0x18
#: Instruction classes of jumps, and the operations of these classes that are calls or exits.
_JUMP_64, _JUMP_32 = 5, 6
_JUMPS = (_JUMP_64, _JUMP_32)
_NO_JUMPS = (0x80, 0x90)


def _one_of(opcodes: Iterable[int]) -> re.Pattern[bytes]:
    """Return a pattern for the first bytes of instructions."""
    return re.compile(b"[" + re.escape(bytes(opcodes)) + b"]")


_REFERRING = _one_of((_LOAD_ADDRESS, _CALL))
_CALLING = _one_of((_CALL,))
_JUMPING = _one_of(one for one in range(256) if one & 7 in _JUMPS and one & 0xF0 not in _NO_JUMPS)
_STT_FUNC, _STT_SECTION = 2, 3
_WEAK, _GLOBAL = 2, 1
#: Limits per program, against loops in damaged data. The verifier has the same limit of
#: instructions (BPF_COMPLEXITY_LIMIT_INSNS).
_MAX_SUBPROGRAMS = 256
_MAX_INSTRUCTIONS = 1_000_000
#: Maximum number of symbols. Objects have some thousands, but a sparse file can have millions.
_MAX_SYMBOLS = 1 << 18
_CONTEXT = 2
#: Maximum size of a source file in bytes, number of cached source files, number of folders in a
#: name.
_MAX_SOURCE, _MAX_FILES, _MAX_PARTS = 8 << 20, 32, 32
#: Required similarity of a name, and the shortest name that is searched inside other names.
_LIKENESS = 0.8
_LONG_NAME = 6


class Symbol(Value):
    """A symbol. ``section``: a number, 0 for an undefined symbol. ``size`` is in bytes."""

    name: str
    kind: int
    bind: int
    section: int
    value: int
    size: int
    index: int


class ObjectFile:
    """A BPF object, read once.

    ``kernel``: BTF of the target kernel, if available. ``source``: the folder with the source files
    that the object names; files outside are not read. ``fd``: an open file of the object, which
    stays open; then ``path`` is only its name. Raise DataError for a file that is not a BPF object,
    and the errors of :class:`ElfFile`.
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
        """Return the object's own BTF; None if it is missing or cannot be read."""
        try:
            return Btf(self._btf_data) if self._btf_data else None
        except DataError:
            return None

    @functools.cached_property
    def symbols(self) -> tuple[Symbol, ...]:
        """Return all symbols, in the order of the table."""
        found = []
        whole = len(self._symtab) // _SYMBOL.size * _SYMBOL.size
        for number, row in enumerate(_SYMBOL.iter_unpack(self._symtab[:whole])):
            name, info, _, section, value, size = row
            text = self._names.at(name)
            found.append(Symbol(text, info & 15, info >> 4, section, value, size, number))
        return tuple(found)

    def read_tables(self) -> None:
        """Read types, symbols, source lines and relocations now. Raise DataError."""
        if self.btf is not None:
            self.data_sections()
        self._lines  # noqa: B018 - kept by the property
        self._relocations  # noqa: B018
        self.symbols  # noqa: B018

    def strong_externs(self) -> dict[str, int]:
        """Return the name of each extern that must exist, with the file offset of its st_info."""
        return {
            symbol.name: self.symtab_offset + symbol.index * _SYMBOL.size + 4
            for symbol in self.symbols
            if symbol.section == 0 and symbol.name and symbol.bind == _GLOBAL
        }

    # -- from an instruction number of the verifier to the place in the file --

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
        """Return the layout of the program after libbpf links it.

        For each function: the number of its first instruction in the program, its section and its
        offset in that section in bytes. Called functions follow in the order of the calls.
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
        """Return the functions by section and offset."""
        return {(s.section, s.value): s for s in self.symbols if s.kind == _STT_FUNC and s.section}

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an object file lives as long as the run
    def _relocated(self, section: str) -> dict[int, Symbol]:
        """Return the symbols to which instructions refer, by offset in ``section``."""
        raw = self._rels.get(section, b"")
        whole = len(raw) // _REL.size * _REL.size
        return {
            offset: self.symbols[info >> 32]
            for offset, info in _REL.iter_unpack(raw[:whole])
            if info >> 32 < len(self.symbols)
        }

    def locate(self, program: str, index: int) -> tuple[str, int] | None:
        """Return the section and the offset in bytes of instruction ``index`` of ``program``."""
        layout = self._layout(program)
        at = bisect.bisect_right(layout, (index, "\U0010ffff", 0)) - 1
        if at < 0:
            return None
        first, section, offset = layout[at]
        return section, offset + (index - first) * _INSN

    def externs_of(self, program: str) -> set[str]:
        """Return the externs of a program and of the functions that it calls."""
        return {symbol.name for symbol in self._referred(program) if symbol.section == 0}

    def maps_of(self, program: str) -> set[str] | None:
        """Return the names of the program's maps; None if a reference has no name."""
        found = set()
        for symbol in self._referred(program):
            if self._numbers.get(symbol.section) in (".maps", "maps"):
                if symbol.kind == _STT_SECTION:
                    return None
                found.add(symbol.name)
        return found if self._layout(program) else None

    def instruction_count(self, program: str) -> int:
        """Return the number of instructions of a program with its functions; 0 if unknown."""
        return (
            sum(self._sizes.get((place, at), 0) for _, place, at in self._layout(program)) // _INSN
        )

    @functools.lru_cache(maxsize=64)  # noqa: B019 - an object file lives as long as the run
    def has_loop(self, program: str) -> bool:
        """Return True if the program, or a function that it calls, jumps backward."""
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
        """Return the names of possible programs: functions outside of ``.text``."""
        return [
            one.name
            for one in self.symbols
            if one.kind == _STT_FUNC and self._numbers.get(one.section, ".text") != ".text"
        ]

    def maps(self) -> list[str]:
        """Return the names of the maps, including struct_ops maps."""
        tables = (".struct_ops", ".struct_ops.link")
        return [
            one.name
            for one in self.symbols
            if one.name and self._numbers.get(one.section, "") in (".maps", "maps", *tables)
        ]

    def has_function(self, program: str, function: str) -> bool:
        """Return True if ``program`` calls the global ``function``, directly or indirectly."""
        places = self._global_places.get(function, ())
        return any((section, start) in places for _, section, start in self._layout(program)[1:])

    @functools.cached_property
    def _global_places(self) -> dict[str, set[tuple[str, int]]]:
        """Return the section and offset of each global function, by name."""
        found: dict[str, set[tuple[str, int]]] = {}
        for one in self.symbols:
            if one.kind == _STT_FUNC and one.bind == _GLOBAL:
                found.setdefault(one.name, set()).add(
                    (self._numbers.get(one.section, ""), one.value)
                )
        return found

    def kconfig(self) -> dict[str, str]:
        """Return the required kernel options, each with its value for "not set"."""
        btf, unset = self.btf, {Kind.ENUM: "n", Kind.ARRAY: '""'}
        if btf is None:
            return {}
        return {
            name: unset.get(btf.resolve(type_id).kind, "n" if size == 1 else "0")
            for name, (_, size, type_id) in self.data_sections().get(".kconfig", {}).items()
            if name.startswith("CONFIG_")
        }

    def tables_of(self, struct: str) -> list[str]:
        """Return the struct_ops maps of type ``struct``."""
        btf = self.btf
        sections = self.data_sections()
        return [
            name
            for section in (".struct_ops", ".struct_ops.link")
            for name, (_, _, type_id) in sections.get(section, {}).items()
            if btf is not None and btf.type(type_id).name == struct
        ]

    def passes_functions(self, program: str) -> bool:
        """Return True if the program, or a function that it calls, passes a callback."""
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
        """Yield the number of each called helper, with the index of the calling instruction."""
        for first, section, start in self._layout(program):
            code, size = self._code.get(section, b""), self._sizes.get((section, start), 0)
            for at in _instructions(code, start, size, _CALLING):
                if code[at + 1] >> 4 == 0 and at not in self._relocated(section):
                    number = int.from_bytes(code[at + 4 : at + 8], "little", signed=True)
                    yield number, first + (at - start) // _INSN

    def instruction_at(self, program: str, index: int) -> bytes:
        """Return the eight bytes of instruction ``index``; empty if it does not exist."""
        found = self.locate(program, index)
        return self._code.get(found[0], b"")[found[1] : found[1] + _INSN] if found else b""

    @functools.cached_property
    def _sizes(self) -> dict[tuple[str, int], int]:
        """Return the size of each function in bytes, by section and offset."""
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
        """Return the extern that instruction ``index`` calls; empty for other instructions."""
        found = self.locate(program, index)
        symbol = self._relocated(found[0]).get(found[1]) if found else None
        return symbol.name if symbol is not None and symbol.section == 0 else ""

    def functions_like(self, name: str) -> list[str]:
        """Return up to three functions of the kernel's BTF with similar names, best first."""
        kernel = self.kernel
        if kernel is None:
            return []
        # Strings come first: only a few of a hundred thousand types begin with these letters.
        begins = re.compile(rb"(?<=\0)" + re.escape(name[:2].encode()) + rb"\w*(?=\0)")
        known = [one.decode() for one in begins.findall(kernel.blobs[0].strings)]
        inside = [one for one in known if name in one] if len(name) >= _LONG_NAME else []
        near = close_names(name, known, 6, _LIKENESS) + sorted(inside, key=len)
        functions = kernel.functions(near)
        return [one for one in dict.fromkeys(near) if one in functions][:3]

    # -- .BTF.ext --

    @functools.cached_property
    def _strings(self) -> StringTable:
        """Return the strings of the object's BTF, to which .BTF.ext also refers."""
        btf = self.btf
        return StringTable(btf.blobs[0].strings if btf is not None else b"", str(self.path))

    def _string(self, offset: int) -> str:
        return self._strings.at(offset)

    def _records(self, which: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Yield the records of part ``which``, with their section: 1 lines, 2 CO-RE relocations.

        Truncated data and records that are too short are skipped.
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
        """Return for each section, sorted: offset, file, text, line, column."""
        found: dict[str, list[tuple[int, str, str, int, int]]] = {}
        for section, (offset, file, text, place) in self._records(1):
            row = (offset, self._string(file), self._string(text), place >> 10, place & 0x3FF)
            found.setdefault(section, []).append(row)
        for rows in found.values():
            rows.sort()
        return found

    @functools.cached_property
    def _texts(self) -> dict[tuple[str, int], str]:
        """Return the source lines of the line table, by file and line."""
        return {
            (file, line): text.rstrip()
            for rows in self._lines.values()
            for _, file, text, line, _ in rows
            if text
        }

    def place_at(self, program: str, index: int) -> Place | None:
        """Return the source line of an instruction, with the lines around it."""
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
        """Return lines around ``line``, from the source folder if it has the compiled file.

        The object chooses the file, the line and the text, so the user must choose the folder.
        """
        wanted = range(max(line - _CONTEXT, 1), line + _CONTEXT + 1)
        for name in _names_below(file) if self._source is not None else ():
            lines = self._source_lines(name)
            if line <= len(lines) and lines[line - 1].strip() == text:
                return tuple((n, lines[n - 1]) for n in wanted if n <= len(lines))
        quoted = ((n, self._texts.get((file, n), "")) for n in wanted)
        return tuple((n, quote) for n, quote in quoted if quote)

    def _source_lines(self, name: str) -> tuple[str, ...]:
        """Return the lines of a file below the source folder; empty if the file does not exist."""
        lines = self._sources.get(name)
        if lines is None:
            assert self._source is not None
            if len(self._sources) >= _MAX_FILES:
                self._sources.clear()
            text = read_below(self._source, name, _MAX_SOURCE)
            # Compilers count \n; str.splitlines() also ends lines elsewhere.
            lines = self._sources[name] = () if text is None else tuple(text.split("\n"))
        return lines

    def function_place(self, program: str) -> Place | None:
        """Return the source line at which the program begins."""
        return self.place_at(program, 0)

    @functools.cached_property
    def _relocations(self) -> dict[tuple[str, int], tuple[int, int, int]]:
        """Return type, access string and kind of each relocation, by section and offset."""
        return {
            (section, offset): (type_id, access, kind)
            for section, (offset, type_id, access, kind) in self._records(2)
        }

    def relocation_at(self, program: str, index: int) -> Relocation | None:
        """Return the CO-RE relocation of an instruction; None if the object lacks its type."""
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
        """Return the variables of each section: name, with offset and size in bytes and type id."""
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
    """Yield possible names of the source file ``file`` below the source folder, longest first.

    The folder may replace any folder above the file: for ``../src/a.c``, ``src/a.c`` and ``a.c``.
    """
    parts = [part for part in file.split("/") if part not in ("", ".", "..")][-_MAX_PARTS:]
    return ("/".join(parts[at:]) for at in range(len(parts)))


def _instructions(code: bytes, start: int, size: int, opcodes: re.Pattern[bytes]) -> Iterator[int]:
    """Yield the offsets of a function's instructions with one of ``opcodes``, in its section.

    A program can have a million instructions, so Python never looks at the others.
    """
    beyond = min(start + size, len(code) - _INSN + 1)
    for found in opcodes.finditer(code[start:beyond:_INSN]):
        yield start + found.start() * _INSN
