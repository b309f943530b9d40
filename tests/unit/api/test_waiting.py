# SPDX-License-Identifier: BSD-2-Clause
"""When Ctrl-C is about a command that hangs, and when the command had ended before."""

from __future__ import annotations

import pytest

from retsnoop_py.api.waiting import still_ran
from retsnoop_py.cause.events import Ended


@pytest.mark.parametrize(
    ("seconds", "ran"),
    [((), True), ((9.9,), True), ((3.0, 10.2), True), ((3.0,), False)],
    ids=["none ended", "by the same Ctrl-C", "a child ended before", "all ended long before"],
)
def test_a_command_that_had_ended_waited_for_nothing(seconds: tuple[float, ...], ran: bool) -> None:
    ends = [Ended(int(one * 1e9), 7, "x", 0, 0) for one in seconds]
    assert still_ran(ends, 10.0) is ran
