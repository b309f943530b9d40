# SPDX-License-Identifier: BSD-2-Clause
"""What the live tests share: running the tool in a guest and reading what it recorded."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.errno import ERRNO_NAMES
from retsnoop_py.recording.format import FrameKind, decode_end
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.recording.replay import read_facts
from retsnoop_py.render.result import signed_result
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.facts import StreamFacts
from retsnoop_py.session.model import Session
from retsnoop_py.vm.command import Result
from retsnoop_py.vm.machine import Machine
from retsnoop_py.workload.cases import CASES

PYTHON = sys.executable
TOOL = str(Path(sys.executable).parent / "retsnoop-py")
WORKLOAD = (PYTHON, "-m", "retsnoop_py.workload", "--quiet")

#: What the workload's cases can end in, and what calls that: enough to see every chain.
TRACED = tuple(
    sorted({name for case in CASES for outcome in case.outcomes for name in outcome.deepest})
)
ENTRIES = ("-e", "*_sys_bpf", "-e", "do_sys_openat2", "-e", "*_sys_mount")
ALLOWED = tuple(word for name in TRACED for word in ("-a", name))
SELECTION = (*ENTRIES, *ALLOWED)


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording read whole; ``stats`` is None if its end is missing."""

    facts: StreamFacts
    sessions: list[Session]
    stats: dict[str, int] | None


def read_recording(path: Path) -> Recording:
    """Every session of the recording at ``path``, as it left the kernel."""
    frames = read_frames(path)
    facts = read_facts(path, frames)
    collector = Collector(facts.functions, facts.layouts)
    sessions: list[Session] = []
    stats = None
    for frame in frames:
        if frame.kind == FrameKind.RECORDS:
            sessions += collector.feed(frame.payload)
        elif frame.kind == FrameKind.END:
            stats = dict(decode_end(frame.payload).stats)
    return Recording(facts, sessions, stats)


def trace(machine: Machine, *args: str, timeout: float = 180) -> Result:
    """Run the tool in the guest to its end."""
    return machine.run([TOOL, *args], timeout=timeout)
