# SPDX-License-Identifier: BSD-2-Clause
"""BPF objects with damaged sections, and forbidden effects of reading them."""

from __future__ import annotations

import contextlib
import io
import os
import random
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

from tests.fuzz.recordings import NUMBERS, Shown, TooLong, complaint, time_limit

from retsnoop_py.cli import main as entry
from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.load.object_file import ObjectFile

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "tests" / "live" / "objects"
MADE = ROOT / "build" / "fuzz" / "objects"
NAMES = ("config", "offers", "flow", "shape")
#: Time limit in seconds for all questions about a small object, on a slow machine.
TIME_S = 20.0
#: Documented exit statuses of ``explain``: success, and invalid input.
STATUSES = (0, DataError.exit_status)

_LOG = (
    "libbpf: prog '{program}': -- BEGIN PROG LOAD LOG --\n"
    "0: (85) call bpf_get_current_task#35\n"
    "1: (85) call unknown#195896080\ninvalid func unknown#195896080\n"
)
#: Offset and size in bytes of the members of the ELF header and of a section header.
_HEAD = ((16, 2), (18, 2), (40, 8), (58, 2), (60, 2), (62, 2))
_ROW = ((0, 4), (4, 4), (8, 8), (24, 8), (24, 8), (32, 8), (32, 8), (40, 4), (44, 4), (56, 8))
_WIDTHS = {".BTF": (4,), ".BTF.ext": (4,), ".symtab": (1, 2, 4, 8), ".strtab": (1,)}
_RECORDS = (8, 16, 16)  # bytes of a function, line and relocation record in .BTF.ext


def compiled() -> list[Path]:
    """Return the objects of the live tests, compiled if necessary."""
    MADE.mkdir(parents=True, exist_ok=True)
    includes = ["-I", str(ROOT / "build/libbpf/include"), "-I", f"/usr/include/{_triple()}"]
    made = []
    for name in NAMES:
        source, target = SOURCES / f"{name}.bpf.c", MADE / f"{name}.bpf.o"
        if not target.is_file() or target.stat().st_mtime < source.stat().st_mtime:
            flags = ["-target", "bpf", "-g", "-O2", "-D__TARGET_ARCH_x86"]
            words = ["clang", *flags, *includes, "-c", str(source), "-o", str(target)]
            subprocess.run(words, check=True)
        made.append(target)
    return made


def _triple() -> str:
    return f"{os.uname().machine}-linux-gnu"


class Object(NamedTuple):
    """An object to damage: its bytes, its section headers, and its sections by number."""

    data: bytes
    table: int
    names: list[str]
    places: list[tuple[int, int]]

    @classmethod
    def of(cls, path: Path) -> Object:
        """Read the object at ``path``."""
        data = path.read_bytes()
        (table,) = struct.unpack_from("<Q", data, 40)
        with ElfFile(path) as elf:
            names = elf.section_names
        rows = [struct.unpack_from("<QQ", data, table + 64 * n + 24) for n in range(len(names))]
        return cls(data, table, names, rows)

    def content(self, name: str) -> bytes:
        """Return the bytes of a section."""
        at, size = self.places[self.names.index(name)]
        return self.data[at : at + size]


def put(data: bytearray, at: int, width: int, number: int) -> None:
    """Write a little-endian number of ``width`` bytes, if there is room."""
    if 0 <= at <= len(data) - width:
        data[at : at + width] = (number & ((1 << 8 * width) - 1)).to_bytes(width, "little")


class Objects:
    """A generator of damaged objects; ``chance`` makes the choices."""

    def __init__(self) -> None:
        self.sources = [Object.of(path) for path in compiled()]

    def make(self, chance: random.Random) -> bytes:
        """Return a new damaged object."""
        source = chance.choice(self.sources)
        data = bytearray(source.data)
        for _ in range(chance.choice((1, 1, 2, 4))):
            how = chance.choice((self._row, self._content, self._content, self._resize, self._head))
            how(chance, source, data)
        return bytes(data)

    def make_ext(self, chance: random.Random) -> bytes:
        """Return a new object with a generated .BTF.ext."""
        source = chance.choice(self.sources)
        data = bytearray(source.data)
        replace_section(source, data, ".BTF.ext", extension(chance, source))
        if chance.random() < 0.2:
            self._content(chance, source, data, ".BTF")
        return bytes(data)

    def _number(self, chance: random.Random, old: int, limit: int) -> int:
        near = (old + 1, old - 1, old + 4, old - 4, old * 2, limit, limit - 1, limit + 1)
        return chance.choice((*NUMBERS, *near, chance.randrange(1 << 16)))

    def _head(self, chance: random.Random, source: Object, data: bytearray) -> None:
        at, width = chance.choice(_HEAD)
        old = int.from_bytes(data[at : at + width], "little")
        put(data, at, width, self._number(chance, old, len(data)))

    def _row(self, chance: random.Random, source: Object, data: bytearray) -> None:
        number = chance.randrange(len(source.names))
        offset, width = chance.choice(_ROW)
        at = source.table + 64 * number + offset
        old = int.from_bytes(data[at : at + width], "little")
        if chance.random() < 0.3:  # copy the header value of another section
            other = source.table + 64 * chance.randrange(len(source.names)) + offset
            put(data, at, width, int.from_bytes(data[other : other + width], "little"))
        else:
            put(data, at, width, self._number(chance, old, len(data)))

    def _content(
        self, chance: random.Random, source: Object, data: bytearray, name: str = ""
    ) -> None:
        name = name or chance.choice(source.names)
        start, size = source.places[source.names.index(name)]
        width = chance.choice(_WIDTHS.get(name, (1, 2, 4, 8)))
        if size < width:
            return
        for _ in range(chance.choice((1, 1, 3))):
            at = start + chance.randrange(size - width + 1) // width * width
            old = int.from_bytes(data[at : at + width], "little")
            number = self._number(chance, old, size)
            if chance.random() < 0.3:
                other = start + chance.randrange(size - width + 1) // width * width
                number = int.from_bytes(data[other : other + width], "little")
            put(data, at, width, number)

    def _resize(self, chance: random.Random, source: Object, data: bytearray) -> None:
        name = chance.choice(source.names)
        content = bytearray(source.content(name))
        at = chance.randrange(len(content) + 1)
        more = chance.choice((1, 3, 4, 8, 16, 64))
        if chance.random() < 0.5:
            del content[at : at + more]
        else:
            content[at:at] = content[:more] or bytes(more)
        replace_section(source, data, name, bytes(content))


