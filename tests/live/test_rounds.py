# SPDX-License-Identifier: BSD-2-Clause
"""Repeated attaching and detaching does not harm the kernel while traced functions run."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from tests.live.support import PROGRAMS, PYTHON
from tests.live.test_cleanup import assert_back_to, leftovers
from tests.live.test_rungs import rungs_on, works_here

from retsnoop_py.mechanism import Mechanism
from retsnoop_py.vm.errors import kernel_problems
from retsnoop_py.vm.machine import Machine

#: The total number of rounds, shared by the mechanisms: slow mechanisms get fewer rounds. Without
#: other mechanisms, kprobe_events gets most rounds.
ROUNDS = 100
#: On another machine's kernel, beside those of this one: 100 take four minutes there.
ROUNDS_ABROAD = 40
PATH_ROUNDS = 10
SLOW = {Mechanism.FENTRY: 5, Mechanism.KPROBE_EVENTS: 10, Mechanism.KPROBE: 10}
MANY = ("array_map_*", "htab_map_*", "map_*", "bpf_map_*")
FEW = ("map_create", "array_map_alloc_check")


def rounds_of(mechanism: Mechanism, machine: Machine) -> int:
    """How many of the rounds a mechanism gets on this kernel."""
    rungs = rungs_on(machine)
    if mechanism not in rungs:
        return 0
    fast = [rung for rung in rungs if rung not in SLOW] or [Mechanism.KPROBE_EVENTS]
    if mechanism not in fast:
        return SLOW[mechanism]
    rounds = ROUNDS_ABROAD if machine.arch.is_foreign else ROUNDS
    left = rounds - sum(SLOW[rung] for rung in rungs if rung not in fast)
    return -(-left // len(fast))


@pytest.mark.parametrize(
    "mechanism",
    [
        pytest.param(m, id=m.value, marks=[] if m is Mechanism.KPROBE_MULTI else pytest.mark.slow)
        for m in Mechanism
        if m is not Mechanism.AUTO
    ],
)
def test_rounds_under_load_leave_a_clean_kernel_log(mechanism: Mechanism, machine: Machine) -> None:
    rounds = rounds_of(mechanism, machine)
    assert bool(rounds) == works_here(mechanism, machine)
    if not rounds:
        return
    run_rounds(machine, rounds, mechanism, FEW if mechanism in SLOW else MANY)


@pytest.mark.slow
@pytest.mark.oldest_and_newest
def test_rounds_of_following_blocks_leave_a_clean_kernel_log(machine: Machine) -> None:
    """`make soak` runs a thousand rounds."""
    told = run_rounds(machine, PATH_ROUNDS, Mechanism.AUTO, FEW, "--path", FEW[1])
    assert told["blocks"] >= PATH_ROUNDS * 10
    assert told["blocks"] % PATH_ROUNDS == 0


def run_rounds(
    machine: Machine, rounds: int, mechanism: Mechanism, globs: Sequence[str], *options: str
) -> dict[str, int]:
    """Return the counts of the rounds; check that nothing is left in the kernel."""
    before = leftovers(machine)
    program = [PYTHON, str(PROGRAMS / "rounds.py"), str(rounds), mechanism.value, *globs, *options]
    result = machine.run(program, timeout=900)
    assert result.status == 0, result.err
    told: dict[str, int] = json.loads(result.out)
    assert told["attached"] % rounds == 0
    assert told["attached"] >= rounds * len(globs)
    assert told["bytes"] > 0
    assert_back_to(before, machine, patience=30)
    assert kernel_problems(machine.kernel_log()) == []
    return told
