# SPDX-License-Identifier: BSD-2-Clause
"""The results of a run in a VM: the command's own exit status, or an error of the VM.

::

    RetsnoopError
    └── VmError
        ├── BootFailed      121   the kernel never came up, or the guest could not be prepared
        ├── KernelCrashed   122   the guest kernel panicked or oopsed while the command ran
        └── VmTimeout       124   the time ran out, as with timeout(1)

A command may also return these statuses itself; the message on stderr distinguishes the two cases.
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
    """The exit status and output of a command.

    ``status`` is the command's exit status, or 128+N after signal N. ``seconds`` is the wall time.
    Output that was passed to a sink is not kept here.
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
    """A failure of the VM, not of the command in the VM.

    ``console`` is the text on the guest's console so far. ``result`` contains the output of the
    command until the failure, if a command was running.
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
    """The guest kernel panicked or oopsed, or QEMU ended."""

    exit_status = CRASHED


class VmTimeout(VmError):
    """The command did not end within its time limit."""

    exit_status = TIMED_OUT


# --- kernel messages of a guest: the crash, other problems -------------------------------------

_CRASH = re.compile(
    r"Kernel panic - not syncing.*|Oops: .*|BUG: .*|kernel BUG at .*|general protection fault.*"
)
_PROBLEM = re.compile(
    r"WARNING: .*|BUG: .*|Oops: .*|kernel BUG at .*|general protection fault.*|UBSAN: .*"
    r"|INFO: task .* blocked.*|.*detected stalls?.*|.*self-detected stall.*|Kernel panic.*"
    r"|unregister_netdevice: waiting.*"
)


def crash_reason(text: str) -> str | None:
    """Return the first line of a kernel log or console that reports a crash, or None."""
    found = _CRASH.search(text)
    return found[0].strip() if found else None


def kernel_problems(text: str) -> list[str]:
    """Return the lines of a kernel log or console that report a kernel bug, without time stamps.

    These are warnings, oopses, stalls and hung tasks. Messages about odd hardware are skipped.
    """
    found = (_PROBLEM.search(line) for line in text.splitlines())
    return [match[0].strip() for match in found if match]


def own_complaint(text: str) -> str | None:
    """Return the last "cannot ..." message of the guest's own scripts, or None."""
    found = re.findall(r"retsnoop-vm: (cannot .*)", text)
    return found[-1].strip() if found else None


def tail(text: str, lines: int = 15) -> str:
    """Return the last ``lines`` lines of ``text``."""
    return "\n".join(text.rstrip().splitlines()[-lines:])
