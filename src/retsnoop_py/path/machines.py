# SPDX-License-Identifier: BSD-2-Clause
"""The supported architectures. Each imports Capstone, so only the requested one is loaded."""

from __future__ import annotations

from retsnoop_py.errors import UnavailableError
from retsnoop_py.path.insn import Machine

__all__ = ["machine_named"]


def machine_named(name: str) -> Machine:
    """Return the machine that ``uname -m`` calls ``name``. Raises UnavailableError for others."""
    if name == "x86_64":
        from retsnoop_py.path.x86 import X86_64

        return X86_64
    if name == "aarch64":
        from retsnoop_py.path.arm64 import ARM64

        return ARM64
    raise UnavailableError(f"machine code of {name} is not understood yet")
