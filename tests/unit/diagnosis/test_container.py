# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import errno
from dataclasses import replace

import pytest
from tests.unit.diagnosis.host import FakeHost, by_key

from retsnoop_py.diagnosis.examine import examine
from retsnoop_py.diagnosis.kernel import kernel
from retsnoop_py.diagnosis.model import Answer, Check
from retsnoop_py.diagnosis.rights import container


def asked(fake: FakeHost) -> dict[str, Check]:
    return by_key(container(fake.host))


def test_outside_of_a_container_nothing_is_missing(fake: FakeHost) -> None:
    fake.file("proc/self/status", "Seccomp:\t0\n")
    assert all(check.is_yes for check in asked(fake).values())


def test_a_pid_namespace_is_told_and_hinders_nothing(fake: FakeHost) -> None:
    fake.file("proc/self/ns/pid", "")
    check = asked(fake)["pid_namespace"]
    assert check.answer is Answer.NO
    assert "sessions show both" in check.detail
    assert examine(fake.host).works


def test_a_user_namespace_ends_a_run(fake: FakeHost) -> None:
    fake.file("proc/self/ns/user", "")
    diagnosis = examine(fake.host)
    assert diagnosis.exit_status == 77
    assert "do not count for BPF" in diagnosis.reason
    assert "--userns=host" in diagnosis.next_step


@pytest.mark.parametrize(
    ("error", "answer", "told"),
    [
        (0, Answer.YES, "it allows bpf()"),
        (errno.EPERM, Answer.NO, "which may forbid bpf()"),
        (None, Answer.UNKNOWN, "was not tried"),
    ],
)
def test_a_seccomp_filter_is_judged_by_what_it_forbids(
    fake: FakeHost, error: int | None, answer: Answer, told: str
) -> None:
    fake.file("proc/self/status", "Name:\tx\nSeccomp:\t2\nSeccomp_filters:\t1\n")
    fake.tried = replace(fake.tried, load_error=error)
    check = asked(fake)["seccomp"]
    assert check.answer is answer
    assert told in check.detail
    assert bool(check.next_step) == (answer is Answer.NO)


def test_a_container_without_tracefs_can_be_given_it(fake: FakeHost) -> None:
    fake.file("proc/mounts", "")
    place = "/sys/kernel/tracing"
    assert "container" not in by_key(kernel(fake.host))["tracefs"].next_step
    fake.file("proc/self/ns/pid", "")
    assert f"-v {place}:{place}" in by_key(kernel(fake.host))["tracefs"].next_step
