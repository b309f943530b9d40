# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os

import pytest

from retsnoop_py.errors import InputError
from retsnoop_py.options.values import source_tree
from retsnoop_py.symbolize.paths import SourcePaths, SourceTree, source_root

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


@pytest.fixture
def tree(tmp_path):
    """A source tree of Linux 6.12.107 with one file."""
    (tmp_path / "kernel").mkdir()
    (tmp_path / "kernel/fork.c").write_text("int a;\n\treturn -EINVAL;\n")
    (tmp_path / "Makefile").write_text("VERSION = 6\nPATCHLEVEL = 12\nSUBLEVEL = 107\nNAME = x\n")
    return tmp_path


def test_a_line_of_the_source(tree):
    source = SourceTree(tree)
    assert source.line("kernel/fork.c", 2) == "\treturn -EINVAL;"
    assert source.line("kernel/fork.c", 0) is None
    assert source.line("kernel/fork.c", 400) is None
    assert source.line("mm/slub.c", 1) is None
    assert SourceTree(None).line("kernel/fork.c", 1) is None


def test_a_recording_cannot_have_other_files_shown(tree):
    (tree.parent / "secret").write_text("x\n")
    for name in ("../secret", str(tree.parent / "secret"), "kernel/../../secret"):
        assert SourceTree(tree).line(name, 1) is None


def test_a_link_out_of_the_tree_and_a_fifo_in_it_are_not_followed(tree):
    (tree.parent / "secret").write_text("x\n")
    (tree / "kernel/link.c").symlink_to("../../secret")
    os.mkfifo(tree / "kernel/fifo.c")
    assert SourceTree(tree).line("kernel/link.c", 1) is None
    assert SourceTree(tree).line("kernel/fifo.c", 1) is None


def test_a_recording_cannot_choose_the_source_tree_by_its_release():
    for release in ("../../home/u/proj", "6.1/../..", "..", "/etc", "6.1\n", ""):
        assert SourceTree(None, release).root is None
    assert str(SourceTree(None, "6.12.9+deb13-amd64").root).endswith("6.12.9+deb13-amd64/source")


@pytest.mark.parametrize(
    ("release", "told"),
    [
        ("6.12.107+deb13-cloud-amd64", False),
        ("6.12.0-45-generic", False),
        ("6.12.90", True),
        ("6.1.0-50-cloud-amd64", True),
    ],
)
def test_a_tree_of_another_version_is_told(tree, release, told):
    notice = SourceTree(tree).notice(release)
    assert bool(notice) == told
    if notice:
        assert f"is of Linux 6.12.107, the kernel is {release}" in notice


def test_what_is_no_source_tree_is_refused(tree):
    assert source_tree(str(tree)) == tree
    for value in ("", str(tree / "kernel"), "/nonexistent"):
        with pytest.raises(InputError):
            source_tree(value)
