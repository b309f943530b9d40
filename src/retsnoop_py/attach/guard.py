# SPDX-License-Identifier: BSD-2-Clause
"""What has to be put back however we end: a process of its own sees to it.

Deleting or detaching kprobes waits for RCU again and again. ``/sys/kernel/rcu_expedited`` makes
that some hundred times faster, and everybody's: it is set for the shortest time, and put back by
the last of us, whichever way that one ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retsnoop_py._bpf import ffi, lib
from retsnoop_py.errors import UnavailableError

#: Where the value of rcu_expedited from before is kept; gone after a boot, as the setting is.
HOME = Path("/run/retsnoop-py")

#: Fewer functions than these do not take long enough to change a setting for them.
_WORTH_IT = 16
#: How long the prompt waits for the guard's work, in ms; it goes on behind our back.
_PATIENCE_MS = 1000


class Guard:
    """A small process that outlives us, whatever kills us, and then cleans up behind us.

    It puts rcu_expedited back, and deletes the definitions of the kprobe events of ``owner`` in
    ``tracefs``; with ``system_changes`` it sets rcu_expedited for that moment. Making one raises
    UnavailableError where there is no room for a process.
    """

    def __init__(
        self, *, system_changes: bool, tracefs: Path | None = None, owner: str | None = None
    ) -> None:
        home = _text(HOME) if system_changes else ffi.NULL
        folder = _text(tracefs) if tracefs else ffi.NULL
        name = owner.encode() if owner else ffi.NULL
        pid = ffi.new("int *")
        self._fd: int = lib.rsn_guard_start(home, folder, name, pid)
        if self._fd < 0:
            raise UnavailableError(
                f"no process can be started to clean up behind this run: {os.strerror(-self._fd)}",
                "make room for one more process, or use --attach=kprobe with --no-system-changes",
            )
        self._pid = pid[0]

    def announce(self, pairs: int) -> None:
        """Tell it, before they are made, how many pairs of events there will be to delete.

        Raises UnavailableError if it was killed.
        """
        if lib.rsn_guard_pairs(self._fd, pairs):
            raise UnavailableError(
                "retsnoop-guard, which is to clean up behind this run, was killed",
                "leave that process alone",
            )

    def finish(self) -> bool:
        """Let it do its work; False if that takes longer than one cares to wait. Idempotent."""
        fd, self._fd = self._fd, -1
        return fd < 0 or bool(lib.rsn_guard_finish(fd, self._pid, _PATIENCE_MS))


@contextmanager
def hurried(functions: int, *, system_changes: bool) -> Iterator[None]:
    """Have the kernel not dawdle over RCU while ``functions`` are attached or detached."""
    if not system_changes or functions < _WORTH_IT:
        yield
        return
    guard = Guard(system_changes=True)
    try:
        fd = lib.rsn_expedite_begin(_text(HOME))
        try:
            yield
        finally:
            if fd >= 0:
                lib.rsn_expedite_end(_text(HOME), fd)
    finally:
        guard.finish()


def repair_settings() -> bool:
    """Put back what a killed run left; whether there was something."""
    saved = HOME / "rcu_expedited"
    try:
        if not saved.stat().st_size:
            return False
    except OSError:
        return False
    return bool(lib.rsn_expedite_repair(_text(HOME)) == 1)


def _text(path: Path) -> bytes:
    return str(path).encode()
