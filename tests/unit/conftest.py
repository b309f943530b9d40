# SPDX-License-Identifier: BSD-2-Clause
"""A small kernel: C compiled at test time, linked where a kernel lives, and facts to go with it."""

from __future__ import annotations

import gc
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings
from tests import signals

from retsnoop_py.kernel.btf import Btf
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf.object import OBJECTS, BpfObject

# A busy machine must not cause a failure.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# Thousands of tests are objects that stay: looking for garbage among them took a fifth of the time.
gc.set_threshold(100_000, 50, 50)

signals.restore_for_children()

#: Files and tests (``FILE::NAME``) that together take as long as all others, by their subject.
#: ``make test`` runs them, ``make check`` does not.
THOROUGH = {
    "each pattern of the package": (
        "test_patterns.py",
        "load/test_prefilter.py",
        "load/test_time_limit.py",
    ),
    "generated functions": ("path/test_generated.py", "path/test_generated_all.py"),
    "damage in every place": (
        "recording/test_damage.py",
        "recording/test_hostile.py",
        "symbolize/test_hostile_programs.py",
        "load/test_object_file.py::test_records_of_btf_ext_that_are_too_short_are_ignored",
        "unprivileged/test_dwarf.py::test_damaged_dwarf_is_an_error_or_is_read_in_time",
    ),
    "a file or folder without end": (
        "cause/test_files.py::test_long_names_in_a_large_folder_are_compared_for_a_short_time",
        "cause/test_files.py::test_of_many_names_the_one_that_is_meant_is_still_found",
        "load/test_checked_object.py::test_an_object_larger_than_any_is_refused_unread",
        "test_settings_file.py",
        "vm/test_guest.py::test_a_deep_folder_is_swept",
        "vm/test_guest.py::test_a_guest_leaves_a_deep_folder_and_it_is_removed",
        "vm/test_initrd.py::test_of_a_module_without_end_only_so_much_is_read",
    ),
    "a terminal, or a program that waits": (
        *("cli/test_shells.py", "vm/test_signals.py", "capture/test_signals.py"),
        "capture/test_command.py::test_one_that_ignores_signals_is_left_alone_when_asked_again",
        "kernel/test_debuginfod.py::test_a_server_that_gives_a_little_now_and_then_is_given_up",
        "libbpf/test_threads.py",
        "vm/test_guest.py::test_output_that_does_not_end_is_ended_by_the_timeout",
    ),
    "logs of megabytes": (
        "load/test_long_log.py",
        "load/test_explain.py::test_a_log_too_long_to_keep_still_names_its_program",
        "load/test_explain.py::test_many_failures_cost_as_much_each_as_few",
        "load/test_explain.py::test_memory_is_bounded_and_the_end_is_found",
        "load/test_explain.py::test_what_tells_of_no_failure_is_an_error",
        "cause/test_complaint.py::test_many_calls_and_long_lines_are_compared_for_seconds_only",
        "cause/test_complaint.py::test_only_the_last_lines_of_a_flood_are_read",
        "session/test_model.py::test_ten_times_the_reports_are_ten_times_the_text",
    ),
}
_THOROUGH = {name for names in THOROUGH.values() for name in names}


def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark the tests of :data:`THOROUGH`."""
    here = Path(__file__).parent
    if here not in item.path.parents:
        return
    file, name = str(item.path.relative_to(here)), item.name.partition("[")[0]
    if file in _THOROUGH or f"{file}::{name}" in _THOROUGH:
        item.add_marker(pytest.mark.thorough)


RELEASE = "6.12.0-test"
TEXT = 0xFFFFFFFF81000000
KASLR = 0x1A000000
MODULE = 0xFFFFFFFFC0800000

HEADER = """\
static inline __attribute__((always_inline)) int check(int value)
{
	if (value > 4096)
		__asm__ volatile("nop");
	return value * 3;
}
"""
MAIN = """\
#include "../include/check.h"
static __attribute__((always_inline)) inline int outer(int value)
{
	int first = check(value);

	__asm__ volatile("nop; nop");
	return first + check(value + 7);
}
__attribute__((noinline)) int plain(int value)
{
	__asm__ volatile("nop");
	return value + 1;
}
__attribute__((noinline)) int start_kernel(int value)
{
	return outer(value) + plain(value);
}
"""
SYSCALL = """\
#include "../../include/check.h"
int plain(int value);
__attribute__((noinline, cold)) int rarely(int value)
{
	__asm__ volatile("nop");
	return value;
}
__attribute__((noinline)) int map_create(int value)
{
	if (__builtin_expect(check(value) == 12, 0))
		return rarely(value);
	return plain(check(value)) + 1;
}
"""
ENTRY = """\
	.text
entry_point:
	nop
	nop
	ret
