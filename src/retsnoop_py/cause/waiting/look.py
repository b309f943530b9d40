# SPDX-License-Identifier: BSD-2-Clause
"""Looks at the threads of processes, as they are at this moment."""

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

#: More threads than these are not looked at.
_MOST_THREADS = 512
#: What a call is that goes on after a signal, by the functions of its stack (restart_syscall).
_RESTARTED = (
    ("*nanosleep*", "nanosleep"),
    ("*futex*", "futex"),
    ("*poll*", "poll"),
)


class Known(Protocol):
    """What a watch knows of threads beside /proc."""

    def begun(self, tid: int, number: int) -> int | None:
        """When a thread's call began, ns of CLOCK_MONOTONIC; None where that is not known."""

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        """The last signal that stops the process, and its sender; None if none was seen."""


def descendants(roots: Iterable[int]) -> list[int]:
    """The processes ``roots`` that are there, and their children, and theirs, in that order."""
    found: list[int] = []
    waiting = list(roots)
    while waiting:
        pid = waiting.pop(0)
        if pid not in found and proc.comm(pid):
            found.append(pid)
            waiting += proc.children(pid)
    return found


def look(pids: Iterable[int], machine: str, known: Known) -> list[Blocked]:
    """The threads of these processes, without those that have ended."""
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
    """Whether the thread is in another call than it was, or has ended."""
    return proc.text(thread.pid, f"task/{thread.tid}/syscall") != thread.place


def with_stack(thread: Blocked) -> Blocked:
    """The same with the kernel's functions; of a call that was begun again, with its first name."""
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
