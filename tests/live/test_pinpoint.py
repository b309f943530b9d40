# SPDX-License-Identifier: BSD-2-Clause
"""``--pinpoint``: which condition it was, of each failing chain, with no function named for it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.live.support import FEW, TOOL, compiled, trace, wait_for
from tests.live.test_cleanup import assert_back_to, leftovers

from retsnoop_py.vm.machine import Machine

#: Two failures by one chain, each by a condition of its own, and one by another chain.
CASES = ("bpf_array_key", "bpf_array_max", "bpf_map_type")
LINE = "   because "


def told(out: str) -> list[dict[str, Any]]:
    """The sessions among the lines of JSON."""
    lines = map(json.loads, out.splitlines())
    return [line for line in lines if line["type"] == "session"]


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_a_command_is_run_again_for_the_conditions(machine: Machine) -> None:
    before = leftovers(machine)
    program = [str(compiled(machine, "failures")), *CASES]
    recording = machine.share / "pinpoint.rsn"
    options = ("--pinpoint", *FEW, "-o", str(recording), "--format", "json")
    result = trace(machine, *options, "--", *program, timeout=300)
    assert result.status == 1, "the first run's"
    sessions = told(result.out)
    assert [one["thread"] for one in sessions] == [*CASES, *CASES]
    assert not any("origin" in one for one in sessions[:3])
    origins = [one["origin"] for one in sessions[3:]]
    # on 5.10 the function of the third, map_create(), can not be traced
    names = [one["function"]["name"] for one in origins[:2]]
    assert names == ["array_map_alloc_check"] * 2
    values = [[o["value"] for o in one["decided"]["operands"]] for one in origins[:2]]
    assert values == [[8], [0]]
    assert result.err.count("run 2 of the command") == 1
    assert "run 3" not in result.err
    assert_back_to(before, machine, patience=60)
    again = trace(machine, "replay", "--format", "json", str(recording))
    assert [one["origin"] for one in told(again.out)[3:]] == origins


@pytest.mark.one_kernel
def test_without_further_runs_the_chain_alone_is_shown(machine: Machine) -> None:
    program = [str(compiled(machine, "failures")), "bpf_array_key", "bpf_array_key"]
    result = trace(machine, "--pinpoint", "--reruns", "0", *FEW, "--", *program)
    assert "run 2" not in result.err
    assert result.out.count("array_map_alloc_check") >= 2


@pytest.mark.one_kernel
def test_what_does_not_fail_again_is_said(machine: Machine) -> None:
    flag = machine.share / "seen"
    failing = f"{compiled(machine, 'failures')} bpf_array_key"
    script = f"[ -e {flag} ] && exit 0; touch {flag}; {failing}"
    result = trace(machine, "--pinpoint", *FEW, "--", "sh", "-c", script, timeout=300)
    assert result.err.count("of the command, for the lines.") == 2
    assert "failures without a source line did not repeat" in result.err
    assert LINE not in result.out


@pytest.mark.one_kernel
def test_a_run_that_goes_on_tells_at_the_next_failure(machine: Machine) -> None:
    before = leftovers(machine)
    program = compiled(machine, "failures")
    loop = machine.start(["sh", "-c", f"while :; do {program} bpf_array_key; sleep 1; done"])
    tracer = machine.start([TOOL, "--pinpoint", *FEW])
    wait_for(lambda: LINE.encode() in tracer.output()[0], tracer)
    tracer.send_signal(2)
    result = tracer.wait(60)
    loop.send_signal(9)
    assert result.status == 0
    blocks = result.out.split("\n\n\n")
    assert LINE not in blocks[0], "it had not failed before"
    assert "array_map_alloc_check" in blocks[0]
    assert_back_to(before, machine, patience=60)


@pytest.mark.one_kernel
def test_further_runs_without_a_reason_are_refused(machine: Machine) -> None:
    result = trace(machine, "--reruns", "1", *FEW, "--", "true")
    assert result.status == 64
    assert "add --pinpoint" in result.err


@pytest.mark.one_kernel
def test_a_signal_ends_a_further_run_as_well(machine: Machine) -> None:
    before = leftovers(machine)
    flag = machine.share / "first"
    failing = f"{compiled(machine, 'failures')} bpf_array_key"
    script = f"[ -e {flag} ] && exec sleep 4711; touch {flag}; {failing}"
    tracer = machine.start([TOOL, "--pinpoint", *FEW, "--", "sh", "-c", script])
    wait_for(lambda: b"run 2 of the command" in tracer.output()[1], tracer)
    wait_for(lambda: machine.run(["pgrep", "-f", "^sleep 4711"]).status == 0, tracer)
    tracer.send_signal(15)
    result = tracer.wait(60)
    assert result.status == 1, result.err
    assert machine.run(["pgrep", "-f", "^sleep 4711"]).status == 1
    assert_back_to(before, machine, patience=60)
