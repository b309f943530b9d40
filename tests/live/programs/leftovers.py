# SPDX-License-Identifier: BSD-2-Clause
"""What tracing tools leave in the kernel, as one line of JSON: numbers, and names where short."""

from __future__ import annotations

import contextlib
import json
import struct
from pathlib import Path

from retsnoop_py.workload.cases import syscall

TRACING = Path("/sys/kernel/debug/tracing")
#: enum bpf_cmd: how the kernel lists programs, maps and links.
NEXT_ID = {"programs": 11, "maps": 12, "links": 31}


def count_ids(command: int) -> int:
    import ctypes

    found, last = 0, 0
    while True:
        attr = ctypes.create_string_buffer(struct.pack("=III", last, 0, 0), 12)
        if syscall("bpf", ctypes.c_int(command), attr, ctypes.c_uint(12)) < 0:
            return found
        last = struct.unpack_from("=I", attr.raw, 4)[0]
        found += 1


def lines(path: Path) -> list[str]:
    with contextlib.suppress(OSError):
        return path.read_text().splitlines()
    return []


def leftovers() -> dict[str, object]:
    return {
        **{name: count_ids(command) for name, command in NEXT_ID.items()},
        "kprobes": lines(TRACING.parent / "kprobes/list"),
        "events": lines(TRACING / "kprobe_events"),
        "functions": lines(TRACING / "enabled_functions"),
        "pinned": [str(path) for path in Path("/sys/fs/bpf").rglob("*")],
        "expedited": lines(Path("/sys/kernel/rcu_expedited")),
        "tracing_on": lines(TRACING / "tracing_on"),
    }


if __name__ == "__main__":
    print(json.dumps(leftovers()))
