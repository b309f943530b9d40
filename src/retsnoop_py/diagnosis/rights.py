# SPDX-License-Identifier: BSD-2-Clause
"""Check the privileges of this process, and the restrictions of a container.

Outside of a container all checks of a container are yes.
"""

from __future__ import annotations

import errno
import re
from pathlib import Path

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, read_text
from retsnoop_py.errors import PrivilegeError
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.kernel.tracefs import MOUNT_PROC, NO_PROC, has_proc, mount_command

__all__ = [
    "BPF",
    "PERFMON",
    "SYS_ADMIN",
    "SYS_RESOURCE",
    "container",
    "effective",
    "may_load",
    "rights",
]

#: linux/capability.h
DAC_READ_SEARCH = 2
SYS_ADMIN = 21
SYS_RESOURCE = 24
SYSLOG = 34
PERFMON = 38
BPF = 39

_EFFECTIVE = re.compile(r"^CapEff:\s*([0-9a-f]+)$", re.MULTILINE)

#: Name, bit, and the effect without the capability. CAP_SYS_ADMIN includes capabilities that were
#: split off from it.
_CAPABILITIES = (
    ("CAP_BPF", BPF, "no BPF program can be loaded"),
    ("CAP_PERFMON", PERFMON, "BPF programs cannot trace the kernel"),
    ("CAP_SYS_ADMIN", SYS_ADMIN, "not needed with CAP_BPF and CAP_PERFMON"),
    ("CAP_SYS_RESOURCE", SYS_RESOURCE, "limits stay as they are"),
    ("CAP_SYSLOG", SYSLOG, "/proc/kallsyms may hide the addresses"),
    ("CAP_DAC_READ_SEARCH", DAC_READ_SEARCH, "only root can read tracefs"),
)
_ESSENTIAL = (BPF, PERFMON)

#: Open files per function with single kprobes, and other open files of a run.
_FILES_EACH, _FILES_SPARE = 4, 256
#: A usual number of functions: those of ``-c bpf``.
_USUAL = 1500


def effective(status: Path) -> int | None:
    """Return the effective capabilities in ``/proc/self/status``, as bits, or None."""
    found = _EFFECTIVE.search(read_text(status) or "")
    return int(found[1], 16) if found else None


def may_load(host: Host) -> bool:
    """Return True if this process may load and attach tracing programs."""
    return host.may(SYS_ADMIN) or host.may(*_ESSENTIAL)


def rights(host: Host) -> list[Check]:
    """Return all checks of privileges, limits and settings that restrict privileges."""
    return [
        *(_capability(host, name, bit, without) for name, bit, without in _CAPABILITIES),
        _open_files(host),
        _paranoid(host),
        _unprivileged(host),
        _lockdown(host),
    ]


def _capability(host: Host, name: str, bit: int, without: str) -> Check:
    def check(answer: Answer, detail: str = "", next_step: str = "", ends_with: int = 0) -> Check:
        return Check(
            key=name.lower(),
            title=name,
            group=Group.RIGHTS,
            answer=answer,
            detail=detail,
            next_step=next_step,
            ends_with=ends_with,
        )

    if host.capabilities is None:
        return check(Answer.UNKNOWN, *_unread(host, "/proc/self/status"))
    if host.may(bit):
        return check(Answer.YES)
    if bit in _ESSENTIAL and host.may(SYS_ADMIN):
        return check(Answer.YES, "by CAP_SYS_ADMIN")
    if bit == SYS_ADMIN:
        return check(Answer.NO, without)
    next_step = "run as root"
    if host.is_root:
        next_step = f"give it to the container (--cap-add {name[4:]}), or run outside it"
    return check(
        Answer.NO, without, next_step, PrivilegeError.exit_status if bit in _ESSENTIAL else 0
    )


def _unread(host: Host, what: str) -> tuple[str, str]:
    """Return why a file of /proc cannot be read, and the next step."""
    return (f"{what} cannot be read", "") if has_proc(host.root) else (NO_PROC, MOUNT_PROC)


def _open_files(host: Host) -> Check:
    soft, hard = host.files
    if host.may(SYS_RESOURCE) and host.capabilities is not None:
        answer, detail = Answer.YES, f"{soft}, raised when needed"
    else:
        most = max(hard - _FILES_SPARE, 0) // _FILES_EACH
        lacking = Answer.UNKNOWN if host.capabilities is None else Answer.NO
        answer = Answer.YES if most >= _USUAL else lacking
        detail = f"{hard} at most: enough for {most} functions by single kprobes"
    return Check(
        key="open_files",
        title="open files (RLIMIT_NOFILE)",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step="" if answer is Answer.YES else "raise `ulimit -n`",
    )


