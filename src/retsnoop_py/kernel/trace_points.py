# SPDX-License-Identifier: BSD-2-Clause
"""Read the addresses that ftrace can hook from ftrace's records in the kernel's memory.

``available_filter_functions`` lists the same functions by name. But for each 4 KiB that a process
reads, the kernel walks through all records that it listed before. The records are a chain of
``struct ftrace_page``, each with an array of ``struct dyn_ftrace``. A module that is loaded or
unloaded at the same time may be incomplete, as in the list.
"""

from __future__ import annotations

import struct
from array import array
from typing import Protocol

from retsnoop_py.kernel.btf import Btf, Kind

_PAGE, _RECORD = "ftrace_page", "dyn_ftrace"
_NEXT, _RECORDS, _COUNT, _ADDRESS = "next", "records", "index", "ip"
_WORD = 8
#: Maximum length of the chain. vmlinux has a few pages, a module usually one; a longer chain is
#: damaged.
_MOST_PAGES = 20_000
#: Maximum number of records per page: a page has at most 8 MiB, 4 MiB on x86.
_MOST_RECORDS = 1 << 20


class Memory(Protocol):
    """A reader of the kernel's memory."""

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``; fewer if not all can be read."""
        ...


class _Layout:
    """The layout of the two structs, from the kernel's BTF."""

    def __init__(self, btf: Btf) -> None:
        found = btf.find_all((_PAGE, _RECORD), Kind.STRUCT)
        page, record = (found.get(name, 0) for name in (_PAGE, _RECORD))
        self.page = {one.name: one.bit_offset // 8 for one in btf.members(page)} if page else {}
        self.page_size = btf.size_of(page) if page else 0
        names = {one.name: one.bit_offset // 8 for one in btf.members(record)} if record else {}
        self.address = names.get(_ADDRESS, 1)
        self.size = btf.size_of(record) if record else 0

    @property
    def is_known(self) -> bool:
        """Return True if the structs have their known layout (since 3.x)."""
        whole_words = not (self.address % _WORD or self.size % _WORD)
        return whole_words and self.size > 0 and self.page.keys() >= {_NEXT, _RECORDS, _COUNT}


def read_trace_points(memory: Memory, start: int, btf: Btf) -> array[int] | None:
    """Return the address of each trace point, or None if the memory has no valid records.

    ``start``: the address of the variable ``ftrace_pages_start``.
    """
    layout = _Layout(btf)
    if not layout.is_known:
        return None
    points = array("Q")
    page = _number(memory.read(start, _WORD), "Q")
    for _ in range(_MOST_PAGES):
        if not page:
            return points or None
        data = memory.read(page, layout.page_size)
        if len(data) < layout.page_size:
            return None
        page, records = (_number(data[layout.page[name] :], "Q") for name in (_NEXT, _RECORDS))
        count = _number(data[layout.page[_COUNT] :], "i")
        if not 0 <= count <= _MOST_RECORDS:
            return None
        block = memory.read(records, count * layout.size) if count else b""
        if len(block) < count * layout.size:
            return None
        points += array("Q", block)[layout.address // _WORD :: layout.size // _WORD]
    return None


def _number(data: bytes, code: str) -> int:
    """Return the number at the start of ``data``; 0 if ``data`` is too short."""
    form = struct.Struct("=" + code)
    value: int = form.unpack_from(data)[0] if len(data) >= form.size else 0
    return value
