# SPDX-License-Identifier: BSD-2-Clause
"""Resource limits: raised as far as we may, a refusal is a warning at most."""

from __future__ import annotations

import resource

#: Descriptors a run needs beside those of its probes.
_SPARE_FILES = 256


def raise_limits(probes: int) -> str | None:
    """Make room for ``probes`` descriptors and, for kernels before 5.11, for locked memory.

    Returns a warning when the descriptors may not suffice. Locked memory is not warned of:
    since 5.11 BPF memory is accounted to the cgroup, before that the map that does not fit
    says so itself.
    """
    infinite = resource.RLIM_INFINITY
    _try(resource.RLIMIT_MEMLOCK, infinite, infinite)
    needed = probes + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return None
    if _try(resource.RLIMIT_NOFILE, max(needed, soft), max(needed, hard)):
        return None
    _try(resource.RLIMIT_NOFILE, hard, hard)
    if hard >= needed:
        return None
    return (
        f"{needed} open files are needed and only {hard} are allowed (RLIMIT_NOFILE): "
        "some functions will not be attached"
    )


def _try(limit: int, soft: int, hard: int) -> bool:
    try:
        resource.setrlimit(limit, (soft, hard))
    except (OSError, ValueError):
        return False
    return True
