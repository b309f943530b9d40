# SPDX-License-Identifier: BSD-2-Clause
"""``list``: what there is to trace."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from retsnoop_py.cli.main import main
from retsnoop_py.kernel import tracefs
from retsnoop_py.selection import globs

FORMAT = """\
name: sched_switch
ID: 1
format:
\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;

\tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;
\tfield:pid_t prev_pid;\toffset:24;\tsize:4;\tsigned:1;
"""


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("sched/sched_switch", "sched/sched_wakeup", "nfs/nfs_open"):
        folder = tmp_path / "sys/kernel/tracing/events" / name
        folder.mkdir(parents=True)
        (folder / "enable").touch()
        (folder / "format").write_text(FORMAT)
    rooted = functools.partial(tracefs.Tracepoints, tmp_path)
    monkeypatch.setattr(tracefs, "Tracepoints", rooted)


@pytest.mark.usefixtures("events")
def test_tracepoints_are_listed_as_they_are_given_to_a_probe(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["list", "tracepoints", "sched:*", "tp:nfs:*"]) == 0
    names = ["tp:nfs:nfs_open", "tp:sched:sched_switch", "tp:sched:sched_wakeup"]
    assert capsys.readouterr().out.split() == names
    assert main(["list", "tracepoints", "*switch", "-v"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "tp:sched:sched_switch",
        "    char[] prev_comm",
        "    pid_t prev_pid",
    ]
    assert main(["list", "tracepoints", "*switch", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["tracepoints"]
    assert found["fields"][1] == {"name": "prev_pid", "type": "pid_t"}


def test_presets_are_listed_with_their_globs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "presets", "-v", "b*"]) == 0
    first, entry, *_ = capsys.readouterr().out.splitlines()
    assert first.startswith("bpf\tfailures of the bpf() system call")
    assert entry == "    -e *_sys_bpf"


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ("list functoins", 64, "did you mean retsnoop-py list functions?"),
        ("list vfs_read", 64, "retsnoop-py functions GLOB"),
        ("list presets nosuch*", 66, "none of this kernel's presets match nosuch*"),
        ("list -e x", 64, "concerns tracing"),
    ],
)
def test_what_cannot_be_listed_is_told_with_the_next_step(
    words: str, status: int, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == status
    assert text in capsys.readouterr().err


@pytest.mark.usefixtures("events")
def test_without_a_word_there_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list"]) == 0
    told = capsys.readouterr().out
    assert "3 tracepoints" in told
    assert f"{len(globs.preset_names())} presets" in told
