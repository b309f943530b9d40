# SPDX-License-Identifier: BSD-2-Clause
from __future__ import annotations

import gzip
import shutil
from dataclasses import replace

import pytest
from tests.unit.diagnosis.host import RELEASE, FakeHost, by_key

from retsnoop_py.diagnosis.bpf import mechanisms
from retsnoop_py.diagnosis.kernel import OPTIONS, config, cpu, kernel
from retsnoop_py.diagnosis.model import Answer, Check
from retsnoop_py.diagnosis.rights import container, rights


def asked(fake: FakeHost) -> dict[str, Check]:
    return by_key(kernel(fake.host))


def test_a_kernel_that_has_it_all(fake: FakeHost) -> None:
    checks = asked(fake)
    assert {k for k, check in checks.items() if not check.is_yes} == {"module_btf"}
    assert checks["module_btf"].answer is Answer.UNKNOWN
    assert checks["traceable_functions"].detail == "1 functions, with addresses"


@pytest.mark.parametrize(
    ("path", "data", "key", "status"),
    [
        ("proc/kallsyms", "0000000000000000 T vfs_read\n", "kallsyms", 77),
        ("proc/kallsyms", None, "kallsyms", 69),
        ("sys/kernel/btf/vmlinux", None, "btf", 69),
        ("sys/kernel/tracing/available_filter_functions_addrs", None, "traceable_functions", 69),
        ("proc/sys/kernel/ftrace_enabled", "0\n", "ftrace_enabled", 69),
    ],
)
def test_what_a_run_cannot_do_without(
    fake: FakeHost, path: str, data: str | None, key: str, status: int
) -> None:
    if data is None:
        fake.remove(path)
    else:
        fake.file(path, data)
    check = asked(fake)[key]
    assert check.answer is Answer.NO
    assert check.ends_with == status
    assert check.detail
    assert check.next_step


def test_a_kernel_older_than_all_that_are_tested_is_told_as_such(fake: FakeHost) -> None:
    """Debian 10's: it has no BTF. One with parts of later kernels lacks nothing, as RHEL 8's."""
    fake.file("proc/sys/kernel/osrelease", "4.18.0-553.el8.x86_64\n")
    checks = asked(fake)
    assert {k for k, check in checks.items() if check.answer is Answer.NO} == {"release"}
    assert not checks["release"].ends_with
    fake.file("proc/sys/kernel/osrelease", "4.19.0-27-amd64\n")
    fake.remove("sys/kernel/btf/vmlinux")
    check = asked(fake)["btf"]
    assert check.ends_with == 69
    assert check.next_step.startswith("Linux 4.19.0-27-amd64 is older than 5.10")
    assert "retsnoop-py vm run --on 6.12" in check.next_step


def test_modules_without_types_are_named(fake: FakeHost) -> None:
    names = ["a", "b", "c", "d", "e", "f"]
    fake.tree.modules(*((name, 4096, 0xFFFFFFFFC0000000) for name in names))
    fake.tree.btf(b"", "b")
    check = asked(fake)["module_btf"]
    assert check.answer is Answer.NO
    assert check.detail == "5 of 6 loaded modules have none: a, c, d, e, ..."
    for name in names:
        fake.tree.btf(b"", name)
    assert asked(fake)["module_btf"].is_yes


@pytest.mark.parametrize(
    ("mounts", "filesystems", "detail"),
    [
        ("", "nodev\ttracefs", "not mounted"),
        ("", "nodev\tproc", "this kernel has none"),
        ("none /t tracefs rw 0 0", "nodev\ttracefs", "mounted on /t, where it is not searched"),
    ],
)
def test_where_tracefs_is_not(fake: FakeHost, mounts: str, filesystems: str, detail: str) -> None:
    fake.file("proc/mounts", mounts)
    fake.file("proc/filesystems", filesystems)
    check = asked(fake)["tracefs"]
    assert (check.answer, check.detail) == (Answer.NO, detail)


def test_tracefs_below_debugfs_will_do(fake: FakeHost) -> None:
    fake.file("proc/mounts", "tracefs /sys/kernel/debug/tracing tracefs rw 0 0\n")
    assert asked(fake)["tracefs"].detail == "on /sys/kernel/debug/tracing"


