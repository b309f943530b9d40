# SPDX-License-Identifier: BSD-2-Clause
"""/proc/modules: what is loaded, and where."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.value import Value

__all__ = ["Module", "read_modules"]


class Module(Value):
    """A loaded module: the address of its text (0 if hidden) and all its memory in bytes."""

    name: str
    address: int
    size: int


def read_modules(path: Path) -> tuple[Module, ...]:
    """The modules listed in ``path``; none on a kernel without modules."""
    try:
        text = path.read_text(errors="replace")
    except FileNotFoundError:
        return ()
    modules = []
    for line in text.splitlines():
        fields = line.split()
        # name size users dependencies state address [taint]
        if len(fields) >= 6:
            modules.append(Module(fields[0], int(fields[5], 16), int(fields[1])))
    return tuple(modules)
