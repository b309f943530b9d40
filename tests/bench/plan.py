# SPDX-License-Identifier: BSD-2-Clause
"""Measure one kernel: the runs, their order, and the values to keep."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tests.bench.burst import BURST, STEP, burst_of, rendering
from tests.bench.guest import LEAVE, Guest, Outcome
from tests.bench.results import Cell, KernelResults
from tests.bench.selections import Selection, common, listed_functions, plain, small_set
from tests.bench.tools import OURS, Start, Tool, dry_run, starting

BARE = "untraced"
#: If a run took longer than this, in seconds, later rounds repeat only its start.
SLOW_S = 45.0
ENTRY = "__x64_sys_bpf"
LOOPS = ("loop:lookup:3000:5", "loop:info:3000:5")
#: 2,000 failing calls fit into the buffers of both tools.
REPORTS = ("held:missing:2000", "report:missing:2000")
_UNITS = {"ready": "s", "exit": "s", "settled": "s", "took": "s", "peak": "MiB"}


@dataclass(slots=True)
class KernelBench:
    """The runs on one kernel; :meth:`measure` fills ``results``."""

    guest: Guest
    tools: tuple[Tool, ...]
    keys: tuple[str, ...]
    folder: Path
    meter: Path
    limit: float
    results: KernelResults

    def measure(self) -> None:
        """Do all runs, tool by tool, in as many rounds as ``results.repeats``."""
        present = [tool for tool in self.tools if tool.path]
        selections = self._selections([tool for tool in present if tool.reports])
        first = [*selections, burst_of(self.results.kernel)][0]
        for tool in present:  # warm the caches of the guest
            self.guest.tool(self._start(tool, first), ())
        if BURST in self.keys:
            self._burst([tool for tool in present if tool.reports])
        slow: set[tuple[str, str]] = set()
        for turn in range(1, self.results.repeats + 1):
            self._tell(f"run {turn} of {self.results.repeats}")
            self._take(BARE, BARE, self.guest.bare(LOOPS + REPORTS))
            for tool in present:
                if tool.reports:
                    self._start_up(tool)
            for selection in selections:
                for tool in present:
                    pair = (selection.key, tool.name)
                    if pair in slow:
                        self._start_again(tool, selection)
                    elif self._run(tool, selection):
                        slow.add(pair)

    def _burst(self, snoops: Sequence[Tool]) -> None:
        """Measure a burst per tool, and one that is recorded and replayed outside the guest."""
        for tool in snoops:
            chosen = burst_of(self.results.kernel)
            self._take(BURST, tool.name, self.guest.tool(self._start(tool, chosen), (STEP,)))
            if tool.name != OURS:
                continue
            path = self.folder / "burst.rsn"
            recorded = replace(chosen, options=(*chosen.options, "-o", str(path)))
            self.guest.tool(self._start(tool, recorded), (STEP,))
            self._take("rendering", tool.name, Outcome(rendering(str(tool.path), path)))

    def _selections(self, snoops: Sequence[Tool]) -> list[Selection]:
        wide = Selection("default", allow="*bpf*")
        lists = {tool.name: self._listed(tool, wide) for tool in snoops}
        names = common(plain(listed) for listed in lists.values())
        chosen = [
            Selection("10", entry=ENTRY, names=small_set(names, ENTRY, 10)),
            Selection("100", entry=ENTRY, names=small_set(names, ENTRY, 100)),
            wide,
            Selection("equal", names=names),
            Selection("all", allow="*"),
        ]
        counts = {name: len(functions) for name, functions in lists.items()}
        for selection in chosen:
            if selection.names:
                same = {tool.name: len(selection.names) for tool in snoops}
                self.results.functions[selection.key] = same
        self.results.functions["default"] = counts
        if "all" in self.keys:
            everything = {tool.name: len(self._listed(tool, chosen[-1])) for tool in snoops}
            self.results.functions["all"] = everything
        return [selection for selection in chosen if selection.key in self.keys]

    def _listed(self, tool: Tool, selection: Selection) -> tuple[str, ...]:
        self._tell(f"what {tool.name} would attach for {selection.allow}")
        return listed_functions(self.guest.text_of(dry_run(tool, selection, self.folder)))

    def _start(self, tool: Tool, selection: Selection) -> Start:
        return starting(tool, selection, self.folder, self.meter)

    def _start_again(self, tool: Tool, selection: Selection) -> None:
        """Measure only the start of a tool that ends slowly, if the first run measured it."""
        cell = self.results.get(selection.key, "ready", tool.name)
        if cell is None or cell.median is None:
            return
        outcome = self.guest.tool(self._start(tool, selection), (LEAVE,))
        only = {"ready": outcome.values["ready"]} if "ready" in outcome.values else {}
        self._take(selection.key, tool.name, replace(outcome, values=only))

    def _run(self, tool: Tool, selection: Selection) -> bool:
        """Do one run. Return True if it must not be repeated."""
        if selection.key == "equal" and not tool.reports:
            return True
        steps: tuple[str, ...] = ()
        if selection.key in {"default", "equal"}:
            steps = LOOPS + (REPORTS if tool.reports else ())
        if selection.key == "equal" and self._ended_slowly(tool):
            steps += (LEAVE,)
        outcome = self.guest.tool(self._start(tool, selection), steps)
        self._take(selection.key, tool.name, outcome)
        seconds = outcome.values.get("ready", 0.0) + outcome.values.get("exit", 0.0)
        slow = seconds > SLOW_S or LEAVE in steps
        return slow or bool(outcome.over) or bool(outcome.problem)

    def _ended_slowly(self, tool: Tool) -> bool:
        """Return True if detaching a similar number of functions took longer than SLOW_S."""
        cell = self.results.get("default", "exit", tool.name)
        return cell is not None and (cell.median or 0.0) > SLOW_S

    def _start_up(self, tool: Tool) -> None:
        for option in ("--version", "--help"):
            start = Start((str(tool.path), option), ready="")
            outcome = self.guest.tool(start, ())
            only = {option.lstrip("-"): outcome.values.get("took", 0.0)}
            self._take("start-up", tool.name, replace(outcome, values=only))
        if tool.name == OURS and "why" in self.keys:
            self._why(tool)

    def _why(self, tool: Tool) -> None:
        """Measure ``why`` with one run of a command, and the command alone."""
        command = ("ls", "/nonexistent")
        commands = {
            "version": (str(tool.path), "--version"),
            "command": command,
            "took": (str(tool.path), "why", "--reruns", "0", "--", *command),
        }
        values: dict[str, float] = {}
        for measure, argv in commands.items():
            # a status of 2 comes from the command itself
            outcome = self.guest.tool(Start(argv, ready=""), ())
            if "took" not in outcome.values:
                self._take("why", tool.name, outcome)
                return
            values[measure] = outcome.values["took"]
        values["times"] = (values["took"] - values["command"]) / values.pop("version")
        self._take("why", tool.name, Outcome(values))

    def _take(self, key: str, tool: str, outcome: Outcome) -> None:
        for measure, value in outcome.values.items():
            self.results.add(Cell(key, measure, tool, (value,)))
        if outcome.over:
            self.results.add(Cell(key, outcome.over, tool, over=self.limit))
        elif outcome.problem and "ready" not in outcome.values:
            self.results.add(Cell(key, "ready", tool, problem=outcome.problem))
        self._tell(f"{key:8} {tool:12} {_words(outcome)}")

    def _tell(self, what: str) -> None:
        print(f"{self.results.kernel:5} {what}", file=sys.stderr, flush=True)


def _words(outcome: Outcome) -> str:
    told = [
        f"{measure} {value:.3g} {_UNITS.get(measure, '')}".rstrip()
        for measure, value in outcome.values.items()
    ]
    if outcome.over:
        told.append(f"{outcome.over} not within the limit")
    return ", ".join([*told, *([outcome.problem] if outcome.problem else [])])
