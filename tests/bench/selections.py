# SPDX-License-Identifier: BSD-2-Clause
"""What is traced: the globs of the bar, and sets of functions that every tool can attach."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

ENTRY = "*sys_bpf"
KEYS = ("why", "10", "100", "default", "equal", "all", "burst")
_ATTACHED = re.compile(r"^Attached \(dry run\) to function #\d+ '([^']+)'", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Selection:
    """Functions to trace: ``names`` where they are listed, else the glob ``allow``.

    ``options`` are more words for retsnoop and us.
    """

    key: str
    entry: str = ENTRY
    allow: str = ""
    names: tuple[str, ...] = ()
    options: tuple[str, ...] = ()


def listed_functions(text: str) -> tuple[str, ...]:
    """The functions a dry run names, one for each that it would attach."""
    return tuple(_ATTACHED.findall(text))


def plain(names: Iterable[str]) -> tuple[str, ...]:
    """The names without those that have a module, for each tool writes these in its own way."""
    return tuple(name for name in names if "[" not in name)


def common(lists: Iterable[Iterable[str]]) -> tuple[str, ...]:
    """The names in all lists, sorted."""
    sets = [set(names) for names in lists]
    return tuple(sorted(set.intersection(*sets))) if sets else ()


def sample(names: tuple[str, ...], count: int) -> tuple[str, ...]:
    """``count`` of the names, spread evenly over all of them; all if there are fewer."""
    if len(names) <= count:
        return names
    return tuple(names[index * len(names) // count] for index in range(count))


def small_set(names: tuple[str, ...], entry: str, count: int) -> tuple[str, ...]:
    """``count`` functions, the entry function ``entry`` one of them."""
    rest = tuple(name for name in names if name != entry)
    return (entry, *sample(rest, count - 1))
