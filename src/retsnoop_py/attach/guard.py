# SPDX-License-Identifier: BSD-2-Clause
"""What has to be put back however we end: a process of its own sees to it, or the next run.

Deleting or detaching kprobes waits for RCU again and again. ``/sys/kernel/rcu_expedited`` makes
that some hundred times faster, and everybody's: it is set for the shortest time, and put back by
the last of us, whichever way that one ends.

A run's kprobe events of tracefs come in pairs, ``rsnoop_OWNER/in0_OWNER`` and
``rsnoop_OWNER/out0_OWNER``, where the owner is a process: its id and when it started, in clock
ticks since boot. So the next run knows whose are left.
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

#: Where the value of rcu_expedited from before is kept; gone after a boot, as the setting is.
HOME = Path("/run/retsnoop-py")

#: Fewer functions than these do not take long enough to change a setting for them.
_WORTH_IT = 16
#: How long the prompt waits for the guard's work, in ms; it goes on behind our back.
_PATIENCE_MS = 1000

#: Compiled when they are needed: few runs have any events.
_EVENT = r"(?m)^[pr]\d*:rsnoop_(\d+_\d+)/(?:in|out)(\d+)_\1 "


class Guard:
    """A small process that outlives us, whatever kills us, and then cleans up behind us.

    It puts back rcu_expedited and the files that it is told of, and deletes the definitions of the
    kprobe events of ``owner`` in ``tracefs``; with ``system_changes`` it sets rcu_expedited for
    that moment. Events in use are waited for up to ``patience_ms``: the kernel takes 10 ms for each
    probe of a killed run. Making one raises UnavailableError where there is no room for a process.
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
        """Tell it, before they are made, how many pairs of events there will be to delete.

        Raises UnavailableError if it was killed.
        """
        if not process.tell_guard(self._fd, pairs):
            raise UnavailableError(
                "retsnoop-guard, the process that cleans up after this run, was killed",
                "leave that process alone",
            )

    def restore(self, path: Path, text: str) -> None:
        """Have it write ``text`` to a file at its end; the last one that is said is first.

        Raises UnavailableError if it was killed.
        """
        if not process.have_restored(self._fd, path, text):
            raise UnavailableError(
                f"no process is left to restore {path} after this run", "leave retsnoop-guard alone"
            )

    def finish(self, patience_ms: int = _PATIENCE_MS, *, orderly: bool = True) -> bool:
        """Let it do its work; False if that takes longer than one cares to wait. Idempotent.

        Where we could not put rcu_expedited back, and so are not ``orderly``, it does that, too.
        """
        fd, self._fd = self._fd, -1
        if fd < 0:
            return True
        return process.finish_guard(fd, self._pid, orderly=orderly, wait_ms=patience_ms)


@contextmanager
def hurried(functions: int, *, system_changes: bool) -> Iterator[None]:
    """Have the kernel not dawdle over RCU while ``functions`` are attached or detached."""
    guard = None
    if system_changes and functions >= _WORTH_IT:
        # Where there is no room for a process or its socket: slowly, then.
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
            # What was attached may have taken the last descriptor; the guard has its own.
            orderly = fd < 0 or process.expedite_end(HOME, fd)
    finally:
        guard.finish(orderly=orderly)


def repair_settings() -> bool:
    """Put back what a killed run left; whether there was something."""
    saved = HOME / "rcu_expedited"
    try:
        if not saved.stat().st_size:
            return False
    except OSError:
        return False
    return process.expedite_repair(HOME)


# --- what killed runs left --------------------------------------------------------------


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


def sweep(root: Path, *, system_changes: bool) -> list[str]:
    """Delete events of owners who are gone, and put settings back; what was done, for people.

    The kernel is that of this machine; its files are below ``root``. Takes two small reads if
    there is nothing to do.
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
    """Delete what is not in use: its owner may live, in a pid namespace that we do not see."""
    try:
        guard = Guard(system_changes=system_changes, tracefs=folder, owner=owner, patience_ms=0)
        guard.announce(pairs)
    except UnavailableError:
        return
    guard.finish()
