# SPDX-License-Identifier: BSD-2-Clause
"""What the programs are told of arguments before they are loaded."""

from __future__ import annotations

import errno
import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from tests.unit.kernel.tree import Tree
from tests.unit.session.records import FUNCTIONS

from retsnoop_py.attach.plan import AttachPlan, RungPlan
from retsnoop_py.capture.configure import configure_arguments
from retsnoop_py.capture.load import advise, without_fetch, without_kfuncs
from retsnoop_py.errors import BpfError, UsageError
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.switches import JIT
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.settings import ArgSettings


@pytest.fixture
def obj() -> Iterator[BpfObject]:
    with BpfObject(OBJECTS / "trace.bpf.o") as opened:
        yield opened


def plan(mechanism: Mechanism) -> AttachPlan:
    return AttachPlan(FUNCTIONS, (RungPlan(mechanism, (0, 1, 2)),))


def told(obj: BpfObject, name: str) -> int:
    return int.from_bytes(obj.global_bytes(".rodata", name)[:], "little")


@pytest.mark.parametrize(
    ("total", "sized", "text"), [(3072, 256, 256), (1, 1, 1), (65536, 16384, 8), (65536, 8, 16384)]
)
def test_the_log_has_room_for_the_largest_item(
    obj: BpfObject, total: int, sized: int, text: int
) -> None:
    before, size = told(obj, "log_bytes"), obj.map("logs").value_size
    settings = ArgSettings(capture=True, max_total=total, max_sized=sized, max_str=text)
    configure_arguments(obj, settings, plan(Mechanism.KPROBE), 4096)
    more = told(obj, "log_bytes") - before
    assert obj.map("logs").value_size == size + more
    # header, all that counts, the last value with what it points to, of which size is in 16 bits
    assert more >= 80 + told(obj, "args_max_total") + 16 + told(obj, "args_max_data")
    assert 80 + told(obj, "args_max_total") + 16 + 8 < 1 << 16
    assert told(obj, "args_max_data") == max(sized, text)
    assert told(obj, "capture_args") == 1


@pytest.mark.parametrize(
    ("mechanism", "first"), [(Mechanism.KPROBE, 0), (Mechanism.FENTRY, 3), (Mechanism.AUTO, 0)]
)
def test_trampolines_have_plans_of_their_own(
    obj: BpfObject, mechanism: Mechanism, first: int
) -> None:
    configure_arguments(obj, ArgSettings(capture=True), plan(mechanism), 4096)
    assert told(obj, "args_context_plans") == first


def test_logs_that_would_take_all_memory_are_refused(obj: BpfObject) -> None:
    with pytest.raises(UsageError, match=r"7\d{3} MiB"):
        configure_arguments(obj, ArgSettings(capture=True), plan(Mechanism.KPROBE), 1_000_000)


def test_an_object_for_a_kernel_without_atomic_results_has_plain_additions() -> None:
    original = (OBJECTS / "trace.bpf.o").read_bytes()
    with ElfFile(OBJECTS / "trace.bpf.o") as elf:
        code = [one for one in elf.sections.values() if one.flags & 4]
    plain, asking = bytearray(original), bytearray(original)
    for section in code:
        for at in range(section.offset, section.offset + section.size, 8):
            if original[at] in (0xC3, 0xDB) and original[at + 4 : at + 8] in (
                b"\0\0\0\0",
                b"\1\0\0\0",
            ):
                plain[at + 4], asking[at + 4] = 0, 1
    assert plain != asking
    assert without_fetch(bytes(asking)) == plain


def functions_called(image: bytes) -> set[str]:
    """The kernel's functions that the object ``image`` calls."""
    symbols = ELFFile(io.BytesIO(image)).get_section_by_name(".symtab").iter_symbols()
    undefined = {one.name for one in symbols if one["st_shndx"] == "SHN_UNDEF"}
    return {name for name in undefined if name.startswith("bpf_")}


def test_an_object_for_a_kernel_without_the_jit_calls_no_kernel_function() -> None:
    original = (OBJECTS / "trace.bpf.o").read_bytes()
    assert {"bpf_rdonly_cast", "bpf_session_is_return"} <= functions_called(original)
    changed = without_kfuncs(original)
    assert not functions_called(changed)
    with BpfObject(OBJECTS / "trace.bpf.o", without_kfuncs) as obj:
        names = obj.btf()
    assert not any(b"\0%s\0" % one.encode() in names for one in functions_called(original))


@pytest.mark.parametrize(
    ("release", "number", "hint"),
    [
        ("6.1.0-50-cloud-amd64", errno.EINVAL, "report this"),
        ("5.4.0-26-generic", errno.EINVAL, "Linux 5.4.0-26-generic is older than 5.10"),
        ("5.4.0-26-generic", errno.EPERM, "report this"),
    ],
)
def test_what_an_old_kernel_refuses_is_laid_to_its_age(
    tmp_path: Path, release: str, number: int, hint: str
) -> None:
    tree = Tree(tmp_path)
    tree.file("proc/sys/kernel/osrelease", release)
    error = BpfError("bpf_object__load", number, "", "report this")
    advise(error, tree.facts)
    assert (error.hint or "").startswith(hint)


def test_a_load_refused_without_the_jit_names_the_setting(tmp_path: Path) -> None:
    tree = Tree(tmp_path)
    tree.file("proc/sys/kernel/osrelease", "7.3.4")
    tree.file("proc/sys/net/core/bpf_jit_enable", "0")
    log = "program requires BPF JIT compiler but it is not available"
    for told, hint in ((log, JIT.command), ("invalid mem access", "report this")):
        error = BpfError("bpf_object__load", errno.EINVAL, told, "report this")
        advise(error, tree.facts)
        assert hint in (error.hint or "")
