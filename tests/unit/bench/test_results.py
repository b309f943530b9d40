# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.bench.results import (
    Cell,
    KernelResults,
    Ratio,
    from_json,
    merged,
    read_results,
    to_json,
)


def results(*cells: Cell, kernel: str = "6.12") -> KernelResults:
    one = KernelResults(kernel, f"{kernel}.1-amd64", "2026-01-02", 3, {"us": "1.0"})
    for cell in cells:
        one.add(cell)
    return one


def test_values_of_later_runs_join_the_earlier_ones() -> None:
    one = results(*(Cell("default", "ready", "us", (value,)) for value in (3.0, 1.0, 9.0)))
    cell = one.get("default", "ready", "us")
    assert cell is not None
    assert cell.values == (3.0, 1.0, 9.0)
    assert cell.median == 3.0


def test_the_ratio_is_of_medians() -> None:
    one = results(
        Cell("default", "ready", "us", (1.0, 2.0, 90.0)), Cell("default", "ready", "it", (4.0,))
    )
    assert one.ratio("default", "ready", "us", "it") == Ratio(0.5)


def test_a_peer_that_was_given_up_bounds_the_ratio() -> None:
    one = results(Cell("all", "ready", "us", (3.0,)), Cell("all", "ready", "it", over=300.0))
    assert one.ratio("all", "ready", "us", "it") == Ratio(0.01, below=True)
    assert one.ratio("all", "ready", "it", "us") is None


def test_without_both_values_there_is_no_ratio() -> None:
    one = results(Cell("10", "ready", "us", (3.0,)), Cell("10", "ready", "it", problem="no BTF"))
    assert one.ratio("10", "ready", "us", "it") is None
    assert one.ratio("10", "exit", "us", "it") is None


def test_json_gives_back_what_it_was_made_of() -> None:
    one = results(
        Cell("10", "ready", "us", (3.0, 4.5)),
        Cell("all", "exit", "it", over=300.0),
        Cell("10", "ready", "it", problem="ended"),
    )
    one.functions["10"] = {"us": 10}
    assert from_json(to_json([one])) == [one]


def test_json_of_another_format_is_refused() -> None:
    for text in ('{"format": 0, "kernels": []}', "[]"):
        with pytest.raises(ValueError, match="not JSON of make bench"):
            from_json(text)


def test_results_are_read_by_kernel(tmp_path: Path) -> None:
    assert read_results(tmp_path / "none") == {}
    both = [results(kernel="6.1"), results(kernel="7.2")]
    (tmp_path / "some").write_text(to_json(both))
    assert list(read_results(tmp_path / "some")) == ["6.1", "7.2"]


def test_a_selection_is_replaced_as_a_whole() -> None:
    old = results(
        Cell("10", "ready", "us", (1.0,)),
        Cell("all", "ready", "us", (1.0,)),
        Cell("all", "ready", "it", (1.0,)),
    )
    new = results(Cell("all", "ready", "us", (2.0,)))
    both = merged(old, new)
    assert set(both.cells) == {("10", "ready", "us"), ("all", "ready", "us")}
    assert both.cells["all", "ready", "us"].values == (2.0,)
