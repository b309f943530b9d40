# SPDX-License-Identifier: BSD-2-Clause
"""What this kernel's BPF can do: each feature is tried, never guessed from a version."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from retsnoop_py.errors import UnavailableError

#: enum bpf_prog_type, bpf_map_type and bpf_func_id of linux/bpf.h: fixed by the kernel's ABI.
_PROG_KPROBE = 2
_MAP_RINGBUF = 27
_FUNC_GET_FUNC_IP = 173
_FUNC_GET_ATTACH_COOKIE = 174
_FUNC_GET_BRANCH_SNAPSHOT = 176

#: A function that every kernel has and can trace.
_EVERYWHERE = "vfs_read"

#: Where the kernel lists what perf_event_open(2) can make, kprobes among it, below its root.
_EVENT_SOURCES = Path("sys/bus/event_source/devices")


@dataclass(frozen=True, slots=True)
class Features:
    """The outcome of :func:`probe`, one flag per feature."""

    ringbuf: bool
    func_ip: bool
    cookie: bool
    branch_snapshot: bool
    kprobe: bool
    kprobe_multi: bool

    def lines(self) -> list[tuple[str, bool]]:
        """(description, verdict) pairs for a person."""
        return [
            ("BPF ringbuf map supported", self.ringbuf),
            ("bpf_get_func_ip() supported", self.func_ip),
            ("bpf_get_branch_snapshot() supported", self.branch_snapshot),
            ("BPF cookie supported", self.cookie),
            ("single kprobes supported", self.kprobe),
            ("multi-attach kprobe supported", self.kprobe_multi),
        ]


def lacks_kprobes(root: Path) -> bool:
    """Whether the kernel whose /sys is below ``root`` shows that it has no kprobes."""
    sources = root / _EVENT_SOURCES
    return sources.is_dir() and not (sources / "kprobe").exists()


def no_kprobes() -> UnavailableError:
    """The error that says so."""
    return UnavailableError(
        "this kernel has no kprobes (CONFIG_KPROBES or CONFIG_KPROBE_EVENTS is off)",
        "run on a kernel that has them, or boot one: retsnoop-py vm run --kernel 6.12 -- ...",
    )


def no_kprobe_multi() -> UnavailableError:
    """The error for who insists on kprobe.multi where :func:`probe` found none."""
    return UnavailableError(
        "this kernel has no kprobe.multi (it takes Linux 5.18 and CONFIG_FPROBE)",
        "leave out -M: single kprobes are taken instead",
    )


def probe() -> Features:
    """Try each feature on the running kernel.

    Loads a few one-instruction programs and attaches one of them for an instant; a feature
    that cannot be tried, for want of rights for instance, counts as missing.
    """
    from retsnoop_py._bpf import ffi, lib

    lib.rsn_log_start(0)

    def helper(number: int) -> bool:
        return bool(lib.libbpf_probe_bpf_helper(_PROG_KPROBE, number, ffi.NULL) == 1)

    features = Features(
        ringbuf=lib.libbpf_probe_bpf_map_type(_MAP_RINGBUF, ffi.NULL) == 1,
        func_ip=helper(_FUNC_GET_FUNC_IP),
        cookie=helper(_FUNC_GET_ATTACH_COOKIE),
        branch_snapshot=helper(_FUNC_GET_BRANCH_SNAPSHOT),
        kprobe=not lacks_kprobes(Path("/")),
        kprobe_multi=_attaches_kprobe_multi(),
    )
    lib.rsn_log_clear()
    return features


def _attaches_kprobe_multi() -> bool:
    """Whether an empty program attaches to a function that every kernel can trace."""
    from retsnoop_py.errors import BpfError
    from retsnoop_py.libbpf import OBJECTS, BpfObject

    name = "feat_kprobe_multi"
    try:
        with BpfObject(OBJECTS / "calib_feat.bpf.o") as obj:
            for program in obj.programs():
                program.set_autoload(program.name == name)
            obj.load()
            obj.program(name).attach_kprobe_multi_symbols([_EVERYWHERE]).close()
    except BpfError:
        return False
    return True
