# SPDX-License-Identifier: BSD-2-Clause
"""The native part with typed Python wrappers: libbpf's objects and the project's own C code.

No other package calls the extension. Each object owns its handle. A failing call raises an
exception with errno and the log, or returns the errno if its caller decides what to do.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from retsnoop_py.errors import UnavailableError

__all__ = ["unloadable"]

#: Machine names of uname, by ``e_machine`` of an ELF file (elf.h).
_MACHINES = {62: "x86_64", 183: "aarch64"}

#: Messages of the dynamic loader about a glibc that is too old or missing.
_NEWER_GLIBC = re.compile(r"version `GLIBC_[\d.]+' not found|libc\.so\.6: No such file")


def unloadable(error: ImportError) -> UnavailableError:
    """Return the error for an extension that cannot be imported, with the reason and advice."""
    machine, here = _machine_of(error.path), os.uname().machine
    if machine not in (None, here):
        return UnavailableError(
            f"this retsnoop-py is for {machine}, and this machine is {here}",
            f"install the wheel, the package or the executable for {here}",
        )
    if _NEWER_GLIBC.search(str(error)):
        return UnavailableError(
            f"this retsnoop-py requires a later C library than this machine has: {error}",
            f"the wheel requires glibc 2.28; the executable retsnoop-py-{here} needs none",
        )
    return UnavailableError(
        f"the native part of retsnoop-py cannot be loaded: {error}",
        "run `make build`, or reinstall the package",
    )


def _machine_of(path: str | None) -> str | None:
    """Return the machine of the ELF file at ``path``, or None."""
    try:
        head = Path(path or "").read_bytes()[:20]
    except OSError:
        return None
    if len(head) < 20 or head[:4] != b"\x7fELF":
        return None
    number = int.from_bytes(head[18:20], "little" if head[5] == 1 else "big")
    return _MACHINES.get(number, f"another machine (ELF {number})")
