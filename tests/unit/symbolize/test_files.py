# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

from tests.unit.conftest import KASLR, MODULE, Tree, symbols

from retsnoop_py.symbolize.kernel import SourceFiles
from retsnoop_py.symbolize.sources import KernelImages


def test_functions_are_told_apart_by_the_file_they_come_from(tree: Tree) -> None:
    image = tree.install("boot/vmlinux-6.12.0-test")
    at = {name: address + KASLR for name, address in symbols(image).items()}
    with KernelImages(tree.facts) as images:
        files = SourceFiles(images)
        assert files.file_of(at["map_create"], None) == "kernel/bpf/syscall.c"
        assert files.file_of(at["rarely"], None) == "kernel/bpf/syscall.c"
        assert files.file_of(at["plain"], None) == "init/main.c"
        assert files.file_of(at["plain"] - KASLR, None) is None
        assert files.file_of(2**64 - 1, None) is None


def test_without_an_image_there_is_no_file(tree: Tree) -> None:
    with KernelImages(tree.facts) as images:
        assert SourceFiles(images).file_of(0xFFFFFFFF81000000, None) is None
        assert SourceFiles(images).file_of(MODULE, "demo") is None


def test_functions_of_a_module_come_from_its_own_image(tree: Tree, module: Path) -> None:
    tree.install("boot/vmlinux-6.12.0-test")
    tree.load("demo", module)
    tree.write("lib/modules/6.12.0-test/modules.dep", "kernel/demo.ko:\n")
    tree.install("lib/modules/6.12.0-test/kernel/demo.ko", module)
    with KernelImages(tree.facts) as images:
        assert SourceFiles(images).file_of(MODULE, "demo") == "kernel/bpf/syscall.c"
