# SPDX-License-Identifier: BSD-2-Clause
"""Sessions reported while they go on: failures that would be forgotten, hits of probes."""

from __future__ import annotations

import errno
import re
from collections import Counter

import pytest
from tests.live.support import PROGRAMS, PYTHON, Recording, errno_of, read_recording, trace

from retsnoop_py.session.model import Session, SessionKind
from retsnoop_py.session.results import error_of
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

CALLS = 13
#: The kernel's own stack at the same place, without the tool.
OWN_STACK = """
cd /sys/kernel/tracing
echo 'p:rsn_check {place}' > kprobe_events
echo stacktrace > events/kprobes/rsn_check/trigger
{command} 1
cat trace
echo '!stacktrace' > events/kprobes/rsn_check/trigger
echo > kprobe_events
echo > trace
"""
TRACED = ("-e", "*_sys_ioctl", "-a", "do_vfs_ioctl", "-a", "pipe_ioctl", "-n", "pipe_ioctl")
#: The list of ordinary results has the error of do_vfs_ioctl() for unknown requests.
VIEWS = ("-I", "-J", "kprobe:pipe_ioctl", "-T", "-E", "-Sn", "-C", "results.ordinary=n")
ENOIOCTLCMD = 515


@pytest.fixture(scope="module")
def run(machine: Machine) -> tuple[Result, Recording]:
    """Failures that are followed by others, and a probe."""
    path = machine.share / "interim.rsn"
    program = str(PROGRAMS / "pipe_ioctl.py")
    result = trace(machine, *TRACED, *VIEWS, "-o", str(path), "--", PYTHON, program, str(CALLS))
    assert result.status == 0, result.err
    return result, read_recording(path)


def names(session: Session) -> list[str]:
    return [call.function.name for call in session.calls[1:]]


def of_kind(recording: Recording, kind: SessionKind, *callees: str) -> list[Session]:
    """Return the reports of a kind with the entry function and then ``callees`` as stack."""
    return [s for s in recording.sessions if s.kind is kind and names(s) == list(callees)]


def test_failures_that_would_be_forgotten_are_reported_as_they_were(
    run: tuple[Result, Recording],
) -> None:
    stitches = of_kind(run[1], SessionKind.STITCH, "do_vfs_ioctl")
    assert len(stitches) == CALLS
    for session in stitches:
        assert [call.finished for call in session.calls] == [False, True]
        assert error_of(session.calls[1].function, session.calls[1].result) == ENOIOCTLCMD
        assert session.kstack


def test_the_final_reports_are_there_as_well(run: tuple[Result, Recording]) -> None:
    finals = of_kind(run[1], SessionKind.FINAL, "pipe_ioctl")
    assert len(finals) == CALLS
    assert {errno_of(session) for session in finals} == {errno.ENOTTY}
    starts = Counter(session.start_ns for session in run[1].sessions)
    # the hit of the probe, what would be forgotten, and the end
    assert {starts[session.start_ns] for session in finals} == {3}


def test_hits_of_a_probe_are_reported_with_the_stack_of_that_moment(
    machine: Machine, run: tuple[Result, Recording]
) -> None:
    hits = of_kind(run[1], SessionKind.PROBE, "pipe_ioctl")
    assert len(hits) == CALLS
    assert not any(call.finished for session in hits for call in session.calls)
    pipe_ioctl = hits[0].calls[1].function.address
    # on arm64 it lies behind what makes the function's frame: docs/known-issues.md
    most = 16 if machine.arch.name == "x86_64" else 64
    for session in hits:
        assert 0 <= session.kstack[0] - pipe_ioctl < most
        assert len(session.kstack) >= 3, "the callers are there as well"


def test_the_stack_at_a_hit_is_the_one_the_kernel_shows_there(
    machine: Machine, run: tuple[Result, Recording]
) -> None:
    command = f"{PYTHON} {PROGRAMS / 'pipe_ioctl.py'}"
    # on arm64 the probe at the entry lies behind the prologue, as the stack says
    where = r"\.\.\. \[\.\.\.\]  " if machine.arch.name == "arm64" else "◎ kprobe:"
    [place] = set(re.findall(rf"{where}(pipe_ioctl\+0x[0-9a-f]+)", run[0].out))
    traced = machine.run(["sh", "-ec", OWN_STACK.format(command=command, place=place)])
    assert traced.status == 0, traced.err
    *_, last = traced.out.split("<stack trace>")
    own = re.findall(r"^ => ([\w.]+)", last, re.M)
    own = own[own.index("pipe_ioctl") :]
    blocks = [block for block in run[0].out.split("\n\n\n") if "◎" in block]
    hits = [block for block in blocks if "← pipe_ioctl" not in block]
    assert len(hits) == CALLS
    for block in hits:
        *_, stack = block.split("\n\n")
        assert re.findall(r"([\w.]+)\+0x", stack) == own[::-1]
        running = re.findall(r"^ +\.\.\. \[\.\.\.\]  ([\w.]+)", stack, re.M)
        assert running == [name for name in own[::-1] if name.endswith(("sys_ioctl", "pipe_ioctl"))]


def test_a_report_shows_the_trace_up_to_its_moment(run: tuple[Result, Recording]) -> None:
    blocks = run[0].out.split("\n\n\n")
    hits = [block for block in blocks if "◎" in block and "← pipe_ioctl" not in block]
    assert len(hits) == CALLS
    assert all("... [...]" in block for block in hits)
    earlier = [block for block in blocks if "... [...]" in block and " pipe_ioctl" not in block]
    assert len(earlier) == CALLS
    assert all("[-ENOIOCTLCMD]" in block for block in earlier)


def test_a_replay_shows_the_same(machine: Machine, run: tuple[Result, Recording]) -> None:
    path = machine.share / "interim.rsn"
    assert trace(machine, "replay", str(path)).stdout == run[0].stdout
