# SPDX-License-Identifier: BSD-2-Clause
"""What a thread waits for, in the user's terms.

One table, as for reasons: which system calls a kind of waiting is for, and what reads the facts.
The readers are in a module for each kind. They read /proc while the thread waits, and give None
where what they find does not agree.
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

#: First what holds for any call, then the calls, then what the kernel's functions mean.
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
#: Calls whose first argument is a descriptor.
_OF_DESCRIPTOR = (
    *_READS,
    *_WRITES,
    *("flock", "fcntl", "ioctl", "fsync", "fdatasync", "epoll_*wait*", "close", "ftruncate"),
)
#: How many arguments a call has, and names of its second one. Of others only the first is shown.
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
_NAMES = {
    "flock": {1: "LOCK_SH", 2: "LOCK_EX"},
    "fcntl": {7: "F_SETLKW", 38: "F_OFD_SETLKW"},
}
#: What holds a command up, before what is idle, before what only follows from another wait.
_IDLE = ("timer", "running", "signal", "poll", "event", "accept", "child", "vfork", "thread")
#: Threads are examined for so many seconds.
_SECONDS = 20.0
_FOLLOWS = ("pipe", "socket", "child", "vfork", "thread", "poll")


def wait_of(thread: Blocked) -> Wait:
    """What ``thread`` waits for.

    A thread that has gone on meanwhile does not wait: what was read is of several calls.
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
    """What all of them wait for, with deadlocks among them; see :func:`ordered`.

    After 20 s, the call alone is reported of further threads: a process may have hundreds of
    threads, and the table of sockets that is read for each may have a million rows.
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
    """The same, what explains most first: what another one of them does not explain, nor idleness.

    A process that waits for its child, or at a pipe for another process of the command, comes
    behind that one.
    """
    there = {one.thread.tid for one in waits}

    def rank(one: Wait) -> int:
        if one.found.kind in _FOLLOWS and there & set(one.found.on):
            return 2
        return 1 if one.found.kind in _IDLE else 0

    return tuple(sorted(waits, key=rank))


def _with_deadlocks(waits: Sequence[Wait]) -> list[Wait]:
    """The same with what is only seen of several together: circles, and threads that all wait."""
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
    """The way from ``start`` back to it, by what each waits for first; empty where none leads."""
    way = [start]
    while (after := next(iter(on.get(way[-1], ())), None)) is not None:
        if after == start:
            return way if len(way) > 1 else []
        if after in way:
            return []
        way.append(after)
    return []


def _all_waiting(one: Wait, waits: Sequence[Wait]) -> Wait:
    """Of a futex: whether all threads of the process wait like that, so that none can wake it."""
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
    """The arguments as text: descriptors with their files, strings, and numbers."""
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
    """Small numbers as such, with their sign; others, as addresses, in hexadecimal."""
    for bits in (32, 64):
        if (1 << bits) - 4096 < value < 1 << bits:
            return str(value - (1 << bits))
    return str(value) if value < 1 << 16 else f"{value:#x}"


def _descriptor(pid: int, number: int) -> str:
    target = proc.link(pid, f"fd/{number}")
    return f"{number}<{show(target)}>" if target else str(number)
