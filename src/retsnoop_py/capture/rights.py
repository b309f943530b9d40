# SPDX-License-Identifier: BSD-2-Clause
"""The capabilities a trace needs, asked for before anything else is done."""

from __future__ import annotations

import os
from pathlib import Path

from retsnoop_py.errors import PrivilegeError
from retsnoop_py.kernel.namespaces import in_first

_CAP_SYS_ADMIN = 21
_NEEDED = {"CAP_BPF": 39, "CAP_PERFMON": 38}


def require_rights(status: Path = Path("/proc/self/status")) -> None:
    """Raise PrivilegeError unless this process may load and attach BPF programs.

    Where ``status`` does not tell, the kernel's own refusal will.
    """
    try:
        lines = status.read_text().splitlines()
        held = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return
    if not in_first("user", status.parent):
        raise PrivilegeError(
            "tracing the kernel is not for a user namespace: what root may there does not count",
            "run it outside, or in a container without one (started as root, --userns=host)",
        )
    # it implies the two that were split off from it in 5.8
    if held >> _CAP_SYS_ADMIN & 1:
        return
    missing = [name for name, bit in _NEEDED.items() if not held >> bit & 1]
    if not missing:
        return
    if os.geteuid():
        raise PrivilegeError(
            "tracing the kernel needs more rights than this user has", "run it as root"
        )
    raise PrivilegeError(
        f"tracing the kernel needs {' and '.join(missing)}, which this root does not have",
        "a container can be given them (--cap-add), or run outside of it",
    )