def _paranoid(host: Host) -> Check:
    """Check perf_event_paranoid; Debian's level 3 reserves perf events for CAP_SYS_ADMIN."""
    text = read_text(host.root / "proc/sys/kernel/perf_event_paranoid")
    answer, next_step = Answer.YES, ""
    if text is None:
        answer = Answer.UNKNOWN
        detail, next_step = _unread(host, "kernel.perf_event_paranoid")
    else:
        detail = f"kernel.perf_event_paranoid is {text}"
        allowed = host.may(SYS_ADMIN) or (int(text) <= 2 and host.may(PERFMON)) or int(text) < 0
        if not allowed:
            answer = Answer.NO
            detail += ": single kprobes and tracefs events are forbidden"
            next_step = "run as root"
            if host.may(PERFMON):
                next_step += ", or `sysctl kernel.perf_event_paranoid=2`"
    return Check(
        key="perf_event_paranoid",
        title="perf events",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )


def _unprivileged(host: Host) -> Check:
    """Report unprivileged_bpf_disabled; tracing programs need CAP_BPF in any case."""
    text = read_text(host.root / "proc/sys/kernel/unprivileged_bpf_disabled")
    answer = Answer.UNKNOWN
    detail, next_step = _unread(host, "kernel.unprivileged_bpf_disabled")
    if text is not None:
        answer = Answer.YES if text == "0" else Answer.NO
        detail = f"kernel.unprivileged_bpf_disabled is {text}; tracing requires CAP_BPF in any case"
        next_step = ""
    return Check(
        key="unprivileged_bpf",
        title="bpf() without rights",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )


def _lockdown(host: Host) -> Check:
    """Check lockdown: confidentiality forbids kprobes, tracefs and BPF reads of memory."""
    text = read_text(host.root / "sys/kernel/security/lockdown")
    answer, detail, next_step, ends_with = Answer.YES, "", "", 0
    if text is None:
        mounts = read_text(host.root / "proc/mounts") or ""
        if " /sys/kernel/security securityfs " in mounts:
            detail = "this kernel has none"
        else:
            answer, detail = Answer.UNKNOWN, "securityfs cannot be read"
            next_step = mount_command(host.root, "securityfs", "/sys/kernel/security")
            if not host.is_root:
                next_step = "run as root"
    else:
        found = re.search(r"\[(\w+)\]", text)
        level = found[1] if found else text
        detail = f"level {level}"
        if level == "confidentiality":
            answer, ends_with = Answer.NO, PrivilegeError.exit_status
            detail += ": the kernel rejects kprobes, tracefs and BPF programs that read its memory"
            next_step = "boot without Secure Boot, or with lockdown=integrity"
        elif level == "integrity":
            detail += ", which allows tracing"
    return Check(
        key="lockdown",
        title="free of lockdown",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
        ends_with=ends_with,
    )


# --- containers ---------------------------------------------------------------------------------

_DENIED = frozenset({errno.EPERM, errno.EACCES})
_SECCOMP = re.compile(r"^Seccomp:\s*(\d+)$", re.MULTILINE)


def container(host: Host) -> list[Check]:
    """Check namespaces and filters; other checks cover capabilities, tracefs and addresses."""
    return [_pid_namespace(host), _user_namespace(host), _seccomp(host)]


def _pid_namespace(host: Host) -> Check:
    """Report the PID namespace; process ids are translated."""
    answer, detail, next_step = Answer.YES, "", ""
    if not has_proc(host.root):
        answer, detail, next_step = Answer.UNKNOWN, NO_PROC, MOUNT_PROC
    elif not in_first("pid", host.root / "proc/self"):
        answer = Answer.NO
        detail = (
            "this PID namespace has its own process IDs: -p and -P use them, sessions show both"
        )
    return Check(
        key="pid_namespace",
        title="the kernel's process ids",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )


def _user_namespace(host: Host) -> Check:
    answer, detail, next_step, ends_with = Answer.YES, "", "", 0
    if not has_proc(host.root):
        answer, detail, next_step = Answer.UNKNOWN, NO_PROC, MOUNT_PROC
    elif not in_first("user", host.root / "proc/self"):
        answer, ends_with = Answer.NO, PrivilegeError.exit_status
        detail = "capabilities held in a user namespace do not count for BPF and perf events"
        next_step = "run outside it, or start the container without one (as root, --userns=host)"
    return Check(
        key="user_namespace",
        title="the kernel's users",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
        ends_with=ends_with,
    )


def _seccomp(host: Host) -> Check:
    found = _SECCOMP.search(read_text(host.root / "proc/self/status") or "")
    error = host.tried.load_error
    answer, detail, next_step = Answer.YES, "", ""
    if not has_proc(host.root):
        answer, detail, next_step = Answer.UNKNOWN, NO_PROC, MOUNT_PROC
    elif found and found[1] != "0":
        detail = "a seccomp filter is active, and it allows bpf()"
        if error is None:
            answer, detail = Answer.UNKNOWN, "a seccomp filter is active; bpf() was not tried"
        elif error in _DENIED:
            answer, detail = Answer.NO, "a seccomp filter is active, which may forbid bpf()"
            next_step = "start the container with --security-opt seccomp=unconfined"
    return Check(
        key="seccomp",
        title="free of seccomp",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )
