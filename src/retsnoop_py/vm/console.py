# SPDX-License-Identifier: BSD-2-Clause
"""Reading what a guest kernel wrote: why it died, and what is wrong with it otherwise."""

from __future__ import annotations

import re

__all__ = ["crash_reason", "kernel_problems", "own_complaint", "tail"]

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
