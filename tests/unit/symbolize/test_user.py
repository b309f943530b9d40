# SPDX-License-Identifier: BSD-2-Clause
"""Addresses of programs that run, are gone, or were never seen."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.symbolize.frames import Resolved, UserAddress
from retsnoop_py.symbolize.user import ProcessSymbolizer

SOURCE = """\
int twice(int x);
static inline __attribute__((always_inline)) int inlined(int x)
{
	return twice(x) + 1;
}
__attribute__((noinline)) int outer(int x)
{
	return inlined(x) + 1;
}
__attribute__((noinline)) int twice(int x) { return 2 * x; }
int main(int argc, char **argv) { (void)argv; return outer(argc); }
"""
PID = 1234
#: Where the made-up process has the file's text.
BASE = 0x7F0000000000


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with symbols and DWARF."""
    path = tmp_path_factory.mktemp("user") / "program"
    path.with_suffix(".c").write_text(SOURCE)
    run("gcc", "-O1", "-g", "-Wl,--build-id", "-o", path.name, "program.c", cwd=path.parent)
    return path


@pytest.fixture
def root(program: Path, tmp_path: Path) -> Path:
    """A file system with the program and a process that runs it."""
    (tmp_path / "opt").mkdir()
    shutil.copy(program, tmp_path / "opt/program")
    write_maps(tmp_path, f"{BASE:x}-{BASE + 0x10000:x} r-xp 00000000 00:00 0    /opt/program\n")
    return tmp_path


def run(*argv: str, cwd: Path) -> str:
    return subprocess.run(argv, cwd=cwd, capture_output=True, text=True, check=True).stdout


def write_maps(root: Path, text: str) -> None:
    folder = root / f"proc/{PID}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "maps").write_text(text)


def returns_into_outer(path: Path) -> UserAddress:
    """Where the call of twice() in outer() returns to."""
    code = run("objdump", "-d", "--no-show-raw-insn", str(path), cwd=path.parent)
    lines = code.partition("<outer>:\n")[2].splitlines()
    call = next(index for index, line in enumerate(lines) if "<twice>" in line)
    with ElfFile(path) as elf:
        text, build_id = elf.sections[".text"], elf.build_id
    assert build_id
    address = int(lines[call + 1].split(":")[0], 16)
    return UserAddress(build_id, address - text.address + text.offset)


def assert_in_outer(found: Resolved, module: str) -> None:
    assert (found.name, found.module) == ("outer", module)
    assert found.offset == found.address - found.start > 0
    assert [(frame.function, frame.line) for frame in found.frames] == [
        ("outer", 8),
        ("inlined", 4),
    ]


def test_a_running_program_is_found_by_its_build_id(program: Path, root: Path) -> None:
    with ProcessSymbolizer(root) as processes:
        assert_in_outer(processes.resolve_user(PID, returns_into_outer(program)), "/opt/program")


def test_a_program_in_a_container_is_found_through_its_process(program: Path, root: Path) -> None:
    process = root / f"proc/{PID}"
    for folder in (root / "proc/self/ns", process / "ns", process / "root/opt"):
        folder.mkdir(parents=True)
    for namespace in (root / "proc/self/ns/mnt", process / "ns/mnt"):
        namespace.touch()
    (root / "opt/program").rename(process / "root/opt/program")
    with ProcessSymbolizer(root) as processes:
        address = returns_into_outer(program)
        assert_in_outer(processes.resolve_user(PID, address), "/opt/program")
        raw = UserAddress("", BASE + address.place)
        assert_in_outer(processes.resolve_user(PID, raw), "/opt/program")


def test_inside_a_container_a_process_is_found_by_its_id_there(program: Path, root: Path) -> None:
    """The kernel's id of it may be that of another process of our /proc."""
    with ProcessSymbolizer(root) as processes:
        address = UserAddress("", BASE + returns_into_outer(program).place)
        assert_in_outer(processes.resolve_user(PID + 1000, address, PID), "/opt/program")
        assert processes.resolve_user(PID, address, 0).name is None


def test_a_process_that_is_gone_was_seen_in_time(program: Path, root: Path) -> None:
    with ProcessSymbolizer(root) as processes:
        processes.see(PID)
        shutil.rmtree(root / "proc")
        found = processes.resolve_user(PID, returns_into_outer(program))
        assert_in_outer(found, "/opt/program")
        other = processes.resolve_user(PID + 1, returns_into_outer(program))
        assert other == found


