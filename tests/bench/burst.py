# SPDX-License-Identifier: BSD-2-Clause
"""A burst of more sessions than can be printed in time, and the speed of its replay."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.bench.selections import Selection

BURST = "burst"
STEP = "burst:missing:100000"
#: With its entry function, these are seven functions that BPF_MAP_LOOKUP_ELEM calls for a missing
#: key.
FUNCTIONS = (
    "__sys_bpf",
    "bpf_check_uarg_tail_zero",
    "security_bpf",
    "bpf_lsm_bpf",
    "bpf_map_value_size*",
    "bpf_map_copy_value",
)
#: The same number of functions on 5.10, which inlines others and has no BPF LSM.
FUNCTIONS_5_10 = (
    "capable",
    "security_bpf",
    "__fdget",
    "memdup_user",
    "bpf_map_value_size*",
    "bpf_map_copy_value",
)
_MARKS = ("→", "←", "↔", "◎")


def burst_of(kernel: str) -> Selection:
    """Return the selection for a burst on a kernel."""
    names = FUNCTIONS_5_10 if kernel == "5.10" else FUNCTIONS
    return Selection(BURST, entry="__x64_sys_bpf", names=names, options=("-T", "-S"))


def rendering(tool: str, path: Path) -> dict[str, float]:
    """Return the call trace rows printed per second by a replay, as text and as JSON.

    This is the best of three replays, including start-up.
    """
    rows = rows_of(tool, path)
    return {form: rows / _seconds(tool, path, form) for form in ("text", "json")}


def rows_of(tool: str, path: Path) -> int:
    """Return the number of rows of all call traces."""
    argv = [tool, "replay", str(path)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as replay:
        assert replay.stdout is not None
        return sum(line.lstrip(" ").startswith(_MARKS) for line in replay.stdout)


def _seconds(tool: str, path: Path, form: str) -> float:
    argv = [tool, "replay", str(path), "--format", form]
    took = []
    for _ in range(3):
        began = time.monotonic()
        subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
        took.append(time.monotonic() - began)
    return min(took)
