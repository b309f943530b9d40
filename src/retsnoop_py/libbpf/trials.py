# SPDX-License-Identifier: BSD-2-Clause
"""What the running kernel takes, found by trying. Whatever is opened is closed at once.

Each trial of an attachment gives an errno, positive, 0 where it worked.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from retsnoop_py._bpf import ffi, lib

#: enum bpf_prog_type, bpf_map_type and bpf_func_id of linux/bpf.h: fixed by the kernel's ABI.
PROG_KPROBE = 2
PROG_RAW_TRACEPOINT = 17
MAP_RINGBUF = 27
FUNC_GET_FUNC_IP = 173
FUNC_GET_ATTACH_COOKIE = 174
FUNC_GET_BRANCH_SNAPSHOT = 176


@contextmanager
def _silence() -> Iterator[None]:
    """A refusal is an answer here: what libbpf has to say about it is of no use."""
    lib.rsn_log_start(0)
    try:
        yield
    finally:
        lib.rsn_log_clear()


def has_map(kind: int) -> bool:
    """Whether the kernel has maps of this type."""
    with _silence():
        return lib.libbpf_probe_bpf_map_type(kind, ffi.NULL) == 1


def has_helper(number: int, prog_type: int = PROG_KPROBE) -> bool:
    """Whether programs of this type may call helper ``number``.

    Where no program can be loaded at all, libbpf says yes.
    """
    with _silence():
        return lib.libbpf_probe_bpf_helper(prog_type, number, ffi.NULL) == 1


def load() -> int:
    """Load a kprobe program of two instructions."""
    with _silence():
        return -lib.rsn_try_load()


def kprobe_multi(*, session: bool) -> int:
    """Attach by kprobe.multi, or by kprobe.session, to what the kernel notices last is nothing."""
    with _silence():
        return -lib.rsn_try_kprobe_multi(session)


def fsession_multi(btf_id: int) -> int:
    """Attach by fsession.multi to the function ``btf_id``, for an instant."""
    with _silence():
        return -lib.rsn_try_fsession_multi(btf_id)


def fentry(btf_id: int) -> int:
    """Load a program for the function ``btf_id``."""
    with _silence():
        return -lib.rsn_try_fentry(btf_id)


def kprobe(pmu_type: int, function: str) -> int:
    """Open a kprobe on ``function`` as a perf event, which nothing enables."""
    return -lib.rsn_try_kprobe(pmu_type, function.encode())


def branches(cpu: int, flags: int) -> int:
    """Make a CPU keep the branches of ``flags``, for an instant."""
    fd = open_branches(cpu, flags)
    if fd < 0:
        return -fd
    os.close(fd)
    return 0


def open_branches(cpu: int, flags: int) -> int:
    """A perf event for which a CPU keeps branch records, ``PERF_SAMPLE_BRANCH_*``; or -errno."""
    return lib.rsn_open_branches(cpu, flags)
