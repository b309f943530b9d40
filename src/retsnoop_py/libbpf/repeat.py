# SPDX-License-Identifier: BSD-2-Clause
"""Write repeated sessions in C (``src/native/repeat.c``)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

from retsnoop_py._bpf import ffi, lib

__all__ = ["Found", "Kind", "Piece", "RecordMember", "Writer", "record_members"]

#: The number of numbers in a session's record, in each slot and in each event.
SESSION, SLOT, EVENT = lib.RSN_REPEAT_SESSION, lib.RSN_REPEAT_SLOT, lib.RSN_REPEAT_EVENT


class Kind(IntEnum):
    """``enum rsn_repeat_kind``: the output of a piece."""

    TEXT = lib.RSN_REPEAT_TEXT
    DASHES = lib.RSN_REPEAT_DASHES
    WIDEN = lib.RSN_REPEAT_WIDEN
    NUMBER = lib.RSN_REPEAT_NUMBER
    US = lib.RSN_REPEAT_US
    US3 = lib.RSN_REPEAT_US3
    TIME6 = lib.RSN_REPEAT_TIME6
    TIME9 = lib.RSN_REPEAT_TIME9
    RESULT = lib.RSN_REPEAT_RESULT


class Piece(NamedTuple):
    """``struct rsn_repeat_piece``; ``size`` is its ``count``."""

    kind: Kind
    column: int
    is_left: bool
    first: int
    size: int


class RecordMember(NamedTuple):
    """``struct rsn_repeat_member``: a member of a struct of ``records.h``, as C compiled it.

    ``code`` is the code of a member in :class:`retsnoop_py.session.layouts.Layout`.
    """

    record: str
    record_size: int
    name: str
    offset: int
    code: str


def record_members() -> list[RecordMember]:
    """Return all members of the structs by which C reads records, in order."""
    count = ffi.new("size_t *")
    first = lib.rsn_repeat_members(count)
    return [
        RecordMember(
            ffi.string(one.record).decode(),
            one.record_size,
            ffi.string(one.name).decode(),
            one.at,
            f"{one.size}s" if one.code == b"s" else one.code.decode(),
        )
        for one in first[0 : count[0]]
    ]


class Found(NamedTuple):
    """``struct rsn_repeat_found``; ``used``: numbers of templates, and how often each was used.

    ``candidates`` are (offset, bytes). ``word`` is (function, value), None if none is needed.
    """

    written: int
    unknown: int
    text: bytes
    used: list[tuple[int, int]]
    candidates: list[tuple[int, int]]
    word: tuple[int, int] | None


class Writer:
    """Write sessions that are like a learned session.

    ``clock`` is added to times, in ns. With ``by_process``, sessions of different processes are
    never alike. Records must have the layout of :func:`record_members`.
    """

    def __init__(self, *, by_process: bool, clock: int) -> None:
        handle = lib.rsn_repeat_new(by_process, clock)
        if handle == ffi.NULL:
            raise MemoryError
        self._handle = ffi.gc(handle, lib.rsn_repeat_free)
        self._found = ffi.new("struct rsn_repeat_found *")

    def learn(
        self, unit: bytes, pieces: Sequence[Piece], terms: Sequence[int], texts: bytes
    ) -> int:
        """Learn to write sessions like the one in ``unit``; return the template's number.

        Number 0 means that all other templates are dropped. A negative errno means that the caller
        must write such sessions.
        """
        held = [
            ffi.new("struct rsn_repeat_piece[]", list(map(tuple, pieces))),
            ffi.new("int32_t[]", list(terms)),
            ffi.new("char[]", texts),
        ]
        template = (held[0], len(pieces), held[1], len(terms), held[2], len(texts))
        made = ffi.new("struct rsn_repeat_template *", template)
        return lib.rsn_repeat_learn(self._handle, unit, len(unit), made)

    def learn_word(self, function: int, value: int, text: bytes, width: int) -> None:
        """Learn the text for result ``value`` of ``function``; -1: for the second ``value``."""
        lib.rsn_repeat_learn_word(self._handle, function, value, text, len(text), width)

    def run(self, part: memoryview, lessons: int) -> Found:
        """Write the known sessions at the beginning of ``part``.

        Return at most ``lessons`` candidates.
        """
        found = self._found
        lib.rsn_repeat_run(self._handle, ffi.from_buffer(part), len(part), lessons, found)
        used = range(found.used_cnt)
        return Found(
            found.written,
            found.unknown,
            ffi.buffer(found.text, found.text_size)[:] if found.text_size else b"",
            [(found.used[index], found.times[index]) for index in used],
            [(one.at, one.size) for one in found.candidates[0 : found.candidate_cnt]],
            (found.function, found.value) if found.needs_word else None,
        )
