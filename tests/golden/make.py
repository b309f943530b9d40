# SPDX-License-Identifier: BSD-2-Clause
"""Make the golden recordings anew: ``python tests/golden/make.py [KERNEL...] [RECORDING...]``.

Each is a part of the workload on a real kernel, recorded while it ran live; the text of the same
name is what that run printed. The other texts are replays of it with options, to be read before
they are committed. Without names of recordings all are made; ``all`` is that of the whole workload.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent.parent))

from tests.golden.views import KERNELS, RECORDINGS, VIEWS, replay_text, stem  # noqa: E402
from tests.live.support import WORKLOAD, trace  # noqa: E402

from retsnoop_py.vm.machine import Machine  # noqa: E402


def record(machine: Machine, kernel: str, name: str) -> None:
    """Make one recording on a booted kernel."""
    options, cases = RECORDINGS[name]
    path = machine.share / "golden.rsn"
    live = trace(machine, *options, "-o", str(path), "--", *WORKLOAD, *cases)
    if live.status:
        sys.exit(live.err)
    (HERE / f"{stem(kernel, name)}.rsn").write_bytes(path.read_bytes())
    (HERE / f"{stem(kernel, name)}.txt").write_bytes(live.stdout)


def main() -> None:
    """Record and render."""
    os.environ["TZ"] = "UTC"
    words = ["" if word == "all" else word for word in sys.argv[1:]]
    names = [word for word in words if word in RECORDINGS] or list(RECORDINGS)
    for kernel in [word for word in words if word not in RECORDINGS] or KERNELS:
        with Machine(kernel, debug=kernel == "6.12") as machine:
            for name in names:
                record(machine, kernel, name)
        for (name, view), options in VIEWS.items():
            if name in names:
                text = replay_text(HERE / f"{stem(kernel, name)}.rsn", options)
                (HERE / f"{stem(kernel, name, view)}.txt").write_text(text)


if __name__ == "__main__":
    main()
