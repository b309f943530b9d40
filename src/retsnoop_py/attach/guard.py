# SPDX-License-Identifier: BSD-2-Clause
"""Restore the system's state at any end of a run: by a guard process, or by the next run.

Deleting or detaching kprobes waits for RCU again and again. ``/sys/kernel/rcu_expedited`` makes
that some hundred times faster, for the whole system. Therefore it is set only for a short time, and
the last run restores it, whichever way that run ends.

A run's kprobe events of tracefs come in pairs, ``rsnoop_OWNER/in0_OWNER`` and
``rsnoop_OWNER/out0_OWNER``. The owner is a process: its id and its start time, in clock ticks since
boot. Therefore the next run can find the events of ended processes.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from retsnoop_py.errors import UnavailableError
from retsnoop_py.kernel.tracefs import folder_with
from retsnoop_py.libbpf import process

#: The folder with the original value of rcu_expedited; a boot removes both.
HOME = Path("/run/retsnoop-py")

#: For fewer functions, changing a system setting is not worthwhile.
_WORTH_IT = 16
#: How long the prompt waits for the guard's work, in ms; the guard continues in the background.
_PATIENCE_MS = 1000

#: Compiled on use: few runs have any events.
_EVENT = r"(?m)^[pr]\d*:rsnoop_(\d+_\d+)/(?:in|out)(\d+)_\1 "


class Guard:
    """A small process that outlives retsnoop-py in any case, and then cleans up after it.

    It restores rcu_expedited and the announced files, and deletes the definitions of the kprobe
    events of ``owner`` in ``tracefs``. With ``system_changes`` it sets rcu_expedited for that
    moment. It waits up to ``patience_ms`` for events in use: the kernel takes 10 ms for each probe
    of a killed run. Creating one raises UnavailableError if no process can be started.
    """

    def __init__(
        self,
        *,
        system_changes: bool,
        tracefs: Path | None = None,
        owner: str | None = None,
        patience_ms: int = 10 * 60 * 1000,
    ) -> None:
        home = HOME if system_changes else None
        self._fd, self._pid = process.start_guard(home, tracefs, owner, patience_ms)
        if self._fd < 0:
            raise UnavailableError(
                f"cannot start the process that cleans up after this run: {os.strerror(-self._fd)}",
                "allow more processes (ulimit -u), or use --attach=kprobe with --no-system-changes",
            )

    def announce(self, pairs: int) -> None:
        """Announce the number of event pairs to delete, before they are created.

        Raises UnavailableError if the guard was killed.
        """
        if not process.tell_guard(self._fd, pairs):
            raise UnavailableError(
                "retsnoop-guard, the process that cleans up after this run, was killed",
                "leave that process alone",
            )

    def restore(self, path: Path, text: str) -> None:
        """Have the guard write ``text`` to a file at its end; the last request is written first.

        Raises UnavailableError if the guard was killed.
        """
        if not process.have_restored(self._fd, path, text):
            raise UnavailableError(
                f"no process is left to restore {path} after this run", "leave retsnoop-guard alone"
            )

    def finish(self, patience_ms: int = _PATIENCE_MS, *, orderly: bool = True) -> bool:
        """Let the guard work; return False if it takes longer than ``patience_ms``. Idempotent.

        If rcu_expedited could not be restored before (not ``orderly``), the guard restores it, too.
        """
        fd, self._fd = self._fd, -1
        if fd < 0:
            return True
        return process.finish_guard(fd, self._pid, orderly=orderly, wait_ms=patience_ms)


@contextmanager
def hurried(functions: int, *, system_changes: bool) -> Iterator[None]:
    """Speed up the kernel's RCU waits while ``functions`` are attached or detached."""
    guard = None
    if system_changes and functions >= _WORTH_IT:
        # Without room for a process or its socket, attach slowly.
        with suppress(UnavailableError):
            guard = Guard(system_changes=True)
    if guard is None:
        yield
        return
    orderly = True
    try:
        fd = process.expedite_begin(HOME)
        try:
            yield
        finally:
            # The attachments may have used the last descriptor; the guard has its own.
            orderly = fd < 0 or process.expedite_end(HOME, fd)
    finally:
        guard.finish(orderly=orderly)


def repair_settings() -> bool:
    """Restore the setting that a killed run changed; return True if there was one."""
    saved = HOME / "rcu_expedited"
    try:
        if not saved.stat().st_size:
            return False
    except OSError:
        return False
    return process.expedite_repair(HOME)


# --- remains of killed runs ---


def start_of(pid: int | str, proc: Path = Path("/proc")) -> int | None:
    """Return when process ``pid`` started, in clock ticks since boot; None if it has ended."""
    try:
        # the name, in parentheses, may contain any character
        return int((proc / str(pid) / "stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, IndexError, ValueError):
        return None


def this_owner(pid: int) -> str:
    """Return the owner name of this process, which has the id ``pid``."""
    return f"{pid}_{start_of('self') or 0}"


def is_alive(owner: str) -> bool:
    """Return True if the process with the owner name ``owner`` still exists."""
    pid, _, start = owner.partition("_")
    return start_of(pid) == int(start)


def abandoned(definitions: str, alive: Callable[[str], bool] = is_alive) -> dict[str, int]:
    """Return the owners that have ended, and their numbers of pairs in ``kprobe_events``."""
    pairs: dict[str, int] = {}
    for owner, number in re.findall(_EVENT, definitions):
        pairs[owner] = max(pairs.get(owner, 0), int(number) + 1)
    return {owner: count for owner, count in pairs.items() if not alive(owner)}


def sweep(root: Path, *, system_changes: bool) -> list[str]:
    """Delete events of ended owners, and restore settings; return messages for the user.

    The kernel must be the running one; its files are below ``root``. Without remains, this takes
    two small reads.
    """
    told = []
    folder = folder_with(root, "kprobe_events")
    if folder:
        left = _left(folder)
        for owner, pairs in left.items():
            _delete(folder, owner, pairs, system_changes=system_changes)
        gone = left.keys() - _left(folder).keys() if left else ()
        pids = sorted(int(owner.partition("_")[0]) for owner in gone)
        told += [f"Deleted kprobe events of the killed process {pid}." for pid in pids]
    if system_changes and repair_settings():
        told.append("Restored rcu_expedited, which a killed run had changed.")
    return told


def _left(folder: Path) -> dict[str, int]:
    try:
        definitions = (folder / "kprobe_events").read_text()
    except OSError:
        return {}
    return abandoned(definitions) if "rsnoop_" in definitions else {}


def _delete(folder: Path, owner: str, pairs: int, *, system_changes: bool) -> None:
    """Delete unused events: the owner may still run, in a pid namespace that we do not see."""
    try:
        guard = Guard(system_changes=system_changes, tracefs=folder, owner=owner, patience_ms=0)
        guard.announce(pairs)
    except UnavailableError:
        return
    guard.finish()
