# SPDX-License-Identifier: BSD-2-Clause
"""The closing line: what was seen, printed, filtered out and lost."""

from __future__ import annotations

import errno
from typing import Any

import pytest
from tests.unit.session.records import call, session

from retsnoop_py.session.counts import CALLS, SHORT, Counts, longer_label
from retsnoop_py.session.model import SessionKind
from retsnoop_py.session.report import Report
from retsnoop_py.settings import FilterSettings, Settings

FAILED = Report(session(call("f", -errno.EINVAL), is_error=True))
DONE = Report(session(call("f", 0), is_error=False))
ENOENT = session(call("f", -errno.ENOENT), is_error=True)
EPERM = session(call("f", -errno.EPERM), is_error=True)


def line(
    shown: Any = (), hidden: Any = (), lost: Any = None, kernel: Any = None, **settings: Any
) -> str:
    counts = Counts(Settings(**settings))
    counts.show(shown)
    for one, option in hidden:
        counts.hide(one, option)
    counts.end(kernel or {}, lost or {})
    return counts.line()


def test_calls_that_failed_and_were_printed() -> None:
    assert line([FAILED]) == "1 call failed; 1 printed."
    assert line([FAILED] * 1234) == "1,234 calls failed; 1,234 printed."
    assert line([FAILED] * 2, kernel={CALLS: 1234}) == (
        "1,234 calls of entry functions, 2 failed; 2 printed."
    )
    running = Report(FAILED.session._replace(kind=SessionKind.RUNNING, is_error=False))
    assert line([running, DONE, running]) == (
        "0 calls failed; 3 printed (1 of them successful, 2 of them still running)."
    )
    assert line([FAILED, DONE, DONE]) == "1 call failed; 3 printed (2 of them successful)."


def test_a_filter_without_a_match_names_the_errors_that_there_were() -> None:
    hidden = [(ENOENT, "-x ENOMEM")] * 3 + [(EPERM, "-x ENOMEM")]
    assert line(hidden=hidden) == (
        "0 of 4 failed calls pass -x ENOMEM; most frequent: ENOENT 3, EPERM 1."
    )
    assert line([FAILED], hidden) == (
        "5 calls failed; 1 printed, 4 filtered out by -x ENOMEM (ENOENT 3, EPERM 1)."
    )


def test_no_failure_and_no_call_are_different() -> None:
    assert line(kernel={CALLS: 7}) == (
        "7 calls of entry functions, none failed; -S prints successful calls."
    )
    assert line(kernel={CALLS: 0}) == "No call of an entry function was seen."
    assert line(kernel={CALLS: 0}, command=("ls",)) == (
        "No call of an entry function was seen by the command or its child processes."
    )
    filters = FilterSettings(pids=(1, 2), deny_comms=("ls",))
    assert line(kernel={CALLS: 0}, filters=filters) == (
        "No call of an entry function was seen (-p 1 -p 2) (-N ls)."
    )
    assert line() == "No call failed.", "a recording that does not tell how many there were"


def test_failures_that_the_kernel_side_filtered_out() -> None:
    filters = FilterSettings(longer_ns=10_000_000)
    kernel = {CALLS: 9, SHORT: 4}
    assert line(kernel=kernel, filters=filters) == "0 of 4 failed calls pass -L 10ms."
    assert line([FAILED], kernel=kernel, filters=filters) == (
        "9 calls of entry functions, 5 failed; 1 printed, 4 filtered out by -L 10ms."
    )


def test_losses_are_calls_or_records() -> None:
    lost = {"sessions_dropped": 1, "sessions_unstarted": 2, "lost_memory": 1}
    assert line([FAILED], lost=lost) == "1 call failed; 1 printed, 3 calls lost, 1 record lost."
    assert line(lost=lost) == "No call failed; 3 calls lost, 1 record lost."


def test_a_run_that_count_ended_does_not_know_of_all_calls() -> None:
    counts = Counts(Settings(stop_count=1))
    counts.show([FAILED])
    counts.is_cut = True
    counts.end({CALLS: 100}, {})
    assert counts.line() == (
        "1 call failed; 1 printed. --count ended the trace; later calls are not counted."
    )


def test_reports_of_unfinished_calls_are_no_calls() -> None:
    running = Report(FAILED.session._replace(kind=SessionKind.STITCH))
    assert line([running], kernel={CALLS: 1}) == (
        "1 call of an entry function, none failed; -S prints successful calls."
    )


@pytest.mark.parametrize(
    ("ns", "label"), [(10**9, "-L 1s"), (1_500_000, "-L 1500us"), (7, "-L 7ns")]
)
def test_durations_are_whole_numbers(ns: int, label: str) -> None:
    assert longer_label(ns) == label
