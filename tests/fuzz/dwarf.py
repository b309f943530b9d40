# SPDX-License-Identifier: BSD-2-Clause
"""Debug files with damaged DWARF, for the reader process without privileges."""

from __future__ import annotations

import functools
import random
import struct
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.unprivileged.dwarf import UnprivilegedImage

__all__ = ["KINDS", "damage", "make"]

MADE = Path(__file__).parents[2] / "build" / "fuzz" / "dwarf"
#: Time limit in seconds for all requests about a small file, on a slow machine.
TIME_S = 30.0
SOURCE = """
struct s { struct s *next; int v[4]; unsigned b : 3; };
static inline __attribute__((always_inline)) int inner(struct s *a) { return a->v[1] + a->b; }
static inline __attribute__((always_inline)) int mid(struct s *m) { return inner(m->next); }
int outer(struct s *b) { volatile int kept = mid(b); kept += mid(b->next); return kept; }
int main(int argc, char **argv) { struct s x = {0}; x.next = &x; return outer(&x) + argc; }
"""
#: Attributes and forms that contain a size or a reference: blocks, strings, DW_AT_abstract_origin,
#: DW_AT_specification, DW_FORM_indirect.
_CODES = (*range(0x03, 0x24), 0x31, 0x47, 0xFF)
_LENGTHS = (0xFFFFFFFF, 0xFFFFFFF0, 0x7FFFFFFF, 0, 1)


class Base(NamedTuple):
    """A debug file, and the offset and size of each section with DWARF."""

    data: bytes
    sections: dict[str, tuple[int, int]]


@functools.cache
def bases() -> tuple[Base, ...]:
    """Return undamaged debug files with DWARF 4 and 5. One is compressed, one is not linked."""
    MADE.mkdir(parents=True, exist_ok=True)
    (MADE / "a.c").write_text(SOURCE)
    found = []
    for number, words in enumerate((["-gdwarf-5"], ["-gdwarf-4"], ["-gz"], ["-c"])):
        path = MADE / f"base{number}"
        subprocess.run(["cc", "-g", "-O2", *words, "-o", path, MADE / "a.c"], check=True)
        found.append(Base(path.read_bytes(), _sections(path.read_bytes())))
    return tuple(found)


def _sections(data: bytes) -> dict[str, tuple[int, int]]:
    at, width, count, names = struct.unpack_from("<Q10xHHH", data, 0x28)
    rows = [struct.unpack_from("<I20xQQ", data, at + width * number) for number in range(count)]
    text = rows[names][1]
    named = {data[text + row[0] :].split(b"\0", 1)[0].decode(): row[1:] for row in rows}
    return {name: row for name, row in named.items() if name.startswith(".debug_")}


def _place(base: Base, chance: random.Random, *names: str) -> tuple[int, int]:
    """Return the offset and size of one of the named sections; without ``names``, of any."""
    found = [row for name, row in base.sections.items() if not names or name in names]
    return chance.choice(found)


def _truncated(base: Base, data: bytearray, chance: random.Random) -> None:
    del data[chance.randrange(64, len(data)) :]


def _bytes(base: Base, data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice([1, 3, 10, 60])):
        at, size = _place(base, chance)
        data[at + chance.randrange(size)] = chance.choice([0, 1, 127, 128, 255])


def _cycles(base: Base, data: bytearray, chance: random.Random) -> None:
    """Insert references to themselves, to each other, or outside of the file."""
    at, size = base.sections[".debug_info"]
    like = [
        place
        for place in range(at, at + size - 4)
        if 0xB <= struct.unpack_from("<I", data, place)[0] < size
    ]
    for place in chance.sample(like, min(len(like), chance.choice([1, 5, 40, 1000]))):
        other = struct.unpack_from("<I", data, chance.choice(like))[0]
        to = chance.choice([place - at, other, 0xC, chance.randrange(size)])
        struct.pack_into("<I", data, place, to)


def _forms(base: Base, data: bytearray, chance: random.Random) -> None:
    at, size = base.sections[".debug_abbrev"]
    for _ in range(chance.choice([1, 2, 8])):
        data[at + chance.randrange(size)] = chance.choice(_CODES)


def _numbers(base: Base, data: bytearray, chance: random.Random) -> None:
    """Insert LEB128 numbers of up to 30 bytes, as block sizes, indices and abbreviation codes."""
    at, size = _place(base, chance)
    begin = chance.randrange(size)
    count = min(chance.choice([5, 10, 30]), size - begin)
    data[at + begin : at + begin + count] = b"\xff" * (count - 1) + b"\x7f"


def _lengths(base: Base, data: bytearray, chance: random.Random) -> None:
    at, _ = _place(base, chance)
    struct.pack_into("<I", data, at, chance.choice(_LENGTHS))


def _headers(base: Base, data: bytearray, chance: random.Random) -> None:
    at = struct.unpack_from("<Q", data, 0x28)[0]
    for _ in range(chance.choice([1, 4])):
        data[chance.randrange(at, len(data))] = chance.choice([0, 127, 255])


KINDS: dict[str, Callable[[Base, bytearray, random.Random], None]] = {
    "truncated": _truncated,
    "bytes": _bytes,
    "cycles": _cycles,
    "forms": _forms,
    "numbers": _numbers,
    "lengths": _lengths,
    "headers": _headers,
}


def make(chance: random.Random, kind: str = "") -> bytes:
    """Return a damaged debug file. ``kind`` is one of :data:`KINDS`; if empty, any."""
    base = chance.choice(bases())
    data = bytearray(base.data)
    KINDS[kind or chance.choice(list(KINDS))](base, data, chance)
    return bytes(data)


def damage(path: Path) -> str | None:
    """Read the file. Return a forbidden effect, or None."""
    began = time.monotonic()
    try:
        _read(path)
    except RetsnoopError:
        pass
    except Exception as error:  # noqa: BLE001 - any other is a bug
        return f"{type(error).__name__}: {error}"
    took = time.monotonic() - began
    return f"it took {took:.0f} s" if took > TIME_S else None


def _read(path: Path) -> None:
    with UnprivilegedImage(path) as image:
        ranges = [each for unit in image.units()[:20] for each in unit.ranges[:20]]
        places = [at for low, high in ranges for at in range(low, min(high, low + 400), 7)]
        for at in (*places[:60], 0, 2**64 - 1):
            image.lookup(at)
            image.variables(at)
        for line in (1, 4, 6):
            image.find_line(0, "a.c", line)
