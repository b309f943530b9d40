# SPDX-License-Identifier: BSD-2-Clause
"""Which live test runs on which of the kernels that are chosen: the rules of their conftest."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.live import conftest
from tests.live import kernels as rules

LIVE = Path(rules.__file__).parent
OWN = ("5.10", "6.1", "6.12", "7.2", "7.3")


@pytest.fixture(autouse=True)
def _on_x86(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "x86_64")


def a_test(name: str, **markers: tuple[str, ...]) -> Any:
    """Return a stand-in for a test, with the attributes that the rules read."""
    found = {each: SimpleNamespace(args=args) for each, args in markers.items()}
    file, _, rest = name.partition("::")
    return SimpleNamespace(path=LIVE / file, name=rest, get_closest_marker=found.get)


PLAIN = a_test("test_debug.py::test_anything")
CORE = a_test("test_rungs.py::test_anything")
OLDER = a_test("test_workload.py::test_anything")
ONE = a_test("test_user.py::test_anything", one_kernel=())
ONE_OF_CORE = a_test("test_calls.py::test_anything", one_kernel=())
ENDS = a_test("test_filters.py::test_anything", oldest_and_newest=())
ABOUT = a_test("test_examples.py::test_anything", only_on=("5.10",))
SAME = a_test("test_load.py::test_the_page")
NAMES = ["plain", "core", "older", "one", "one of core", "ends", "about", "same"]
TESTS = [PLAIN, CORE, OLDER, ONE, ONE_OF_CORE, ENDS, ABOUT, SAME]


@pytest.mark.parametrize(
    ("test", "own", "beside"),
    [
        (PLAIN, ["5.10", "6.1", "6.12", "7.3"], ["arm64/7.3"]),
        (CORE, list(OWN), ["arm64/7.3"]),
        (OLDER, list(OWN), ["arm64/6.1", "arm64/7.3"]),
        (ONE, ["6.12"], ["arm64/7.3"]),
        (ONE_OF_CORE, ["6.12"], ["arm64/7.3"]),
        (ENDS, ["5.10", "6.12", "7.3"], ["arm64/7.3"]),
        (ABOUT, ["5.10"], []),
        (SAME, ["5.10", "6.1", "6.12", "7.3"], []),
    ],
    ids=NAMES,
)
def test_the_full_selection_runs_a_test_where_its_result_could_differ(
    test: Any, own: list[str], beside: list[str]
) -> None:
    assert rules.kernels_of(test, [*OWN, "arm64/6.1", "arm64/7.3"]) == own + beside


@pytest.mark.parametrize("test", TESTS, ids=NAMES)
def test_the_quick_selection_runs_all_on_one_kernel_and_the_core_on_the_others(test: Any) -> None:
    core = [list(rules.QUICK)] * 2
    wanted = [[rules.MAIN], *core, *[[rules.MAIN]] * 3, ["5.10"], [rules.MAIN]]
    assert rules.kernels_of(test, rules.QUICK, quick=True) == wanted[TESTS.index(test)]


@pytest.mark.parametrize("start", rules.HEAVY)
def test_a_heavy_test_of_the_core_runs_on_few_kernels(start: str) -> None:
    test = a_test(start)
    assert rules.is_core(test)
    assert rules.kernels_of(test, rules.QUICK, quick=True) == list(rules.HEAVY[start])
    assert rules.kernels_of(test, ["6.1"], quick=True) == ["6.1"]
    assert rules.kernels_of(test, OWN) == list(OWN)


@pytest.mark.parametrize("test", TESTS, ids=NAMES)
def test_the_full_selection_has_what_the_quick_one_has(test: Any) -> None:
    full = rules.kernels_of(test, [*OWN, "arm64/6.1", "arm64/7.3"])
    quick = rules.kernels_of(test, rules.QUICK, quick=True)
    assert set(quick) <= set(full)


def test_a_kernel_chosen_alone_runs_everything_but_what_is_about_another() -> None:
    for test in (PLAIN, CORE, ONE, ENDS, SAME):
        for alone in ("7.2", "arm64/7.2"):
            assert rules.kernels_of(test, [alone]) == [alone]
    assert rules.kernels_of(ABOUT, ["arm64/7.2"]) == ["5.10"]


def test_a_series_that_debian_dropped_is_replaced_by_the_next() -> None:
    assert rules.later_series("7.2") == ["7.3", "newest"]
    assert rules.later_series("arm64/7.3") == ["arm64/newest"]


def test_kernels_are_in_the_order_of_their_age_this_machines_first() -> None:
    words = ["arm64/7.3", "arm64/5.10", "7.3", "6.1", "7.3"]
    options = {"--kernel": words}
    config: Any = SimpleNamespace(getoption=options.get)
    assert conftest.selected(config) == ["6.1", "7.3", "arm64/5.10", "arm64/7.3"]


def test_slow_tests_are_left_to_the_full_selection() -> None:
    config: Any = SimpleNamespace(
        getoption={"--quick": True, "--kernel": ["6.12"]}.get,
        hook=SimpleNamespace(pytest_deselected=lambda items: None),
    )

    def item(*marks: str) -> Any:
        return SimpleNamespace(
            path=LIVE / "test_why.py",
            get_closest_marker={mark: mark for mark in marks}.get,
            add_marker=lambda mark: None,
        )

    plain, slow = item(), item("slow")
    quick, full = [plain, slow], [plain, slow]
    conftest.pytest_collection_modifyitems(config, quick)
    config.getoption = {"--kernel": ["6.12"]}.get
    conftest.pytest_collection_modifyitems(config, full)
    assert (quick, full) == ([plain], [plain, slow])


def test_without_qemu_there_is_one_message_instead_of_a_failure_of_each_test(
    tmp_path: Path,
) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "--quick", LIVE]
    kept = {key: text for key, text in os.environ.items() if not key.startswith("PYTEST_")}
    env = {**kept, "PATH": str(tmp_path)}
    done = subprocess.run(
        words, cwd=LIVE.parents[1], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "the live tests cannot run: qemu-system-" in done.stdout + done.stderr
    assert "install the package qemu-system-" in done.stdout + done.stderr
    assert "FAILED" not in done.stdout


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
        *(row for rows in rules.SAME_ABROAD.values() for row in rows),
    ]
    assert not [row for row in rows if not any(name.startswith(row) for name in names)]
    assert all(row.startswith(rules.CORE) for row in rules.OLDER_ABROAD)
