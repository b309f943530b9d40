# SPDX-License-Identifier: BSD-2-Clause
"""Every way a block of ``retsnoop_py.trace()`` may end, in one process; a line of JSON tells.

``left`` are the BPF objects that are still held behind each block. Run from the checkout with
``python -m tests.live.programs.api``.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import retsnoop_py as rs

#: rmdir(3): architectures younger than x86 have unlinkat(2) alone for it.
CALL = "rmdir" if platform.machine() == "x86_64" else "unlinkat"
EVENTS = {"entry": f"*_sys_{CALL}", "allow": "vfs_rmdir"}
told: dict[str, Any] = {"left": {}}


def fail() -> None:
    with contextlib.suppress(OSError):
        Path("/proc").rmdir()


def held() -> list[str]:
    """The descriptors of this process that hold something in the kernel's BPF."""
    found = []
    for one in Path("/proc/self/fd").iterdir():
        try:
            target = str(one.readlink())
        except FileNotFoundError:
            continue
        if "bpf" in target or "perf_event" in target:
            found.append(target)
    return found


def block_that_stops() -> None:
    with rs.trace(**EVENTS, pid=os.getpid()) as run:
        fail()
        threading.Timer(1.0, run.stop).start()
        sessions = list(run)
    session = sessions[0]
    told["stopped"] = [one.error for one in sessions]
    told["calls"] = [call.function.name for call in session.calls]
    told["who"] = session.pid == os.getpid() and session.thread == session.process != ""
    told["frames"] = sum(row.frame is not None for row in session.stack or ())
    told["took"] = 0 < session.calls[0].duration_ns < session.end_ns - session.start_ns + 1
    told["text"] = rs.render.text(session)
    told["json"] = json.loads(rs.render.json(session))["stack"] != []
    told["losses"], told["status"] = run.losses, run.exit_status
    told["mechanism"], told["functions"] = run.mechanism, [one.name for one in run.functions]


def block_that_raises() -> None:
    try:
        with rs.trace(**EVENTS, command=["sleep", "60"]) as run:
            raise KeyError("mine")
    except KeyError:
        told["raised"] = run.exit_status


def block_with_break() -> None:
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.rsn"
        with rs.trace(**EVENTS, pid=os.getpid(), output=path, on_message=lines.append) as run:
            fail()
            fail()
            for _ in run:
                break
        told["break"] = run.exit_status
        told["recorded"] = [session.error for session in rs.replay(path)]
    told["lines"] = lines


def block_without_loop() -> None:
    with rs.trace(**EVENTS, pid=os.getpid()) as run:
        fail()
    told["no loop"] = run.exit_status


def block_in_a_thread() -> None:
    def work() -> None:
        with rs.trace(**EVENTS, command=["rmdir", "/proc"]) as run:
            told["thread"] = [session.error for session in run]
        told["thread status"] = run.exit_status

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def block_with_ctrl_c() -> None:
    handler = signal.getsignal(signal.SIGINT)
    try:
        with rs.trace(**EVENTS, pid=os.getpid()) as run:
            threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
            for _ in run:
                pass
    except KeyboardInterrupt:
        told["ctrl-c"] = signal.getsignal(signal.SIGINT) is handler


def block_that_handles_signals() -> None:
    handler = signal.getsignal(signal.SIGTERM)
    with rs.trace(**EVENTS, pid=os.getpid(), handle_signals=True) as run:
        fail()
        os.kill(os.getpid(), signal.SIGTERM)
        told["handled"] = [session.error for session in run]
    told["handler is back"] = signal.getsignal(signal.SIGTERM) is handler


def errors() -> None:
    for name, options in (
        ("none", {"entry": "no_such_function"}),
        ("command", {**EVENTS, "command": ["/no/such/program"]}),
    ):
        try:
            with rs.trace(**options):
                pass
        except rs.RetsnoopError as error:
            told[name] = [type(error).__name__, error.exit_status]


for block in (
    block_that_stops,
    block_that_raises,
    block_with_break,
    block_without_loop,
    block_in_a_thread,
    block_with_ctrl_c,
    block_that_handles_signals,
    errors,
):
    block()
    told["left"][block.__name__] = held()
told["sleeps"] = subprocess.run(["pgrep", "-x", "sleep"], check=False).returncode
print(json.dumps(told), file=sys.stdout)
