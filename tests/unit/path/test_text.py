# SPDX-License-Identifier: BSD-2-Clause
"""The code of a function as it is read while it runs."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from retsnoop_py.errors import DataError
from retsnoop_py.path.text import VmlinuxText, read_function
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


def vmlinux(
    path: Path, entry: int = 56, count: int = 1, table: int = 64, offset: int = 120
) -> Path:
    """Write an ELF file with four bytes of code at 0x1000."""
    header = bytearray(64)
    struct.pack_into("=Q", header, 32, table)
    struct.pack_into("=HH", header, 54, entry, count)
    segment = struct.pack("=IIQQQQQQ", 1, 5, offset, 0x1000, 0, 4, 4, 1)
    path.write_bytes(bytes(header) + segment + b"code")
    return path


def test_the_text_of_a_file_is_at_its_address(tmp_path: Path) -> None:
    with VmlinuxText(vmlinux(tmp_path / "vmlinux"), 0x100) as text:
        assert text.read(0x1102, 9) == b"de"
        assert text.read(0x1104, 9) == b""


@pytest.mark.parametrize(
    "damage", [{"entry": 0}, {"entry": 1}, {"entry": 65535}, {"count": 65535}, {"table": 1 << 63}]
)
def test_a_damaged_file_is_reported(tmp_path: Path, damage: dict[str, int]) -> None:
    path = vmlinux(tmp_path / "vmlinux", **damage)
    if damage == {"entry": 65535}:
        os.truncate(path, 5 << 30)
    with pytest.raises(DataError):
        VmlinuxText(path, 0)


def test_code_at_an_impossible_offset_is_missing(tmp_path: Path) -> None:
    with VmlinuxText(vmlinux(tmp_path / "vmlinux", offset=(1 << 64) - 1), 0) as text:
        assert text.read(0x1000, 4) == b""


def test_another_kind_of_file_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vmlinux")
    with pytest.raises(DataError):
        VmlinuxText(tmp_path / "vmlinux", 0)
