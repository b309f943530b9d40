# SPDX-License-Identifier: BSD-2-Clause
"""Functions to trace: the globs of the requirements, and sets that every tool can attach."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

ENTRY = "*sys_bpf"
KEYS = ("why", "10", "100", "default", "equal", "all", "burst")
_ATTACHED = re.compile(r"^Attached \(dry run\) to function #\d+ '([^']+)'", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Functions to trace: ``names`` if they are listed, else the glob ``allow``.

    ``options`` are additional arguments for retsnoop and retsnoop-py.
    """

    key: str
    entry: str = ENTRY
    allow: str = ""
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def listed_functions(text: str) -> tuple[str, ...]:
    """Return the functions that a dry run would attach."""
    return tuple(_ATTACHED.findall(text))


def plain(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names without a module: each tool writes names with a module differently."""
    return tuple(name for name in names if "[" not in name)


def common(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """Return the names that are in every list, sorted."""
    sets = [set(names) for names in lists]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def sample(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """Return ``count`` names, evenly spaced in the list; all names if there are fewer."""
    if len(names) <= count:
        return names
    return tuple(names[index * len(names) // count] for index in range(count))


def small_set(names: tuple[str, ...], entry: str, count: int) -> tuple[str, ...]:
    """Return ``count`` functions, including the entry function ``entry``."""
    rest = tuple(name for name in names if name != entry)
    return (entry, *sample(rest, count - 1))
