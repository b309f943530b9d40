# SPDX-License-Identifier: BSD-2-Clause
"""TAB reads the names in an object in a process without rights."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retsnoop_py.libbpf.object import OBJECTS
from retsnoop_py.load import object_names
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.object_names import object_symbols
from retsnoop_py.unprivileged.process import Unprivileged

GOOD = OBJECTS / "witness.bpf.o"


def test_a_child_without_rights_reads_the_names_and_this_process_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = {name for name in ObjectFile(GOOD).programs() if name}
    states: list[str] = []
    ask = Unprivileged.ask

    def noted(self: Unprivileged, data: bytes, fds: tuple[int, ...], seconds: float) -> bytes:
        answer = ask(self, data, fds, seconds)
        states.append(Path(f"/proc/{self.pid}/status").read_text())
        return answer

    monkeypatch.setattr(Unprivileged, "ask", noted)
    monkeypatch.setattr(object_names, "ObjectFile", None)
    found = object_symbols(["load", str(GOOD), "/dev/null", "--prog"])
    assert found
    assert set(found) <= wanted
    (status,) = states
    assert "Seccomp:\t2" in status
    if os.geteuid() == 0:
        assert "CapEff:\t0000000000000000" in status


def test_maps_are_the_symbols_of_a_section() -> None:
    found = object_symbols([str(GOOD)], ".maps")
    assert found == sorted(ObjectFile(GOOD).maps())
    assert found


def test_an_object_that_the_child_does_not_survive_has_no_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The next object of the line has its names."""
    ask, count = Unprivileged.ask, 0

    def dies(self: Unprivileged, data: bytes, fds: tuple[int, ...], seconds: float) -> bytes:
        nonlocal count
        count += 1
        if count == 1:
            self.start()
            assert self.pid is not None
            os.kill(self.pid, 9)
        return ask(self, data, fds, seconds)

    monkeypatch.setattr(Unprivileged, "ask", dies)
    assert object_symbols([str(GOOD)]) == []
    count = 0
    assert object_symbols([str(GOOD), str(GOOD)])
    os.mkfifo(tmp_path / "fifo.o")
    assert object_symbols([str(tmp_path / "fifo.o"), "a\0b"]) == []
