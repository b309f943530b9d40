# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import pytest
from tests.bench.docs import rewritten, section
from tests.bench.results import Cell, KernelResults
from tests.bench.table import notes, table, unmet
from tests.bench.tools import OURS, PEER


def results(*cells: Cell, repeats: int = 1) -> KernelResults:
    versions = {OURS: "1.0", PEER: "v0.11", "bpftrace": ""}
    one = KernelResults("6.12", "6.12.1-amd64", "2026-01-02", repeats, versions)
    for cell in cells:
        one.add(cell)
    return one


def row(one: KernelResults, start: str) -> list[str]:
    line = next(line for line in table(one) if line.startswith(f"| {start}"))
    return [word.strip() for word in line.strip("|").split("|")]


def both(measure: str, ours: float, peer: float) -> KernelResults:
    return results(Cell("default", measure, OURS, (ours,)), Cell("default", measure, PEER, (peer,)))


def test_a_row_has_values_ratio_and_what_the_bar_says() -> None:
    words = row(both("ready", 1.5, 3.0), "start to ready, `-e")
    assert words[1:6] == ["", "1.50", "3.00", "0.50", "<= 0.5 met"]


def test_a_threshold_that_is_missed_is_named() -> None:
    one = both("ready", 2.7, 3.0)
    assert row(one, "start to ready, `-e")[5] == "<= 0.5 **not met**"
    assert [(missed.selection, missed.measure) for missed in unmet(one)] == [("default", "ready")]


def test_without_the_peer_the_bar_is_not_measured() -> None:
    one = results(Cell("default", "peak", OURS, (40.0,)))
    assert row(one, "peak memory")[1:6] == ["", "40.0", "", "", "<= 1.2 not measured"]
    assert unmet(one) == []


def test_calls_stand_beside_the_same_call_untraced() -> None:
    one = both("info", 12345.6, 50000)
    one.add(Cell("untraced", "info", "untraced", (2900.0,)))
    assert row(one, "`info` call")[1:5] == ["2,900", "12,346", "50,000", "0.25"]


def test_a_run_that_was_given_up_shows_the_limit() -> None:
    one = results(Cell("all", "ready", OURS, (3.0,)), Cell("all", "ready", PEER, over=300.0))
    assert row(one, "start to ready, `-e")[2:5] == ["3.00", "> 300", "< 0.01"]


def test_a_bound_that_is_too_high_does_not_miss_the_bar() -> None:
    one = results(
        Cell("default", "ready", OURS, (290.0,)), Cell("default", "ready", PEER, over=300.0)
    )
    assert unmet(one) == []


def test_only_what_was_measured_has_rows() -> None:
    assert len(table(both("ready", 1, 1))) > 2
    assert len(table(results())) == 2


def test_all_rows_have_as_many_columns() -> None:
    assert len({line.count("|") for line in table(both("ready", 1, 1))}) == 1


def test_notes_tell_versions_absent_tools_and_problems() -> None:
    told = notes(results(Cell("all", "ready", PEER, problem="no memory")))
    assert told[0] == "Median of 1; retsnoop-py 1.0, retsnoop v0.11, bpftrace is absent."
    assert "retsnoop with all: no memory." in told


def test_notes_name_what_was_too_slow_to_end_again() -> None:
    cells = [Cell("100", "exit", OURS, (1.0,))] * 3 + [Cell("100", "exit", PEER, (60.0,))]
    assert "Stopped only once, because stopping is too slow: retsnoop with 100." in notes(
        results(*cells, repeats=3)
    )


def test_notes_tell_how_many_calls_were_never_shown() -> None:
    told = notes(results(Cell("default", "lost", PEER, (0.0, 120.0))))
    assert "Of 4,000 failing calls not shown, at worst: retsnoop 120 (default)." in told


def test_docs_get_a_section_between_its_markers_and_keep_the_rest() -> None:
    one = both("ready", 1.5, 3.0)
    text = "a\n<!-- bench 6.12 -->\nold\n<!-- end 6.12 -->\nb\n"
    new = rewritten(text, one)
    assert new == f"a\n<!-- bench 6.12 -->\n{section(one)}\n<!-- end 6.12 -->\nb\n"
    assert rewritten(new, one) == new


def test_docs_without_markers_are_refused() -> None:
    with pytest.raises(ValueError, match=r"no markers for 6\.12"):
        rewritten("nothing here", results())
