# SPDX-License-Identifier: BSD-2-Clause
"""What a run needs: rights, asked for before anything else; limits, raised as far as we may."""

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

    That takes loading and attaching BPF programs, and the addresses of functions. Where ``status``
    does not tell, the kernel's own refusal will.
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
    # CAP_SYS_ADMIN implies the two that were split off from it in 5.8
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


#: Descriptors a run needs beside those of its probes.
_SPARE_FILES = 256
#: Of these, so many after everything is attached: the transport, symbols, images.
_LATER_FILES = 32
#: What loading an object takes: its maps, programs and BTF. Where that is missing libbpf and the
#: verifier fail in many ways, none of which names the limit.
_LOADING_FILES = 24


def return_large_memory() -> None:
    """Have what is freed in large pieces go back to the kernel at once.

    glibc keeps pieces as large as any it saw freed, in a heap with holes: after reading the
    lists of functions on Linux 5.10 it is 7 MiB larger than what is in use.
    """
    process.return_large_memory()


def raise_memlock() -> None:
    """Let maps and programs be as large as they are, on kernels before 5.11.

    A refusal is not warned of: since 5.11 BPF memory is accounted to the cgroup, before that
    the map that does not fit says so itself.
    """
    raise_limit(resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def raise_files(probes: int) -> str | None:
    """Make room for ``probes`` descriptors; a warning when they may not suffice."""
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
    """Keep what comes after the probes from finding all descriptors taken by them.

    Raises UnavailableError if there are not even enough to load the programs.
    """
    held: list[int] = []
    try:
        try:
            held = [os.open("/", os.O_PATH | os.O_CLOEXEC)]  # is there without a /dev, too
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
