# SPDX-License-Identifier: BSD-2-Clause
"""What C does for our own process: its memory, the signals that stop it, what outlives it."""

from __future__ import annotations

import errno
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py._bpf import ffi, lib

if TYPE_CHECKING:
    from retsnoop_py._bpf import CData


def return_large_memory() -> None:
    """From now on memory of 128 KiB and more is the kernel's again as soon as it is freed."""
    lib.rsn_return_large_memory()


# --- signals, counted when they come --------------------------------------------------------------


def watch_signals(numbers: Sequence[int]) -> None:
    """Count these signals in C beside what Python does with them."""
    lib.rsn_stop_watch(list(numbers), len(numbers))


def unwatch_signals() -> None:
    """Count no more."""
    lib.rsn_stop_unwatch()


def signals_seen() -> int:
    """How many came."""
    return lib.rsn_stop_count()


# --- the guard, and rcu_expedited -----------------------------------------------------------------


def _text(text: Path | str | None) -> CData | bytes:
    return ffi.NULL if text is None else str(text).encode()


def start_guard(
    home: Path | None, tracefs: Path | None, owner: str | None, patience_ms: int
) -> tuple[int, int]:
    """Start the process that cleans up: a socket whose closing lets it work, or -errno; its id."""
    pid = ffi.new("int *")
    fd = lib.rsn_guard_start(_text(home), _text(tracefs), _text(owner), patience_ms, pid)
    return fd, int(pid[0])


def tell_guard(fd: int, pairs: int) -> bool:
    """Announce how many pairs of events there will be; False if the guard is gone."""
    return lib.rsn_guard_pairs(fd, pairs) == 0


def have_restored(fd: int, path: Path, text: str) -> bool:
    """Have the guard write ``text`` to a file at its end; False if it is gone, or has no room."""
    return lib.rsn_guard_restore(fd, _text(path), text.encode()) == 0


def finish_guard(fd: int, pid: int, *, orderly: bool, wait_ms: int) -> bool:
    """Let the guard work; whether it has finished within so many ms.

    If we are not ``orderly``, it puts rcu_expedited back as it does behind a killed run.
    """
    return bool(lib.rsn_guard_finish(fd, pid, orderly, wait_ms))


def expedite_begin(home: Path) -> int:
    """Have the kernel hurry with RCU; a descriptor for :func:`expedite_end`, or -errno."""
    return lib.rsn_expedite_begin(_text(home))


def expedite_end(home: Path, fd: int) -> bool:
    """Put the setting back, if nobody else needs it; False if that could not be done."""
    result: int = lib.rsn_expedite_end(_text(home), fd)
    return result >= 0 or result == -errno.EBUSY


def expedite_repair(home: Path) -> bool:
    """Put back what users of ``home`` who are gone have left; whether there was something."""
    return lib.rsn_expedite_repair(_text(home)) == 1
