# SPDX-License-Identifier: BSD-2-Clause
"""Read the present state of the threads of processes."""

from __future__ import annotations

import time
from collections.abc import Iterable
from functools import lru_cache
from typing import Protocol

from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.model import Blocked
from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.kernel.syscalls import system_calls
from retsnoop_py.value import replace

__all__ = ["Known", "descendants", "has_moved", "look", "with_stack"]

#: The maximum number of threads to read.
_MOST_THREADS = 512
#: Original name of a system call that continues as restart_syscall, by its stack functions.
_RESTARTED = (
    ("*nanosleep*", "nanosleep"),
    ("*futex*", "futex"),
    ("*poll*", "poll"),
)


class Known(Protocol):
    """Facts about threads that a watch recorded and /proc does not have."""

    def begun(self, tid: int, number: int) -> int | None:
        """Return the start of a thread's call in ns of CLOCK_MONOTONIC, None if unknown."""

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        """Return the last signal that stopped the process, and its sender; None if not seen."""


def descendants(roots: Iterable[int]) -> list[int]:
    """Return the existing processes of ``roots``, then their children, then grandchildren etc."""
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found and proc.comm(pid):
            found.append(pid)
            waiting += proc.children(pid)
    return found


def look(pids: Iterable[int], machine: str, known: Known) -> list[Blocked]:
    """Return the threads of the processes, except threads that have ended."""
    found: list[Blocked] = []
    for pid in pids:
        for tid in proc.threads(pid):
            if len(found) >= _MOST_THREADS:
                return found
            one = _thread(pid, tid, machine, known)
            if one is not None:
                found.append(one)
    return found


def _thread(pid: int, tid: int, machine: str, known: Known) -> Blocked | None:
    name, words = proc.stat_words(pid, tid)
    if not words or words[0] in "ZX":
        return None
    place = proc.text(pid, f"task/{tid}/syscall")
    call = place.split()
    number = int(call[0]) if call and call[0].lstrip("-").isdecimal() else -1
    found = Blocked(pid, tid, name, words[0], "", seen=time.monotonic_ns(), place=place)
    if words[0] == "T":
        found = replace(found, stop=known.stop_of(pid))
    if number < 0:
        return found
    since = known.begun(tid, number)
    if _is_32_bit(pid):
        return replace(found, call=f"number {number} of a 32-bit program", begun=since)
    call_row = system_calls(machine).get(number)
    arguments = tuple(int(one, 16) for one in call[1:7])
    return replace(
        found,
        call=call_row.name if call_row else f"number {number}",
        arguments=arguments,
        begun=since,
        texts=call_row.texts if call_row else (),
    )


def has_moved(thread: Blocked) -> bool:
    """Return True if the thread has left its system call, or has ended."""
    return proc.text(thread.pid, f"task/{thread.tid}/syscall") != thread.place


def with_stack(thread: Blocked) -> Blocked:
    """Return the thread with its kernel stack; restart_syscall becomes the original call."""
    lines = proc.text(thread.pid, f"task/{thread.tid}/stack").splitlines()
    found = replace(thread, stack=tuple(line.partition("] ")[2] for line in lines))
    if found.call == "restart_syscall":
        name = next((name for one, name in _RESTARTED if found.is_in(one)), found.call)
        found = replace(found, call=name)
    return found


def _is_32_bit(pid: int) -> bool:
    return _elf_class(proc.link(pid, "exe"), f"/proc/{pid}/exe") == 1


@lru_cache(64)
def _elf_class(_path: str, exe: str) -> int:
    try:
        with open_file(exe) as file:
            head = file.read(5)
    except (OSError, DataError):
        return 0
    return head[4] if head[:4] == b"\x7fELF" and len(head) == 5 else 0