def test_kprobes_switched_off(fake: FakeHost) -> None:
    fake.file("sys/kernel/debug/kprobes/enabled", "0\n")
    check = asked(fake)["kprobes_enabled"]
    assert (check.answer, check.next_step) == (
        Answer.NO,
        "echo 1 > /sys/kernel/debug/kprobes/enabled",
    )


def test_without_sysfs_what_cannot_be_read_is_not_said_to_be_missing(fake: FakeHost) -> None:
    """As in a chroot that has /proc and no /sys."""
    shutil.rmtree(fake.tree.root / "sys")
    fake.tree.modules(("a", 4096, 0xFFFFFFFFC0000000))
    fake.tried = replace(fake.tried, branch_error=2, kprobe_error=None)
    fake.file("proc/mounts", "")
    fake.file("proc/filesystems", "nodev\ttracefs")
    checks = {**asked(fake), **by_key([*cpu(fake.host), *mechanisms(fake.host)])}
    for key in ("module_btf", "kprobes", "lbr", "mechanism.kprobe"):
        assert checks[key].answer is Answer.UNKNOWN, key
        assert "nothing is mounted on /sys" in checks[key].detail
        assert checks[key].next_step == "mount -t sysfs sysfs /sys"
    assert checks["btf"].next_step == "mount -t sysfs sysfs /sys"
    for key in ("tracefs", "traceable_functions", "kprobes_enabled", "kprobe_blacklist"):
        assert "mount -t sysfs sysfs /sys && mount -t " in checks[key].next_step, key


def test_without_proc_the_kernel_is_not_said_to_lack_what_stands_there(fake: FakeHost) -> None:
    shutil.rmtree(fake.tree.root / "proc")
    fake.file("sys/kernel/tracing/available_filter_functions", "vfs_read\n")
    fake.capabilities = None
    checks = asked(fake)
    read = [*cpu(fake.host), *config(fake.host), *rights(fake.host), *container(fake.host)]
    asked_of = {**checks, **by_key(read)}
    unknown = ("ftrace_enabled", "ibt", "config", "cap_bpf", "perf_event_paranoid")
    of_this_process = ("pid_namespace", "user_namespace", "seccomp")
    for key in (*unknown, *of_this_process, "unprivileged_bpf", "module_btf"):
        found = asked_of[key]
        assert (found.answer, found.detail) == (Answer.UNKNOWN, "nothing is mounted on /proc"), key
        assert found.next_step == "mount -t proc proc /proc", key
    assert checks["kallsyms"].next_step == "mount -t proc proc /proc"
    assert (checks["procfs"].answer, checks["procfs"].detail) == (
        Answer.NO,
        "nothing is mounted on /proc",
    )
    assert checks["procfs"].loses.startswith("why and --explain")
    assert (checks["tracefs"].answer, checks["tracefs"].detail) == (
        Answer.YES,
        "on /sys/kernel/tracing",
    )
    shutil.rmtree(fake.tree.root / "sys/kernel/tracing")
    assert asked(fake)["tracefs"].answer is Answer.UNKNOWN


@pytest.mark.parametrize(
    ("is_root", "next_step"),
    [(True, "mount -t debugfs debugfs /sys/kernel/debug"), (False, "run as root")],
)
def test_without_debugfs_it_is_unknown(fake: FakeHost, is_root: bool, next_step: str) -> None:
    fake.is_root = is_root
    for name in ("enabled", "blacklist"):
        fake.remove(f"sys/kernel/debug/kprobes/{name}")
    checks = asked(fake)
    for key in ("kprobes_enabled", "kprobe_blacklist"):
        assert (checks[key].answer, checks[key].next_step) == (Answer.UNKNOWN, next_step)


def test_a_kernel_without_kprobes(fake: FakeHost) -> None:
    fake.remove("sys/bus/event_source/devices/kprobe/type")
    (fake.tree.root / "sys/bus/event_source/devices/kprobe").rmdir()
    checks = asked(fake)
    assert {checks[key].answer for key in ("kprobes", "kprobes_enabled", "kprobe_blacklist")} == {
        Answer.NO
    }


