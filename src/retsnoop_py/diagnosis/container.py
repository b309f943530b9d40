# SPDX-License-Identifier: BSD-2-Clause
"""What a container takes away; outside of one all is yes."""

from __future__ import annotations

import errno
import re

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, read_text
from retsnoop_py.errors import PrivilegeError
from retsnoop_py.kernel.namespaces import in_first

__all__ = ["container"]

_DENIED = frozenset({errno.EPERM, errno.EACCES})
_SECCOMP = re.compile(r"^Seccomp:\s*(\d+)$", re.MULTILINE)


def container(host: Host) -> list[Check]:
    """Namespaces and filters; capabilities, tracefs and addresses are asked for elsewhere."""
    return [_pid_namespace(host), _user_namespace(host), _seccomp(host)]


def _pid_namespace(host: Host) -> Check:
    """For information: ids are translated."""
    is_first = in_first("pid", host.root / "proc/self")
    return Check(
        key="pid_namespace",
        title="the kernel's process ids",
        group=Group.RIGHTS,
        answer=Answer.YES if is_first else Answer.NO,
        detail=""
        if is_first
        else "this PID namespace has ids of its own: -p and -P take them, sessions show both",
    )


def _user_namespace(host: Host) -> Check:
    answer, detail, next_step, ends_with = Answer.YES, "", "", 0
    if not in_first("user", host.root / "proc/self"):
        answer, ends_with = Answer.NO, PrivilegeError.exit_status
        detail = "capabilities held in a user namespace do not count for BPF and perf events"
        next_step = "run outside of it, or start the container without one (as root, --userns=host)"
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
    if found and found[1] != "0":
        detail = "there is a seccomp filter, which lets bpf() through"
        if error is None:
            answer, detail = Answer.UNKNOWN, "there is a seccomp filter; bpf() was not tried"
        elif error in _DENIED:
            answer, detail = Answer.NO, "there is a seccomp filter, which may forbid bpf()"
            next_step = "start the container with --security-opt seccomp=unconfined"
    return Check(
        key="seccomp",
        title="free of seccomp",
        group=Group.RIGHTS,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )
