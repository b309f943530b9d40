# SPDX-License-Identifier: BSD-2-Clause
"""Check what BPF supports here, by testing, and the attach mechanisms."""

from __future__ import annotations

import errno
from collections.abc import Iterator

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host
from retsnoop_py.diagnosis.rights import may_load
from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.kernel.switches import JIT
from retsnoop_py.kernel.tracefs import MOUNT_SYSFS, NO_SYSFS, has_sysfs
from retsnoop_py.mechanism import Mechanism

__all__ = ["bpf", "mechanisms"]

_DENIED = frozenset({errno.EPERM, errno.EACCES})
_ALLOW_EVENTS = "run as root, or `sysctl kernel.perf_event_paranoid=2`"


def bpf(host: Host) -> list[Check]:
    """Check loading of programs, and the features that programs use."""
    tried = host.tried
    return [
        _loads(host),
        _feature(
            host,
            *("ringbuf", "ring buffer", tried.ringbuf),
            detail="requires Linux 5.8; perf buffers are used instead",
        ),
        _feature(
            host,
            *("func_ip", "bpf_get_func_ip", tried.func_ip),
            detail="requires Linux 5.15; functions are found by other means",
        ),
        _feature(
            host,
            *("cookie", "attach cookies", tried.cookie),
            detail="requires Linux 5.15; functions are looked up by address instead",
            loses="frames of functions that are not traced, between those that are",
        ),
        _feature(
            host,
            *("raw_cookie", "attach cookies of raw tracepoints", tried.raw_cookie),
            detail="requires Linux 6.10; each injected raw tracepoint gets its own BPF program",
        ),
        _feature(
            host,
            *("branch_snapshot", "bpf_get_branch_snapshot", tried.branch_snapshot),
            detail="requires Linux 5.16",
        ),
        _jit(host),
    ]


def _loads(host: Host) -> Check:
    error = host.tried.load_error
    answer, detail, next_step, ends_with = Answer.YES, "", "", 0
    if error is None:
        answer, detail = Answer.UNKNOWN, "not tried on this machine"
    elif error in _DENIED and not may_load(host):
        answer, detail = Answer.UNKNOWN, "the test requires CAP_BPF and CAP_PERFMON"
        next_step, ends_with = "run as root", PrivilegeError.exit_status
    elif error in _DENIED:
        answer, detail = Answer.NO, f"the kernel rejects every program (-{errno_name(error)})"
        next_step = "`dmesg` may report a lockdown; a container may forbid it by seccomp"
        ends_with = PrivilegeError.exit_status
    elif error:
        answer, detail = Answer.NO, f"the kernel rejects every program (-{errno_name(error)})"
        # EINVAL: the kernel may load programs of other types.
        lacking = "CONFIG_BPF_EVENTS" if error == errno.EINVAL else "CONFIG_BPF_SYSCALL"
        next_step = host.facts.too_old or f"use a kernel with {lacking}"
        ends_with = UnavailableError.exit_status
    return Check(
        key="bpf_load",
        title="loading programs",
        group=Group.BPF,
        answer=answer,
        detail=detail,
        next_step=next_step,
        ends_with=ends_with,
    )


def _jit(host: Host) -> Check:
    """Check the JIT: by the sysctl, and by calling a kernel function.

    Only the initial network namespace has the sysctl.
    """
    answer, detail, next_step, loses = Answer.YES, "", "", ""
    if JIT.is_off(host.root) or host.tried.kfuncs is False:
        answer, next_step = Answer.NO, JIT.command
        detail = JIT.off if JIT.is_off(host.root) else "BPF programs are interpreted"
        loses = (
            "speed, the counts of missed calls, and on some kernels all tracing: the kernel "
            "interprets the BPF programs (net.core.bpf_jit_enable is 0)"
        )
    return Check(
        key="bpf_jit",
        title="BPF JIT",
        group=Group.BPF,
        answer=answer,
        detail=detail,
        next_step=next_step,
        loses=loses,
    )


def _feature(
    host: Host, key: str, title: str, has: bool | None, *, detail: str, loses: str = ""
) -> Check:
    answer, next_step = Answer.NO, ""
    if has:
        answer, detail, loses = Answer.YES, "", ""
    elif has is None or not may_load(host):
        # Without privileges the kernel rejects every test.
        answer, loses = Answer.UNKNOWN, ""
        detail = "cannot be tried, because no BPF program can be loaded"
        if not may_load(host):
            detail, next_step = "trying takes CAP_BPF", "run as root"
    return Check(
        key=key,
        title=title,
        group=Group.BPF,
        answer=answer,
        detail=detail,
        next_step=next_step,
        loses=loses,
    )


def mechanisms(host: Host) -> list[Check]:
    """Return a check for each mechanism, ``mechanism.NAME``, best first."""
    return list(_mechanisms(host))


def _mechanisms(host: Host) -> Iterator[Check]:
    for mechanism in Mechanism:
        if mechanism is not Mechanism.AUTO:
            answer, detail, next_step = _verdict(host, mechanism)
            yield Check(
                key=f"mechanism.{mechanism.value}",
                title=mechanism.value,
                group=Group.MECHANISMS,
                answer=answer,
                detail=detail,
                next_step=next_step,
            )


def _verdict(host: Host, mechanism: Mechanism) -> tuple[Answer, str, str]:
    if not may_load(host):
        return Answer.UNKNOWN, "the test requires CAP_BPF and CAP_PERFMON", "run as root"
    if mechanism not in host.tried.reasons:
        return Answer.UNKNOWN, "not tried", ""
    reason = host.tried.reasons[mechanism]
    if reason is not None:
        return Answer.NO, reason, host.tried.next_steps.get(mechanism, "")
    error = _event_error(host, mechanism)
    if error is None:
        if not has_sysfs(host.root):
            return Answer.UNKNOWN, f"not tried: {NO_SYSFS}", MOUNT_SYSFS
        return Answer.UNKNOWN, "not tried: /sys does not report how to open a kprobe", ""
    if error:
        detail = f"the kernel rejects its perf events (-{errno_name(error)})"
        return Answer.NO, detail, _ALLOW_EVENTS if error in _DENIED else ""
    if host.tried.load_error:
        return Answer.NO, "no BPF program can be loaded", ""
    return Answer.YES, "", ""


def _event_error(host: Host, mechanism: Mechanism) -> int | None:
    """Return the errno of the perf events of ``mechanism``, 0 if it works; None: not tried."""
    if mechanism is Mechanism.KPROBE:
        return host.tried.kprobe_error
    if mechanism is Mechanism.KPROBE_EVENTS:
        # kprobe_events opens events that tracefs made: only permission to open any event counts.
        tried = (host.tried.kprobe_error, host.tried.branch_error)
        return next((error for error in tried if error in _DENIED), 0)
    return 0