def test_without_sys_nobody_knows_of_kprobes(fake: FakeHost) -> None:
    fake.remove("sys/bus/event_source/devices/kprobe/type")
    for folder in ("devices/kprobe", "devices", ""):
        (fake.tree.root / "sys/bus/event_source" / folder).rmdir()
    fake.tried = replace(fake.tried, kprobe_error=None)
    assert asked(fake)["kprobes"].answer is Answer.UNKNOWN
    given = by_key(mechanisms(fake.host))
    assert given["mechanism.kprobe"].answer is Answer.UNKNOWN
    assert given["mechanism.kprobe_events"].is_yes
    fake.tried = replace(fake.tried, branch_error=13)
    assert by_key(mechanisms(fake.host))["mechanism.kprobe_events"].answer is Answer.NO


def test_rcu_that_cannot_be_expedited_costs_speed(fake: FakeHost) -> None:
    fake.remove("sys/kernel/rcu_expedited")
    check = asked(fake)["rcu_expedited"]
    assert check.answer is Answer.NO
    assert "full speed" in check.loses


# -- the configuration --


def configured(**changes: str) -> bytes:
    values = {**dict.fromkeys(OPTIONS, "y"), **changes}
    lines = [
        f"CONFIG_{name}={value}" if value != "n" else f"# CONFIG_{name} is not set"
        for name, value in values.items()
    ]
    return "\n".join(["# Linux", *lines, ""]).encode()


def test_no_configuration_is_unknown_and_says_where_it_looked(fake: FakeHost) -> None:
    (check,) = config(fake.host)
    assert check.answer is Answer.UNKNOWN
    places = [place.removeprefix(str(fake.tree.root)) for place, _ in check.tried]
    assert places == [
        "/proc/config.gz",
        f"/boot/config-{RELEASE}",
        f"/lib/modules/{RELEASE}/config",
    ]


@pytest.mark.parametrize("place", ["proc/config.gz", f"boot/config-{RELEASE}"])
def test_the_configuration_is_read_wherever_it_is(fake: FakeHost, place: str) -> None:
    data = configured(FPROBE="n", X86_KERNEL_IBT="n", KPROBES="m")
    fake.file(place, gzip.compress(data) if place.endswith(".gz") else data)
    (check,) = config(fake.host)
    assert check.answer is Answer.NO
    assert check.detail == "off: FPROBE (kprobe.multi, kprobe.session)"
    assert check.config is not None
    assert (check.config["FPROBE"], check.config["KPROBES"]) == ("n", "m")


def test_a_damaged_configuration_is_passed_over(fake: FakeHost) -> None:
    fake.file("proc/config.gz", b"\x1f\x8b damaged")
    fake.file(f"boot/config-{RELEASE}", configured())
    (check,) = config(fake.host)
    assert check.is_yes
    assert len(check.tried) == 2


# -- the CPU --


@pytest.mark.parametrize(
    ("error", "pmu", "answer", "detail"),
    [
        (0, True, Answer.YES, "32 branches deep"),
        (95, True, Answer.NO, "the CPU does not support branch records (-EOPNOTSUPP)"),
        (2, False, Answer.NO, "the kernel sees no PMU of the CPU (-ENOENT), as in most VMs"),
        (13, True, Answer.UNKNOWN, "perf events are forbidden (-EACCES)"),
        (None, True, Answer.UNKNOWN, "not tried on this machine"),
    ],
)
def test_branch_records(
    fake: FakeHost, error: int | None, pmu: bool, answer: Answer, detail: str
) -> None:
    fake.tried = replace(fake.tried, branch_error=error)
    if pmu:
        fake.file("sys/bus/event_source/devices/cpu/caps/branches", "32\n")
    check = by_key(cpu(fake.host))["lbr"]
    assert (check.answer, check.detail) == (answer, detail)


def test_indirect_branch_tracking(fake: FakeHost) -> None:
    assert by_key(cpu(fake.host))["ibt"].is_yes
    fake.file("proc/cpuinfo", "flags\t\t: fpu lm\n")
    assert by_key(cpu(fake.host))["ibt"].answer is Answer.NO
    fake.remove("proc/cpuinfo")
    assert by_key(cpu(fake.host))["ibt"].answer is Answer.UNKNOWN
    fake.file("proc/sys/kernel/arch", "aarch64\n")
    check = by_key(cpu(fake.host))["ibt"]
    assert (check.answer, check.detail) == (Answer.NO, "a feature of x86-64")
