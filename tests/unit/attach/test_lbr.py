# SPDX-License-Identifier: BSD-2-Clause
"""Perf events that make CPUs keep branches, on CPUs made up."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.lbr import BranchEvents, online_cpus
from retsnoop_py.libbpf import links

RETURNS = 1 << 5 | 1 << 1
ANY = 1 << 3 | 1 << 1


class Cpus:
    """Stands in for perf_event_open(): an errno for each CPU, and one for each set of flags."""

    def __init__(self, by_cpu: dict[int, int], by_flags: dict[int, int] | None = None) -> None:
        self.by_cpu, self.by_flags = by_cpu, by_flags or {}
        self.opened: list[tuple[int, int]] = []

    def rsn_open_branches(self, cpu: int, flags: int) -> int:
        self.opened.append((cpu, flags))
        error = self.by_cpu.get(cpu, 0) or self.by_flags.get(flags, 0)
        return -error if error else os.open(os.devnull, os.O_RDONLY)


def events(
    cpus: Cpus, monkeypatch: pytest.MonkeyPatch, root: Path, online: str = "0-2", *, helper: bool
) -> BranchEvents:
    monkeypatch.setattr(links, "lib", cpus)
    path = root / "sys/devices/system/cpu/online"
    path.parent.mkdir(parents=True)
    path.write_text(online + "\n")
    features = Features(None)
    features.branch_snapshot = helper  # what was found is kept there
    return BranchEvents(RETURNS, features, root)


@pytest.mark.parametrize(
    ("text", "cpus"), [("0", [0]), ("0-3", [0, 1, 2, 3]), ("0-1,4,6-7", [0, 1, 4, 6, 7])]
)
def test_only_cpus_that_are_online_are_asked(
    text: str, cpus: list[int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Cpus({})
    with events(fake, monkeypatch, tmp_path, text, helper=True) as found:
        assert found.works
        assert found.problem is None
    assert fake.opened == [(cpu, RETURNS) for cpu in cpus]
    assert not found.works


def test_without_the_list_all_configured_cpus_are_asked(tmp_path: Path) -> None:
    assert online_cpus(tmp_path) == list(range(os.cpu_count() or 1))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (errno.ENOENT, "the kernel sees no PMU of the CPU (-ENOENT), as in most VMs"),
        (errno.EOPNOTSUPP, "the CPU does not support branch records (-EOPNOTSUPP)"),
        (errno.EACCES, "perf events are forbidden (-EACCES); run as root"),
        (errno.EBUSY, "another process uses the CPU's branch records (-EBUSY)"),
    ],
)
def test_no_branches_anywhere_is_told_with_the_reason(
    error: int, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Cpus(dict.fromkeys(range(3), error))
    with events(fake, monkeypatch, tmp_path, helper=True) as found:
        assert not found.works
        assert found.problem == f"no branches are shown (-B): {reason}"


def test_one_cpu_without_branches_does_not_switch_off_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with events(Cpus({1: errno.EBUSY}), monkeypatch, tmp_path, helper=True) as found:
        assert found.works
        assert found.problem is not None
        assert found.problem.startswith("no branches are shown (-B) of CPU 1: another process")


def test_a_cpu_that_goes_offline_meanwhile_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with events(Cpus({2: errno.ENODEV}), monkeypatch, tmp_path, helper=True) as found:
        assert found.works
        assert found.problem is None


def test_kinds_of_branches_the_cpu_cannot_choose_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Cpus({}, {RETURNS: errno.EOPNOTSUPP})
    with events(fake, monkeypatch, tmp_path, helper=True) as found:
        assert not found.works
        assert "the CPU cannot filter branches by 0x22" in (found.problem or "")
    assert fake.opened[-1] == (0, ANY)


def test_a_kernel_without_the_helper_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Cpus({})
    with events(fake, monkeypatch, tmp_path, helper=False) as found:
        assert not found.works
        assert "no bpf_get_branch_snapshot(), which requires Linux 5.16" in (found.problem or "")
    assert fake.opened == []
