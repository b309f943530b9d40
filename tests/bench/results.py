# SPDX-License-Identifier: BSD-2-Clause
"""Measured values by selection, measure and tool; their medians and ratios; JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

FORMAT = 1


@dataclass(frozen=True, slots=True)
class Cell:
    """One measure for one tool. ``values`` are seconds, nanoseconds per call or MiB.

    A run that did not end has ``over`` instead of a value: the time limit in seconds. ``problem``
    is the reason of another missing value, or a remark on the values.
    """

    selection: str
    measure: str
    tool: str
    values: tuple[float, ...] = ()
    over: float | None = None
    problem: str = ""

    @property
    def median(self) -> float | None:
        """Return the median of the values, None without values."""
        return median(self.values) if self.values else None


@dataclass(frozen=True, slots=True)
class Ratio:
    """The ratio of our value to the peer's.

    ``below``: the peer did not end, so ``value`` is an upper limit.
    """

    value: float
    below: bool = False


@dataclass(slots=True)
class KernelResults:
    """All cells for one kernel.

    ``functions`` is the number of attached functions by selection and tool. ``versions`` are the
    releases of the tools. ``repeats`` is the number of requested runs. ``icount``: the clock
    counted instructions.
    """

    kernel: str
    release: str
    date: str
    repeats: int
    versions: dict[str, str] = field(default_factory=dict)
    functions: dict[str, dict[str, int]] = field(default_factory=dict)
    cells: dict[tuple[str, str, str], Cell] = field(default_factory=dict)
    icount: bool = False

    def add(self, cell: Cell) -> None:
        """Add the values of ``cell`` to the existing values."""
        key = (cell.selection, cell.measure, cell.tool)
        old = self.cells.get(key)
        if old:
            over = cell.over if old.over is None else old.over
            values = (*old.values, *cell.values)
            cell = replace(cell, values=values, over=over, problem=old.problem or cell.problem)
        self.cells[key] = cell

    def get(self, selection: str, measure: str, tool: str) -> Cell | None:
        """Return the cell if it was measured."""
        return self.cells.get((selection, measure, tool))

    def ratio(self, selection: str, measure: str, ours: str, peer: str) -> Ratio | None:
        """Return the ratio of the medians, None if one is missing."""
        one, other = self.get(selection, measure, ours), self.get(selection, measure, peer)
        value = one.median if one else None
        base = other.median if other else None
        if value is None or other is None:
            return None
        if base is None and other.over is not None:
            return Ratio(value / other.over, below=True)
        return Ratio(value / base) if base else None


def merged(old: KernelResults, new: KernelResults) -> KernelResults:
    """Return ``new``, with the selections of ``old`` that it did not measure by the same clock."""
    if old.icount != new.icount:
        return new
    measured = {selection for selection, _, _ in new.cells}
    kept = {key: cell for key, cell in old.cells.items() if key[0] not in measured}
    return replace(
        new,
        versions=old.versions | new.versions,
        functions=old.functions | new.functions,
        cells=kept | new.cells,
    )


def to_json(results: Iterable[KernelResults]) -> str:
    """Return the results as JSON, including medians for readers of the file."""
    kernels = [
        {
            "kernel": one.kernel,
            "release": one.release,
            "date": one.date,
            "repeats": one.repeats,
            "icount": one.icount,
            "versions": one.versions,
            "functions": one.functions,
            "cells": [_cell_json(cell) for cell in one.cells.values()],
        }
        for one in results
    ]
    return json.dumps({"format": FORMAT, "kernels": kernels}, indent=1) + "\n"


def from_json(text: str) -> list[KernelResults]:
    """Parse the result of :func:`to_json`. Raise ValueError for another format."""
    data = json.loads(text)
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ValueError(f"this is not JSON of make bench, format {FORMAT}")
    results = []
    for kernel in data["kernels"]:
        cells = kernel.pop("cells")
        one = KernelResults(**kernel)
        for cell in cells:
            one.add(_cell_of(cell))
        results.append(one)
    return results


def read_results(path: Path) -> dict[str, KernelResults]:
    """Return the results in the file, by kernel; empty if the file does not exist."""
    if not path.exists():
        return {}
    return {one.kernel: one for one in from_json(path.read_text())}


def _cell_json(cell: Cell) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "selection": cell.selection,
        "measure": cell.measure,
        "tool": cell.tool,
        "median": cell.median,
        "values": list(cell.values),
    }
    if cell.over is not None:
        shown["over"] = cell.over
    if cell.problem:
        shown["problem"] = cell.problem
    return shown


def _cell_of(data: dict[str, Any]) -> Cell:
    values: Sequence[float] = data["values"]
    return Cell(
        data["selection"],
        data["measure"],
        data["tool"],
        tuple(values),
        data.get("over"),
        data.get("problem", ""),
    )
