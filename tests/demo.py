# SPDX-License-Identifier: BSD-2-Clause
"""``make demo``: catch the errors of failing bpf() calls, on this kernel or on one in a VM."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts

BIN = Path(sys.executable).parent
KERNEL = "6.12"
CASES = (
    "bpf-map-key-size-array",
    "bpf-map-too-large",
    "bpf-map-lookup-missing",
    "bpf-prog-rejected",
)
OPTIONS = (
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


def main() -> int:
    """Run the tool on the failing workload; its exit status."""
    workload = [str(BIN / "python"), "-m", "retsnoop_py.workload", "--quiet", *CASES]
    trace = [str(BIN / "retsnoop-py"), *OPTIONS, "-n", "python", "--", *workload]
    if not can_trace():
        print(f"This kernel cannot trace functions: booting Linux {KERNEL} in a VM.\n")
        trace = [str(BIN / "retsnoop-py"), "vm", "run", "--kernel", KERNEL, "--", *trace]
    print("$", shlex.join(trace), flush=True)
    return subprocess.run(trace, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
