# SPDX-License-Identifier: BSD-2-Clause
"""Names of the programs and maps of BPF objects, for completion.

A shell completes in root's own process, and nobody has decided yet to trust the object. So a child
without privileges (:mod:`retsnoop_py.unprivileged.process`) reads it, and only the names come back.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

from retsnoop_py.errors import DataError, RetsnoopError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.unprivileged.process import Unprivileged, answer_requests

__all__ = ["object_symbols"]

#: STB_GLOBAL and STT_FUNC of elf.h.
_GLOBAL, _FUNC = 1, 2
#: Seconds for all objects of a line: a person waits.
_SECONDS = 5.0
#: Objects that are read, and bytes of names of each.
_MOST_OBJECTS, _MOST_NAMES = 16, 1 << 20
#: The first bytes of an ELF file.
_MAGIC = b"\x7fELF"


def object_symbols(paths: Iterable[str], section: str = "") -> list[str]:
    """Return the programs of the BPF objects in ``paths``, or symbols of ``section``, sorted.

    Other files, and objects that the child does not survive, have no names.
    """
    found: set[str] = set()
    child = Unprivileged(__name__, _MOST_NAMES)
    end = time.monotonic() + _SECONDS
    left = _MOST_OBJECTS
    try:
        for path in paths:
            try:
                with open_file(path) as file:
                    if file.read(len(_MAGIC)) != _MAGIC or not left:
                        continue
                    left -= 1
                    request = section.encode(errors="surrogateescape")
                    seconds = max(end - time.monotonic(), 0.01)
                    answer = child.ask(request, (file.fileno(),), seconds)
            except (OSError, ValueError, RetsnoopError):
                child.stop()  # another word, or an error that the command itself will report
                continue
            found.update(filter(None, answer.decode(errors="replace").split("\0")))
    finally:
        child.stop()
    return sorted(found)


def _names(section: str, told: ObjectFile) -> set[str]:
    places = dict(enumerate(told.section_names))
    found = set()
    for symbol in told.symbols:
        place = places.get(symbol.section)
        is_program = symbol.kind == _FUNC and place != ".text" and symbol.section
        if symbol.bind == _GLOBAL and (place == section if section else is_program):
            found.add(symbol.name)
    return found


def _answer(request: bytes, fds: list[int]) -> bytes:
    try:
        names = _names(request.decode(errors="replace"), ObjectFile(Path("object"), fd=fds[0]))
    except (DataError, MemoryError, OSError):
        return b""
    return "\0".join(names).encode(errors="replace")


def serve(descriptor: int) -> None:
    """Run the child: return the names in each object that the parent sends."""
    answer_requests(descriptor, _answer)
