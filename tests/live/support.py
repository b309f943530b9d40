# SPDX-License-Identifier: BSD-2-Clause
"""Code shared by the live tests: running the tool in a guest and reading its recordings."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from retsnoop_py.errors import DataError
from retsnoop_py.recording.format import FrameKind, decode_end
from retsnoop_py.recording.reader import RecordingFrame, read_frames
from retsnoop_py.recording.replay import read_header
from retsnoop_py.session.collector import Collector
from retsnoop_py.session.model import Session
from retsnoop_py.session.results import error_of
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.vm.command import Command
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine
from retsnoop_py.workload.cases import CASES

PYTHON = sys.executable
#: The command that is tested: RETSNOOP_TOOL names another than the checkout's, an absolute path
#: that ends in retsnoop-py. What is traced is the checkout's, and so is what imports the package.
TOOL = os.environ.get("RETSNOOP_TOOL") or str(Path(sys.executable).parent / "retsnoop-py")
WORKLOAD = (PYTHON, "-m", "retsnoop_py.workload", "--quiet")
PROGRAMS = Path(__file__).parent / "programs"

#: The deepest functions of the workload's cases and their callers: enough to see every chain.
TRACED = sorted({name for case in CASES for outcome in case.outcomes for name in outcome.deepest})
ENTRIES = ("-e", "*_sys_bpf", "-e", "do_sys_openat2", "-e", "*_sys_mount")
ALLOWED = tuple(word for name in TRACED for word in ("-a", name))
SELECTION = (*ENTRIES, *ALLOWED)
#: The number of bpf(2), by architecture.
BPF_NUMBERS = {"x86_64": "321", "arm64": "280"}
#: Few functions, so that kernels without kprobe.multi attach them in a moment.
FEW = ("-e", "*_sys_bpf", "-a", "map_create", "-a", "array_map_alloc_check")


@dataclass(frozen=True, slots=True)
class Recording:
    """A recording read whole; ``stats`` is None if its end is missing."""

    header: StreamHeader
    sessions: list[Session]
    stats: dict[str, int] | None


def read_recording(path: Path, *, cut: bool = False) -> Recording:
    """Every session of the recording at ``path``, as it left the kernel.

    ``cut``: the run was killed, so the end is missing.
    """
    frames = until_the_cut(path) if cut else read_frames(path)
    header = read_header(path, frames)
    collector = Collector(header.functions, header.layouts)
    sessions: list[Session] = []
    stats = None
    for frame in frames:
        if frame.kind == FrameKind.RECORDS:
            sessions += collector.feed(frame.payload)
        elif frame.kind == FrameKind.END:
            stats = dict(decode_end(frame.payload).stats)
    return Recording(header, sessions, stats)


def until_the_cut(path: Path) -> Iterator[RecordingFrame]:
    with pytest.raises(DataError):
        yield from read_frames(path)


def errno_of(session: Session) -> int | None:
    """The error the entry function returned: positive, None for success."""
    first = session.calls[0]
    return error_of(first.function, first.result)


def series(machine: Machine) -> tuple[int, int]:
    """Return the version of the guest's kernel: (6, 12)."""
    major, minor, *_ = machine.release.split(".")
    return int(major), int(minor)


def system_call(machine: Machine, name: str) -> str:
    """The function that the kernel's table of 64-bit system calls has for ``name``."""
    prefix = {"x86_64": "x64"}.get(machine.arch.name, machine.arch.name)
    return f"__{prefix}_sys_{name}"


def call_of_rmdir(machine: Machine) -> str:
    """The system call of rmdir(3): architectures younger than x86 have unlinkat(2) alone."""
    return "rmdir" if machine.arch.name == "x86_64" else "unlinkat"


def call_of_mkdir(machine: Machine) -> str:
    """The system call of mkdir(3); see :func:`call_of_rmdir`."""
    return "mkdir" if machine.arch.name == "x86_64" else "mkdirat"


def trace(machine: Machine, *args: str, timeout: float = 180) -> Result:
    """Run the tool in the guest to its end."""
    return machine.run([TOOL, *args], timeout=timeout)


def start_trace(machine: Machine, *args: str) -> Command:
    """Start the tool in the guest; back when it traces."""
    command = machine.start([TOOL, *args])
    wait_for(lambda: b"Receiving data..." in command.output()[1], command)
    return command


def wait_for(condition: Callable[[], bool], command: Command, timeout: float = 360) -> None:
    """Wait until ``condition`` holds; fail if ``command`` ends or time runs out before."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert command.poll() is None, command.wait(1).err
        assert time.monotonic() < deadline, command.output()
        time.sleep(0.05)


def compiler(machine: Machine) -> list[str]:
    """Return the C compiler for programs of the guest, with its options."""
    if machine.userland is None:
        return ["gcc"]
    return [f"{machine.arch.gnu}-gcc", f"--sysroot={machine.userland.root}"]


def compiled(machine: Machine, name: str, *flags: str) -> Path:
    """The C program ``name``, compiled with more ``flags`` where the guest sees it."""
    binary = machine.share / name
    if not binary.exists():
        source = PROGRAMS / f"{name}.c"
        words = ["-O2", "-Wall", "-Werror", "-pthread", *flags, "-o", str(binary), str(source)]
        subprocess.run([*compiler(machine), *words], check=True)
    return binary
