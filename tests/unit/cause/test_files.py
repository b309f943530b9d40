# SPDX-License-Identifier: BSD-2-Clause
"""Files and folders that somebody else made: looking at them ends soon, and without a crash."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest
from tests.unit.cpu_limit import at_most

from retsnoop_py.cause import files


@pytest.mark.parametrize("place", [1 << 63, (1 << 64) - 1, (1 << 63) - 1, 1 << 40, 64])
@pytest.mark.parametrize("is_64", [True, False])
def test_a_program_whose_headers_are_nowhere_has_no_interpreter(
    place: int, is_64: bool, tmp_path: Path
) -> None:
    head = bytearray(64)
    head[:5] = b"\x7fELF" + bytes([1 + is_64])
    if is_64:
        struct.pack_into("<Q14xHH", head, 32, place, 56, 3)
    else:
        struct.pack_into("<I10xHH", head, 28, place & 0xFFFFFFFF, 32, 3)
    (tmp_path / "program").write_bytes(head)
    assert files.interpreter_of(str(tmp_path / "program")) is None


def test_long_names_in_a_large_folder_are_compared_for_a_short_time(tmp_path: Path) -> None:
    chance = random.Random(1)
    alike = ["".join(chance.choices("ab", k=199)) for _ in range(3000)]
    for name in alike:
        (tmp_path / name).touch()
    with at_most(4):
        files.near(str(tmp_path / "".join(chance.choices("ab", k=199))))


def test_of_many_names_the_one_that_is_meant_is_still_found(tmp_path: Path) -> None:
    for number in range(5000):
        (tmp_path / f"{number:x}-settings.toml").touch()
    (tmp_path / "configuration").touch()
    assert files.near(str(tmp_path / "configuratoin")) == str(tmp_path / "configuration")
