# SPDX-License-Identifier: BSD-2-Clause
"""What only trying shows, asked as a trace asks it; nothing stays in the kernel."""

from __future__ import annotations

from retsnoop_py.attach.features import Features
from retsnoop_py.attach.kprobe import PMU
from retsnoop_py.attach.lbr import ANY_IN_KERNEL
from retsnoop_py.diagnosis.model import Tried, read_text
from retsnoop_py.kernel.btf import Kind
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.libbpf import trials
from retsnoop_py.mechanism import Mechanism

__all__ = ["attempt"]

_EVERYWHERE = "vfs_read"


def attempt(facts: KernelFacts) -> Tried:
    """Try everything on the running kernel."""
    load_error = trials.load()
    # Hooks made while ftrace is off can spoil it for good.
    hooks = read_text(facts.root / "proc/sys/kernel/ftrace_enabled") != "0"
    kprobe_error = _open_kprobe() if hooks else None
    branch_error = trials.branches(0, ANY_IN_KERNEL)
    btf = facts.btf
    features = Features(btf.find(_EVERYWHERE, Kind.FUNC) if btf else None, facts.root)
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


def _open_kprobe() -> int | None:
    """Open a kprobe as a perf event; None where the kernel has none to open."""
    kind = read_text(PMU / "type")
    return None if kind is None else trials.kprobe(int(kind), _EVERYWHERE)
