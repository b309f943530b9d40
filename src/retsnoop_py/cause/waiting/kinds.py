# SPDX-License-Identifier: BSD-2-Clause
"""The reason why a thread waits, in the user's terms.

One table lists system calls and the function that reads the facts for them. Each kind of wait has
a module with these functions. They read /proc while the thread waits, and return None if the facts
do not match this kind of wait.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.waiting import descriptors, kernel, locks, proc, processes
from retsnoop_py.cause.waiting.look import has_moved, with_stack
from retsnoop_py.cause.waiting.model import INFERRED, Blocked, Finder, Wait
from retsnoop_py.value import replace

__all__ = ["ordered", "wait_of", "waits_of"]

_ANY = ("*",)
_READS = ("read", "readv", "pread*", "recv*", "accept*", "io_getevents*")
_WRITES = ("write", "writev", "pwrite*", "send*", "connect", "splice", "copy_file_range")

#: In this order: checks for all calls, checks for single calls, kernel functions.
_TABLE: Sequence[tuple[tuple[str, ...], Finder]] = (
    (_ANY, processes.stopped),
    (_ANY, processes.frozen),
    (_ANY, processes.running),
    (("flock", "fcntl"), locks.file_lock),
    (("futex*",), locks.futex),
    (("wait4", "waitid"), processes.child),
    (("clone*", "vfork"), processes.vfork),
    (("nanosleep", "clock_nanosleep"), processes.sleeping),
    (("pause", "rt_sigsuspend", "rt_sigtimedwait"), processes.signals),
    (("poll", "ppoll", "select", "pselect6", "epoll_*wait*"), descriptors.polling),
    (("open", "openat*", "creat"), descriptors.opening),
    (_READS, descriptors.reading),
    (_WRITES, descriptors.writing),
    (_ANY, kernel.in_kernel),
    (_ANY, processes.outside),
)
#: System calls with a file descriptor as first argument.
_OF_DESCRIPTOR = (
    *_READS,
    *_WRITES,
    *("flock", "fcntl", "ioctl", "fsync", "fdatasync", "epoll_*wait*", "close", "ftruncate"),
)
#: Number of arguments by system call. For a call that is not listed, only the first argument and
#: its strings are shown.
_COUNTS = {
    **dict.fromkeys(("rt_sigsuspend", "nanosleep", "vfork"), 2),
    **dict.fromkeys(("read", "write", "readv", "writev", "accept", "connect", "poll"), 3),
    **dict.fromkeys(("recvmsg", "sendmsg", "fcntl"), 3),
    **dict.fromkeys(("pread64", "pwrite64", "wait4", "clock_nanosleep", "epoll_wait"), 4),
    **dict.fromkeys(("accept4", "ppoll", "rt_sigtimedwait"), 4),
    **dict.fromkeys(("waitid", "select", "epoll_pwait"), 5),
    **dict.fromkeys(("futex", "pselect6", "recvfrom", "sendto", "epoll_pwait2"), 6),
    "flock": 2,
}
#: Names of the values of the second argument.
_NAMES = {
    "flock": {1: "LOCK_SH", 2: "LOCK_EX"},
    "fcntl": {7: "F_SETLKW", 38: "F_OFD_SETLKW"},
}
#: Kinds of wait of an idle thread. They are listed after the waits that hold up the command.
_IDLE = ("timer", "running", "signal", "poll", "event", "accept", "child", "vfork", "thread")
#: Time limit for examining threads.
_SECONDS = 20.0
#: Kinds of wait that can follow from the wait of another thread. They are listed last.
_FOLLOWS = ("pipe", "socket", "child", "vfork", "thread", "poll")


def wait_of(thread: Blocked) -> Wait:
    """Return the wait of ``thread`` with its reason.

    If the thread has made another call in the meantime, the facts belong to several calls. The
    thread is then reported as busy.
    """
    found = _wait_of(with_stack(thread))
    if thread.state != "R" and has_moved(thread):
        return Wait(thread, processes.busy(thread))
    return found


def _wait_of(thread: Blocked) -> Wait:
    for calls, find in _TABLE:
        if calls is _ANY or any(fnmatchcase(thread.call, one) for one in calls):
            found = find(thread)
            if found is not None:
                return Wait(thread, found, _arguments(thread))
    return Wait(thread, kernel.unknown(thread), _arguments(thread))


def waits_of(threads: Iterable[Blocked]) -> tuple[Wait, ...]:
    """Return the waits of all threads, including deadlocks; for the order, see :func:`ordered`.

    After 20 s, only the system call is reported for the remaining threads: a process may have
    hundreds of threads, and examining each may read a table of a million sockets.
    """
    end = time.monotonic() + _SECONDS
    with proc.searched_once():
        waits = [
            wait_of(one)
            if time.monotonic() < end
            else Wait(one, kernel.unexamined(one), _arguments(one))
            for one in threads
        ]
    return ordered(_with_deadlocks(waits))


def ordered(waits: Sequence[Wait]) -> tuple[Wait, ...]:
    """Return the waits, the most important first.

    The order is: waits with an outside cause, idle threads, waits for another thread of the list.
    For example, a process that waits for its child comes after the child.
    """
    there = {one.thread.tid for one in waits}

    def rank(one: Wait) -> int:
        if one.found.kind in _FOLLOWS and there & set(one.found.on):
            return 2
        return 1 if one.found.kind in _IDLE else 0

    return tuple(sorted(waits, key=rank))


def _with_deadlocks(waits: Sequence[Wait]) -> list[Wait]:
    """Return the waits, with deadlocks added: cycles, and processes with only waiting threads."""
    on = {one.thread.tid: one.found.on for one in waits}
    found: list[Wait] = []
    for one in waits:
        circle = _circle(one.thread.tid, on)
        if circle and one.found.kind in ("mutex", "lock"):
            names = ", which waits for ".join(_name(waits, tid) for tid in [*circle[1:], circle[0]])
            more = f"{one.found.more} This is a deadlock: it waits for {names}."
            one = Wait(one.thread, replace(one.found, more=more), one.arguments)  # noqa: PLW2901
        found.append(one)
    return [_all_waiting(one, found) for one in found]


def _name(waits: Sequence[Wait], tid: int) -> str:
    return next((one.thread.who for one in waits if one.thread.tid == tid), str(tid))


def _circle(start: int, on: dict[int, tuple[int, ...]]) -> list[int]:
    """Return the cycle of threads through ``start``, empty if there is no cycle.

    Each thread is followed to the first thread that it waits for.
    """
    way = [start]
    while (after := next(iter(on.get(way[-1], ())), None)) is not None:
        if after == start:
            return way if len(way) > 1 else []
        if after in way:
            return []
        way.append(after)
    return []


def _all_waiting(one: Wait, waits: Sequence[Wait]) -> Wait:
    """Add to the wait for a futex that all threads of the process wait, so none can wake it."""
    if one.found.kind != "futex":
        return one
    own = [other for other in waits if other.thread.pid == one.thread.pid]
    stuck = [other for other in own if other.found.kind in ("futex", "thread", "mutex")]
    if any(("timed", 1) in other.found.facts for other in stuck):
        return one
    if len(own) < 2 or len(stuck) < len(own) or len(own) != len(proc.threads(one.thread.pid)):
        return one
    more = (
        f"All {len(own)} threads of the process wait like this. If no other process shares this "
        "memory, none of them can wake another: this is a deadlock."
    )
    return replace(one, found=replace(one.found, more=more, certainty=INFERRED))


def _arguments(thread: Blocked) -> str:
    """Return the arguments as text: descriptors with their files, strings, and numbers."""
    if not thread.arguments:
        return ""
    count = _COUNTS.get(thread.call, max((1, *(at + 1 for at in thread.texts))))
    names = _NAMES.get(thread.call, {})
    shown: list[str] = []
    for number, value in enumerate(thread.arguments[:count]):
        if not number and any(fnmatchcase(thread.call, one) for one in _OF_DESCRIPTOR):
            shown.append(_descriptor(thread.pid, value & 0xFFFFFFFF))
        elif number in thread.texts:
            shown.append(repr(proc.string(thread.pid, value)))
        elif number == 1 and value in names:
            shown.append(names[value])
        else:
            shown.append(_number(value))
    return ", ".join(shown)


def _number(value: int) -> str:
    """Format small numbers in decimal with their sign, others in hexadecimal like addresses."""
    for bits in (32, 64):
        if (1 << bits) - 4096 < value < 1 << bits:
            return str(value - (1 << bits))
    return str(value) if value < 1 << 16 else f"{value:#x}"


def _descriptor(pid: int, number: int) -> str:
    target = proc.link(pid, f"fd/{number}")
    return f"{number}<{show(target)}>" if target else str(number)