"""
TREE = {
    "include/check.h": HEADER,
    "init/main.c": MAIN,
    "kernel/bpf/syscall.c": SYSCALL,
    "arch/x86/entry.S": ENTRY,
}
CFLAGS = ("-O2", "-g", "-fno-pie", "-mcmodel=kernel", "-fno-asynchronous-unwind-tables")


def run(*argv: object, cwd: Path | None = None) -> str:
    """Run a program of the toolchain; its stdout."""
    done = subprocess.run(
        [str(arg) for arg in argv], cwd=cwd, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{argv}: {done.stderr}"
    return done.stdout


@dataclass(frozen=True)
class Toolchain:
    """Compiles the little tree in ``source``."""

    source: Path

    def compile(self, name: str, target: Path, *flags: str) -> Path:
        target.parent.mkdir(parents=True, exist_ok=True)
        run("gcc", *CFLAGS, *flags, "-c", name, "-o", target, cwd=self.source)
        return target

    def link(self, objects: list[Path], target: Path, text: int = TEXT) -> Path:
        run(
            *("ld", "-Ttext", hex(text), "--build-id", "-e", "0", "-z", "max-page-size=4096"),
            *("--no-warn-rwx-segments", "-o", target, *objects),
        )
        return target

    def vmlinux(self, target: Path, *flags: str) -> Path:
        names = [name for name in TREE if name.endswith((".c", ".S"))]
        folder = target.with_suffix(".objects")
        objects = [self.compile(name, folder / f"{Path(name).stem}.o", *flags) for name in names]
        return self.link(objects, target)


@pytest.fixture(scope="session")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Toolchain:
    source = tmp_path_factory.mktemp("linux")
    for name, text in TREE.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Toolchain(source)


@pytest.fixture(scope="session")
def vmlinux(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return toolchain.vmlinux(tmp_path_factory.mktemp("image") / "vmlinux")


@pytest.fixture(scope="session")
def module(toolchain: Toolchain, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A relocatable image with a build id, as a module is."""
    folder = tmp_path_factory.mktemp("module")
    source = toolchain.compile("kernel/bpf/syscall.c", folder / "syscall.o")
    run("ld", "-r", "--build-id", "-o", folder / "demo.ko", source)
    return folder / "demo.ko"


def symbols(image: Path) -> dict[str, int]:
    """Functions of a linked image by name."""
    lines = (line.split() for line in run("nm", image).splitlines())
    return {name: int(address, 16) for address, kind, name in lines if kind in "tT"}


@dataclass
class Tree:
    """A root directory with the facts of a running kernel in it."""

    root: Path
    vmlinux: Path

    @property
    def facts(self) -> KernelFacts:
        return KernelFacts(self.root)

    def write(self, name: str, content: str | bytes) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return path

    def install(self, name: str, image: Path | None = None) -> Path:
        """Copy an image (vmlinux) to ``name`` below the root."""
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return Path(shutil.copy(image or self.vmlinux, path))

    def load(self, name: str, image: Path) -> None:
        """Make ``image`` a loaded module."""
        with ElfFile(image) as elf:
            self.write(
                f"sys/module/{name}/notes/.note.gnu.build-id", elf.read(".note.gnu.build-id")
            )
        self.write("proc/modules", f"{name} 65536 0 - Live {MODULE:#x}\n")
        self.write(f"sys/module/{name}/sections/.text", f"{MODULE:#x}\n")
        self.write(f"sys/module/{name}/sections/.text.unlikely", f"{MODULE + 0x1000:#x}\n")
        with (self.root / "proc/kallsyms").open("a") as file:
            file.write(f"{MODULE:016x} t map_create\t[{name}]\n")
            file.write(f"{MODULE + 0x1000:016x} t rarely\t[{name}]\n")


@pytest.fixture
def tree(tmp_path: Path, vmlinux: Path) -> Tree:
    """The kernel of :func:`vmlinux` running KASLR bytes above its link address."""
    made = Tree(tmp_path / "root", vmlinux)
    made.write("proc/sys/kernel/osrelease", RELEASE + "\n")
    with ElfFile(vmlinux) as elf:
        text = elf.sections[".text"]
        made.write("sys/kernel/notes", elf.read(".note.gnu.build-id"))
    lines = [f"{text.address + KASLR:016x} T _stext"]
    lines += [f"{address + KASLR:016x} T {name}" for name, address in symbols(vmlinux).items()]
    lines.append(f"{text.address + text.size + KASLR:016x} T _etext")
    made.write("proc/kallsyms", "".join(f"{line}\n" for line in lines))
    made.write("proc/modules", "")
    return made


@pytest.fixture(scope="session")
def object_btf() -> Btf:
    """Return the types of retsnoop-py's own BPF object."""
    with BpfObject(OBJECTS / "trace.bpf.o") as obj:
        return Btf(obj.btf())
