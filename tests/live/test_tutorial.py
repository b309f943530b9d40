# SPDX-License-Identifier: BSD-2-Clause
"""The tutorial's commands, run as they stand, print what stands below them."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from tests.examples import masked, shown
from tests.live.support import TOOL

from retsnoop_py.vm.kernels import ensure
from retsnoop_py.vm.machine import Machine

#: Where Debian's package of debug information puts it, as `vm run --debug-info` does.
DEBUG = "/usr/lib/debug/boot"


@pytest.mark.one_kernel
def test_the_tutorial_prints_what_it_shows(machine: Machine) -> None:
    page = shown("tutorial.md")
    assert len(page) >= 6, "the page has console blocks"
    vmlinux = ensure("6.12", debug=True).vmlinux
    image = f"{DEBUG}/vmlinux-{machine.release}"
    machine.run(["sh", "-c", f"mkdir -p {DEBUG} && ln -sf {vmlinux} {image}"])
    folder = machine.run(["mktemp", "-d"]).out.strip()
    env = {"PATH": f"/usr/sbin:/usr/bin:/sbin:/bin:{Path(TOOL).parent}"}
    try:
        for command, expected in page:
            argv = ["sh", "-c", f"exec 2>&1; {command}"]
            result = machine.run(argv, env=env, cwd=Path(folder), timeout=400)
            assert masked(result.out) == masked(expected), f"{command}\n{result.out}"
    finally:
        undo = f"umount /tmp/data; rmdir /tmp/data; rm -r {shlex.quote(folder)} {image}"
        machine.run(["sh", "-c", undo])
