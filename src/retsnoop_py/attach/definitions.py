# SPDX-License-Identifier: BSD-2-Clause
"""The kprobe events of tracefs: whose they are, whose owner is gone, and what they missed.

A run's events come in pairs, ``rsnoop_OWNER/in0_OWNER`` and ``rsnoop_OWNER/out0_OWNER``, where
the owner is a process: its id and when it started, in clock ticks since boot.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

_FOLDERS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
#: Compiled when they are needed: few runs have any events.
_EVENT = r"(?m)^[pr]\d*:rsnoop_(\d+_\d+)/(?:in|out)(\d+)_\1 "
_PROFILE = r"(?m)^\s+(in|out)(\d+)_(\d+_\d+)\s+\d+\s+(\d+)$"


def tracefs(root: Path) -> Path | None:
    """The folder that has ``kprobe_events``; None where it is not mounted."""
    folders = (root / name for name in _FOLDERS)
    return next((folder for folder in folders if (folder / "kprobe_events").exists()), None)


def start_of(pid: int | str, proc: Path = Path("/proc")) -> int | None:
    """When process ``pid`` started, in clock ticks since boot; None if it is gone."""
    try:
        # the name, in parentheses, may contain anything
        return int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def this_owner(pid: int) -> str:
    """The owner name of our own process ``pid``."""
    return f"{pid}_{start_of('self') or 0}"


def is_alive(owner: str) -> bool:
    """Whether the process is still there that called itself ``owner``."""
    pid, _, start = owner.partition("_")
    return start_of(pid) == int(start)


def abandoned(definitions: str, alive: Callable[[str], bool] = is_alive) -> dict[str, int]:
    """Owners who are gone, and how many pairs each left in the text of ``kprobe_events``."""
    pairs: dict[str, int] = {}
    for owner, number in re.findall(_EVENT, definitions):
        pairs[owner] = max(pairs.get(owner, 0), int(number) + 1)
    return {owner: count for owner, count in pairs.items() if not alive(owner)}


def missed_probes(profile: str, owner: str) -> Iterable[tuple[int, int, int, int]]:
    """What ``kprobe_profile`` says about the probes of ``owner``.

    Gives (number of the pair, place in it, missed entries, missed returns). There is a line for
    each probe, in the order in which they were defined, by the name of its event alone.
    """
    counts: dict[tuple[str, int], list[int]] = {}
    for side, number, whose, missed in re.findall(_PROFILE, profile):
        if whose == owner:
            counts.setdefault((side, int(number)), []).append(int(missed))
    for (side, number), entries in counts.items():
        if side == "in":
            returns = counts.get(("out", number), [])
            for place, both in enumerate(zip(entries, returns, strict=False)):
                yield number, place, *both
