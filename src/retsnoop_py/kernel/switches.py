# SPDX-License-Identifier: BSD-2-Clause
"""Settings of a running kernel that disable probes or BPF features although they still attach."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.errors import UnavailableError
from retsnoop_py.value import Value

__all__ = ["FTRACE", "JIT", "KPROBES", "Switch"]


class Switch(Value):
    """A file that holds ``0`` while something is disabled.

    ``path`` is below the root, ``off`` describes the disabled state and its effect, ``command``
    enables it again.
    """

    path: Path
    off: str
    command: str

    def is_off(self, root: Path) -> bool:
        """Return True if the file below ``root`` contains 0; False if it cannot be read."""
        try:
            return (root / self.path).read_text().strip() == "0"
        except OSError:
            return False

    def require(self, root: Path, what: str) -> None:
        """Raise UnavailableError with the command if the switch is off; ``what`` needs it."""
        if self.is_off(root):
            raise UnavailableError(f"{what}: {self.off}", f"run `{self.command}`")


#: All of ftrace. If a kprobe.multi link was created while ftrace is off, closing it breaks ftrace
#: in 6.12 and 7.2 until the next boot.
FTRACE = Switch(
    Path("proc/sys/kernel/ftrace_enabled"),
    "kernel.ftrace_enabled is 0, so the kernel calls no function hook",
    "sysctl kernel.ftrace_enabled=1",
)
#: All kprobes, including those inside functions.
KPROBES = Switch(
    Path("sys/kernel/debug/kprobes/enabled"),
    "/sys/kernel/debug/kprobes/enabled is 0, so no kprobe fires",
    "echo 1 > /sys/kernel/debug/kprobes/enabled",
)
#: The compiler of BPF programs. Without it programs are interpreted and cannot call kernel
#: functions.
JIT = Switch(
    Path("proc/sys/net/core/bpf_jit_enable"),
    "net.core.bpf_jit_enable is 0, so BPF programs cannot call kernel functions (kfuncs)",
    "sysctl net.core.bpf_jit_enable=1",
)
