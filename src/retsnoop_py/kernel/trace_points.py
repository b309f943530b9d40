# SPDX-License-Identifier: BSD-2-Clause
"""What ftrace can hook, from its own records in the kernel's memory.

``available_filter_functions`` says the same by name, but for each 4 KiB that are read of it the
kernel goes through all records it has listed before. The records are a chain of ``struct
ftrace_page``, each with an array of ``struct dyn_ftrace``; a module that is loaded or unloaded
meanwhile may be half there, as it may be in the list.
"""

from __future__ import annotations

import struct
from array import array
from typing import Protocol

from retsnoop_py.kernel.btf import Btf, Kind

_PAGE, _RECORD = "ftrace_page", "dyn_ftrace"
_NEXT, _RECORDS, _COUNT, _ADDRESS = "next", "records", "index", "ip"
_WORD = 8
#: Vmlinux has a few, a module mostly one: more is no chain.
_MOST_PAGES = 20_000
#: A page of them is 8 MiB at most, 4 MiB on x86.
_MOST_RECORDS = 1 << 20


class Memory(Protocol):
    """Where the kernel's memory is read from."""

    def read(self, address: int, size: int) -> bytes:
        """``size`` bytes at ``address``, fewer where it does not have them."""
        ...


class _Layout:
    """The two structs, by the kernel's types."""

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
        """Whether they are as they have been since 3.x."""
        whole_words = not (self.address % _WORD or self.size % _WORD)
        return whole_words and self.size > 0 and self.page.keys() >= {_NEXT, _RECORDS, _COUNT}


def read_trace_points(memory: Memory, start: int, btf: Btf) -> array[int] | None:
    """The address of each trace point; ``start``: where the variable ``ftrace_pages_start`` is.

    None where the memory does not read as records.
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
    """The number that ``data`` begins with; 0 where there is too little."""
    form = struct.Struct("=" + code)
    value: int = form.unpack_from(data)[0] if len(data) >= form.size else 0
    return value
