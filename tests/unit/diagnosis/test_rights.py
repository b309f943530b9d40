# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.diagnosis.host import FakeHost, by_key

from retsnoop_py.diagnosis import rights
from retsnoop_py.diagnosis.model import Answer, Check


def asked(fake: FakeHost) -> dict[str, Check]:
    return by_key(rights.rights(fake.host))


def test_root_may_do_all(fake: FakeHost) -> None:
    checks = asked(fake)
    wrong = {key for key, check in checks.items() if not check.is_yes}
    assert wrong == {"unprivileged_bpf"}
    assert checks["open_files"].detail == "1024, raised when needed"


def test_effective_capabilities_are_read_from_status(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text("Name:\tx\nCapPrm:\t0000000000000001\nCapEff:\t000001fffeffffff\n")
    assert rights.effective(status) == 0x1FFFEFFFFFF
    assert rights.effective(tmp_path / "none") is None


def test_the_admin_capability_stands_for_those_split_off_from_it(fake: FakeHost) -> None:
    fake.drop(rights.BPF, rights.PERFMON)
    checks = asked(fake)
    assert checks["cap_bpf"].answer is Answer.YES
    assert checks["cap_bpf"].detail == "by CAP_SYS_ADMIN"
    assert rights.may_load(fake.host)


@pytest.mark.parametrize(
    ("is_root", "next_step"),
    [
        (False, "run as root"),
        (True, "give it to the container (--cap-add BPF), or run outside it"),
    ],
)
def test_a_missing_capability_ends_a_run(fake: FakeHost, is_root: bool, next_step: str) -> None:
    fake.drop(rights.BPF, rights.SYS_ADMIN)
    fake.is_root = is_root
    check = asked(fake)["cap_bpf"]
    assert (check.answer, check.next_step, check.ends_with) == (Answer.NO, next_step, 77)
    assert not rights.may_load(fake.host)


def test_without_proc_rights_are_unknown_and_not_denied(fake: FakeHost) -> None:
    fake.capabilities = None
    fake.files = (1024, 4096)
    assert asked(fake)["cap_bpf"].answer is Answer.UNKNOWN
    assert asked(fake)["open_files"].answer is Answer.UNKNOWN
    assert rights.may_load(fake.host)


def test_a_hard_limit_of_open_files_counts_where_it_cannot_be_raised(fake: FakeHost) -> None:
    fake.drop(rights.SYS_RESOURCE)
    assert asked(fake)["open_files"].is_yes
    fake.files = (1024, 4096)
    check = asked(fake)["open_files"]
    assert check.answer is Answer.NO
    assert check.detail == "4096 at most: enough for 960 functions by single kprobes"


@pytest.mark.parametrize(
    ("level", "dropped", "answer"),
    [
        ("3", (), Answer.YES),
        ("3", (rights.SYS_ADMIN,), Answer.NO),
        ("2", (rights.SYS_ADMIN,), Answer.YES),
        ("2", (rights.SYS_ADMIN, rights.PERFMON), Answer.NO),
        ("-1", (rights.SYS_ADMIN, rights.PERFMON), Answer.YES),
    ],
)
def test_perf_events_by_level_and_capability(
    fake: FakeHost, level: str, dropped: tuple[int, ...], answer: Answer
) -> None:
    fake.file("proc/sys/kernel/perf_event_paranoid", level)
    fake.drop(*dropped)
    assert asked(fake)["perf_event_paranoid"].answer is answer


@pytest.mark.parametrize(
    ("text", "answer", "status"),
    [
        ("[none] integrity confidentiality", Answer.YES, 0),
        ("none [integrity] confidentiality", Answer.YES, 0),
        ("none integrity [confidentiality]", Answer.NO, 77),
    ],
)
def test_only_confidentiality_forbids_tracing(
    fake: FakeHost, text: str, answer: Answer, status: int
) -> None:
    fake.file("sys/kernel/security/lockdown", text)
    check = asked(fake)["lockdown"]
    assert (check.answer, check.ends_with) == (answer, status)


def test_lockdown_is_unknown_only_where_it_cannot_be_read(fake: FakeHost) -> None:
    fake.remove("sys/kernel/security/lockdown")
    check = asked(fake)["lockdown"]
    assert check.answer is Answer.UNKNOWN
    assert check.next_step.startswith("mount -t securityfs")
    fake.file("proc/mounts", "securityfs /sys/kernel/security securityfs rw 0 0\n")
    assert asked(fake)["lockdown"].answer is Answer.YES


def test_settings_that_cannot_be_read_are_unknown(fake: FakeHost) -> None:
    fake.remove("proc/sys/kernel/perf_event_paranoid")
    fake.remove("proc/sys/kernel/unprivileged_bpf_disabled")
    checks = asked(fake)
    assert checks["perf_event_paranoid"].answer is Answer.UNKNOWN
    assert checks["unprivileged_bpf"].answer is Answer.UNKNOWN
