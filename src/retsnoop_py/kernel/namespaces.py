# SPDX-License-Identifier: BSD-2-Clause
"""Whether a process is in the kernel's first namespaces, or in those of a container."""

from __future__ import annotations

from pathlib import Path

__all__ = ["in_first", "levels_above"]

#: PROC_PID_INIT_INO and PROC_USER_INIT_INO of include/linux/proc_ns.h: their inodes.
_FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}
_SELF = Path("/proc/self")


def in_first(kind: str, process: Path = _SELF) -> bool:
    """Whether the process with this folder in /proc is in the first ``pid`` or ``user`` namespace.

    So it is where there are no such namespaces, or /proc does not tell.
    """
    try:
        return (process / "ns" / kind).stat().st_ino == _FIRST[kind]
    except OSError:
        return True


def levels_above(process: Path = _SELF) -> int:
    """How many PID namespaces above that of a process the one is which /proc shows.

    0 where /proc was mounted anew for it. The line NSpid of its status has its id in the namespace
    of /proc, and in each one down to its own.
    """
    for line in (process / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return len(line.split()) - 2
    return 0
