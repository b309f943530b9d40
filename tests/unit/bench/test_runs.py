# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.bench.guest import compile_meter, read_meter
from tests.bench.selections import Selection
from tests.bench.tools import OURS, PEER, Tool, find_tools, starting

LINES = """\
ready 2500000000
loop info 5000 9000 4000
held missing 7000
shown missing 40000 2000 2000
report missing 8000
shown missing 50000 1990 2000
exit 250000000
peak 2048
status 0
settled 300000000
"""
NAMED = Selection("10", entry="e", names=("a", "b"))
GLOB = Selection("default", allow="*bpf*")


def test_meter_s_lines_become_seconds_nanoseconds_and_mib() -> None:
    outcome = read_meter(LINES)
    assert outcome.values == {
        "ready": 2.5,
        "info": 5000,
        "held": 7000,
        "shown": 40000,
        "lost": 10,
        "report": 8000,
        "exit": 0.25,
        "peak": 2,
        "settled": 0.3,
    }
    assert not outcome.over
    assert not outcome.problem


def test_a_phase_that_did_not_end_and_a_bad_status_are_told() -> None:
    assert read_meter("ready 5\nlimit exit\n").over == "exit"
    assert read_meter("took 5\nstatus 69\n").problem == "exit status 69"


def test_a_tool_that_is_not_there_is_absent_not_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("RETSNOOP", raising=False)
    peer, other = find_tools((PEER, "bpftrace"))
    assert (peer.path, other.path) == (None, None)
    assert peer.why == "no retsnoop on this machine; see RETSNOOP="


def test_retsnoop_is_the_one_that_the_variable_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    binary = tmp_path / "peer"
    binary.touch(0o755)
    monkeypatch.setenv("RETSNOOP", str(binary))
    assert find_tools((PEER,))[0].path == str(binary)


@pytest.mark.parametrize("name", [OURS, PEER])
def test_both_snoops_get_the_same_words(name: str, tmp_path: Path) -> None:
    tool = Tool(name, "/bin/tool")
    wide = starting(tool, GLOB, tmp_path, Path("/meter"))
    assert wide.argv == ("/bin/tool", "-sn", "-e", "*sys_bpf", "-a", "*bpf*")
    few = starting(tool, NAMED, tmp_path, Path("/meter"))
    assert few.argv[-2:] == ("-a", f"@{tmp_path}/10.globs")
    assert (tmp_path / "10.globs").read_text() == "a\nb\n"


def test_only_ours_has_to_be_allowed_to_take_every_function(tmp_path: Path) -> None:
    everything = Selection("all", allow="*")
    words = [
        starting(Tool(name, "/bin/tool"), everything, tmp_path, Path("/meter")).argv
        for name in (OURS, PEER)
    ]
    assert ["--max-functions" in argv for argv in words] == [True, False]


def test_bpftrace_counts_entries_and_returns(tmp_path: Path) -> None:
    start = starting(Tool("bpftrace", "/bin/bpftrace"), NAMED, tmp_path, Path("/meter"))
    script = Path(start.argv[-1]).read_text()
    assert "kprobe:a,kprobe:b {" in script
    assert "kretprobe:a,kretprobe:b {" in script
    assert start.argv[1:3] == ("-c", f"/meter hold {start.ready}")


def test_function_graph_takes_names_globs_or_everything(tmp_path: Path) -> None:
    tool = Tool("trace-cmd", "/bin/trace-cmd")
    words = [
        starting(tool, selection, tmp_path, Path("/meter")).argv
        for selection in (NAMED, GLOB, Selection("all", allow="*"))
    ]
    assert [argv.count("-l") for argv in words] == [2, 1, 0]


def test_meter_compiles_and_times_a_program_to_its_end(tmp_path: Path) -> None:
    meter = compile_meter(tmp_path)
    run = [str(meter), "tool", "", "20", "--", "/bin/sh", "-c", "exit 3"]
    result = subprocess.run(run, capture_output=True, text=True, check=True)
    outcome = read_meter(result.stdout)
    assert outcome.values["took"] > 0
    assert outcome.values["peak"] > 0
    assert outcome.problem == "exit status 3"


def test_meter_waits_for_the_ready_word_and_sends_sigint(tmp_path: Path) -> None:
    meter = compile_meter(tmp_path)
    script = "echo not yet; sleep 0.05; echo all ready; exec sleep 20"
    run = [str(meter), "tool", "all ready", "20", "--", "/bin/sh", "-c", script]
    result = subprocess.run(run, capture_output=True, text=True, check=True)
    outcome = read_meter(result.stdout)
    assert outcome.values["ready"] >= 0.05
    assert set(outcome.values) == {"ready", "exit", "settled", "peak"}
    assert not outcome.problem
