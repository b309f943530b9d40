# SPDX-License-Identifier: BSD-2-Clause
"""The requirements of a run: rights, which are checked first, and raised limits."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retsnoop_py.capture.inherited import raise_limit
from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.kallsyms import require_addresses
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.libbpf import process

_CAP_SYS_ADMIN = 21
_NEEDED = {"CAP_BPF": 39, "CAP_PERFMON": 38}


def require_rights(status: Path = Path("/proc/self/status")) -> None:
    """Raise PrivilegeError unless this process may trace.

    Tracing requires loading and attaching BPF programs, and the addresses of functions. If
    ``status`` cannot be read, the kernel's own error will follow.
    """
    try:
        lines = status.read_text().splitlines()
        held = next(int(line.split()[1], 16) for line in lines if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return
    if not in_first("user", status.parent):
        raise PrivilegeError(
            "tracing does not work in a user namespace: its root has no privileges over the kernel",
            "run it outside, or in a container without one (started as root, --userns=host)",
        )
    # CAP_SYS_ADMIN implies the two capabilities that Linux 5.8 split off
    is_admin = held >> _CAP_SYS_ADMIN & 1
    missing = [name for name, bit in _NEEDED.items() if not (is_admin or held >> bit & 1)]
    if not missing:
        require_addresses(status.parent.parent / "kallsyms")
        return
    if os.geteuid():
        raise PrivilegeError("this user has no permission to trace the kernel", "run it as root")
    raise PrivilegeError(
        f"tracing the kernel needs {' and '.join(missing)}, which this root does not have",
        "give them to the container (--cap-add), or run outside it",
    )


#: Descriptors a run needs in addition to those of its probes.
_SPARE_FILES = 256
#: Descriptors reserved for use after attaching: the transport, symbols, images.
_LATER_FILES = 32
#: Descriptors for loading an object: its maps, programs and BTF. Without them, libbpf and the
#: verifier fail in many ways, and no error names the limit.
_LOADING_FILES = 24


def return_large_memory() -> None:
    """Return large freed memory to the kernel at once.

    glibc keeps freed blocks up to the largest size that it saw freed, in a fragmented heap. After
    reading the lists of functions on Linux 5.10, the heap is 7 MiB larger than the memory in use.
    """
    process.return_large_memory()


def raise_memlock() -> None:
    """Remove the memory limit for maps and programs, on kernels before 5.11.

    A failure is not reported. Since 5.11, BPF memory is accounted to the cgroup. Before, a map that
    does not fit fails with its own error.
    """
    raise_limit(resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def raise_files(probes: int) -> str | None:
    """Make room for ``probes`` descriptors; return a warning if they may not suffice."""
    needed = probes + _SPARE_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return None
    if raise_limit(resource.RLIMIT_NOFILE, max(needed, soft), max(needed, hard)):
        return None
    raise_limit(resource.RLIMIT_NOFILE, hard, hard)
    if hard >= needed:
        return None
    return (
        f"{needed} open files are needed and only {hard} are allowed (RLIMIT_NOFILE): "
        "some functions will not be attached"
    )


@contextmanager
def reserved_files() -> Iterator[None]:
    """Reserve descriptors, so that probes do not use them all.

    Raises UnavailableError if there are not even enough to load the programs.
    """
    held: list[int] = []
    try:
        try:
            held = [os.open("/", os.O_PATH | os.O_CLOEXEC)]  # exists even without /dev
            while len(held) < _LATER_FILES + _LOADING_FILES:
                held.append(os.dup(held[0]))
        except OSError as error:
            raise UnavailableError(
                f"the limit of open files is too low to load the BPF programs: {error.strerror}",
                "allow more open files: `ulimit -n`",
            ) from error
        for fd in held[_LATER_FILES:]:
            os.close(fd)
        del held[_LATER_FILES:]
        yield
    finally:
        for fd in held:
            os.close(fd)
