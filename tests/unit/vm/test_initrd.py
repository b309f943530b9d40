# SPDX-License-Identifier: BSD-2-Clause
"""The hand-made initial RAM disk, read back as the kernel reads it."""

from __future__ import annotations

import gzip
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.vm.initrd import Cpio, build_initrd, guest_script, is_static_elf


def entries(archive: bytes) -> list[tuple[str, int, bytes, tuple[int, int]]]:
    """(name, mode, data, device) of each entry of a newc archive, trailer included."""
    found = []
    offset = 0
    while offset < len(archive):
        assert archive[offset : offset + 6] == b"070701"
        numbers = [int(archive[offset + 6 + 8 * i : offset + 14 + 8 * i], 16) for i in range(13)]
        name_at = offset + 110
        name = archive[name_at : name_at + numbers[11] - 1].decode()
        assert archive[name_at + numbers[11] - 1] == 0
        data_at = name_at + numbers[11] + (-(name_at + numbers[11]) % 4)
        data = archive[data_at : data_at + numbers[6]]
        found.append((name, numbers[1], data, (numbers[9], numbers[10])))
        offset = data_at + numbers[6] + (-numbers[6] % 4)
    return found


@given(
    st.lists(
        st.tuples(st.text("abc/_.-", min_size=1, max_size=40), st.binary(max_size=40)), max_size=6
    )
)
def test_files_of_any_length_come_back(files: list[tuple[str, bytes]]) -> None:
    cpio = Cpio()
    for name, data in files:
        cpio.file(name, data)
    read = entries(cpio.finish())
    assert [(name, data) for name, _, data, _ in read[:-1]] == files
    assert read[-1][0] == "TRAILER!!!"


def test_inodes_differ_or_the_kernel_makes_hard_links() -> None:
    cpio = Cpio()
    cpio.file("a", b"1")
    cpio.file("b", b"2")
    archive = cpio.finish()
    inodes = [archive[at + 6 : at + 14] for at in range(0, 232, 116)]
    assert len(set(inodes)) == 2


def test_the_archive_holds_what_init_needs_in_order() -> None:
    modules = [("virtio_ring", b"one"), ("virtio_pci", b"two")]
    image = build_initrd(b"busy", modules, "root_tag=root\n", {"init": b"#!/bin/busybox sh\n"})
    read = {
        name: (mode, data, device) for name, mode, data, device in entries(gzip.decompress(image))
    }
    assert read["bin/busybox"][:2] == (0o100755, b"busy")
    assert read["init"][0] == 0o100755
    assert read["config"][1] == b"root_tag=root\n"
    assert read["dev/console"] == (0o020600, b"", (5, 1))
    assert sorted(name for name in read if name.endswith(".ko")) == [
        "modules/000-virtio_ring.ko",
        "modules/001-virtio_pci.ko",
    ]


@pytest.mark.parametrize("name", ["guest_init.sh", "guest_agent.sh"])
def test_guest_scripts_are_in_the_package(name: str) -> None:
    assert b"SPDX-License-Identifier: BSD-2-Clause" in guest_script(name)


def elf(*program_types: int) -> bytes:
    head = bytearray(64)
    head[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", head, 32, 64)
    struct.pack_into("<HH", head, 54, 56, len(program_types))
    return bytes(head) + b"".join(struct.pack("<I", kind) + bytes(52) for kind in program_types)


def test_a_program_with_an_interpreter_is_not_static() -> None:
    assert is_static_elf(elf(1, 1))
    assert not is_static_elf(elf(6, 3, 1))
    assert not is_static_elf(b"#!/bin/sh\n")
