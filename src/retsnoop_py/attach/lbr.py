# SPDX-License-Identifier: BSD-2-Clause
"""Branch records (LBR): perf events that make the CPUs record branches."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Self

from retsnoop_py.attach.features import Features
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.libbpf import links

#: PERF_SAMPLE_BRANCH_KERNEL, and all branches in the kernel (with ANY).
_KERNEL = 1 << 1
ANY_IN_KERNEL = _KERNEL | 1 << 3
_ONLINE = Path("sys/devices/system/cpu/online")
_NO_HELPER = "this kernel has no bpf_get_branch_snapshot(), which requires Linux 5.16"
_DENIED = frozenset({errno.EPERM, errno.EACCES})


class BranchEvents:
    """Makes all online CPUs record the branches in ``flags``; a context manager.

    ``flags`` are ``PERF_SAMPLE_BRANCH_*``. ``problem`` describes the CPUs where it does not work
    and the reason, None if it works on all. ``works`` is False if it works on none.
    """

    def __init__(self, flags: int, features: Features, root: Path = Path("/")) -> None:
        self._fds: list[int] = []
        self.problem: str | None = None
        if features.branch_snapshot:
            self._open(flags | _KERNEL, online_cpus(root))
        else:
            self.problem = f"no branches are shown (-B): {_NO_HELPER}"

    @property
    def works(self) -> bool:
        """True if any CPU records branches now."""
        return bool(self._fds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        fds, self._fds = self._fds, []
        for fd in fds:
            os.close(fd)

    def _open(self, flags: int, cpus: list[int]) -> None:
        failed: dict[int, int] = {}
        for cpu in cpus:
            fd = links.open_branches(cpu, flags)
            if fd >= 0:
                self._fds.append(fd)
            elif fd != -errno.ENODEV:  # gone offline since
                failed[cpu] = -fd
        if not failed:
            return
        cpu, error = next(iter(failed.items()))
        reason = _reason(error, flags, any_works=links.branches(cpu, ANY_IN_KERNEL) == 0)
        where = "no branches are shown (-B)"
        if self._fds:
            where = f"no branches are shown (-B) of CPU {', '.join(map(str, failed))}"
        self.problem = f"{where}: {reason}"


def online_cpus(root: Path = Path("/")) -> list[int]:
    """Return the online CPUs from ``/sys`` (``0-3,6``); all configured CPUs if it is unreadable."""
    try:
        text = (root / _ONLINE).read_text().strip()
    except OSError:
        return list(range(os.cpu_count() or 1))
    cpus: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


def _reason(error: int, flags: int, *, any_works: bool) -> str:
    name = errno_name(error)
    if any_works:
        return f"the CPU cannot filter branches by {flags:#x} (-{name}); -Bany records all kinds"
    if error in _DENIED:
        return f"perf events are forbidden (-{name}); run as root"
    if error == errno.ENOENT:
        return f"the kernel sees no PMU of the CPU (-{name}), as in most VMs"
    if error == errno.EBUSY:
        return f"another process uses the CPU's branch records (-{name})"
    return f"the CPU does not support branch records (-{name})"
