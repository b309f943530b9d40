# SPDX-License-Identifier: BSD-2-Clause
"""What a run may take: limits are raised as far as we may, and memory is given back."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager

from retsnoop_py.errors import UnavailableError
from retsnoop_py.libbpf import process

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
    _try(resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY, resource.RLIM_INFINITY)


def raise_files(probes: int) -> str | None:
    """Make room for ``probes`` descriptors; a warning when they may not suffice."""
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


@contextmanager
def reserved_files() -> Iterator[None]:
    """Keep what comes after the probes from finding all descriptors taken by them.

    Raises UnavailableError if there are not even enough to load the programs.
    """
    held: list[int] = []
    try:
        try:
            held = [os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)]
            while len(held) < _LATER_FILES + _LOADING_FILES:
                held.append(os.dup(held[0]))
        except OSError as error:
            raise UnavailableError(
                f"too few open files are allowed to load the programs: {error.strerror}",
                "allow more open files: `ulimit -n`",
            ) from error
        for fd in held[_LATER_FILES:]:
            os.close(fd)
        del held[_LATER_FILES:]
        yield
    finally:
        for fd in held:
            os.close(fd)


def _try(limit: int, soft: int, hard: int) -> bool:
    try:
        resource.setrlimit(limit, (soft, hard))
    except (OSError, ValueError):
        return False
    return True
