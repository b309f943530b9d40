# SPDX-License-Identifier: BSD-2-Clause
"""Module files, what they need, and the indexes made of that."""

from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retsnoop_py.errors import DataError
from retsnoop_py.vm.modules import (
    ModuleTree,
    dependency_order,
    module_name,
    read_module,
    write_index,
)


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
