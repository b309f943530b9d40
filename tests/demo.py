# SPDX-License-Identifier: BSD-2-Clause
"""``make demo``: errors of failing bpf() calls and the reason of one, here or in a VM."""

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
#: Time limit in seconds for downloading the debug information, because a demo must be short.
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
    """Return True if this user can trace functions of the running kernel."""
    try:
        facts = KernelFacts()
        return os.geteuid() == 0 and bool(facts.traceable) and bool(facts.btf)
    except RetsnoopError:
        return False


def in_a_vm() -> list[str]:
    """Return a command prefix to run in a VM, with debug information if its download is quick."""
    print(f"This kernel cannot trace functions: Linux {KERNEL} does, in a VM.", flush=True)
    options = ["--on", KERNEL, *(["--debug-info"] if have_debug_info() else [])]
    return [TOOL, "vm", "run", *options, "--"]


def have_debug_info() -> bool:
    """Return True if the debug information is here or can be downloaded quickly."""
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
    """Run the tool with ``words``, in the environment ``around``. Return its exit status."""
    command = [*around, TOOL, *words]
    print("\n$", shlex.join(command), flush=True)
    return subprocess.run(command, check=False).returncode


def main() -> int:
    """Run the tool on the failing workload. Return the exit status of the first failing run."""
    around = [] if can_trace() else in_a_vm()
    print("\nWhich functions failed, of all that have to do with BPF maps and programs:")
    status = show(around, *GLOBS, "--", *WORKLOAD, *CASES)
    print("\nAnd why, with nothing named:")
    return status or show(around, "why", "--", *WORKLOAD, CASES[0])


if __name__ == "__main__":
    sys.exit(main())
