# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from tests.unit.kernel.btf_writer import SIGNED, BtfWriter
from tests.unit.kernel.tree import Tree

from retsnoop_py.errors import DataError, UnavailableError
from retsnoop_py.kernel.elf_file import build_id, walk
from retsnoop_py.kernel.kallsyms import Module

BUILD_ID = bytes(range(20))


def note(owner: bytes, kind: int, data: bytes) -> bytes:
    def padded(part: bytes) -> bytes:
        return part + bytes(-len(part) % 4)

    return struct.pack("=III", len(owner), len(data), kind) + padded(owner) + padded(data)


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_release_and_machine_are_those_of_the_kernel_below_the_root(tree: Tree) -> None:
    tree.file("proc/sys/kernel/osrelease", "6.1.0-50-cloud-amd64\n")
    tree.file("proc/sys/kernel/arch", "s390x\n")

    assert (tree.facts.release, tree.facts.machine) == ("6.1.0-50-cloud-amd64", "s390x")


def test_without_the_sysctls_uname_answers(tree: Tree) -> None:
    assert (tree.facts.release, tree.facts.machine) == (os.uname().release, os.uname().machine)


def test_modules_have_their_place(tree: Tree) -> None:
    tree.file(
        "proc/modules",
        "virtiofs 32768 4 - Live 0xffffffffc02a8000 (E)\n"
        "fuse 167936 1 virtiofs, Live 0xffffffffc0273000\n",
    )
    assert tree.facts.modules == (
        Module("virtiofs", 0xFFFFFFFFC02A8000, 32768),
        Module("fuse", 0xFFFFFFFFC0273000, 167936),
    )


def test_a_kernel_without_modules_has_none(tree: Tree) -> None:
    assert tree.facts.modules == ()


def test_the_build_id_need_not_be_the_first_note(tree: Tree) -> None:
    notes = note(b"Xen\0", 6, b"linux") + bytes(4) + note(b"GNU\0", 3, BUILD_ID)
    tree.file("sys/kernel/notes", note(b"Linux\0", 257, b"\0") + notes)

    assert tree.facts.build_id == BUILD_ID.hex()


def test_a_modules_build_id_is_found_in_any_of_its_notes(tree: Tree) -> None:
    tree.file("sys/module/kvm/notes/.note.Linux", note(b"Linux\0", 257, b"\0"))
    tree.file("sys/module/kvm/notes/.note.gnu.build-id", note(b"GNU\0", 3, BUILD_ID))

    assert tree.facts.module_build_id("kvm") == BUILD_ID.hex()
    assert tree.facts.module_build_id("zram") is None


def test_notes_end_where_they_stop_making_sense() -> None:
    whole = note(b"GNU\0", 3, BUILD_ID)

    assert build_id(whole[:-1]) is None
    assert build_id(note(b"GNU\0", 1, BUILD_ID)) is None
    assert build_id(b"") is None
    assert [n.owner for n in walk(whole + b"\xff" * 12)] == ["GNU"]


def test_sections_of_a_module_have_addresses(tree: Tree) -> None:
    tree.file("sys/module/kvm/sections/.text", "0xffffffffc0200000\n")
    tree.file("sys/module/kvm/sections/.init.text", "0xffffffffc0300000\n")

    sections = tree.facts.module_sections("kvm")

    assert sections == {".text": 0xFFFFFFFFC0200000, ".init.text": 0xFFFFFFFFC0300000}
    assert tree.facts.module_sections("zram") == {}


def test_no_btf_is_an_error_only_for_who_needs_it(tree: Tree) -> None:
    facts = tree.facts
    assert facts.btf is None
    assert facts.module_btf("kvm") is None
    with pytest.raises(UnavailableError, match=r"nothing is mounted on .*/sys") as caught:
        facts.require_btf()
    assert "mount -t sysfs" in (caught.value.hint or "")
    tree.file("sys/kernel/uevent_seqnum", "1\n")
    with pytest.raises(UnavailableError, match="no BTF") as caught:
        facts.require_btf()
    assert "CONFIG_DEBUG_INFO_BTF" in (caught.value.hint or "")


def test_module_btf_stands_on_that_of_vmlinux(tree: Tree) -> None:
    vmlinux = BtfWriter()
    number = vmlinux.int("int", 4, SIGNED)
    module = BtfWriter(vmlinux)
    func = module.func("kvm_init", number)
    tree.btf(vmlinux.bytes())
    tree.btf(module.bytes(), "kvm")
    facts = tree.facts

    btf = facts.module_btf("kvm")

    assert btf is not None
    assert btf.prototype(func)[1] == "int kvm_init(void)"
    assert facts.module_btf("zram") is None
    assert facts.require_btf() is facts.btf


def test_damaged_btf_names_its_file(tree: Tree) -> None:
    tree.btf(b"garbage")
    with pytest.raises(DataError, match=r"sys/kernel/btf/vmlinux: not BTF"):
        _ = tree.facts.btf


def test_what_was_dropped_is_read_again_when_asked_for(tree: Tree) -> None:
    tree.traceable("a")
    facts = tree.facts
    assert len(facts.traceable) == 1
    tree.traceable("a", "b")
    assert len(facts.traceable) == 1

    facts.drop_lists()

    assert len(facts.traceable) == 2
    assert facts.btf is None
