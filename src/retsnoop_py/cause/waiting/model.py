# SPDX-License-Identifier: BSD-2-Clause
"""A thread that waits, and what was found out about it."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from typing import Literal

from retsnoop_py.cause.waiting import proc
from retsnoop_py.value import Value

__all__ = [
    "INFERRED",
    "OBSERVED",
    "UNKNOWN",
    "Blocked",
    "Certainty",
    "Finder",
    "Finding",
    "Wait",
    "duration",
]

Certainty = Literal["observed", "inferred", "unknown"]
OBSERVED: Certainty = "observed"
INFERRED: Certainty = "inferred"
UNKNOWN: Certainty = "unknown"


class Blocked(Value):
    """A thread, as /proc shows it.

    * ``name``: its comm; ``state``: the letter of /proc/PID/stat
    * ``call``: the system call as in asm/unistd.h; "" outside of one, as in a page fault
    * ``arguments``: six registers; empty where they cannot be read
    * ``begun``: when the call began, ns of CLOCK_MONOTONIC; None if it began before the watch
    * ``seen``: when this was read, ns of CLOCK_MONOTONIC
    * ``stack``: the kernel's functions as ``name+0x1/0x2 [module]``, innermost first; empty where
      the kernel does not show it
    * ``texts``: which arguments are strings
    * ``place``: all of /proc/PID/task/TID/syscall, which changes with each call
    * ``stop``: the last signal that stops and its sender's PID, where they were seen
    """

    pid: int
    tid: int
    name: str
    state: str
    call: str
    arguments: tuple[int, ...] = ()
    begun: int | None = None
    seen: int = 0
    stack: tuple[str, ...] = ()
    texts: tuple[int, ...] = ()
    stop: tuple[int, int] | None = None
    place: str = ""

    @property
    def descriptor(self) -> int:
        """The first argument as a file descriptor; -1 without arguments."""
        return self.arguments[0] & 0xFFFFFFFF if self.arguments else -1

    @property
    def since_s(self) -> float | None:
        """For how many seconds it has been in the call."""
        return None if self.begun is None else max(self.seen - self.begun, 0) / 1e9

    @property
    def who(self) -> str:
        """``sleep (PID 12)``, of another thread than the first one with its id."""
        if self.pid == self.tid:
            return f"{self.name} (PID {self.pid})"
        return f"{self.name} (PID {self.pid}, thread {self.tid})"

    def is_in(self, *patterns: str) -> bool:
        """Whether a function of one of these patterns is in the kernel stack."""
        names = [one.partition("+")[0] for one in self.stack]
        return any(fnmatchcase(name, one) for name in names for one in patterns)

    def memory(self, number: int, size: int) -> bytes:
        """``size`` bytes that the argument ``number`` points to; b"" where they cannot be read."""
        if number >= len(self.arguments) or not self.arguments[number]:
            return b""
        return proc.memory(self.pid, self.arguments[number], size)


class Finding(Value):
    """What a thread waits for.

    * ``text``: the sentence without its subject; ``{waits}`` stands for ``has waited 4.2 s``
    * ``more``: further sentences; ``advice``: what to change or to look at next
    * ``certainty``: OBSERVED, INFERRED or UNKNOWN
    * ``facts``: the facts of this kind by name, for programs
    * ``on``: ids of the processes or threads that have to act first
    """

    kind: str
    text: str
    more: str = ""
    advice: tuple[str, ...] = ()
    certainty: Certainty = OBSERVED
    facts: tuple[tuple[str, int | str], ...] = ()
    on: tuple[int, ...] = ()


Finder = Callable[[Blocked], Finding | None]


class Wait(Value):
    """A thread and what it waits for, in words; ``arguments`` are the call's, as text."""

    thread: Blocked
    found: Finding
    arguments: str = ""

    @property
    def sentence(self) -> str:
        """Who waits, for how long and for what, in one or more sentences."""
        since = self.thread.since_s
        waits = "waits" if since is None else f"has waited {duration(since)}"
        # not format(): a path may have braces
        text = self.found.text.replace("{waits}", waits, 1)
        more = f" {self.found.more}" if self.found.more else ""
        return f"{self.thread.who} {text}.{more}"


def duration(seconds: float) -> str:
    """A time for people: ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 days``."""
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s".replace(" 0 s", "")
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min".replace(" 0 min", "")
    return f"{int(seconds // 86400)} days"
