# SPDX-License-Identifier: BSD-2-Clause
"""The Python interface on a kernel: each way a run may end, and the examples of docs/api.md."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.examples import examples
from tests.live.support import call_of_rmdir, system_call

from retsnoop_py.vm.machine import Machine


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_a_block_detaches_whatever_ends_it(machine: Machine) -> None:
    done = machine.run([sys.executable, "-m", "tests.live.programs.api"], timeout=240)
    assert done.status == 0, done.err
    assert all(line.startswith("rmdir: ") for line in done.err.splitlines())
    told = json.loads(done.out.splitlines()[-1])
    assert not any(told["left"].values()), told["left"]
    assert told["stopped"] == ["EBUSY"]
    assert told["calls"][0].endswith(f"_sys_{call_of_rmdir(machine)}")
    assert told["who"]
    assert told["frames"]
    assert told["took"]
    assert told["json"]
    assert "[-EBUSY]" in told["text"]
    assert (told["losses"], told["status"]) == ({}, 0)
    assert "vfs_rmdir" in told["functions"]
    assert told["mechanism"]
    assert told["raised"] is None
    assert told["sleeps"] == 1, "the command of a block that raised goes on"
    assert told["break"] == 0
    assert told["recorded"] == ["EBUSY"] * 2
    assert "Receiving data..." in told["lines"]
    assert told["no loop"] == 0
    assert (told["thread"], told["thread status"]) == (["EBUSY"], 1)
    assert told["ctrl-c"]
    assert told["handled"] == ["EBUSY"]
    assert told["handler is back"]
    assert told["none"] == ["NoMatch", 66]
    assert told["command"] == ["CommandNotFound", 127]


@pytest.mark.one_kernel
def test_the_examples_that_trace_run(machine: Machine, tmp_path: Path) -> None:
    script = machine.share / "examples.py"
    call = call_of_rmdir(machine)
    script.write_text("\n".join(examples("live")).replace("*_sys_rmdir", f"*_sys_{call}"))
    done = machine.run([sys.executable, "-W", "error", str(script)])
    assert done.status == 0, done.err
    assert all(line.startswith("rmdir: ") for line in done.err.splitlines())
    first, *calls = done.out.splitlines()
    assert first.startswith(f"EBUSY ['{system_call(machine, call)}']")
    assert calls[0] == "lost: {} status: 1"
    assert "True" in calls


def test_the_example_with_a_kernel_boots_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("example.py").write_text("import os; print(os.uname().release, flush=True)")
    for code in examples("vm"):
        exec(compile(code, "docs/api.md", "exec"), {})
    status, release, *_ = capsys.readouterr().out.split()
    assert status == "0"
    assert release.startswith("6.12.")
