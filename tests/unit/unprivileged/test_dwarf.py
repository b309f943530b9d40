# SPDX-License-Identifier: BSD-2-Clause
"""DWARF of somebody else is read in a process without rights, with the same results."""

from __future__ import annotations

import os
import random
import signal
import subprocess
from pathlib import Path

import pytest
from tests.fuzz import dwarf as damaged

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.libbpf.dwarf import DwarfImage
from retsnoop_py.unprivileged import dwarf
from retsnoop_py.unprivileged.dwarf import UnprivilegedImage, defect, is_installed, open_image

SOURCE = """
static inline __attribute__((always_inline)) int inner(int a) { return a * a + 1; }
int outer(int b) { volatile int kept = inner(b); return kept + inner(kept); }
int main(int argc, char **argv) { return outer(argc); }
"""


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("image")
    (folder / "a.c").write_text(SOURCE)
    subprocess.run(["cc", "-g", "-O1", "-o", "a", "a.c"], cwd=folder, check=True)
    return folder / "a"


def test_the_results_are_those_of_libdw_here(image: Path) -> None:
    with DwarfImage(image) as here, UnprivilegedImage(image) as there:
        assert there.units() == here.units()
        ranges = [pair for unit in here.units() for pair in unit.ranges]
        addresses = [at for low, high in ranges for at in range(low, high)]
        assert any(here.variables(at) for at in addresses)
        for at in (*addresses, 0, 2**64 - 1):
            assert there.lookup(at) == here.lookup(at)
            assert there.variables(at) == here.variables(at)
        for line in range(6):
            assert there.find_line(0, "a.c", line) == here.find_line(0, "a.c", line)
        assert there.stats.units == here.stats.units


def test_the_process_that_reads_it_has_no_rights(image: Path) -> None:
    opened = open_image(image)
    assert isinstance(opened, UnprivilegedImage)
    with opened:
        status = Path(f"/proc/{opened._process.pid}/status").read_text()
        lines = dict(line.split(":\t", 1) for line in status.splitlines())
        assert lines["Seccomp"] == "2"
        if os.geteuid() == 0:
            assert int(lines["Uid"].split()[1]) > 0x70000000, "as no other process is"


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"", DataError), (b"\x7fELF\2\1" + bytes(80), DataError), (None, InputError)],
)
def test_errors_are_those_of_libdw_here(
    content: bytes | None, kind: type[Exception], tmp_path: Path
) -> None:
    path = tmp_path / "x"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(kind) as there:
        UnprivilegedImage(path)
    with pytest.raises(kind) as here:
        DwarfImage(path)
    assert str(there.value) == str(here.value)
    if content is not None:
        assert defect(path) is not None


def test_an_image_that_its_reader_does_not_survive_is_given_up(image: Path) -> None:
    with UnprivilegedImage(image) as opened:
        assert opened._process.pid is not None
        os.kill(opened._process.pid, signal.SIGSEGV)
        for _ in range(2):
            with pytest.raises(DataError, match="the process that reads it ended"):
                opened.lookup(0)
        assert opened._process.pid is None


def test_an_image_that_takes_for_ever_is_given_up(
    image: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with UnprivilegedImage(image) as opened:
        monkeypatch.setattr(dwarf, "_REQUEST_S", 0.2)
        assert opened._process.pid is not None
        os.kill(opened._process.pid, signal.SIGSTOP)
        with pytest.raises(DataError, match="takes longer"):
            opened.lookup(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="the files are root's")
def test_installed_is_what_only_root_can_change_below_the_systems_folders(
    image: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not is_installed(image)
    root = Path("/var/lib") / f"retsnoop-test-{os.getpid()}"
    monkeypatch.setattr(dwarf, "_INSTALLED", (str(root).lstrip("/"),))
    path = root / "folder" / "vmlinux"
    try:
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        assert is_installed(path)
        for place, mode in ((path, 0o666), (path, 0o664), (path.parent, 0o777)):
            before = place.stat().st_mode
            place.chmod(mode)
            assert not is_installed(path), (place, oct(mode))
            place.chmod(before)
        os.chown(path, 1000, 0)
        assert not is_installed(path)
        path.unlink()
        path.symlink_to(image)
        assert not is_installed(path), "the link is root's, but the file lies elsewhere"
        path.unlink()
        assert not is_installed(path)
    finally:
        path.unlink(missing_ok=True)
        path.parent.rmdir()
        root.rmdir()


@pytest.mark.parametrize("kind", damaged.KINDS)
def test_damaged_dwarf_is_an_error_or_is_read_in_time(kind: str, tmp_path: Path) -> None:
    """Cut files, references that lead in circles, huge forms: only the child meets them."""
    path = tmp_path / "damaged"
    for seed in range(6):
        path.write_bytes(damaged.make(random.Random(seed), kind))
        assert damaged.damage(path) is None, seed


#: A block whose sibling is its own first child: with N of them, a walk takes 2**N steps.
BLOCK = "block{0}: .byte 2; .4byte block{1} - unit; .8byte 0x401000, 256"
BLOCKS = 200
#: DWARF 4: a unit, a function and the blocks, each with the same 256 bytes of code.
CIRCLES = f"""
.text
.globl _start
_start: .zero 256
.section .debug_abbrev
.byte 1, 0x11, 1, 0x11, 1, 0x12, 7, 0, 0
.byte 2, 0x0b, 1, 1, 0x13, 0x11, 1, 0x12, 7, 0, 0
.byte 3, 0x2e, 1, 0x03, 0x08, 0x11, 1, 0x12, 7, 0, 0
.byte 0
.section .debug_info
unit: .4byte end - unit - 4
.2byte 4
.4byte 0
.byte 8
.byte 1; .8byte 0x401000, 256
.byte 3; .asciz "found"; .8byte 0x401000, 256
{chr(10).join(BLOCK.format(number, number + 1) for number in range(BLOCKS))}
block{BLOCKS}: .zero {BLOCKS + 3}
end:
"""


def test_siblings_that_lead_back_into_children_take_little_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.s").write_text(CIRCLES)
    words = ["cc", "-nostdlib", "-static", "-Wl,-Ttext=0x401000", "-o", "a", "a.s"]
    subprocess.run(words, cwd=tmp_path, check=True)
    with UnprivilegedImage(tmp_path / "a") as opened:
        monkeypatch.setattr(dwarf, "_REQUEST_S", 10.0)
        assert opened.variables(0x401010) == ()
        found = opened.lookup(0x401010)
        assert found is not None
        assert [frame.function for frame in found.frames] == ["found"]
