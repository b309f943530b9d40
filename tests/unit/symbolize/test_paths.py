# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest

from retsnoop_py.symbolize.paths import SourcePaths, source_root

DEBIAN = "debian/build/build_amd64_none_cloud-amd64"


@pytest.mark.parametrize(
    ("comp_dir", "path", "expected"),
    [
        ("/src/linux", "kernel/bpf/syscall.c", "kernel/bpf/syscall.c"),
        ("/src/linux", "./include/linux/list.h", "include/linux/list.h"),
        ("/src/linux", "/src/linux/mm/slub.c", "mm/slub.c"),
        ("/src/linux/build", "../kernel/fork.c", "kernel/fork.c"),
        ("/src/linux/build", "include/generated/bounds.h", "include/generated/bounds.h"),
        ("/src/linux/build", "/src/linux/kernel/fork.c", "kernel/fork.c"),
        ("../out", "../../kernel/fork.c", "kernel/fork.c"),
        (DEBIAN, "kernel/fork.c", "kernel/fork.c"),
        (DEBIAN, f"{DEBIAN}/kernel/fork.c", "kernel/fork.c"),
        (DEBIAN, "../../../kernel/fork.c", "kernel/fork.c"),
        (f"/b/linux-6.1/{DEBIAN}", "/b/linux-6.1/arch/x86/a.S", "arch/x86/a.S"),
        (f"/b/linux-6.1/{DEBIAN}", "../../../drivers/crypto/x.c", "drivers/crypto/x.c"),
        ("/src/linux", "arch/x86/kvm/../../../virt/kvm/kvm_main.c", "virt/kvm/kvm_main.c"),
        ("/src/linux", "/usr/lib/rustlib/src/core/lib.rs", "/usr/lib/rustlib/src/core/lib.rs"),
        ("/usr/src/linux", "/usr/lib/rustlib/src/core/lib.rs", "/usr/lib/rustlib/src/core/lib.rs"),
        ("/usr/src/linux", "/home/me/driver/main.c", "/home/me/driver/main.c"),
        ("", "kernel/fork.c", "kernel/fork.c"),
    ],
)  # fmt: skip
def test_names_become_relative_to_the_source_tree(comp_dir, path, expected):
    assert SourcePaths().relative(path, comp_dir) == expected


def test_a_tree_far_from_its_build_directory_is_known_by_its_first_unit():
    units = [
        ("/home/me/linux/init/main.c", "/var/build"),
        ("/home/me/linux/mm/slub.c", "/var/build"),
    ]
    asked = []

    def find_root():
        asked.append(1)
        return source_root(units)

    paths = SourcePaths(find_root)
    assert paths.relative("/home/me/linux/mm/slub.c", "/var/build") == "mm/slub.c"
    assert paths.relative("/home/me/linux/lib/kobject.c", "/var/build") == "lib/kobject.c"
    assert paths.relative("/opt/driver/a.c", "/var/build") == "/opt/driver/a.c"
    assert len(asked) == 1


def test_relative_names_have_no_source_root():
    assert source_root([("init/main.c", DEBIAN)]) is None
    assert source_root([]) is None
