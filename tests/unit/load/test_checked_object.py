# SPDX-License-Identifier: BSD-2-Clause
"""Objects are read by a process without rights before anything else reads them."""

from __future__ import annotations

import ast
import os
import signal
import subprocess
from pathlib import Path

import pytest

import retsnoop_py
from retsnoop_py import package
from retsnoop_py.errors import BpfError, DataError, UnavailableError
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.load import checked_object
from retsnoop_py.load.attempt import Copy
from retsnoop_py.load.checked_object import open_object, read_checked
from retsnoop_py.unprivileged.process import Unprivileged

PACKAGE = Path(retsnoop_py.__file__).parent
GOOD = OBJECTS / "witness.bpf.o"
#: Each runs in, or starts, a child without rights.
READERS = {"load/checked_object.py", "load/object_names.py"}


@pytest.fixture(autouse=True)
def _nothing_is_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_object, "_checked", set())


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Status lines of each child, at the time of its request."""
    found: list[str] = []
    ask = Unprivileged.ask

    def noted(self: Unprivileged, data: bytes, fds: tuple[int, ...], seconds: float) -> bytes:
        answer = ask(self, data, fds, seconds)
        found.append(Path(f"/proc/{self.pid}/status").read_text())
        return answer

    monkeypatch.setattr(Unprivileged, "ask", noted)
    return found


def test_a_child_without_rights_reads_the_object_first_and_once(asked: list[str]) -> None:
    target = open_object(GOOD)
    with Copy(GOOD, target) as copy:
        assert copy.path.read_bytes() == GOOD.read_bytes()
    assert target.programs()
    (status,) = asked
    lines = dict(line.split(":\t", 1) for line in status.splitlines())
    assert lines["Seccomp"] == "2"
    if os.geteuid() == 0:
        assert int(lines["Uid"].split()[1]) > 0x70000000, "as no other process is"
        assert lines["CapEff"].strip("0") == ""


def test_a_changed_object_is_read_again(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "x.bpf.o"
    path.write_bytes(GOOD.read_bytes())
    read_checked(path)
    path.write_bytes(GOOD.read_bytes() + b"\0")
    read_checked(path)
    assert len(asked) == 2


def test_libbpf_opens_the_object_in_the_child_as_it_does_here() -> None:
    """No system call that it needs is denied: else a crash there would prove nothing."""
    code = f"""
import sys
sys.path[:] = {package.search_path()!r}
from pathlib import Path
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.unprivileged import sandbox
image = Path({str(GOOD)!r}).read_bytes()
sandbox.enter(shares=True)
with BpfObject(Path("x"), image=image) as opened:
    print([(one.name, one.section, one.kind) for one in opened.programs()])
    print([(one.name, one.kind, one.is_internal) for one in opened.maps()])
"""
    argv = [*package.python(), "-S", "-c", code]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    with BpfObject(GOOD) as opened:
        programs = [(one.name, one.section, one.kind) for one in opened.programs()]
        maps = [(one.name, one.kind, one.is_internal) for one in opened.maps()]
    assert programs
    assert shown == f"{programs}\n{maps}\n"


def test_an_object_that_its_reader_does_not_survive_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start = Unprivileged.start

    def struck(self: Unprivileged) -> None:
        if self.pid is None:
            start(self)
            assert self.pid is not None
            os.kill(self.pid, signal.SIGSEGV)

    monkeypatch.setattr(Unprivileged, "start", struck)
    with pytest.raises(DataError, match="crashed") as caught:
        open_object(GOOD)
    assert "do not load it" in str(caught.value.hint)
    with pytest.raises(DataError, match="crashed"):  # it is not taken for one that was read
        open_object(GOOD)


def test_an_object_that_takes_for_ever_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checked_object, "_SECONDS", 0.001)
    with pytest.raises(DataError, match="takes longer"):
        open_object(GOOD)


def test_an_object_larger_than_any_is_refused_unread(tmp_path: Path, asked: list[str]) -> None:
    path = tmp_path / "x.bpf.o"
    path.touch()
    os.truncate(path, (256 << 20) + 1)
    with pytest.raises(DataError, match="more than 256 MiB"):
        open_object(path)
    assert asked == []


def test_without_a_child_root_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retsnoop_py.unprivileged.process.python", lambda: ["/nowhere/python"])
    monkeypatch.setattr("os.geteuid", lambda: 0)
    with pytest.raises(UnavailableError, match="No such file"):
        open_object(GOOD)


def test_without_a_child_another_user_reads_the_file_with_no_more_rights_than_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("retsnoop_py.unprivileged.process.python", lambda: ["/nowhere/python"])
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert read_checked(GOOD) == GOOD.read_bytes()


@pytest.mark.parametrize("cut", [0, 3, 64, 200, 5000])
def test_a_damaged_object_has_the_same_error_as_without_the_child(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "x.bpf.o"
    path.write_bytes(GOOD.read_bytes()[:cut])
    with pytest.raises(DataError, match=r"is not an ELF file|cut short"):
        open_object(path)
    with pytest.raises(BpfError):
        BpfObject(path)


def test_no_other_code_reads_an_object() -> None:
    found = {
        str(path.relative_to(PACKAGE))
        for path in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "ObjectFile"
    }
    assert found == READERS
