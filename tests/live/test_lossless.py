# SPDX-License-Identifier: BSD-2-Clause
"""Every session is reported or counted: many threads, many processes, many calls a second."""

from __future__ import annotations

import errno
import signal
from collections import Counter
from itertools import pairwise

import pytest
from tests.live.support import FEW, PROGRAMS, PYTHON, compiled, errno_of, read_recording, trace

from retsnoop_py.session.model import SessionKind
from retsnoop_py.vm.machine import Machine

#: A command that keeps who traces it from running, and so from reading, while CMD runs.
UNREAD = ("sh", "-c", 'kill -STOP $PPID; "$@"; kill -CONT $PPID', "sh")


def test_eight_threads_are_all_reported_once_and_not_mixed_up(machine: Machine) -> None:
    path = machine.share / "threads.rsn"
    burst = str(compiled(machine, "burst"))
    assert trace(machine, *FEW, "-o", str(path), "--", burst, "8", "125").status == 0
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    counts = Counter(session.tid for session in recording.sessions)
    assert sorted(counts.values()) == [125] * 8
    assert len({(s.tid, s.start_ns) for s in recording.sessions}) == 1000
    shapes = Counter(tuple(c.function.name for c in s.calls) for s in recording.sessions)
    assert len(shapes) == 1, shapes
    assert {errno_of(session) for session in recording.sessions} == {errno.EINVAL}
    for tid in counts:
        mine = [session for session in recording.sessions if session.tid == tid]
        assert all(a.emit_ns <= b.start_ns for a, b in pairwise(mine))


def test_a_burst_of_ten_thousand_sessions_is_reported_whole(machine: Machine) -> None:
    path = machine.share / "burst.rsn"
    burst = str(compiled(machine, "burst"))
    options = ("-T", "-S", *FEW, "-o", str(path))
    result = trace(machine, *options, "--", burst, "1", "10000")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    assert not any(recording.stats.values()), recording.stats
    assert len(recording.sessions) == 10_000
    for session in recording.sessions:
        assert session.events.seqs == tuple(range(1, session.last_seq + 1))
    assert result.out.count(" TID/PID ") == 10_000
    assert " ... missing " not in result.out


def test_a_ring_that_is_too_small_loses_sessions_and_says_how_many(machine: Machine) -> None:
    path = machine.share / "small.rsn"
    burst = str(compiled(machine, "burst"))
    options = (*FEW, "-C", "bpf.ringbuf-size=4096", "-o", str(path))
    result = trace(machine, *options, "--", *UNREAD, burst, "2", "5000")
    recording = read_recording(path)
    assert recording.stats is not None
    lost = recording.stats["sessions_dropped"]
    assert lost
    assert len(recording.sessions) + lost == 10_000
    assert f"DROPPED SAMPLES:     {lost}" in result.err


@pytest.mark.one_kernel
def test_reports_of_calls_that_went_on_and_succeeded_are_shown_or_counted(
    machine: Machine,
) -> None:
    path = machine.share / "interims.rsn"
    burst = str(compiled(machine, "burst"))
    entry = ("-e", "bpf_check_uarg_tail_zero", "-n", "burst")
    probe = ("-I", "-J", "kprobe:bpf_check_uarg_tail_zero", "-C", "bpf.ringbuf-size=4096")
    result = trace(machine, *entry, *probe, "-o", str(path), "--", *UNREAD, burst, "1", "5000")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    lost = recording.stats.pop("interims_dropped")
    assert not any(recording.stats.values()), recording.stats
    assert {session.kind for session in recording.sessions} == {SessionKind.PROBE}
    assert lost
    assert len(recording.sessions) + lost == 5000
    assert f"DROPPED REPORTS:     {lost}" in result.err


def test_a_command_tree_is_followed_completely_and_nobody_else_is(machine: Machine) -> None:
    path = machine.share / "tree.rsn"
    tree = [PYTHON, str(PROGRAMS / "tree.py")]
    stranger = machine.start(["sh", "-c", f"while :; do {PYTHON} {tree[1]} stranger; done"])
    result = trace(machine, *FEW, "-o", str(path), "--", *tree)
    stranger.send_signal(signal.SIGKILL)
    assert result.status == 0, result.err
    failed = Counter(int(line) for line in result.out.splitlines() if line.isdecimal())
    assert len(failed) == 23
    recording = read_recording(path)
    assert Counter(session.tgid for session in recording.sessions) == failed


def test_sleepers_beyond_what_the_kernel_can_hook_are_counted(machine: Machine) -> None:
    """A single kretprobe hooks some ten calls at a time; the others' sessions cannot end."""
    path = machine.share / "sleepers.rsn"
    sleepers = str(compiled(machine, "sleepers"))
    options = ("-K", "-e", "*_sys_nanosleep", "-S", "-o", str(path))
    result = trace(machine, *options, "--", sleepers, "41")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    whole = [session for session in recording.sessions if not session.died]
    missed = recording.stats["sessions_abandoned"] + len(recording.sessions) - len(whole)
    assert len(whole) + missed == 41
    assert "exited inside" not in result.err
    assert whole
    assert len({session.tid for session in whole}) == len(whole)


def test_sessions_beyond_the_table_are_counted_and_the_others_whole(machine: Machine) -> None:
    path = machine.share / "table.rsn"
    sleepers = str(compiled(machine, "sleepers"))
    options = ("-C", "bpf.sessions-size=12", "-e", "*_sys_nanosleep", "-S", "-o", str(path))
    result = trace(machine, *options, "--", sleepers, "100")
    assert result.status == 0, result.err
    recording = read_recording(path)
    assert recording.stats is not None
    stats = recording.stats
    whole = [session for session in recording.sessions if not session.died]
    unhooked = stats["sessions_abandoned"] + len(recording.sessions) - len(whole)
    assert len(whole) + stats["sessions_unstarted"] + unhooked == 100, stats
    assert len({session.tid for session in whole}) == len(whole)
    assert len(whole) + unhooked >= 12
    if stats["sessions_unstarted"]:
        assert f"MISSED SAMPLES:      {stats['sessions_unstarted']}" in result.err
