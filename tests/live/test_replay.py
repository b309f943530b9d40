# SPDX-License-Identifier: BSD-2-Clause
"""A recording replays into the bytes the live run printed, in the guest and on the host."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from tests.live.support import SELECTION, TOOL, WORKLOAD, trace

from retsnoop_py.vm.machine import Machine

pytestmark = pytest.mark.one_kernel

GOLDEN = Path(__file__).parents[1] / "golden"
VIEWS = {
    "plain": (),
    "addresses": ("-C", "stacks.emit-addrs=y", "-C", "stacks.unfiltered=y"),
    "success": ("-S", "-n", "python", "-n", "python3", "-n", "python3.11"),
    "filtered": ("-x", "EINVAL", "-X", "ENOENT", "-C", "stacks.dec-offs=y"),
}


def replay(path: Path, *options: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [TOOL, "replay", str(path), *options], capture_output=True, check=False, timeout=60
    )


@pytest.mark.parametrize("view", VIEWS)
def test_replay_prints_what_the_live_run_printed(view: str, machine: Machine) -> None:
    path = machine.share / f"{view}.rsn"
    live = trace(machine, *SELECTION, *VIEWS[view], "-o", str(path), "--", *WORKLOAD, "--all")
    assert live.status == 0, live.err
    assert live.stdout
    again = trace(machine, "replay", str(path))
    assert again.status == 0, again.err
    assert again.stdout == live.stdout
    elsewhere = replay(path)
    assert elsewhere.returncode == 0, elsewhere.stderr
    assert elsewhere.stdout == live.stdout


@pytest.mark.parametrize("stem", ["6.12-args", "6.12-calls", "6.12-user", "arm64-7.2-args"])
def test_a_recording_of_another_machine_replays_to_the_same_bytes(
    stem: str, machine: Machine
) -> None:
    """A recording of one architecture is read on another."""
    again = trace(machine, "replay", str(GOLDEN / f"{stem}.rsn"))
    assert again.status == 0, again.err
    assert again.stdout == (GOLDEN / f"{stem}.txt").read_bytes()


def test_damage_gives_one_error_and_everything_before_it(machine: Machine) -> None:
    path = machine.share / "whole.rsn"
    live = trace(machine, *SELECTION, "-o", str(path), "--", *WORKLOAD, "--all")
    data = path.read_bytes()
    cut = machine.share / "cut.rsn"
    cut.write_bytes(data[:-20])
    result = replay(cut)
    assert result.returncode == 65
    assert result.stdout == live.stdout
    closing, *error = result.stderr.decode().splitlines()
    assert closing.endswith(" printed."), "what could be read is counted"
    assert 1 <= len(error) <= 2
    flipped = machine.share / "flipped.rsn"
    flipped.write_bytes(
        data[: len(data) // 2] + bytes([data[len(data) // 2] ^ 1]) + data[len(data) // 2 + 1 :]
    )
    result = replay(flipped)
    assert result.returncode == 65
    assert live.stdout.startswith(result.stdout)
    assert b"damaged" in result.stderr


def test_a_full_disk_ends_the_recording_and_not_the_trace(machine: Machine) -> None:
    script = 'mkdir -p /mnt && mount -t tmpfs -o size=4k none /mnt && exec "$@"'
    command = [TOOL, *SELECTION, "-o", "/mnt/small.rsn", "--", *WORKLOAD, "--all"]
    result = machine.run(["sh", "-c", script, "sh", *command])
    assert result.status == 74, result.err
    assert "No space left on device" in result.err
    assert result.out.count(" TID/PID ") >= 14
    machine.run(["umount", "/mnt"])
