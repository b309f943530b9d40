# SPDX-License-Identifier: BSD-2-Clause
"""Which sessions are reported."""

from __future__ import annotations

import pytest
from tests.unit.session.records import BOOL, LONG, PTR, call, function, session

from retsnoop_py.session.filters import accepts
from retsnoop_py.settings import FilterSettings

EINVAL, ENOMEM, ENOENT, NULL = 22, 12, 2, 0

#: -ENOMEM at the surface, NULL at the bottom.
NOMEM = session(
    call("sys_bpf", -ENOMEM),
    call(function("maybe", result=BOOL), 0),
    call(function("alloc", result=PTR), 0),
)
GOOD = session(call("sys_bpf", 0), is_error=False)


def errors(*allow: int, deny: tuple[int, ...] = ()) -> FilterSettings:
    return FilterSettings(
        allow_errors=frozenset(allow) if allow else None, deny_errors=frozenset(deny)
    )


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (errors(), True),
        (errors(ENOMEM), True),
        (errors(NULL), True),
        (errors(EINVAL), False),
        (errors(EINVAL, ENOMEM), True),
        (errors(deny=(ENOMEM,)), False),
        (errors(deny=(NULL,)), False),
        (errors(deny=(EINVAL,)), True),
        (errors(ENOMEM, deny=(NULL,)), False),
        (errors(ENOMEM, deny=(EINVAL,)), True),
        (errors(ENOMEM, deny=(ENOMEM,)), False),
    ],
)
def test_error_filters_look_at_every_call(settings: FilterSettings, reported: bool) -> None:
    assert accepts(NOMEM, settings) is reported


def test_a_positive_number_is_no_error() -> None:
    subject = session(call("f", EINVAL), call("g", -ENOENT))

    assert not accepts(subject, errors(EINVAL))
    assert accepts(subject, errors(ENOENT, deny=(EINVAL,)))


def test_zero_is_null_only_from_a_function_that_returns_a_pointer() -> None:
    subject = session(call("f", 0), call("g", -ENOENT))

    assert not accepts(subject, errors(NULL))
    assert accepts(subject, errors(deny=(NULL,)))


def test_what_the_register_holds_above_the_type_does_not_count() -> None:
    assert accepts(session(call("f", 0x1234_FFFF_FFEA)), errors(EINVAL))
    assert not accepts(session(call(function("f", result=LONG), 0xFFFFFFEA)), errors(EINVAL))


def test_a_call_that_has_not_returned_has_no_error() -> None:
    subject = session(call("f", -EINVAL, finished=False), call("g", -ENOENT))

    assert not accepts(subject, errors(EINVAL))
    assert accepts(subject, errors(deny=(EINVAL,)))


def test_stitched_calls_count() -> None:
    assert accepts(session(call("f", -EINVAL), call("g", -2, stitched=True)), errors(ENOENT))


def test_with_only_a_deny_filter_at_least_one_error_must_be_seen() -> None:
    assert not accepts(session(call("f", 1)), errors(deny=(EINVAL,)))


@pytest.mark.parametrize("settings", [errors(EINVAL), errors(deny=(NULL,))])
def test_error_filters_do_not_concern_successes(settings: FilterSettings) -> None:
    assert not accepts(GOOD, settings)
    with_success = FilterSettings(
        success=True, allow_errors=settings.allow_errors, deny_errors=settings.deny_errors
    )
    assert accepts(GOOD, with_success)


def test_successes_are_reported_only_when_asked_for() -> None:
    assert not accepts(GOOD, FilterSettings())
    assert accepts(GOOD, FilterSettings(success=True))
    assert accepts(NOMEM, FilterSettings(success=True))


@pytest.mark.parametrize(
    ("settings", "reported"),
    [
        (FilterSettings(pids=(240,)), True),
        (FilterSettings(pids=(250,)), False),
        (FilterSettings(deny_pids=(240,)), False),
        (FilterSettings(deny_pids=(250,)), True),
        (FilterSettings(pids=(240, 1), deny_pids=(240,)), False),
        (FilterSettings(comms=("worker",)), True),
        (FilterSettings(comms=("loader",)), False),
        (FilterSettings(deny_comms=("worker",)), False),
        (FilterSettings(pids=(240,), comms=("other",)), False),
    ],
)
def test_processes_are_matched_by_process_id_and_thread_name(
    settings: FilterSettings, reported: bool
) -> None:
    assert accepts(NOMEM, settings) is reported


def test_names_are_cut_as_the_kernel_cuts_them() -> None:
    subject = session(call("f"), task_comm="a-very-long-nam")

    assert accepts(subject, FilterSettings(comms=("a-very-long-name-indeed",)))


@pytest.mark.parametrize(("longer_ns", "reported"), [(0, True), (5000, True), (5001, False)])
def test_the_duration_is_that_of_the_entry_function(longer_ns: int, reported: bool) -> None:
    assert accepts(NOMEM, FilterSettings(longer_ns=longer_ns)) is reported


def test_an_unfinished_session_lasts_until_it_was_reported() -> None:
    subject = session(call("f", finished=False), died=True)

    assert accepts(subject, FilterSettings(longer_ns=1_000_000_000))
    assert not accepts(subject, FilterSettings(longer_ns=1_000_000_001))
