# SPDX-License-Identifier: BSD-2-Clause
"""The running kernel's memory, and files that stand in its place."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.kcore import Kcore


def test_what_lies_in_a_segment_is_read(tmp_path: Path) -> None:
    header = bytearray(b"\x7fELF".ljust(64, b"\0"))
    struct.pack_into("=Q", header, 32, 64)
    struct.pack_into("=HH", header, 54, 56, 1)
    segment = struct.pack("=IIQQQQQQ", 1, 0, 120, 0xFFFF0000, 0, 8, 8, 0)
    (tmp_path / "kcore").write_bytes(bytes(header) + segment + b"12345678")
    with Kcore(tmp_path / "kcore") as memory:
        assert memory.read(0xFFFF0002, 4) == b"3456"
        assert memory.read(0xFFFF0006, 4) == b"78"
        assert memory.read(0xFFFF0008, 4) == b""


@pytest.mark.parametrize("content", [b"", b"\x7fELF", bytes(64)])
def test_an_empty_file_in_its_place_is_said_to_be_that(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "kcore").write_bytes(content)
    with pytest.raises(UnavailableError, match="is empty or masked"):
        Kcore(tmp_path / "kcore")
