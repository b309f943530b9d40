# SPDX-License-Identifier: BSD-2-Clause
"""Tracing that ends by itself: after so many sessions, after so long."""

from __future__ import annotations

import re
import shlex

import pytest
from tests.live.support import FEW, TOOL, WORKLOAD, compiled, read_recording, trace

from retsnoop_py.vm.machine import Machine


def test_exactly_so_many_sessions_are_shown_and_the_command_goes_on(machine: Machine) -> None:
    path = machine.share / "count.rsn"
    script = f"{compiled(machine, 'burst')} 1 500 >/dev/null; touch {machine.share}/went-on; exit 3"
    result = trace(machine, *FEW, "--count", "17", "-o", str(path), "--", "sh", "-c", script)
    assert result.status == 3, result.err
    assert (machine.share / "went-on").exists()
    assert result.out.count(" TID/PID ") == 17
    recording = read_recording(path)
    assert len(recording.sessions) == 17
    assert recording.stats is not None
    assert trace(machine, "replay", str(path)).stdout == result.stdout


def test_what_waits_in_a_file_is_shown_in_order(machine: Machine) -> None:
    # The output of the first 600 calls does not fit into a pipe, so the tool waits until it is
    # read. The other calls come while the first are printed, so there is time to write them.
    burst, done = compiled(machine, "burst"), machine.share / "bursts-done"
    calls = f"{burst} 1 600 >/dev/null; sleep 1; {burst} 1 397 >/dev/null; sleep 2; touch {done}"
    options = (*FEW, "-C", "bpf.queue-size=1", "-T", "-v")
    tool = shlex.join([TOOL, *options, "--", "sh", "-c", calls])
    reader = f"{{ until [ -e {done} ]; do sleep 0.1; done; cat; }}"
    result = machine.run(["bash", "-o", "pipefail", "-c", f"{tool} | {reader}"], timeout=180)
    assert result.status == 0, result.err
    starts = re.findall(r"^(\S+) -> \S+ TID/PID ", result.out, re.MULTILINE)
    assert len(starts) == 997
    assert starts == sorted(starts)
    told = re.search(r"(\d+) records of (\d+) bytes came; .*?, (\d+) bytes went", result.err)
    assert told is not None, result.err
    records, came, spooled = map(int, told.groups())
    assert records >= 2 * 997
    # A session that is shown at once does not go through the file.
    assert 0 < spooled <= came
    assert "DROPPED" not in result.err
    assert "UNREAD" not in result.err


@pytest.mark.one_kernel
def test_tracing_ends_after_its_time_and_the_command_after_its_own(machine: Machine) -> None:
    # it waits until the gate in front of the probes must have been closed for long
    script = f"sleep 2; {' '.join(WORKLOAD)} bpf-map-bad-flags; exit 4"
    result = trace(machine, *FEW, "--for", "10ms", "--", "sh", "-c", script)
    assert result.status == 4, result.err
    assert "The command goes on, untraced." in result.err
    assert "TID/PID" not in result.out
    assert trace(machine, *FEW, "--for", "1ms").status == 0
