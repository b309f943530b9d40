# SPDX-License-Identifier: BSD-2-Clause
"""Telling the programs what to capture of each function's arguments."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from retsnoop_py.attach.plan import AttachPlan
from retsnoop_py.errors import UsageError
from retsnoop_py.kernel.btf import Btf
from retsnoop_py.libbpf.object import BpfObject
from retsnoop_py.settings import ArgSettings

if TYPE_CHECKING:
    from retsnoop_py.kernel.arguments.plan import CapturePlan

__all__ = ["configure_arguments", "fill_arguments"]

#: An item tells its size in 16 bits, its header included.
_MOST = 65_000
#: Bytes an item can have besides what the limits count: ARGS_HEAD of args.bpf.h, the value of the
#: last argument, and padding.
_BESIDES = 80 + 16 + 8
#: Bytes of kernel memory the logs of all sessions may take.
_MOST_MEMORY = 1 << 30


def configure_arguments(
    obj: BpfObject, settings: ArgSettings, plan: AttachPlan, sessions: int, probes: int = 0
) -> None:
    """Before load: limits, and the size of the maps; the log's elements hold the largest item.

    ``sessions`` and ``probes`` are numbers: of those at a time, and of the injected ones.

    Raises UsageError if the logs of so many ``sessions`` were larger than any sane machine has.
    """
    total, data = min(settings.max_total, _MOST), max(settings.max_sized, settings.max_str)
    log_bytes = int.from_bytes(obj.global_bytes(".rodata", "log_bytes")[:], "little")
    more = -(-(_BESIDES + total + data) // 8) * 8
    on_trampolines = _on_trampolines(plan)
    count = len(plan.functions)
    plans = count * (2 if on_trampolines else 1)
    for name, value in (
        ("capture_args", 1),
        ("args_max_total", total),
        ("args_max_data", data),
        ("args_context_plans", count if on_trampolines else 0),
        ("args_probe_plans", plans),
        ("log_bytes", log_bytes + more),
    ):
        obj.set_global(".rodata", name, value)
    logs = obj.map("logs")
    size = logs.value_size + more
    if size * sessions > _MOST_MEMORY:
        raise UsageError(
            f"arguments of {sessions} sessions at a time would take {size * sessions >> 20} MiB"
            " of kernel memory",
            "lower -C bpf.sessions-size or -C args.max-total-args-size",
        )
    logs.set_value_size(size)
    obj.map("args_plans").set_max_entries(plans + probes)


def fill_arguments(obj: BpfObject, captures: CapturePlan, plan: AttachPlan) -> None:
    """After load: what to capture of each function and injected probe."""
    packed = captures.packed(Btf(obj.btf()), trampolines=_on_trampolines(plan))
    obj.map("args_plans").update_many(
        [(struct.pack("=I", index), one) for index, one in enumerate(packed)]
    )


def _on_trampolines(plan: AttachPlan) -> bool:
    return any(mechanism.row.by_btf for mechanism in plan.mechanisms)
