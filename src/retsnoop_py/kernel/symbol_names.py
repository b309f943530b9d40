# SPDX-License-Identifier: BSD-2-Clause
"""Names of kernel functions by their beginning, in the time a person waits for a TAB."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["FEWEST", "functions_starting"]

#: Characters below which half the kernel would match.
FEWEST = 2
#: With their module behind a blank or a tab, in brackets.
_TRACEABLE = "sys/kernel/tracing/available_filter_functions"
_SYMBOLS = "proc/kallsyms"
#: The padding before a function, and its type, are symbols of their own; so is its unlikely part,
#: which has ``.cold`` in its name.
_NO_FUNCTIONS = ("__pfx_", "__cfi_")


def functions_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Functions whose names start with ``prefix``, ``NAME`` or ``NAME[MODULE]``, sorted.

    Those that can be traced, where tracefs may be read (root); else all that /proc/kallsyms has.
    None where neither can be read, for fewer than FEWEST characters, and for globs.
    """
    if len(prefix) < FEWEST or not re.fullmatch(r"[\w.]+", prefix):
        return []
    found = _matches(root / _TRACEABLE, rb"\n", prefix)
    if found is None:
        found = _matches(root / _SYMBOLS, rb" [tTwW] ", prefix)
    names = (name for name in found or () if not name.startswith(_NO_FUNCTIONS))
    return sorted(name for name in names if ".cold" not in name)


def _matches(path: Path, before: bytes, prefix: str) -> set[str] | None:
    """What the file's lines name behind ``before``; None if it cannot be read."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    name = re.escape(prefix.encode())
    # it begins with a character and not with a line's start: eight times as fast
    line = re.compile(before + rb"(" + name + rb"[^\s]*)(?:\s\[(\w+)\])?(?=\n)")
    # BPF programs have their names in kallsyms as well
    return {
        name.decode() + (f"[{module.decode()}]" if module else "")
        for name, module in line.findall(b"\n" + text)
        if module != b"bpf"
    }