def test_a_process_that_was_never_seen_ran_a_program_in_path(
    program: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(root / "proc")
    address = returns_into_outer(program)
    monkeypatch.setenv("PATH", "/nowhere:not-absolute:/opt")
    with ProcessSymbolizer(root) as processes:
        found = processes.resolve_user(PID, address)
    assert_in_outer(found, "/opt/program")


def test_a_command_that_ended_before_it_was_seen_is_known_by_its_path(
    program: Path, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.rmtree(root / "proc")
    address = returns_into_outer(program)
    monkeypatch.setenv("PATH", "/nowhere")
    with ProcessSymbolizer(root) as processes:
        processes.expect("/opt/program")
        assert_in_outer(processes.resolve_user(PID, address), "/opt/program")


def test_a_program_that_another_one_became_is_looked_at_again(program: Path, root: Path) -> None:
    with ProcessSymbolizer(root) as processes:
        maps = (root / f"proc/{PID}/maps").read_text()
        write_maps(root, "")
        processes.see(PID)
        write_maps(root, maps)
        assert_in_outer(processes.resolve_user(PID, returns_into_outer(program)), "/opt/program")


def test_an_unknown_build_id_is_shown(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/opt")
    with ProcessSymbolizer(root) as processes:
        for _ in range(2):
            found = processes.resolve_user(PID, UserAddress("ab" * 20, 0x1234))
            assert found == Resolved(0x1234, None, 0, 0, f"[build id {'ab' * 20}]")


def test_a_program_is_known_as_soon_as_some_process_runs_it(program: Path, root: Path) -> None:
    address = returns_into_outer(program)
    maps = (root / f"proc/{PID}/maps").read_text()
    write_maps(root, "")
    with ProcessSymbolizer(root) as processes:
        assert processes.resolve_user(PID, address).name is None
        write_maps(root, maps)
        processes.see(PID)
        assert_in_outer(processes.resolve_user(PID + 1, address), "/opt/program")


def test_an_address_without_build_id_is_found_by_the_mappings(program: Path, root: Path) -> None:
    write_maps(
        root,
        f"{BASE:x}-{BASE + 0x10000:x} r-xp 00000000 00:00 0    /opt/program\n"
        "7f1000000000-7f1000001000 rwxp 00000000 00:00 0\n"
        "7f2000000000-7f2000001000 rw-p 00000000 00:00 0    /opt/program\n",
    )
    offset = returns_into_outer(program).place
    with ProcessSymbolizer(root) as processes:
        found = processes.resolve_user(PID, UserAddress("", BASE + offset))
        assert found.address == BASE + offset
        assert_in_outer(found, "/opt/program")
        for place in (0x7F1000000010, 0x7F2000000010, 0x10):
            nameless = processes.resolve_user(PID, UserAddress("", place))
            assert nameless == Resolved(place, None, 0, 0, None)


def test_symbols_and_lines_come_from_a_separate_debug_file(program: Path, root: Path) -> None:
    address = returns_into_outer(program)
    folder = root / "usr/lib/debug/.build-id" / address.build_id[:2]
    folder.mkdir(parents=True)
    shutil.copy(program, folder / f"{address.build_id[2:]}.debug")
    run("strip", "--strip-all", "program", cwd=root / "opt")
    with ProcessSymbolizer(root) as processes:
        assert_in_outer(processes.resolve_user(PID, address), "/opt/program")


@pytest.mark.parametrize(
    ("said", "name"), [("GCC: (Debian 12.2.0)", "outer"), ("Linker: LLD 19.1.7", None)]
)
def test_of_a_debug_file_alone_code_is_found_where_the_linker_left_its_place(
    said: str, name: str | None, program: Path, tmp_path: Path
) -> None:
    """Such a file has no offsets: of one that GNU's linker made addresses tell."""
    address = returns_into_outer(program)
    folder = tmp_path / "usr/lib/debug/.build-id" / address.build_id[:2]
    folder.mkdir(parents=True)
    (tmp_path / "said").write_text(said)
    told = ("--remove-section=.comment", "--add-section=.comment=said")
    run("objcopy", *told, str(program), "told", cwd=tmp_path)
    debug = folder / f"{address.build_id[2:]}.debug"
    run("objcopy", "--only-keep-debug", "told", str(debug), cwd=tmp_path)
    with ProcessSymbolizer(tmp_path) as processes:
        found = processes.resolve_user(PID, address)
    assert found.name == name
    assert [frame.line for frame in found.frames] == ([8, 4] if name else [])


@pytest.mark.parametrize("link", [None, "usr/lib/ld-musl-{}.so.1"])
def test_a_static_program_of_ours_knows_the_systems_c_library(
    link: str | None, program: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It maps none itself, by which a process that is gone would be known.

    Its name is that of the file, as in a process that is still there: musl's loader is a link.
    """
    machine = os.uname().machine
    address = returns_into_outer(program)
    name = "libc.so" if link else "libc.so.6"
    place = tmp_path / f"usr/lib/{machine}-linux-gnu/{name}"
    place.parent.mkdir(parents=True)
    shutil.copy(program, place)
    if link:
        (tmp_path / link.format(machine)).symlink_to(f"{machine}-linux-gnu/{name}")
    monkeypatch.setenv("PATH", "/nonexistent")
    for is_static, found in ((False, None), (True, "outer")):
        monkeypatch.setattr("retsnoop_py.symbolize.user.is_one_file", lambda s=is_static: s)
        with ProcessSymbolizer(tmp_path) as processes:
            resolved = processes.resolve_user(PID, address)
        assert resolved.name == found
        if is_static:
            assert resolved.module == f"/usr/lib/{machine}-linux-gnu/{name}"


def test_without_lines_there_are_symbols(program: Path, root: Path) -> None:
    with ProcessSymbolizer(root, lines=False) as processes:
        found = processes.resolve_user(PID, returns_into_outer(program))
    assert (found.name, found.frames) == ("outer", ())


def test_a_file_that_is_no_program_has_a_path(root: Path) -> None:
    (root / "opt/program").write_text("text")
    with ProcessSymbolizer(root) as processes:
        found = processes.resolve_user(PID, UserAddress("", BASE + 5))
    assert found == Resolved(BASE + 5, None, 0, 0, "/opt/program")


def test_the_vdso_has_symbols() -> None:
    maps = Path("/proc/self/maps").read_text().splitlines()
    start = next(int(line.split("-")[0], 16) for line in maps if line.endswith("[vdso]"))
    with ProcessSymbolizer() as processes:
        found = [
            processes.resolve_user(os.getpid(), UserAddress("", start + offset))
            for offset in range(0x400, 0x1000, 8)
        ]
    assert {resolved.module for resolved in found} == {"[vdso]"}
    assert any("clock_gettime" in (resolved.name or "") for resolved in found)
