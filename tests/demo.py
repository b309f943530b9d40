# SPDX-License-Identifier: BSD-2-Clause
"""``make demo``: errors of failing bpf() calls, and why one fails, on this kernel or in a VM."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts
from retsnoop_py.vm import kernels

BIN = Path(sys.executable).parent
TOOL = str(BIN / "retsnoop-py")
KERNEL = "6.12"
#: How long the debug information may take to come, in seconds; a demo is to be over soon.
PATIENCE = 60
WORKLOAD = (str(BIN / "python"), "-m", "retsnoop_py.workload", "--quiet")
CASES = (
    "bpf-map-key-size-array",
    "bpf-map-too-large",
    "bpf-map-lookup-missing",
    "bpf-prog-rejected",
)
GLOBS = (
    "-e",
    "*_sys_bpf",
    "-a",
    "*map*",
    "-a",
    "bpf_check",
    "-a",
    "do_check*",
    "-a",
    "bpf_prog_load",
)


def can_trace() -> bool:
    """Whether functions of the running kernel can be traced by this user."""
    try:
        facts = KernelFacts()
        return os.geteuid() == 0 and bool(facts.traceable) and bool(facts.btf)
    except RetsnoopError:
        return False


def in_a_vm() -> list[str]:
    """What has a command run on a kernel in a VM, with its debug information if that is quick."""
    print(f"This kernel cannot trace functions: Linux {KERNEL} does, in a VM.", flush=True)
    options = ["--on", KERNEL, *(["--debug-info"] if have_debug_info() else [])]
    return [TOOL, "vm", "run", *options, "--"]


def have_debug_info() -> bool:
    """Whether the kernel's debug information is here, fetched if that is quick."""
    kernel = kernels.cached(KERNEL)
    if kernel is not None and kernel.vmlinux is not None:
        return True
    fetch = [TOOL, "vm", "fetch", KERNEL, "--debug-info"]
    print(f"Fetching it, and 300 MB of debug information if they come within {PATIENCE} s.")
    with subprocess.Popen(fetch, stdout=subprocess.DEVNULL) as fetching:
        try:
            if fetching.wait(PATIENCE) == 0:
                return True
        except subprocess.TimeoutExpired:
            fetching.send_signal(signal.SIGINT)
    print("It takes longer, so there are functions and offsets instead of lines; to have both:")
    print("$", shlex.join(["retsnoop-py", *fetch[1:]]), flush=True)
    return False


def show(around: Sequence[str], *words: str) -> int:
    """Run the tool with ``words``, where ``around`` says; its exit status."""
    command = [*around, TOOL, *words]
    print("\n$", shlex.join(command), flush=True)
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Run the tool on the failing workload; the exit status of what failed first."""
    around = [] if can_trace() else in_a_vm()
    print("\nWhich functions failed, of all that have to do with BPF maps and programs:")
    status = show(around, *GLOBS, "--", *WORKLOAD, *CASES)
    print("\nAnd why, with nothing named:")
    return status or show(around, "why", "--", *WORKLOAD, CASES[0])


if __name__ == "__main__":
    sys.exit(main())
