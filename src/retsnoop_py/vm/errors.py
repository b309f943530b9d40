# SPDX-License-Identifier: BSD-2-Clause
"""How a run in a VM can end: with the command's own exit status, and in other ways.

::

    RetsnoopError
    └── VmError
        ├── BootFailed      121   the kernel never came up, or the guest could not be prepared
        ├── KernelCrashed   122   the guest kernel panicked or oopsed while the command ran
        └── VmTimeout       124   the time ran out, as with timeout(1)

A command may end with one of these by itself; the message on stderr tells the difference.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from retsnoop_py.errors import RetsnoopError

__all__ = [
    "BOOT_FAILED",
    "CRASHED",
    "TIMED_OUT",
    "BootFailed",
    "KernelCrashed",
    "Result",
    "VmError",
    "VmTimeout",
    "crash_reason",
    "kernel_problems",
    "own_complaint",
    "tail",
]

BOOT_FAILED = 121
CRASHED = 122
TIMED_OUT = 124


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. ``status`` is its own, 128+N after signal N; ``seconds`` wall time.

    Output that was passed to a sink as it came is not kept here.
    """

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def out(self) -> str:
        """stdout as text."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")


class VmError(RetsnoopError):
    """The VM, not the command in it, is why this ended.

    ``console`` is what the guest kernel wrote so far; ``result`` what the command had written
    until then, if one was running.
    """

    def __init__(
        self,
        message: str,
        hint: str | None = None,
        console: str = "",
        result: Result | None = None,
    ) -> None:
        super().__init__(message, hint)
        self.console = console
        self.result = result


class BootFailed(VmError):
    """The guest did not come up."""

    exit_status = BOOT_FAILED


class KernelCrashed(VmError):
    """The guest kernel panicked, oopsed, or QEMU ended under it."""

    exit_status = CRASHED


class VmTimeout(VmError):
    """The command did not end in the time it was given."""

    exit_status = TIMED_OUT


# --- what a guest kernel wrote: why it died, what else is wrong ---------------------------------

_CRASH = re.compile(
    r"Kernel panic - not syncing.*|Oops: .*|BUG: .*|kernel BUG at .*|general protection fault.*"
)
_PROBLEM = re.compile(
    r"WARNING: .*|BUG: .*|Oops: .*|kernel BUG at .*|general protection fault.*|UBSAN: .*"
    r"|INFO: task .* blocked.*|.*detected stalls?.*|.*self-detected stall.*|Kernel panic.*"
    r"|unregister_netdevice: waiting.*"
)


def crash_reason(text: str) -> str | None:
    """The first line of a kernel log or console that tells of the kernel's end, if there is one."""
    found = _CRASH.search(text)
    return found[0].strip() if found else None


def kernel_problems(text: str) -> list[str]:
    """The lines of a kernel log or console that tell of a bug in the kernel, without time stamps.

    Warnings, oopses, stalls, hung tasks; not what a kernel says about odd hardware.
    """
    found = (_PROBLEM.search(line) for line in text.splitlines())
    return [match[0].strip() for match in found if match]


def own_complaint(text: str) -> str | None:
    """What the guest's own scripts could not do, if they said so."""
    found = re.findall(r"retsnoop-vm: (cannot .*)", text)
    return found[-1].strip() if found else None


def tail(text: str, lines: int = 15) -> str:
    """The last ``lines`` lines of ``text``."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
