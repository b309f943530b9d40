# SPDX-License-Identifier: BSD-2-Clause
"""The parts of a cost add up to the total, whatever a run did not reach."""

from __future__ import annotations

import time

import pytest

from retsnoop_py.api.spent import Spent
from retsnoop_py.cause.events import Ended


def test_the_parts_of_two_runs_add_up_to_the_total() -> None:
    spent = Spent(time.monotonic() - 10)
    for _ in range(2):
        spent.begin()
        spent.release()
        later = time.monotonic_ns() + 2_000_000_000
        spent.end([Ended(later, 7, "ls", 2, 0), Ended(later - 5, 8, "ls", 2, 0)], 1.5)
    cost = spent.cost()
    assert cost.command == pytest.approx(4, abs=0.1)
    assert cost.detach == 3
    assert cost.total == pytest.approx(10, abs=0.5)
    assert cost.command + cost.attach + cost.detach + cost.other == pytest.approx(cost.total, 0.01)


def test_a_run_whose_command_did_not_start_has_only_other_time() -> None:
    spent = Spent(time.monotonic() - 10)
    spent.begin()
    spent.end([], 0.0)
    cost = spent.cost()
    assert (cost.command, cost.attach, cost.detach) == (0, 0, 0)
    assert cost.other == cost.total


def test_without_a_seen_end_the_command_ran_until_the_detaching() -> None:
    spent = Spent()
    spent.begin()
    spent.release()
    spent.end([], 0.0)
    assert 0 <= spent.cost().command < 1
