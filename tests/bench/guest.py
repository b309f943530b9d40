# SPDX-License-Identifier: BSD-2-Clause
"""Runs in a guest, timed by ``meter`` in it. A guest that a run has damaged is rebooted."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Self

from tests.bench.tools import Start

from retsnoop_py.vm.errors import KernelCrashed, VmTimeout
from retsnoop_py.vm.machine import Machine

#: The last step of a run that ends without waiting for the tool to detach.
LEAVE = "leave"
_SOURCES = ("meter.c", "loop.c")
_NS = 1e9
_KIB_PER_MIB = 1024
_LIMIT, _EARLY = 3, 4  # exit statuses of meter
_SPARE_S = 60.0


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run: a value for each measure, in the units of the results.

    ``over`` is the phase that exceeded the limit; ``problem`` is a description of a failure.
    """

    values: Mapping[str, float] = field(default_factory=dict)
    over: str = ""
    problem: str = ""


def compile_meter(folder: Path) -> Path:
    """Compile ``meter`` into ``folder``, static for a small footprint. Requires gcc."""
    meter = folder / "meter"
    sources = [str(Path(__file__).parent / name) for name in _SOURCES]
    argv = ["gcc", "-O2", "-Wall", "-Werror", "-static", "-o", str(meter), *sources]
    subprocess.run(argv, check=True)
    return meter


def read_meter(text: str) -> Outcome:
    """Return the values of all finished phases from the output of meter."""
    values: dict[str, float] = {}
    over = problem = ""
    for line in text.splitlines():
        name, *words = line.split()
        if name in {"ready", "exit", "settled", "took"}:
            values[name] = int(words[0]) / _NS
        elif name == "peak":
            values[name] = int(words[0]) / _KIB_PER_MIB
        elif name == "loop":
            values[words[0]] = median(float(word) for word in words[1:])
        elif name in {"held", "report"}:
            values[name] = float(words[1])
        elif name == "shown":
            # held calls come first; the measured value is the time for reading a full buffer
            values.setdefault("shown", float(words[1]))
            values["lost"] = values.get("lost", 0.0) + int(words[3]) - int(words[2])
        elif name == "limit":
            over = words[0]
        elif name == "status" and words[0] not in {"0", "130"}:
            problem = f"exit status {words[0]}"
    return Outcome(values, over, problem)


class Guest:
    """A booted kernel to measure in, as a context manager; ``limit`` is seconds per phase.

    With ``icount`` its clock counts instructions.
    """

    def __init__(
        self, kernel: str, folder: Path, meter: Path, limit: float, *, icount: bool = False
    ) -> None:
        self._machine = Machine(kernel, shares=[folder])
        self._machine.count_instructions = icount
        self._meter = str(meter)
        self._limit = limit

    def __enter__(self) -> Self:
        self._machine.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._machine.__exit__(kind, error, trace)

    @property
    def release(self) -> str:
        """The release of the kernel."""
        return self._machine.release

    def text_of(self, argv: Sequence[str]) -> str:
        """Return stdout and stderr of a command; empty if it exceeds the time limit."""
        try:
            result = self._machine.run(argv, timeout=self._limit)
        except (KernelCrashed, VmTimeout):
            self._machine.reboot()
            return ""
        return result.out + result.err

    def bare(self, steps: Sequence[str]) -> Outcome:
        """Run the steps without a tool."""
        return self._run(["bare", *steps], {})

    def tool(self, start: Start, steps: Sequence[str]) -> Outcome:
        """Start a tool, run the steps once it is ready, then stop it with SIGINT.

        If ``start`` has no ready word, wait for the end of the tool instead. After the step
        :data:`LEAVE`, the guest is discarded together with the running tool.
        """
        words = ["tool", start.ready, f"{self._limit:.0f}", *steps, "--", *start.argv]
        outcome = self._run(words, start.env)
        if LEAVE in steps and not outcome.over:
            self._machine.reboot()
        return outcome

    def _run(self, words: Sequence[str], env: Mapping[str, str]) -> Outcome:
        total = 3 * self._limit + _SPARE_S
        try:
            result = self._machine.run([self._meter, *words], env=env, timeout=total)
        except KernelCrashed as crash:
            self._machine.reboot()
            return Outcome(problem=f"the kernel went down ({crash.message.split(': ')[-1][:80]})")
        except VmTimeout:
            self._machine.reboot()
            return Outcome(over="run")
        outcome = read_meter(result.out)
        if result.status == _LIMIT:
            self._machine.reboot()
        elif result.status == _EARLY:
            return Outcome(problem=_complaint(result.err))
        elif result.status:
            return Outcome(outcome.values, problem=f"meter: {_complaint(result.err)}")
        return outcome


def _complaint(text: str) -> str:
    """Return the last line with content, shortened for a table."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:80] if lines else "ended before it was ready"
