# SPDX-License-Identifier: BSD-2-Clause
"""The hand-made initial RAM disk, read back as the kernel reads it.

Module files, what they need, and the indexes made of that.
"""

from __future__ import annotations

import gzip
import lzma
import os
import shutil
import struct
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import DataError
from retsnoop_py.vm import initrd
from retsnoop_py.vm.initrd import (
    Cpio,
    ModuleTree,
    build_initrd,
    dependency_order,
    guest_script,
    is_static_elf,
    module_name,
    read_module,
    write_index,
)


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


def module(depends: str, *aliases: str) -> bytes:
    """Bytes with a .modinfo like a module's."""
    info = [b"license=GPL", b"depends=" + depends.encode()]
    info += [b"alias=" + alias.encode() for alias in aliases]
    return b"\x7fELF" + bytes(60) + b"\0".join(info) + b"\0intree=Y\0"


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("kernel/drivers/virtio/virtio-pci.ko.xz", "virtio_pci"),
        ("overlay.ko", "overlay"),
        ("9p.ko.zst", "9p"),
        ("modules.builtin", None),
        ("vmlinux", None),
    ],
)
def test_module_names(file: str, name: str | None) -> None:
    assert module_name(file) == name


def test_needs_come_first_and_once() -> None:
    depends = {
        "9p": ["9pnet", "netfs"],
        "9pnet_virtio": ["9pnet", "virtio_ring"],
        "9pnet": [],
        "netfs": ["fscache"],
        "fscache": [],
        "virtio_ring": [],
    }
    assert dependency_order(["9pnet_virtio", "9p"], depends) == [
        "9pnet",
        "virtio_ring",
        "9pnet_virtio",
        "fscache",
        "netfs",
        "9p",
    ]


def test_what_is_built_in_is_not_loaded() -> None:
    assert dependency_order(["overlay", "fuse"], {"overlay": ["crc32c"]}) == ["overlay"]


@given(
    st.integers(1, 12).flatmap(lambda n: st.tuples(st.just(n), st.randoms(use_true_random=False)))
)
def test_any_acyclic_order_is_loadable(case: tuple[int, object]) -> None:
    count, random = case
    depends = {
        f"m{i}": [f"m{j}" for j in range(i) if random.random() < 0.4]  # type: ignore[attr-defined]
        for i in range(count)
    }
    order = dependency_order([f"m{count - 1}", "m0"], depends)
    assert len(order) == len(set(order))
    for at, name in enumerate(order):
        assert set(depends[name]) <= set(order[:at])


def make_tree(root: Path) -> Path:
    (root / "kernel/fs").mkdir(parents=True)
    (root / "kernel/fs/overlay.ko.xz").write_bytes(lzma.compress(module("lib-crc", "fs-overlay")))
    (root / "kernel/lib-crc.ko.gz").write_bytes(gzip.compress(module("")))
    (root / "kernel/fs/fuse.ko").write_bytes(module("built_in"))
    (root / "modules.builtin").write_text("kernel/drivers/virtio/virtio-pci.ko\n")
    return root


def test_a_tree_knows_what_is_there_and_the_order_to_load_it(tmp_path: Path) -> None:
    tree = ModuleTree(make_tree(tmp_path))
    assert tree.has("overlay")
    assert tree.has("virtio_pci")
    assert not tree.has("9p")
    loads = tree.load_order(["virtio_pci", "overlay", "fuse"])
    assert [name for name, _ in loads] == ["lib_crc", "overlay", "fuse"]
    assert loads[1][1] == module("lib-crc", "fs-overlay")


def test_the_index_is_what_modprobe_reads(tmp_path: Path) -> None:
    root = make_tree(tmp_path)
    write_index(root)
    assert (root / "modules.dep").read_text() == (
        "kernel/fs/fuse.ko:\nkernel/lib-crc.ko:\nkernel/fs/overlay.ko: kernel/lib-crc.ko\n"
    )
    assert (root / "modules.alias").read_text() == "alias fs-overlay overlay\n"
    assert (root / "kernel/fs/overlay.ko").read_bytes() == module("lib-crc", "fs-overlay")
    assert not list(root.rglob("*.xz"))


@pytest.mark.parametrize("suffix", [".xz", ".gz"])
def test_a_damaged_module_is_told_by_name(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"broken.ko{suffix}"
    path.write_bytes(b"not compressed at all")
    with pytest.raises(DataError, match=r"broken\.ko"):
        read_module(path)


@pytest.mark.parametrize("suffix", ["", ".xz", ".gz", ".zst"])
def test_of_a_module_without_end_only_so_much_is_read(
    suffix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if suffix == ".zst" and shutil.which("zstd") is None:
        pytest.skip("zstd is not installed")
    monkeypatch.setattr(initrd, "_LARGEST", 1 << 20)
    plain = tmp_path / "bomb.ko"
    plain.write_bytes(bytes(64 << 20))
    path = plain.with_name(f"bomb.ko{suffix}")
    pack = {".xz": lzma.compress, ".gz": gzip.compress}.get(suffix)
    if pack is not None:
        path.write_bytes(pack(plain.read_bytes()))
    elif suffix:
        subprocess.run(["zstd", "-q", str(plain), "-o", str(path)], check=True)
    tracemalloc.start()
    try:
        with pytest.raises(DataError, match="has more than 1 MiB"):
            read_module(path)
        assert tracemalloc.get_traced_memory()[1] < 16 << 20
    finally:
        tracemalloc.stop()


def test_modules_of_a_users_kernel_are_regular_files_and_not_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "kernel").mkdir()
    os.mkfifo(tmp_path / "kernel/fuse.ko")
    (tmp_path / "kernel/zero.ko").symlink_to("/dev/zero")
    for name in ("fuse", "zero"):
        with pytest.raises(DataError, match="is not a regular file"):
            ModuleTree(tmp_path).load_order([name])
    (tmp_path / "kernel/a.ko").write_bytes(module("b"))
    (tmp_path / "kernel/b.ko").write_bytes(module("a"))
    assert [name for name, _ in ModuleTree(tmp_path).load_order(["a"])] == ["b", "a"]
    monkeypatch.setattr(initrd, "_LARGEST", len(module("a")) + 1)
    with pytest.raises(DataError, match="the modules that a guest needs have more than"):
        ModuleTree(tmp_path).load_order(["a"])


def test_dependencies_may_be_deep_or_go_in_a_circle() -> None:
    chain = {f"m{number}": [f"m{number + 1}"] for number in range(5000)}
    assert len(dependency_order(["m0"], chain)) == 5000
    assert sorted(dependency_order(["a"], {"a": ["b"], "b": ["c", "a"], "c": ["c"]})) == [*"abc"]
