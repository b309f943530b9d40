# SPDX-License-Identifier: BSD-2-Clause
"""The code of a function as it is read while it runs."""

from __future__ import annotations

import pytest

from retsnoop_py.path.text import read_function
from retsnoop_py.path.x86 import X86_64

NOP = bytes.fromhex("0f1f440000")
CALL = bytes.fromhex("e8 78 56 34 12")
ENDBR64 = bytes.fromhex("f30f1efa")
REST = bytes.fromhex("55 4889e5 e811223344 5d c3")


class Symbol:
    name, module, address = "f", None, 0x1000

    def __init__(self, size: int) -> None:
        self.size = size


class Symbols:
    def named(self, name: str, module: str | None) -> list[Symbol]:
        return []


class Source:
    name = "memory"

    def __init__(self, code: bytes) -> None:
        self.code = code

    def read(self, address: int, size: int) -> bytes:
        return self.code[address - Symbol.address :][:size]


@pytest.mark.parametrize("head", [b"", ENDBR64])
@pytest.mark.parametrize("first", [NOP, CALL])
def test_a_function_that_is_traced_reads_as_if_it_were_not(head: bytes, first: bytes) -> None:
    """Calls further on are its own."""
    code = head + first + REST
    found = read_function(Symbol(len(code)), Symbols(), Source(code), X86_64)  # type: ignore[arg-type]
    assert found is not None
    assert found.parts[0].code == head + NOP + REST
