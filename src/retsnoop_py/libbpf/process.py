# SPDX-License-Identifier: BSD-2-Clause
"""C functions for this process: memory, stop signals, and the guard that outlives it."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py._bpf import ffi, lib

if TYPE_CHECKING:
    from retsnoop_py._bpf import CData


def return_large_memory() -> None:
    """Return each freed block of 128 KiB or more to the kernel at once, from now on."""
    lib.rsn_return_large_memory()


# --- signals, counted when they arrive ----------------------------------------------------------


def watch_signals(numbers: Sequence[int]) -> None:
    """Count these signals in C, in addition to Python's handling."""
    lib.rsn_stop_watch(list(numbers), len(numbers))


def unwatch_signals() -> None:
    """Stop counting signals."""
    lib.rsn_stop_unwatch()


def signals_seen() -> int:
    """Return the number of signals so far."""
    return lib.rsn_stop_count()


def new_session_keyring(uid: int, gid: int) -> None:
    """Give this process a new session keyring, which ``uid`` owns. Raises OSError.

    A kernel without keyrings, and a container that denies keyctl(2) to the command as well, need
    none.
    """
    result = lib.rsn_new_session_keyring(uid, gid)
    if result < 0 and -result not in (errno.ENOSYS, errno.EPERM):
        raise OSError(-result, os.strerror(-result), "keyctl")


# --- the guard, and rcu_expedited -----------------------------------------------------------------


def _text(text: Path | str | None) -> CData | bytes:
    return ffi.NULL if text is None else str(text).encode(errors="surrogateescape")


def start_guard(
    home: Path | None, tracefs: Path | None, owner: str | None, patience_ms: int
) -> tuple[int, int]:
    """Start the process that cleans up; return a socket (or -errno) and the process's id.

    Closing the socket starts the clean-up.
    """
    pid = ffi.new("int *")
    fd = lib.rsn_guard_start(_text(home), _text(tracefs), _text(owner), patience_ms, pid)
    return fd, int(pid[0])


def tell_guard(fd: int, pairs: int) -> bool:
    """Announce the number of event pairs; return False if the guard has ended."""
    return lib.rsn_guard_pairs(fd, pairs) == 0


def have_restored(fd: int, path: Path, text: str) -> bool:
    """Make the guard write ``text`` to ``path`` at its end; False if it ended or has no room."""
    return lib.rsn_guard_restore(fd, _text(path), text.encode(errors="surrogateescape")) == 0


def finish_guard(fd: int, pid: int, *, orderly: bool, wait_ms: int) -> bool:
    """Start the guard's clean-up; return True if it ended within ``wait_ms``.

    Without ``orderly``, the guard restores rcu_expedited as it does after a killed run.
    """
    return bool(lib.rsn_guard_finish(fd, pid, orderly, wait_ms))


def expedite_begin(home: Path) -> int:
    """Make RCU grace periods short; return a descriptor for :func:`expedite_end`, or -errno."""
    return lib.rsn_expedite_begin(_text(home))


def expedite_end(home: Path, fd: int) -> bool:
    """Restore the setting unless another run needs it; return False on failure."""
    result: int = lib.rsn_expedite_end(_text(home), fd)
    return result >= 0 or result == -errno.EBUSY


def expedite_repair(home: Path) -> bool:
    """Restore the setting after runs of ``home`` that were killed; return True if needed."""
    return lib.rsn_expedite_repair(_text(home)) == 1
