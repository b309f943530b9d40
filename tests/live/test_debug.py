# SPDX-License-Identifier: BSD-2-Clause
"""``--debug bpf``: the BPF programs write their events to the kernel's trace_pipe."""

from __future__ import annotations

import re

import pytest
from tests.live.support import FEW, WORKLOAD, trace

from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.oldest_and_newest

#: Below the entry function at the least.
ENTERED = r"^    ENTER {3,}array_map_alloc_check \[\.\.\.\]$"
LEFT = r"^\[!\] EXIT {4,}array_map_alloc_check \[-22\]$"
LOG = "cat /sys/kernel/tracing/trace 2>/dev/null || cat /sys/kernel/debug/tracing/trace"


def test_calls_and_returns_are_logged_with_their_results(machine: Machine) -> None:
    result = trace(machine, *FEW, "--debug", "bpf", "--", *WORKLOAD, "bpf-map-bad-flags")
    assert result.status == 0, result.err
    assert "cat /sys/kernel/tracing/trace_pipe` to see logs." in result.err
    lines = [
        line.rpartition("bpf_trace_printk: ")[2]
        for line in machine.run(["sh", "-c", LOG]).out.splitlines()
    ]
    started = next(i for i, line in enumerate(lines) if line.startswith("=== STARTING TRACING "))
    assert "_sys_bpf [TID " in lines[started]
    entered = [i for i, line in enumerate(lines) if re.search(ENTERED, line)]
    left = [i for i, line in enumerate(lines) if re.search(LEFT, line)]
    assert (len(entered), len(left)) == (1, 1), lines
    assert started < entered[0] < left[0]
