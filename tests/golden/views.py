# SPDX-License-Identifier: BSD-2-Clause
"""The options with which each golden recording is shown."""

from __future__ import annotations

import io
from pathlib import Path

from tests.live.support import ALLOWED, WORKLOAD

from retsnoop_py.cli.replay import show
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.settings import SymbolizeMode

KERNELS = ("5.10", "6.1", "6.12", "7.2", "7.3")
#: The recordings that are also made on the other architecture.
FOREIGN = {"arm64/7.2": ("args",)}
#: Not openat(2): Python itself opens hundreds of files.
ENTRIES = ("-e", "*_sys_bpf", "-e", "*_sys_mount", "-e", "*_sys_nanosleep")
FEW = ("bpf-map-key-size-array", "bpf-map-lookup-missing", "bpf-prog-rejected", "bpf-prog-accepted")
#: Path of the program for ``--user-stack`` in the guest, and the number of its ioctl(2) calls.
CALLERS, CALLS = "/run/callers", 5
PROBES = tuple(
    word
    for probe in (
        *("kprobe:array_map_alloc_check", "kretprobe:array_map_alloc_check"),
        *("tp:module:module_request", "rawtp:module_request"),
        *("tp:timer:hrtimer_start", "rawtp:hrtimer_start"),
    )
    for word in ("-J", probe)
)
WHOLE = ("-C", "args.fmt-max-arg-width=0")
#: Options and command of the recordings on each kernel.
RECORDINGS = {
    "": ((*ENTRIES, *ALLOWED, "-S"), (*WORKLOAD, "--all")),
    "args": (
        ("-T", "-E", "-A", "-S", *WHOLE, *ENTRIES, *ALLOWED),
        (*WORKLOAD, "bpf-map-bad-flags", "bpf-obj-missing", "mount-unknown", "long-sleep"),
    ),
    "calls": (("-T", "-E", "-S", "-e", "*_sys_bpf", *ALLOWED), (*WORKLOAD, *FEW)),
    "interim": (
        ("-I", "-T", "-E", "-S", "-J", "kprobe:array_map_alloc_check", *ENTRIES, *ALLOWED),
        (*WORKLOAD, "bpf-map-key-size-array", "bpf-prog-rejected", "mount-unknown"),
    ),
    "probes": (
        ("-T", "-E", "-A", "-S", *WHOLE, *ENTRIES, *ALLOWED, *PROBES),
        (*WORKLOAD, "bpf-map-bad-flags", "bpf-map-key-size-array", "mount-unknown", "long-sleep"),
    ),
    "user": (("--user-stack", "-e", "*_sys_ioctl"), (CALLERS, str(CALLS))),
}
#: More replays of some recordings, with options.
VIEWS = {
    ("", "errors"): ReplayOverrides(success=False),
    ("", "raw"): ReplayOverrides(success=False, unfiltered=True, emit_addrs=True, dec_offs=True),
    ("", "filtered"): ReplayOverrides(
        success=False,
        allow_errors=frozenset({12, 22}),
        deny_errors=frozenset({0}),
        symbolize=SymbolizeMode.LINES,
    ),
    ("calls", "ascii"): ReplayOverrides(
        call_trace=True, ascii=True, self_time=True, cpu=True, success=False
    ),
    ("", "long"): ReplayOverrides(longer_ns=150_000_000),
}


def stem(kernel: str, *names: str) -> str:
    """Return the file name without suffix of a recording, or of a view of a recording."""
    return "-".join(filter(None, (kernel.replace("/", "-"), *names)))


def recordings() -> list[str]:
    """Return the stems of all recordings. The stem of a kernel's first recording is the kernel."""
    made = dict.fromkeys(KERNELS, tuple(RECORDINGS)) | FOREIGN
    return [stem(kernel, name) for kernel, names in made.items() for name in names]


def replay_text(path: Path, overrides: ReplayOverrides, out: io.StringIO | None = None) -> str:
    """Return the output of a replay; stdout is a pipe unless ``out`` is another stream."""
    out = out or io.StringIO()
    assert show(path, overrides, out, io.StringIO()) == 0
    return out.getvalue()
