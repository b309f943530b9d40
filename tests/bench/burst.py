# SPDX-License-Identifier: BSD-2-Clause
"""More sessions at once than can be shown meanwhile, and how fast a replay shows them."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.bench.selections import Selection

BURST = "burst"
STEP = "burst:missing:100000"
#: What BPF_MAP_LOOKUP_ELEM of a missing key crosses behind its entry function: seven with that.
FUNCTIONS = (
    "__sys_bpf",
    "bpf_check_uarg_tail_zero",
    "security_bpf",
    "bpf_lsm_bpf",
    "bpf_map_value_size*",
    "bpf_map_copy_value",
)
#: Where others are inlined, and there is no BPF LSM.
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
    """What is traced in a burst on that kernel."""
    names = FUNCTIONS_5_10 if kernel == "5.10" else FUNCTIONS
    return Selection(BURST, entry="__x64_sys_bpf", names=names, options=("-T", "-S"))


def rendering(tool: str, path: Path) -> dict[str, float]:
    """Rows of call traces shown in a second by replaying the recording, as text and as JSON.

    It is the best of three replays, start-up included.
    """
    rows = rows_of(tool, path)
    return {form: rows / _seconds(tool, path, form) for form in ("text", "json")}


def rows_of(tool: str, path: Path) -> int:
    """The rows of all call traces."""
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
