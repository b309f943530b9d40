# SPDX-License-Identifier: BSD-2-Clause
"""Which live test runs on which of the kernels that are chosen: the rules of their conftest."""

from __future__ import annotations

import ast
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.live import conftest as rules

LIVE = Path(rules.__file__).parent
OWN = ("5.10", "6.1", "6.12", "7.2", "7.3")


@pytest.fixture(autouse=True)
def _on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def a_test(name: str, **markers: tuple[str, ...]) -> Any:
    """What the rules look at of a test called like ``test_file.py::test_name``."""
    found = {each: SimpleNamespace(args=args) for each, args in markers.items()}
    file, _, rest = name.partition("::")
    return SimpleNamespace(path=LIVE / file, name=rest, get_closest_marker=found.get)


PLAIN = a_test("test_losses.py::test_anything")
CORE = a_test("test_rungs.py::test_anything")
OLDER = a_test("test_workload.py::test_anything")
ONE = a_test("test_user.py::test_anything", one_kernel=())
ENDS = a_test("test_filters.py::test_anything", oldest_and_newest=())
ABOUT = a_test("test_examples.py::test_anything", only_on=("6.12",))
STACKS = a_test("test_interrupts.py::test_anything")
OTHER = a_test("test_symbolize.py::test_anything", one_kernel=())


@pytest.mark.parametrize(
    ("test", "own", "beside"),
    [
        (PLAIN, ["5.10", "7.3"], []),
        (CORE, list(OWN), ["arm64/7.3"]),
        (OLDER, list(OWN), ["arm64/6.1", "arm64/7.3"]),
        (ONE, ["6.12"], []),
        (OTHER, ["6.12"], ["arm64/7.3"]),
        (ENDS, ["5.10", "7.3"], []),
        (ABOUT, ["6.12"], []),
        (STACKS, ["5.10", "7.3"], ["arm64/7.3"]),
    ],
    ids=["plain", "core", "older", "one", "other", "ends", "about", "stacks"],
)
def test_the_newest_of_another_architecture_runs_what_could_differ_there(
    test: Any, own: list[str], beside: list[str]
) -> None:
    assert rules.kernels_of(test, [*OWN, "arm64/6.1", "arm64/7.3"]) == own + beside


def test_a_kernel_chosen_alone_runs_everything_but_what_is_about_another() -> None:
    for test in (PLAIN, CORE, ONE, ENDS, STACKS):
        for alone in ("7.2", "arm64/7.2"):
            assert rules.kernels_of(test, [alone]) == [alone]
    assert rules.kernels_of(ABOUT, ["arm64/7.2"]) == ["6.12"]


def test_kernels_are_in_the_order_of_their_age_this_machines_first() -> None:
    words = ["arm64/7.3", "arm64/5.10", "7.3", "6.1", "7.3"]
    config: Any = SimpleNamespace(getoption=lambda name: words)
    assert rules.selected(config) == ["6.1", "7.3", "arm64/5.10", "arm64/7.3"]


def test_each_row_of_the_tables_has_a_test() -> None:
    names = [
        f"{path.name}::{node.name}"
        for path in LIVE.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    rows = [
        *rules.CORE,
        *rules.OLDER_ABROAD,
        *(row for rows in rules.ABROAD.values() for row in rows),
    ]
    assert not [row for row in rows if not any(name.startswith(row) for name in names)]
    assert all(row.startswith(rules.CORE) for row in rules.OLDER_ABROAD)
