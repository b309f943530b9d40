# SPDX-License-Identifier: BSD-2-Clause
"""Why a function takes no kprobe or trampoline, by what the running kernel lists."""

from __future__ import annotations

import re
from pathlib import Path

from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.facts import KernelFacts

__all__ = ["why_no_kprobe", "why_no_trampoline"]

_MOST_COPIES = 3


def why_no_kprobe(function: str, root: Path = Path("/")) -> str:
    """A sentence about ``function`` on the kernel whose files are below ``root``; empty if none."""
    facts = KernelFacts(root)
    try:
        there = facts.kallsyms.named(function)
        if not there:
            return _missing(function, root)
        if all(facts.kprobe_blacklist.covers(one.address) for one in there):
            return (
                f"{function} is there, and on the kernel's list of functions closed to kprobes"
                " (NOKPROBE_SYMBOL, __kprobes, entry code)."
            )
        if len(there) > 1:
            return (
                f"{len(there)} functions are called {function}, and since Linux 6.7 the kernel"
                " refuses to choose (EADDRNOTAVAIL)."
            )
        if not facts.traceable.contains(function):
            return (
                f"{function} is there, but ftrace has no hook in it (notrace, or a file compiled"
                " without): kernels without CONFIG_KPROBE_EVENTS_ON_NOTRACE refuse kprobes there."
            )
    except RetsnoopError:
        pass  # what the kernel does not show decides nothing
    return ""


def why_no_trampoline(function: str, root: Path = Path("/")) -> str:
    """A sentence about ``function``, which has BTF and takes no fentry; empty if none."""
    facts = KernelFacts(root)
    try:
        there = facts.kallsyms.named(function)
        if not there:
            return _missing(function, root)
        if not facts.traceable.contains(function):
            return f"{function} is there, and ftrace has no hook in it."
        if len(there) > 1:
            return f"{len(there)} functions are called {function}, and the kernel took one of them."
    except RetsnoopError:
        pass
    return ""


def _missing(function: str, root: Path) -> str:
    """Copies that the compiler made of it have its name and more: ``vfs_read.isra.0``."""
    pattern = re.compile(rf" [tTwW] ({re.escape(function)}\.[\w.]+)")
    try:
        found = pattern.findall((root / "proc/kallsyms").read_text(errors="replace"))
    except OSError:
        return ""
    copies = list(dict.fromkeys(found))[:_MOST_COPIES]
    if copies:
        return f"This kernel has {' and '.join(copies)}, which the compiler made of it."
    return f"This kernel has nothing that is called {function}: no symbol, and no copy of one."
