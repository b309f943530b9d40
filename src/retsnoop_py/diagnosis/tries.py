# SPDX-License-Identifier: BSD-2-Clause
"""What only trying shows. Everything opened is closed at once; nothing stays in the kernel.

The system calls are made by hand: libbpf's own probe for helpers takes a program that may not be
loaded at all for one that has the helper.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from pathlib import Path

from retsnoop_py.diagnosis.model import Tried, read_text
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.kernel.features import Features
from retsnoop_py.settings import Mechanism

__all__ = ["attempt"]

#: Numbers of bpf(2) and perf_event_open(2) by machine.
_SYSCALLS = {"x86_64": (321, 298), "aarch64": (280, 241)}
_PROG_LOAD = 5
_PROG_TYPE_KPROBE = 2
#: r0 = 0; exit
_INSNS = struct.pack("=BBhiBBhi", 0xB7, 0, 0, 0, 0x95, 0, 0, 0)
#: union bpf_attr of BPF_PROG_LOAD up to prog_name; struct perf_event_attr up to
#: branch_sample_type (PERF_ATTR_SIZE_VER2).
_LOAD_ATTR = struct.Struct("=IIQQIIQII16s")
_EVENT_ATTR = struct.Struct("=IIQQQQQIIQQQ")
_DISABLED = 1
_SAMPLE_BRANCHES = 1 << 11
#: PERF_SAMPLE_BRANCH_KERNEL | PERF_SAMPLE_BRANCH_ANY
_ANY_BRANCH_IN_KERNEL = 1 << 1 | 1 << 3
_CLOEXEC = 1 << 3
_KPROBE_PMU = Path("sys/bus/event_source/devices/kprobe/type")
_EVERYWHERE = b"vfs_read"


def attempt(facts: KernelFacts) -> Tried:
    """Try everything on the running kernel."""
    load_error = _load_program(facts.machine)
    # Hooks made while ftrace is off can spoil it for good.
    hooks = read_text(facts.root / "proc/sys/kernel/ftrace_enabled") != "0"
    kprobe_error = _open_kprobe(facts.machine) if hooks else None
    branch_error = _open_branches(facts.machine)
    btf = facts.btf
    features = Features(btf.find(_EVERYWHERE.decode(), Kind.FUNC) if btf else None, facts.root)
    loads = load_error == 0
    verdicts = {m: features.verdict(m) for m in Mechanism if m is not Mechanism.AUTO}
    return Tried(
        load_error=load_error,
        kprobe_error=kprobe_error,
        branch_error=branch_error,
        ringbuf=features.ringbuf,
        func_ip=features.func_ip if loads else None,
        cookie=features.cookie if loads else None,
        raw_cookie=features.raw_cookie if loads else None,
        branch_snapshot=features.branch_snapshot if loads else None,
        reasons={m: None if v.works else v.reason or "" for m, v in verdicts.items()},
    )


def _syscall(machine: str, which: int, *args: object) -> int | None:
    """Make a call that gives a descriptor and close that; the errno, 0 where it worked."""
    numbers = _SYSCALLS.get(machine)
    if numbers is None:
        return None
    libc = ctypes.CDLL(None, use_errno=True)
    words = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    descriptor = libc.syscall(ctypes.c_long(numbers[which]), *words)
    if descriptor < 0:
        return ctypes.get_errno() or errno.EINVAL
    os.close(descriptor)
    return 0


def _load_program(machine: str) -> int | None:
    insns = ctypes.create_string_buffer(_INSNS)
    license_ = ctypes.create_string_buffer(b"GPL")
    attr = _LOAD_ATTR.pack(
        *(_PROG_TYPE_KPROBE, len(_INSNS) // 8, ctypes.addressof(insns)),
        *(ctypes.addressof(license_), 0, 0, 0, 0, 0, b"rsn_doctor"),
    )
    return _syscall(machine, 0, _PROG_LOAD, ctypes.create_string_buffer(attr), len(attr))


def _open_kprobe(machine: str) -> int | None:
    """Open a kprobe as a perf event; None where the kernel has none to open."""
    kind = read_text(Path("/") / _KPROBE_PMU)
    if kind is None:
        return None
    name = ctypes.create_string_buffer(_EVERYWHERE)
    return _open_event(machine, int(kind), config1=ctypes.addressof(name))


def _open_branches(machine: str) -> int | None:
    return _open_event(machine, 0, period=1, sample=_SAMPLE_BRANCHES, branch=_ANY_BRANCH_IN_KERNEL)


def _open_event(
    machine: str, kind: int, *, config1: int = 0, period: int = 0, sample: int = 0, branch: int = 0
) -> int | None:
    size = _EVENT_ATTR.size
    attr = _EVENT_ATTR.pack(
        *(kind, size, 0, period, sample, 0, _DISABLED, 0, 0, config1, 0, branch)
    )
    pid, cpu, group = -1, 0, -1
    return _syscall(machine, 1, ctypes.create_string_buffer(attr), pid, cpu, group, _CLOEXEC)
