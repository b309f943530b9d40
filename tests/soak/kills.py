# SPDX-License-Identifier: BSD-2-Clause
"""kills.py TIMES COMMAND...: start COMMAND and kill it at many different moments.

The script first measures the time until COMMAND traces. The moments are spread evenly over twice
that time. After each kill, all its objects in the kernel must be gone within 90 s. Prints one line
of JSON. If objects remain, prints them and exits with 1.
"""

from __future__ import annotations

import json
import random
import runpy
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PATIENCE_S = 90
LEFTOVERS = Path(__file__).parents[1] / "live/programs/leftovers.py"
found = runpy.run_path(str(LEFTOVERS))["leftovers"]


def start(command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, bufsize=1
    )


def seconds_to_trace(command: list[str]) -> float:
    """Return the seconds from the start to ``Receiving data...``."""
    began = time.monotonic()
    with start(command) as tool:
        assert tool.stderr is not None
        for line in tool.stderr:
            if "Receiving data..." in line:
                break
        took = time.monotonic() - began
        tool.kill()
    return took


def settled(before: dict[str, Any]) -> dict[str, Any] | None:
    """Wait until the state equals ``before``. Return None, or the differences at the time limit."""
    deadline = time.monotonic() + PATIENCE_S
    while (now := found()) != before:
        if time.monotonic() > deadline:
            return {key: (before[key], now[key]) for key in now if now[key] != before[key]}
        time.sleep(0.1)
    return None


def main() -> int:
    times, command = int(sys.argv[1]), sys.argv[2:]
    before = found()
    ready = seconds_to_trace(command)
    tracing = 0
    for number in range(times):
        if left := settled(before):
            print(f"left behind by kill {number}: {left}", file=sys.stderr)
            return 1
        with start(command) as tool:
            time.sleep(random.uniform(0, 2 * ready))
            tool.kill()
            assert tool.stderr is not None
            tracing += "Receiving data..." in tool.stderr.read()
    if left := settled(before):
        print(f"left behind by the last kill: {left}", file=sys.stderr)
        return 1
    print(json.dumps({"kills": times, "tracing": tracing, "ready_s": round(ready, 2)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
