# SPDX-License-Identifier: BSD-2-Clause
"""Long tests on one kernel, in one guest."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.live.support import FEW, PROGRAMS, PYTHON, TOOL, compiled
from tests.live.test_cleanup import assert_back_to, leftovers
from tests.soak.results import Outcome

from retsnoop_py.mechanism import LADDER, Mechanism
from retsnoop_py.vm.errors import kernel_problems
from retsnoop_py.vm.machine import Machine

KILLS = Path(__file__).parent / "kills.py"
#: The functions that each round attaches to, in addition to the entry functions.
FUNCTIONS = ("map_create", "array_map_alloc_check")
ROUNDS = 10_000
#: Rounds of each mechanism other than the default.
ROUNDS_OF_OTHERS = 100
#: Rounds and kills while the blocks of FOLLOWED are attached.
PATH_ROUNDS, PATH_KILLS, FOLLOWED = 1_000, 50, "array_map_alloc_check"
HOURS = 3600.0
STEPS = ("sessions", "kills", "paths", "rounds")
#: Counters in the summary for sessions that were not printed.
NOT_SHOWN = ("sessions_dropped", "sessions_unstarted", "sessions_abandoned", "lost_memory")


class KernelSoak:
    """The steps for one kernel. Each returns an :class:`Outcome` and cleans up the guest.

    ``steps`` are some of :data:`STEPS`. ``scale`` is a fraction of the full numbers, for a trial of
    the steps.
    """

    def __init__(
        self, kernel: str, scale: float, say: Callable[[str], None], steps: Collection[str] = STEPS
    ) -> None:
        self.kernel = kernel
        self._steps = steps
        self._scale = scale
        self._say = say

    def run(self) -> Iterator[Outcome]:
        """Boot the guest, run the steps, and check the kernel log after each step."""
        with Machine(self.kernel) as machine:
            self.release = machine.release
            if "sessions" in self._steps:
                yield self._sessions(machine)
            if "kills" in self._steps:
                yield self._kills(machine, "kill -9 at a random moment", 100, ())
            if "paths" in self._steps:
                yield self._path_rounds(machine)
                what = "kill -9 at a random moment, blocks followed"
                yield self._kills(machine, what, PATH_KILLS, ("--path", FOLLOWED))
            if "rounds" in self._steps:
                yield from self._rounds(machine)

    def _count(self, full: int) -> int:
        return max(round(full * self._scale), 1)

    def _rounds(self, machine: Machine) -> Iterator[Outcome]:
        checks = json.loads(machine.run([TOOL, "doctor", "--json"]).out)["checks"]
        able = [
            name
            for name in (mechanism.value for mechanism in (*LADDER, Mechanism.FENTRY))
            if checks[f"mechanism.{name}"]["answer"] == "yes"
        ]
        others = dict.fromkeys(able[1:], self._count(ROUNDS_OF_OTHERS))
        best = self._count(ROUNDS) - sum(others.values())
        for name, rounds in {able[0]: max(best, 1), **others}.items():
            with self._step(machine, f"{name}: attach and detach") as step:
                argv = [PYTHON, str(PROGRAMS / "rounds.py"), str(rounds), name, *FUNCTIONS]
                result = machine.run(argv, timeout=3 * HOURS)
                if result.status:
                    step.fail(result.err)
                else:
                    told = json.loads(result.out)
                    step.told = f"{rounds:,} rounds, {told['calls']:,} failing calls meanwhile"
                    if told["attached"] % rounds or told["attached"] < rounds * len(FUNCTIONS):
                        step.fail(f"{told['attached']} functions attached in {rounds} rounds")
            yield step

    def _path_rounds(self, machine: Machine) -> Outcome:
        rounds = self._count(PATH_ROUNDS)
        with self._step(machine, f"blocks of {FOLLOWED}: attach and detach") as step:
            program = [PYTHON, str(PROGRAMS / "rounds.py"), str(rounds), "auto", *FUNCTIONS]
            result = machine.run([*program, "--path", FOLLOWED], timeout=3 * HOURS)
            if result.status:
                step.fail(result.err)
                return step
            told = json.loads(result.out)
            blocks, rest = divmod(told["blocks"], rounds)
            step.told = (
                f"{rounds:,} rounds, {blocks} blocks, {told['calls']:,} failing calls meanwhile"
            )
            if rest or not blocks:
                step.fail(f"{told['blocks']} blocks attached in {rounds} rounds")
        return step

    def _sessions(self, machine: Machine) -> Outcome:
        calls = self._count(125_000)
        burst = compiled(machine, "burst")
        last = machine.share / "last"
        trace = shlex.join([TOOL, "--format", "json", *FEW, "--", str(burst), "8", str(calls)])
        # the burst prints its own line to stderr, so stdout has only sessions and a summary
        script = (
            f'set -o pipefail; {trace} | tee >(tail -n1 >{last}) | grep -c \'"type":"session"\''
        )
        with self._step(machine, "sessions of 8 threads at once") as step:
            result = machine.run(["bash", "-c", script], timeout=3 * HOURS)
            if result.status:
                step.fail(result.err)
                return step
            shown, summary = int(result.out), json.loads(last.read_text())
            lost = {name: count for name, count in summary["lost"].items() if count}
            step.told = f"{8 * calls:,} made, {shown:,} shown, counted as lost: {lost or 'none'}"
            missing = 8 * calls - shown - sum(lost.get(name, 0) for name in NOT_SHOWN)
            if missing or shown != summary["sessions"]:
                step.fail(f"{missing} neither shown nor counted")
        return step

    def _kills(self, machine: Machine, what: str, full: int, options: Sequence[str]) -> Outcome:
        with self._step(machine, what) as step:
            kills = self._count(full)
            load = machine.start([str(compiled(machine, "burst")), "2", "1000000000"])
            argv = [PYTHON, str(KILLS), str(kills), TOOL, *FEW, *options]
            result = machine.run(argv, timeout=3 * HOURS)
            load.send_signal(9)
            load.wait()  # a time limit would include the start
            if result.status:
                step.fail(result.err or result.out)
            else:
                told = json.loads(result.out)
                step.told = f"{kills} times, {told['tracing']} while tracing"
        return step

    @contextmanager
    def _step(self, machine: Machine, what: str) -> Iterator[Outcome]:
        """Run a step. Check that nothing remains of it, and that the kernel reported no problem."""
        outcome = Outcome(self.kernel, what)
        before = leftovers(machine)
        began = time.monotonic()
        yield outcome
        outcome.seconds = time.monotonic() - began
        try:
            assert_back_to(before, machine, patience=90)
        except AssertionError as error:
            outcome.fail(f"left behind: {error}")
        problems = kernel_problems(machine.kernel_log())
        if problems:
            outcome.fail(f"the kernel's log: {problems}")
        self._say(outcome.line())
