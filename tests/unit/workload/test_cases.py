# SPDX-License-Identifier: BSD-2-Clause
"""The workload's own description; that the kernel agrees is the live tests' business."""

from __future__ import annotations

import subprocess
import sys

from retsnoop_py.workload.cases import CASES


def test_there_are_at_least_fourteen_failures_with_names_of_their_own() -> None:
    failing = [case for case in CASES if case.outcomes[0].errno]
    assert len(failing) >= 14
    assert len({case.name for case in CASES}) == len(CASES)


def test_each_failure_names_the_function_it_ends_in() -> None:
    for case in CASES:
        for outcome in case.outcomes:
            assert outcome.deepest or not outcome.errno, case.name


def run(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "retsnoop_py.workload", *args]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_list_shows_every_case() -> None:
    listed = run("--list")
    assert listed.returncode == 0
    assert [line.split()[0] for line in listed.stdout.splitlines()] == [c.name for c in CASES]


def test_an_unknown_case_says_how_to_list_them() -> None:
    refused = run("no-such-case")
    assert refused.returncode == 2
    assert "--list" in refused.stderr
