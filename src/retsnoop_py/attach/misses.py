# SPDX-License-Identifier: BSD-2-Clause
"""Calls that kprobes and kretprobes did not see, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from retsnoop_py.attach.plan import Miss
from retsnoop_py.kernel.functions import Function
from retsnoop_py.value import replace

_NESTED = "they came while another probe was being handled"
_NO_HOOK = "too many were running at a time for the kernel to hook their returns"


def since(misses: Sequence[Miss], before: Sequence[Miss]) -> list[Miss]:
    """Of ``misses`` those that were not counted ``before`` already."""
    old: Counter[tuple[Function | None, str]] = Counter()
    for miss in before:
        old[miss.function, miss.what] += miss.count
    new = []
    for miss in misses:
        known = min(old[miss.function, miss.what], miss.count)
        old[miss.function, miss.what] -= known
        if miss.count > known:
            new.append(replace(miss, count=miss.count - known))
    return new


def misses_of(function: Function, entries: int, returns: int) -> Iterator[Miss]:
    """What the kernel's counts of missed entry and return probes of ``function`` mean.

    A call that comes while a probe is being handled is counted on both sides: it is one of
    tracing itself or of an interrupt, never of the thread that was traced. One for whose return
    there is no hook left (maxactive) is counted on the return's side alone; the session finds out.
    """
    if entries:
        yield Miss(function, entries, _NESTED)
    if returns > entries:
        yield Miss(function, returns - entries, _NO_HOOK)
