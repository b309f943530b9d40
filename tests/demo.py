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
from retsnoop_py.vm import kernels

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


def in_a_vm(trace: list[str]) -> list[str]:
    """The command that does ``trace`` on a kernel in a VM."""
    kernel = kernels.cached(KERNEL)
    lines = os.environ.get("DEBUG_INFO") == "1" or bool(kernel and kernel.vmlinux)
    print(f"This kernel cannot trace functions: booting Linux {KERNEL} in a VM.")
    if not lines:
        print("`DEBUG_INFO=1 make demo` shows source lines too; it fetches some 300 MB for that.")
    options = ["--kernel", KERNEL, *(["--debug-info"] if lines else [])]
    return [str(BIN / "retsnoop-py"), "vm", "run", *options, "--", *trace]


def main() -> int:
    """Run the tool on the failing workload; its exit status."""
    workload = [str(BIN / "python"), "-m", "retsnoop_py.workload", "--quiet", *CASES]
    trace = [str(BIN / "retsnoop-py"), *OPTIONS, "--", *workload]
    if not can_trace():
        trace = in_a_vm(trace)
    print("\n$", shlex.join(trace), flush=True)
    return subprocess.run(trace, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
