# SPDX-License-Identifier: BSD-2-Clause
"""What is told at exit."""

from __future__ import annotations

from tests.unit.session.records import LAYOUTS

from retsnoop_py.session.losses import loss_summary
from retsnoop_py.settings import BpfSettings

BPF = BpfSettings(ringbuf_size=8 << 20, sessions_size=4096)
READER = ("lost_kernel", "lost_memory")


def test_nothing_is_told_when_nothing_is_missing() -> None:
    assert loss_summary({}, BPF) == []
    assert loss_summary({"sessions_dropped": 0}, BPF) == []


def test_each_loss_comes_with_the_next_step() -> None:
    assert loss_summary({"sessions_dropped": 12, "sessions_unstarted": 3}, BPF) == [
        "WARNING! There were dropped or incomplete data. Output might be incomplete!",
        "DROPPED SAMPLES:     12  the buffer was full: try -C bpf.ringbuf-size=16777216",
        "MISSED SAMPLES:      3  too many at the same time: try -C bpf.sessions-size=8192",
    ]


def test_every_counter_of_the_kernel_side_and_of_the_reader_has_a_text() -> None:
    (stats,) = (layout for layout in LAYOUTS if layout.name == "rsn_stats")
    counters = [member.name for member in stats.members] + list(READER)
    lines = loss_summary(dict.fromkeys(counters, 1), BPF)

    assert len(lines) == 1 + len(counters)
    assert not any(name in line for name in counters for line in lines)


def test_threads_that_exited_are_no_loss() -> None:
    assert loss_summary({"sessions_died": 2}, BPF) == [
        "NOTE: 2 threads exited inside a traced call."
    ]


def test_calls_of_tracing_itself_are_left_out_and_told() -> None:
    (line,) = loss_summary({"calls_skipped": 3}, BPF)

    assert line.startswith("NOTE: 3 calls of tracing itself or of interrupts")


def test_stacks_without_kernel_frames_are_explained() -> None:
    (line,) = loss_summary({"bare_stacks": 1}, BPF)

    assert line.startswith("NOTE: 1 stack without kernel frames")


def test_an_unknown_counter_is_told_by_its_name() -> None:
    assert loss_summary({"flux": 2}, BPF)[1] == "flux:                2"
