# SPDX-License-Identifier: BSD-2-Clause
"""The results as a table: values, ratios, and the thresholds that are met."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.bench.burst import BURST
from tests.bench.plan import BARE
from tests.bench.results import Cell, KernelResults, Ratio
from tests.bench.tools import NAMES, OURS, PEER

Thresholds = Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Row:
    """A measure under a selection. ``bar``: the largest ratio to retsnoop, by kernel."""

    selection: str
    measure: str
    what: str
    unit: str
    bar: Thresholds = field(default_factory=dict)


def _bar(*limits: float) -> Thresholds:
    return dict(zip(("5.10", "6.1", "6.12", "7.2"), limits, strict=True))


_READY = _bar(0.4, 0.8, 0.5, 0.5)
_EXIT = _bar(0.12, 0.08, 1.2, 1.2)
_CALLS = _bar(0.7, 0.7, 0.5, 0.25)
_EQUAL = _bar(0.8, 0.7, 0.85, 0.5)
_PEAK = _bar(1.2, 1.2, 1.2, 1.2)
_SHOWN = {"6.12": 1.0, "7.2": 1.0}

ROWS = (
    Row("start-up", "version", "`--version`", "s"),
    Row("start-up", "help", "`--help`", "s"),
    Row("why", "took", "`why --reruns 0 -- ls /nonexistent`", "s"),
    Row("why", "command", "`ls /nonexistent` alone", "s"),
    Row("why", "times", "`why` without its command, at most 25 times `--version`", "times"),
    Row("10", "ready", "start to ready, 10 functions", "s"),
    Row("10", "exit", "SIGINT to exit", "s"),
    Row("100", "ready", "start to ready, 100 functions", "s"),
    Row("100", "exit", "SIGINT to exit", "s"),
    Row("default", "ready", "start to ready, `-e '*sys_bpf' -a '*bpf*'`", "s", _READY),
    Row("default", "exit", "SIGINT to exit", "s", _EXIT),
    Row("default", "settled", "SIGINT until its last process has ended", "s"),
    Row("default", "peak", "peak memory", "MiB", _PEAK),
    Row("default", "info", "`info` call, nothing reported", "ns", _CALLS),
    Row("default", "lookup", "`lookup` call, nothing reported", "ns", _CALLS),
    Row("default", "held", "failing call, kernel side", "ns"),
    Row("default", "report", "failing call, reader running", "ns"),
    Row("default", "shown", "failing call until printed", "ns", _SHOWN),
    Row("equal", "ready", "start to ready, equal sets", "s"),
    Row("equal", "exit", "SIGINT to exit", "s"),
    Row("equal", "info", "`info` call, nothing reported", "ns", _EQUAL),
    Row("equal", "lookup", "`lookup` call, nothing reported", "ns", _EQUAL),
    Row("equal", "held", "failing call, kernel side", "ns"),
    Row("equal", "report", "failing call, reader running", "ns"),
    Row("all", "ready", "start to ready, `-e '*sys_bpf' -a '*'`", "s"),
    Row("all", "exit", "SIGINT to exit", "s"),
    Row("all", "peak", "peak memory", "MiB"),
    Row("burst", "lost", "burst of 100,002 sessions (`-T -S`): not printed", "sessions"),
    Row("burst", "report", "burst: call, reader running", "ns"),
    Row("burst", "shown", "burst: call until printed", "ns"),
    Row("burst", "peak", "peak memory", "MiB"),
    Row("rendering", "text", "replay of the burst outside the guest, text", "rows/s"),
    Row("rendering", "json", "replay of the burst outside the guest, JSON", "rows/s"),
)
_HEAD = ("", BARE, *NAMES[:2], "ratio", "bar", *NAMES[2:])


def table(results: KernelResults) -> list[str]:
    """Return the lines of a Markdown table of one kernel's results."""
    lines = [_line(_HEAD), _line(["---", *["---:"] * (len(_HEAD) - 1)])]
    measured = {selection for selection, _, _ in results.cells}
    lines += [_line(_words(results, row)) for row in ROWS if row.selection in measured]
    return lines


def unmet(results: KernelResults) -> list[Row]:
    """Return the rows with a threshold that was measured and not met."""
    return [row for row in ROWS if _met(results, row) is False]


def notes(results: KernelResults) -> list[str]:
    """Return the facts about this run that a reader of the table needs, one sentence each."""
    told = [f"Median of {results.repeats}; {_tools(results)}."]
    if results.icount:
        told.append("Times are counted instructions of the guest, 2 ns each.")
    counts = [
        f"{key}: {' and '.join(f'{n:,} ({tool})' for tool, n in sorted(by_tool.items()))}"
        for key, by_tool in results.functions.items()
        if key in {"default", "equal", "all"}
    ]
    if counts:
        told.append(f"Functions: {'; '.join(counts)}.")
    once = sorted(
        {
            f"{tool} with {selection}"
            for (selection, measure, tool), cell in results.cells.items()
            if measure == "exit" and len(cell.values) == 1 < results.repeats
        }
    )
    if once:
        told.append(f"Stopped only once, because stopping is too slow: {', '.join(once)}.")
    told += [
        f"{cell.tool} with {cell.selection}: {cell.problem}."
        for cell in results.cells.values()
        if cell.problem
    ]
    lost = [
        f"{cell.tool} {max(cell.values):,.0f} ({cell.selection})"
        for cell in results.cells.values()
        if cell.measure == "lost"
        and cell.selection != BURST
        and cell.values
        and max(cell.values) > 0
    ]
    if lost:
        told.append(f"Of 4,000 failing calls not shown, at worst: {', '.join(lost)}.")
    return told


def _tools(results: KernelResults) -> str:
    return ", ".join(
        f"{name} {results.versions[name]}" if results.versions.get(name) else f"{name} is absent"
        for name in NAMES
        if name in results.versions
    )


def _words(results: KernelResults, row: Row) -> list[str]:
    bare = results.get(BARE, row.measure, BARE) if row.unit == "ns" else None
    ours, peer, *others = (results.get(row.selection, row.measure, name) for name in NAMES)
    ratio = results.ratio(row.selection, row.measure, OURS, PEER)
    return [
        f"{row.what}, {row.unit}",
        _value(bare, row),
        _value(ours, row),
        _value(peer, row),
        _ratio(ratio),
        _verdict(results, row),
        *(_value(cell, row) for cell in others),
    ]


def _value(cell: Cell | None, row: Row) -> str:
    if cell is None:
        return ""
    if cell.median is None:
        return f"> {cell.over:.0f}" if cell.over is not None else "failed"
    digits = {"s": 2, "MiB": 1}.get(row.unit, 0)
    return f"{cell.median:,.{digits}f}"


def _ratio(ratio: Ratio | None) -> str:
    if ratio is None:
        return ""
    return f"< {ratio.value:.2f}" if ratio.below else f"{ratio.value:.2f}"


def _met(results: KernelResults, row: Row) -> bool | None:
    """Return True if the threshold is met; None without a threshold or a ratio."""
    ratio = results.ratio(row.selection, row.measure, OURS, PEER)
    limit = row.bar.get(results.kernel)
    if ratio is None or limit is None:
        return None
    if ratio.below and ratio.value > limit:
        return None
    return ratio.value <= limit


def _verdict(results: KernelResults, row: Row) -> str:
    limit = row.bar.get(results.kernel)
    if limit is None:
        return ""
    met = _met(results, row)
    return f"<= {limit:g} {'not measured' if met is None else 'met' if met else '**not met**'}"


def _line(words: Sequence[str]) -> str:
    return "| " + " | ".join(words) + " |"
