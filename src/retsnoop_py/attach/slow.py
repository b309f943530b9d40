# SPDX-License-Identifier: BSD-2-Clause
"""Which plans take the kernel long to attach or to let go of, told before it begins."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.settings import Mechanism

#: Up to so many functions nobody has to wait long. The kernel hooks the functions of the last
#: three one by one: the fewer, the longer each one takes.
_QUICK = {
    Mechanism.FSESSION_MULTI: 20_000,
    Mechanism.KPROBE_SESSION: 40_000,
    Mechanism.KPROBE_MULTI: 40_000,
    Mechanism.KPROBE_EVENTS: 3_000,
    Mechanism.KPROBE: 500,
    Mechanism.FENTRY: 200,
}
#: Where functions begin with ENDBR64, their hook is not at their address: the kernel looks up
#: each one's symbol to find it (ftrace_location(), 5.18).
_QUICK_WITH_IBT = {
    Mechanism.FSESSION_MULTI: 10_000,
    Mechanism.KPROBE_SESSION: 20_000,
    Mechanism.KPROBE_MULTI: 20_000,
}


def slow_attach(plan: AttachPlan, root: Path = Path("/")) -> str | None:
    """What to tell before attaching ``plan``; None if it is done soon."""
    for rung in plan.rungs:
        most, count = _QUICK[rung.mechanism], len(rung.ids)
        if count > most:
            return (
                f"{count} functions by {rung.mechanism.value} take long to attach and to let go "
                "of; fewer are faster (-a, -d)"
            )
        if count > _QUICK_WITH_IBT.get(rung.mechanism, most) and _has_ibt(root):
            return (
                f"{count} functions take long to attach on a CPU with indirect branch tracking "
                "(IBT), the kernel looks up each one by its symbol; fewer are faster (-a, -d)"
            )
    return None


def _has_ibt(root: Path) -> bool:
    """Whether the CPU tracks indirect branches and the kernel makes use of it."""
    try:
        with (root / "proc/cpuinfo").open() as lines:
            flags = next((line for line in lines if line.startswith("flags")), "")
    except OSError:
        return False
    return "ibt" in flags.split()
