# SPDX-License-Identifier: BSD-2-Clause
"""All views at once: programs that the verifier takes, and sections in their order."""

from __future__ import annotations

import pytest
from tests.live.support import PROGRAMS, PYTHON, trace

from retsnoop_py.vm.machine import Machine

TRACED = ("-e", "*_sys_ioctl", "-a", "do_vfs_ioctl", "-a", "pipe_ioctl", "-n", "pipe_ioctl")
VIEWS = ("-T", "-E", "-A", "-I", "-S", "-B", "--user-stack", "--debug", "bpf")
PROBES = ("-J", "kprobe:pipe_ioctl", "-J", "rawtp:sys_exit")


def test_all_views_are_shown_together(machine: Machine) -> None:
    assert_all_views(machine)


@pytest.mark.oldest_and_newest
def test_all_views_are_shown_together_by_fentry(machine: Machine) -> None:
    assert_all_views(machine, "-F")


def assert_all_views(machine: Machine, *how: str) -> None:
    program = str(PROGRAMS / "pipe_ioctl.py")
    result = trace(machine, *TRACED, *VIEWS, *PROBES, *how, "--", PYTHON, program, "2")
    assert result.status == 0, result.err
    blocks = result.out.split("\n\n\n")
    hits = [block for block in blocks if "◎ kprobe:pipe_ioctl+0x0" in block]
    assert len(hits) == 2
    assert all("cmd=4660" in block for block in hits)
    final = [block for block in blocks if "← __" in block]
    assert len(final) == 2
    for block in final:
        calls, stack, user = block.split("\n\n")[1:]
        assert " told before ..." in calls
        assert "[-ENOTTY]" in stack
        assert user.startswith("User stack:\n")
