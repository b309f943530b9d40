# SPDX-License-Identifier: BSD-2-Clause
"""Settings that disable a part: a run that works with less, or the true cause and a remedy."""

from __future__ import annotations

import json

import pytest
from tests.live.support import TOOL, call_of_mkdir
from tests.live.test_bad_input import NOBODY, only_error
from tests.live.test_doctor import (
    FTRACE,
    KPROBES,
    answer_to,
    doctor,
    run_by,
    switched,
    worked,
)

from retsnoop_py.kernel.tracefs import MOUNT_PROC, MOUNT_SYSFS
from retsnoop_py.vm.machine import Machine

JIT = "/proc/sys/net/core/bpf_jit_enable"
#: A failure below which, on 6.12, a comparison (proc_match()) returns -1 last.
FAILING = ("--", "mkdir", "/proc/retsnoop")


@pytest.mark.slow
@pytest.mark.one_kernel
def test_why_does_not_take_a_comparison_for_an_error_where_kprobes_are_off(
    machine: Machine,
) -> None:
    with switched(machine, KPROBES, "0"):
        result = machine.run([TOOL, "why", "--format", "json", *FAILING], timeout=180)
        traced = run_by(machine, None, (), "--path", "do_sys_openat2")
        answer = doctor(machine)
    explained = json.loads(result.out)["explained"]
    assert (explained["syscall"], explained["error"]) == (call_of_mkdir(machine), "ENOENT")
    assert {one["result"]["error"] for one in explained["chain"][1:]} <= {"ENOENT", None}
    assert explained["chain"][-1]["result"]["error"] == "ENOENT"
    assert "/sys/kernel/debug/kprobes/enabled is 0" in explained["unknown"]
    assert "`echo 1 > /sys/kernel/debug/kprobes/enabled`" in explained["unknown"]
    assert traced.status == 69
    assert "hint: run `echo 1 > /sys/kernel/debug/kprobes/enabled`" in traced.err
    assert any("why" in lost for lost in answer["loses"])


@pytest.mark.oldest_and_newest
def test_programs_are_interpreted_where_the_jit_is_off(machine: Machine) -> None:
    with switched(machine, JIT, "0") as is_off:
        if not is_off:  # CONFIG_BPF_JIT_ALWAYS_ON
            return
        answer = doctor(machine)
        result = run_by(machine, None, (), "-v", "-T")
        why = machine.run([TOOL, "why", "--reruns=0", *FAILING], timeout=180)
    assert answer_to(answer, "bpf_jit") == "no"
    assert answer["checks"]["bpf_jit"]["next_step"] == "sysctl net.core.bpf_jit_enable=1"
    assert answer["works"]
    if machine.arch.name == "arm64" and not worked(result):  # 7.3 does not interpret what x86 does
        for refused in (result, why):
            assert refused.status == 69
            assert "run `sysctl net.core.bpf_jit_enable=1`" in refused.err
        return
    assert worked(result), result.err
    assert f"attached by {answer['mechanisms'][0]} in " in result.err
    assert f"{call_of_mkdir(machine)} returned ENOENT" in why.out, why.err


@pytest.mark.one_kernel
def test_ftrace_that_is_off_is_named_with_the_command_that_mends_it(machine: Machine) -> None:
    with switched(machine, FTRACE, "0") as is_off:
        if not is_off:  # later kernels than 7.2 refuse
            return
        traced = run_by(machine)
        why = machine.run([TOOL, "why", *FAILING])
    for result in (traced, why):
        assert result.status == 69
        assert "kernel.ftrace_enabled is 0" in only_error(result)
        assert result.err.endswith("hint: run `sysctl kernel.ftrace_enabled=1`\n")


@pytest.mark.one_kernel
def test_cap_bpf_and_cap_perfmon_alone_miss_cap_syslog(machine: Machine) -> None:
    held = "+bpf,+perfmon"
    under = (*NOBODY, "--inh-caps", held, "--ambient-caps", held)
    answer = doctor(machine, under=under)
    traced = run_by(machine, None, under)
    why = machine.run([*under, TOOL, "why", *FAILING])
    assert answer["exit_status"] == traced.status == why.status == 77
    assert "CAP_SYSLOG" in answer["reason"]
    for result in (traced, why):
        said = only_error(result)
        assert "this process lacks CAP_SYSLOG" in said
        assert "kptr_restrict" not in said
        assert f"hint: {answer['next_step']}\n" in result.err


#: A root directory that is no mount point. It has the guest's files, and of the kernel's file
#: systems only those that the first word mounts. It ends with the mount namespace.
CHROOT = """
set -e
mounts=$1; shift
root=/tmp/chroot
mkdir -p $root
for path in /*; do
    case $path in /proc|/sys|/tmp|/lost+found) continue ;; esac
    [ -L $path ] && cp -aT $path $root$path
    [ -d $path ] && [ ! -L $path ] || continue
    mkdir -p $root$path
    mount --rbind $path $root$path
done
mkdir -p $root/proc $root/sys $root/tmp
for mount in $mounts; do
    mount -t ${mount%:*} none $root${mount#*:}
done
exec chroot $root "$@"
"""
PROC, SYSFS = "proc:/proc", "sysfs:/sys"
TRACEFS = "tracefs:/sys/kernel/tracing"


def below(*mounts: str) -> tuple[str, ...]:
    """Return the start of a command line that runs in a chroot with ``mounts``."""
    return ("unshare", "-m", "sh", "-c", CHROOT, "sh", " ".join(mounts))


@pytest.mark.slow
@pytest.mark.one_kernel
@pytest.mark.parametrize(
    ("mounts", "works", "remedy"),
    [
        ((), False, MOUNT_SYSFS),
        ((PROC,), False, MOUNT_SYSFS),
        ((PROC, SYSFS), False, "mount -t tracefs tracefs /sys/kernel/tracing"),
        # a BPF program lists the symbols of the kernel
        ((SYSFS, TRACEFS), True, MOUNT_PROC),
        ((PROC, SYSFS, TRACEFS), True, ""),
    ],
    ids=["neither", "no_sys", "no_tracefs", "no_proc", "all"],
)
def test_a_chroot_without_a_file_system_of_the_kernel(
    mounts: tuple[str, ...], works: bool, remedy: str, machine: Machine
) -> None:
    under = below(*mounts)
    answer = doctor(machine, under=under)
    traced = run_by(machine, under=under)
    why = machine.run([*under, TOOL, "why", "--reruns=0", *FAILING], timeout=180)
    assert answer["works"] is works
    assert worked(traced) is works, traced.err
    assert traced.status == answer["exit_status"] or works
    if remedy:
        assert why.status == 69
        # only the error: no run was announced
        assert (remedy if PROC in mounts else MOUNT_PROC) in only_error(why)
    else:
        assert "mkdir" in why.out.partition(" ")[0], why.err
    if not works:
        assert remedy in answer["next_step"]
        assert remedy in only_error(traced)
    if PROC not in mounts:
        assert any(lost.startswith("why") for lost in answer["loses"]) is works
        for key in ("cap_bpf", "pid_namespace", "user_namespace", "seccomp", "ftrace_enabled"):
            assert answer_to(answer, key) == "unknown", key
