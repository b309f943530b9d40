# SPDX-License-Identifier: BSD-2-Clause
"""What runs that were killed have left in the kernel is put right by the next one."""

from __future__ import annotations

from pathlib import Path

from retsnoop_py.attach.definitions import abandoned, tracefs


def sweep(root: Path, *, system_changes: bool) -> list[str]:
    """Delete events of owners who are gone, and put settings back; what was done, for people.

    The kernel is that of this machine; its files are below ``root``. Takes two small reads if
    there is nothing to do.
    """
    told = []
    folder = tracefs(root)
    try:
        definitions = (folder / "kprobe_events").read_text() if folder else ""
    except OSError:
        definitions = ""
    left = abandoned(definitions) if "rsnoop_" in definitions else {}
    if folder:
        told += [_delete(folder, *one, system_changes=system_changes) for one in left.items()]
    if system_changes:
        from retsnoop_py.attach.guard import repair_settings

        if repair_settings():
            told.append("Put back rcu_expedited, which a run that was killed had left changed.")
    return told


def _delete(folder: Path, owner: str, pairs: int, *, system_changes: bool) -> str:
    from retsnoop_py.attach.guard import Guard

    guard = Guard(system_changes=system_changes, tracefs=folder, owner=owner)
    guard.announce(pairs)
    guard.finish()
    return f"Deleted kprobe events that process {owner.partition('_')[0]} had left."
