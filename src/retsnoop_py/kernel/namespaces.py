# SPDX-License-Identifier: BSD-2-Clause
"""Find out whether a process is in the initial namespaces or in a container's."""

from __future__ import annotations

from pathlib import Path

__all__ = ["in_first", "levels_above"]

#: Inodes of the initial namespaces: PROC_PID_INIT_INO and PROC_USER_INIT_INO of
#: include/linux/proc_ns.h.
_FIRST = {"pid": 0xEFFFFFFC, "user": 0xEFFFFFFD}
_SELF = Path("/proc/self")


def in_first(kind: str, process: Path = _SELF) -> bool:
    """Return True if a process is in the initial ``pid`` or ``user`` namespace.

    ``process``: the process's folder in /proc. Also True if the kernel has no such namespaces, or
    if /proc does not show them.
    """
    try:
        return (process / "ns" / kind).stat().st_ino == _FIRST[kind]
    except OSError:
        return True


def levels_above(process: Path = _SELF) -> int:
    """Return how many PID namespace levels /proc is above the process's own namespace.

    0 if /proc was mounted for the process's own namespace. The line NSpid of the process's status
    has its id in the namespace of /proc, and in each namespace below, down to its own.
    """
    for line in (process / "status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return len(line.split()) - 2
    return 0
