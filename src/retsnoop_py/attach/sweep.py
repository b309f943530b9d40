# SPDX-License-Identifier: BSD-2-Clause
"""What runs that were killed have left in the kernel is put right by the next one."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.attach.definitions import abandoned, tracefs
from retsnoop_py.errors import UnavailableError


def sweep(root: Path, *, system_changes: bool) -> list[str]:
    """Delete events of owners who are gone, and put settings back; what was done, for people.

    The kernel is that of this machine; its files are below ``root``. Takes two small reads if
    there is nothing to do.
    """
    told = []
    folder = tracefs(root)
    if folder:
        left = _left(folder)
        for owner, pairs in left.items():
            _delete(folder, owner, pairs, system_changes=system_changes)
        gone = left.keys() - _left(folder).keys() if left else ()
        pids = sorted(int(owner.partition("_")[0]) for owner in gone)
        told += [f"Deleted kprobe events that process {pid} had left." for pid in pids]
    if system_changes:
        from retsnoop_py.attach.guard import repair_settings

        if repair_settings():
            told.append("Put back rcu_expedited, which a run that was killed had left changed.")
    return told


def _left(folder: Path) -> dict[str, int]:
    try:
        definitions = (folder / "kprobe_events").read_text()
    except OSError:
        return {}
    return abandoned(definitions) if "rsnoop_" in definitions else {}


def _delete(folder: Path, owner: str, pairs: int, *, system_changes: bool) -> None:
    """Delete what is not in use: its owner may live, in a pid namespace that we do not see."""
    from retsnoop_py.attach.guard import Guard

    try:
        guard = Guard(system_changes=system_changes, tracefs=folder, owner=owner, patience_ms=0)
        guard.announce(pairs)
    except UnavailableError:
        return
    guard.finish()