def replace_section(source: Object, data: bytearray, name: str, content: bytes) -> None:
    """Replace the bytes of a section: append them to the file and update the header."""
    row = source.table + 64 * source.names.index(name)
    data += bytes(-len(data) % 8)
    put(data, row + 24, 8, len(data))
    put(data, row + 32, 8, len(content))
    data += content


def extension(chance: random.Random, source: Object) -> bytes:
    """Return a .BTF.ext in which every field may be wrong."""
    strings = source.content(".BTF")[-2048:]
    known = source.content(".BTF.ext")
    pick = chance.choice
    parts = []
    for usual in _RECORDS:
        size = usual if chance.random() < 0.6 else pick((*range(0, 40, 2), 1, 15, *NUMBERS[-4:]))
        body = struct.pack("<I", size & 0xFFFFFFFF)
        for _ in range(chance.randrange(4)):
            # names and offsets from the original, or any
            words = struct.unpack(f"<{len(known) // 4}I", known[: len(known) // 4 * 4])
            rows = chance.randrange(5)
            count = rows if chance.random() < 0.8 else pick(NUMBERS) & 0xFFFFFFFF
            name = pick(words) if chance.random() < 0.8 else chance.randrange(len(strings))
            body += struct.pack("<II", name, count)
            for _ in range(rows):
                row = [pick(words) if chance.random() < 0.7 else pick(NUMBERS) for _ in range(4)]
                row[0] = chance.randrange(64) * 8
                text = struct.pack("<4I", *(word & 0xFFFFFFFF for word in row))
                body += (text * 3)[: min(size & 0x3F, 48)]
        parts.append(body)
    header = 32 if chance.random() < 0.8 else pick((0, 8, 23, 24, 25, 31, 33, 40, 1 << 31))
    places, at = [], 0
    for body in parts:
        places += [at, len(body)]
        at += len(body)
    if chance.random() < 0.3:
        places[chance.randrange(6)] = pick(NUMBERS) & 0xFFFFFFFF
    magic = 0xEB9F if chance.random() < 0.97 else 0x9FEB
    head = struct.pack("<HBBI6I", magic, 1, 0, header, *places)
    made = head + b"".join(parts)
    return made[: chance.randrange(len(made))] if chance.random() < 0.1 else made


def every_answer(path: Path) -> list[object]:
    """Query everything about an object, each program and some of its instructions."""
    target = ObjectFile(path)
    target.kernel = target.btf
    answers: list[object] = [target.strong_externs(), target.maps(), target.license]
    answers += [target.kconfig(), target.section_names, target.tables_of("x")]
    for program in (*target.programs()[:8], "no_such_program"):
        answers += [target.externs_of(program), target.maps_of(program)]
        answers += [target.instruction_count(program), target.has_loop(program)]
        answers += [target.has_function(program, "five"), target.passes_functions(program)]
        answers += [list(target.helpers_of(program)), target.functions_like(program)]
        for index in (0, 1, 2, 5, 9, 1 << 40):
            answers += [target.place_at(program, index), target.kfunc_at(program, index)]
            answers.append(target.instruction_at(program, index))
            relocation = target.relocation_at(program, index)
            answers.append(relocation and (relocation.label, relocation.facts()))
    return answers


def explained(*words: str) -> Shown:
    """Return the output of ``retsnoop-py explain``. Raise an error for an undocumented status."""
    out, err = io.StringIO(), io.StringIO()
    error: BaseException | None = None
    try:
        with time_limit(TIME_S), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = entry.main(["explain", *words])
        if status not in STATUSES or "bug of retsnoop-py" in err.getvalue():
            error = RuntimeError(f"status {status}: {err.getvalue()[-300:]}")
    except (Exception, TooLong) as found:  # noqa: BLE001 - which one it is, is the question
        error = found
    # source lines contain tabs
    return Shown(out.getvalue().replace("\t", " "), err.getvalue().replace("\t", " "), error)


def damage(path: Path) -> str | None:
    """Read the object at ``path``. Return a forbidden effect, or None."""
    try:
        with time_limit(TIME_S):
            every_answer(path)
    except DataError:
        pass
    except (Exception, TooLong) as found:  # noqa: BLE001 - which one it is, is the question
        return f"it ended in {type(found).__name__}: {found}"
    log = path.with_suffix(".log")
    log.write_text(_LOG.format(program="field_gone"))
    return complaint(explained("--object", str(path), str(log)))
