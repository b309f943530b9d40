# SPDX-License-Identifier: BSD-2-Clause
"""Calls that kprobes and kretprobes did not see, in words."""

from __future__ import annotations

from collections.abc import Iterator

from retsnoop_py.attach.plan import Miss
from retsnoop_py.kernel.functions import Function

_NESTED = "they came while another probe was being handled"
_NO_HOOK = "too many were running at a time for the kernel to hook their returns"


def misses_of(function: Function, entries: int, returns: int) -> Iterator[Miss]:
    """What the kernel's counts of missed entry and return probes of ``function`` mean.

    A call that comes while a probe is being handled is counted on both sides, one for whose
    return there is no hook left (maxactive) on the return's alone.
    """
    if entries:
        yield Miss(function, entries, _NESTED)
    if returns > entries:
        yield Miss(function, returns - entries, _NO_HOOK)
