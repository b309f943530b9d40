# SPDX-License-Identifier: BSD-2-Clause
"""A waiting thread, and the facts about its wait."""

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
    """A thread, with its facts from /proc.

    * ``name``: its comm; ``state``: the letter of /proc/PID/stat
    * ``call``: the system call as in asm/unistd.h; "" outside of system calls (a page fault)
    * ``arguments``: six registers; empty if they cannot be read
    * ``begun``: start of the call, ns of CLOCK_MONOTONIC; None if it began before the watch
    * ``seen``: time of reading these facts, ns of CLOCK_MONOTONIC
    * ``stack``: the kernel's functions as ``name+0x1/0x2 [module]``, innermost first; empty if
      the kernel does not show them
    * ``texts``: indexes of the arguments that are strings
    * ``place``: the text of /proc/PID/task/TID/syscall, which changes with each call
    * ``stop``: the last stop signal and its sender's PID, if they were seen
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
        """The time in the call, in seconds; None if its start is unknown."""
        return None if self.begun is None else max(self.seen - self.begun, 0) / 1e9

    @property
    def who(self) -> str:
        """``sleep (PID 12)``; for all threads except the first, with the thread id."""
        if self.pid == self.tid:
            return f"{self.name} (PID {self.pid})"
        return f"{self.name} (PID {self.pid}, thread {self.tid})"

    def is_in(self, *patterns: str) -> bool:
        """Return True if a function in the kernel stack matches one of the patterns."""
        names = [one.partition("+")[0] for one in self.stack]
        return any(fnmatchcase(name, one) for name in names for one in patterns)

    def memory(self, number: int, size: int) -> bytes:
        """Return ``size`` bytes at the pointer argument ``number``; b"" if they are unreadable."""
        if number >= len(self.arguments) or not self.arguments[number]:
            return b""
        return proc.memory(self.pid, self.arguments[number], size)


class Finding(Value):
    """The reason of a thread's wait.

    * ``text``: the sentence without its subject; ``{waits}`` stands for ``has waited 4.2 s``
    * ``more``: further sentences; ``advice``: changes to make, or what to check next
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
    """A thread and the reason of its wait; ``arguments`` are the arguments of its call as text."""

    thread: Blocked
    found: Finding
    arguments: str = ""

    @property
    def sentence(self) -> str:
        """The thread, the duration of its wait and the reason, in one or more sentences."""
        since = self.thread.since_s
        waits = "waits" if since is None else f"has waited {duration(since)}"
        # format() would fail for a path that contains braces
        text = self.found.text.replace("{waits}", waits, 1)
        more = f" {self.found.more}" if self.found.more else ""
        return f"{self.thread.who} {text}.{more}"


def duration(seconds: float) -> str:
    """Format a duration for people: ``4.2 s``, ``3 min 20 s``, ``2 h 5 min``, ``3 days``."""
    if seconds < 60:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    if seconds < 3600:
        return f"{int(seconds // 60)} min {int(seconds % 60)} s".replace(" 0 s", "")
    if seconds < 2 * 86400:
        return f"{int(seconds // 3600)} h {int(seconds % 3600 // 60)} min".replace(" 0 min", "")
    return f"{int(seconds // 86400)} days"
