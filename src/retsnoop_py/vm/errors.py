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
