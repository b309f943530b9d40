# SPDX-License-Identifier: BSD-2-Clause
"""Writes BTF, so that tests of the reader know what is in it."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from retsnoop_py.kernel.btf import Kind

SIGNED, CHAR, BOOL = 1, 2, 4


class BtfWriter:
    """Collects types; each method returns the new type's id."""

    def __init__(self, base: BtfWriter | None = None) -> None:
        #: By kind: bytes behind a type's header, and for each of its members (Linux 7.1).
        self.layout: list[tuple[int, int]] = []
        self._types: list[bytes] = []
        self._strings = bytearray() if base else bytearray(b"\0")
        self._string_start = base.string_end if base else 0
        self._next = base.next_id if base else 1

    @property
    def next_id(self) -> int:
        return self._next

    @property
    def string_end(self) -> int:
        return self._string_start + len(self._strings)

    def string(self, text: str) -> int:
        if not text:
            return 0
        offset = self.string_end
        self._strings += text.encode() + b"\0"
        return offset

    def add(
        self,
        kind: int,
        name: str = "",
        arg: int = 0,
        tail: Sequence[int] = (),
        vlen: int = 0,
        kflag: bool = False,
    ) -> int:
        info = kflag << 31 | kind << 24 | vlen
        words = (self.string(name), info, arg, *tail)
        self._types.append(struct.pack(f"={len(words)}I", *words))
        self._next += 1
        return self._next - 1

    def int(self, name: str, size: int, encoding: int = 0) -> int:
        return self.add(Kind.INT, name, size, [encoding << 24 | size * 8])

    def ptr(self, target: int) -> int:
        return self.add(Kind.PTR, "", target)

    def array(self, element: int, count: int) -> int:
        return self.add(Kind.ARRAY, "", 0, [element, element, count])

    def struct(
        self, name: str, size: int, members: Sequence[tuple[str, int, int]], kflag: bool = False
    ) -> int:
        tail = [word for n, type_, offset in members for word in (self.string(n), type_, offset)]
        return self.add(Kind.STRUCT, name, size, tail, len(members), kflag)

    def enum(self, name: str, values: dict[str, int], size: int = 4, kflag: bool = False) -> int:
        tail = [w for n, v in values.items() for w in (self.string(n), v & 0xFFFFFFFF)]
        return self.add(Kind.ENUM, name, size, tail, len(values), kflag)

    def enum64(self, name: str, values: dict[str, int], kflag: bool = False) -> int:
        tail = [
            w
            for n, v in values.items()
            for w in (self.string(n), v & 0xFFFFFFFF, v >> 32 & 0xFFFFFFFF)
        ]
        return self.add(Kind.ENUM64, name, 8, tail, len(values), kflag)

    def proto(self, result: int, params: Sequence[tuple[str, int]] = ()) -> int:
        tail = [word for name, type_ in params for word in (self.string(name), type_)]
        return self.add(Kind.FUNC_PROTO, "", result, tail, len(params))

    def func(self, name: str, result: int, params: Sequence[tuple[str, int]] = ()) -> int:
        return self.add(Kind.FUNC, name, self.proto(result, params))

    def bytes(self) -> bytes:
        types, strings = b"".join(self._types), bytes(self._strings) or b"\0"
        layout = b"".join(struct.pack("=BBH", *sizes, 0) for sizes in self.layout)
        words = [0, len(types), len(types) + len(layout), len(strings)]
        words += [len(types), len(layout)] if layout else []
        header = struct.pack(f"=HBBI{len(words)}I", 0xEB9F, 1, 0, 8 + 4 * len(words), *words)
        return header + types + layout + strings
