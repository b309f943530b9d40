# SPDX-License-Identifier: BSD-2-Clause
"""Waits for file descriptors: a pipe, a socket, a terminal, a device, or several of these."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from struct import iter_unpack, unpack

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.model import Blocked, Finding, duration
from retsnoop_py.cause.waiting.sockets import of_socket
from retsnoop_py.value import replace

__all__ = ["is_terminal", "opening", "polling", "reading", "seconds_at", "writing"]

_POLLIN, _POLLOUT = 1, 4
_MOST_POLLED = 64
_SET_BITS = 1024
_TERMINAL = re.compile(r"/dev/(pts/\d+|tty\w*|console|hvc\d+)")
#: Files without a path, by the target of their link in /proc/PID/fd.
_ANONYMOUS = {
    "anon_inode:[eventfd]": ("event", "for another thread or process to signal an event (eventfd)"),
    "anon_inode:[timerfd]": ("timer", "for a timer (timerfd)"),
    "anon_inode:inotify": ("file-event", "for a change of a watched file (inotify)"),
    "anon_inode:[fanotify]": ("file-event", "for a change of a watched file (fanotify)"),
    "anon_inode:[signalfd]": ("signal", "for a signal (signalfd)"),
    "anon_inode:[pidfd]": ("child", "for the end of a process (pidfd)"),
    "anon_inode:[io_uring]": ("io", "for a completion of io_uring"),
    "anon_inode:[userfaultfd]": ("event", "for a page fault of another thread (userfaultfd)"),
    "/dev/fuse": ("event", "for a request of the kernel to this FUSE daemon"),
    "/dev/kmsg": ("event", "for a new line of the kernel log"),
}


def reading(thread: Blocked) -> Finding | None:
    """Return the missing input of read(2), recv(2), accept(2) etc., and the process to send it."""
    return _at(thread, thread.descriptor, is_writing=False)


def writing(thread: Blocked) -> Finding | None:
    """Return the process that must read or answer, for write(2), send(2), connect(2)."""
    return _at(thread, thread.descriptor, is_writing=True)


def _at(thread: Blocked, descriptor: int, *, is_writing: bool) -> Finding | None:
    target = proc.link(thread.pid, f"fd/{descriptor}")
    if not target:
        return None
    kind, _, inode = target.partition(":[")
    if kind == "socket":
        return of_socket(thread, inode.removesuffix("]"), writing=is_writing)
    if kind == "pipe":
        return _pipe(thread, descriptor, target, "a pipe", is_writing=is_writing)
    if _TERMINAL.fullmatch(target):
        return _terminal(descriptor, target, is_writing=is_writing)
    if target in _ANONYMOUS:
        name, words = _ANONYMOUS[target]
        return Finding(name, f"{{waits}} {words}", facts=(("descriptor", descriptor),))
    if proc.is_fifo(proc.root_of(thread.pid, target)):
        return _pipe(thread, descriptor, target, f"the FIFO {show(target)}", is_writing=is_writing)
    return None


def is_terminal(thread: Blocked) -> bool:
    """Return True if the first argument is a descriptor of a terminal."""
    return bool(_TERMINAL.fullmatch(proc.link(thread.pid, f"fd/{thread.descriptor}")))


def _terminal(descriptor: int, target: str, *, is_writing: bool) -> Finding:
    facts: tuple[tuple[str, int | str], ...] = (("descriptor", descriptor), ("terminal", target))
    if is_writing:
        return Finding(
            "terminal",
            f"{{waits}} until the terminal {target} takes its output",
            "The output of the terminal is stopped (Ctrl-S), or no program reads its other end.",
            ("press Ctrl-Q in that terminal",),
            "inferred",
            facts,
        )
    what = "standard input" if descriptor == 0 else f"descriptor {descriptor}"
    return Finding(
        "terminal",
        f"{{waits}} for input from the terminal {target} ({what})",
        "",
        ("type the input; Ctrl-D ends it", "or give it a file, for example < /dev/null"),
        facts=facts,
    )


def _pipe(thread: Blocked, descriptor: int, target: str, name: str, *, is_writing: bool) -> Finding:
    """Return the wait for a pipe, with the processes that have its other end open."""
    holders = proc.holders(target)
    ends = [one for one in holders.found if (one.reads if is_writing else one.writes)]
    others = list(dict.fromkeys(one.pid for one in ends if one.pid != thread.pid))
    what = f"until a process reads from {name}" if is_writing else f"for data from {name}"
    part = "standard input" if descriptor == 0 else f"descriptor {descriptor}"
    end, verb = ("reading", "read") if is_writing else ("writing", "write")
    more = ""
    advice: tuple[str, ...] = ()
    if others:
        names = " and ".join(proc.who(one) for one in others[:3])
        more = f"{names} {'have' if len(others) > 1 else 'has'} the {end} end open."
        advice = (f"look at what PID {others[0]} does: it does not {verb}",)
    elif holders.remark:
        more = f"{holders.remark} Until then, it found no other process with the {end} end open."
    elif ends:
        own = ends[0].descriptor
        more = f"Only this process itself has the {end} end open (descriptor {own})."
        advice = (f"close descriptor {own} in this process: then the pipe reports its end",)
    else:
        more = f"No process that retsnoop-py can see has the {end} end open."
    return Finding(
        "pipe",
        f"{{waits}} {what} ({part})",
        more,
        advice,
        facts=(("descriptor", descriptor), ("pipe", target), ("peers", " ".join(map(str, others)))),
        on=tuple(others),
    )


def opening(thread: Blocked) -> Finding | None:
    """Return the wait of open(2) for another process to open the other end of a FIFO."""
    number = 0 if thread.call in ("open", "creat") else 1
    if len(thread.arguments) < number + 2 or not thread.is_in("fifo_open", "wait_for_partner"):
        return None
    path = proc.string(thread.pid, thread.arguments[number])
    is_writing = bool(thread.arguments[number + 1] & os.O_ACCMODE)
    other = "reading" if is_writing else "writing"
    return Finding(
        "fifo",
        f"{{waits}} until another process opens the FIFO {show(path)} for {other}",
        "",
        (f"start the program that {'reads' if is_writing else 'writes'} it",),
        facts=(("path", path),),
    )


def polling(thread: Blocked) -> Finding | None:
    """Return all events that poll(2), select(2) or epoll_wait(2) waits for, and the time limit."""
    watched = list(dict.fromkeys(_watched(thread)))
    limit = _limit(thread)
    until = "" if limit is None else f" (at most {duration(limit)})"
    found = [(number, _at(thread, number, is_writing=out)) for number, out in watched[:8]]
    known = [one for _, one in found if one is not None]
    if len(watched) == 1 and known:
        return replace(known[0], text=known[0].text + until)
    if not watched:
        if limit is None:
            return Finding(
                "poll", "{waits} for a signal only: it watches no descriptor and sets no time limit"
            )
        return Finding("timer", f"{{waits}} for a timer of {duration(limit)} and no descriptor")
    parts = [
        (one.text.removeprefix("{waits} ") if one else show(proc.link(thread.pid, f"fd/{number}")))
        for number, one in found
    ]
    more = "" if len(watched) <= 8 else f" Further {len(watched) - 8} descriptors are watched."
    numbers = " ".join(str(number) for number, _ in watched)
    return Finding(
        "poll",
        f"{{waits}} for the first of {len(watched)} events{until}",
        "It waits " + "; or ".join(dict.fromkeys(parts)) + "." + more,
        certainty="observed",
        facts=(("descriptors", numbers),),
        on=tuple(dict.fromkeys(pid for one in known for pid in one.on)),
    )


def _watched(thread: Blocked) -> Iterator[tuple[int, bool]]:
    """Yield each watched descriptor; True if the thread waits only to write to it."""
    if thread.call in ("poll", "ppoll") and len(thread.arguments) > 1:
        count = min(thread.arguments[1], _MOST_POLLED)
        for number, events, _ in iter_unpack("=iHH", thread.memory(0, 8 * count)):
            if number >= 0:
                yield number, bool(events & _POLLOUT and not events & _POLLIN)
    elif thread.call in ("select", "pselect6"):
        yield from _of_sets(thread)
    elif thread.call.startswith("epoll"):
        for line in proc.text(thread.pid, f"fdinfo/{thread.descriptor}").splitlines():
            words = line.split()
            if words[:1] == ["tfd:"] and len(words) > 3:
                events = int(words[3], 16)
                yield int(words[1]), bool(events & _POLLOUT and not events & _POLLIN)


def _of_sets(thread: Blocked) -> Iterator[tuple[int, bool]]:
    count = min(thread.arguments[0] if thread.arguments else 0, _SET_BITS)
    size = (count + 63) // 64 * 8
    for argument in (1, 2):
        bits = int.from_bytes(thread.memory(argument, size), "little") if size else 0
        for number in range(count):
            if bits >> number & 1:
                yield number, argument == 2


def _limit(thread: Blocked) -> float | None:
    """Return the time limit of the call in seconds, None if it has no limit."""
    numbers: dict[str, tuple[int, Callable[[], float | None]]] = {
        "poll": (2, lambda: _milliseconds(thread.arguments[2])),
        "epoll_wait": (3, lambda: _milliseconds(thread.arguments[3])),
        "epoll_pwait": (3, lambda: _milliseconds(thread.arguments[3])),
        "ppoll": (2, lambda: seconds_at(thread, 2, 1e9)),
        "epoll_pwait2": (3, lambda: seconds_at(thread, 3, 1e9)),
        "select": (4, lambda: seconds_at(thread, 4, 1e6)),
        "pselect6": (4, lambda: seconds_at(thread, 4, 1e9)),
    }
    number, read = numbers.get(thread.call, (99, lambda: None))
    return read() if number < len(thread.arguments) else None


def _milliseconds(value: int) -> float | None:
    return None if value & 0x80000000 else (value & 0xFFFFFFFF) / 1000


def seconds_at(thread: Blocked, argument: int, fraction: float) -> float | None:
    """Return the seconds that an argument points to, as a timespec or timeval.

    ``fraction`` is the number of units of its second field in one second.
    """
    raw = thread.memory(argument, 16)
    if not raw:
        return None
    seconds, rest = unpack("=qq", raw)
    return float(seconds + rest / fraction)
