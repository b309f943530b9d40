# SPDX-License-Identifier: BSD-2-Clause
"""Make the golden recordings anew: ``python tests/golden/make.py [KERNEL...]``.

Each is the workload on a real kernel, recorded while it ran live; KERNEL.txt is what that run
printed. The other texts are replays of it with options, to be read before they are committed.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.golden.views import KERNELS, VIEWS, replay_text  # noqa: E402
from tests.live.support import ALLOWED, WORKLOAD, trace  # noqa: E402

from retsnoop_py.vm.machine import Machine  # noqa: E402

#: Not openat(2): Python itself opens hundreds of files.
ENTRIES = ("-e", "*_sys_bpf", "-e", "*_sys_mount", "-e", "*_sys_nanosleep")


def record(kernel: str) -> None:
    """Record the workload on ``kernel``."""
    with Machine(kernel, debug=kernel == "6.12") as machine:
        path = machine.share / "golden.rsn"
        live = trace(machine, *ENTRIES, *ALLOWED, "-S", "-o", str(path), "--", *WORKLOAD, "--all")
        if live.status:
            sys.exit(live.err)
        (HERE / f"{kernel}.rsn").write_bytes(path.read_bytes())
        (HERE / f"{kernel}.txt").write_bytes(live.stdout)


def main() -> None:
    """Record and render."""
    os.environ["TZ"] = "UTC"
    for kernel in sys.argv[1:] or KERNELS:
        record(kernel)
        for view, options in VIEWS.items():
            text = replay_text(HERE / f"{kernel}.rsn", options)
            (HERE / f"{kernel}-{view}.txt").write_text(text)


if __name__ == "__main__":
    main()
