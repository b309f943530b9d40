# SPDX-License-Identifier: BSD-2-Clause
"""What the CPU brings along: branch records, indirect branch tracking."""

from __future__ import annotations

import errno
import re

from retsnoop_py.diagnosis.model import Answer, Check, Group, Host, errno_name, read_text

__all__ = ["cpu"]

_DENIED = frozenset({errno.EPERM, errno.EACCES})
_FLAGS = re.compile(r"^flags\s*:(.*)$", re.MULTILINE)


def cpu(host: Host) -> list[Check]:
    """Both checks."""
    return [_branches(host), _ibt(host)]


def _branches(host: Host) -> Check:
    """Whether an event that samples branches can be opened, and how deep the record is."""
    devices = host.root / "sys/bus/event_source/devices"
    depths = [read_text(path) for path in sorted(devices.glob("*/caps/branches"))]
    depth = next((text for text in depths if text and text != "0"), None)
    error, answer, detail, next_step = host.tried.branch_error, Answer.NO, "", ""
    if error == 0:
        answer = Answer.YES
        detail = f"{depth} branches deep" if depth else ""
    elif error is None:
        answer, detail = Answer.UNKNOWN, "not tried on this machine"
    elif error in _DENIED:
        answer, detail = Answer.UNKNOWN, f"perf events are forbidden ({errno_name(error)})"
        next_step = "run as root"
    elif not list(devices.glob("cpu*")) and not list(devices.glob("arm*")):
        detail = f"the kernel sees no PMU of the CPU ({errno_name(error)}), as in most VMs"
        next_step = "use real hardware, or give the VM a PMU"
    else:
        detail = f"the CPU records no branches ({errno_name(error)})"
    return Check(
        key="lbr",
        title="branch records (LBR)",
        group=Group.BPF,
        answer=answer,
        detail=detail,
        next_step=next_step,
    )


def _ibt(host: Host) -> Check:
    """For information; many functions take longer to attach where it is on."""
    found = _FLAGS.search(read_text(host.root / "proc/cpuinfo") or "")
    has = found is not None and "ibt" in found[1].split()
    return Check(
        key="ibt",
        title="indirect branch tracking",
        group=Group.KERNEL,
        answer=Answer.YES if has else Answer.NO if found else Answer.UNKNOWN,
        detail="" if found else "/proc/cpuinfo does not tell",
    )
