# SPDX-License-Identifier: BSD-2-Clause
"""Read facts about processes from /proc.

No function raises an error if the process has ended, which can happen at any moment.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from pathlib import Path

from retsnoop_py.cause.search import Search, together
from retsnoop_py.value import Value

__all__ = [
    "Holder",
    "Holders",
    "children",
    "comm",
    "descriptors",
    "holders",
    "inode",
    "is_fifo",
    "link",
    "memory",
    "net",
    "open_flags",
    "parent",
    "pids",
    "searched_once",
    "stat_words",
    "string",
    "text",
    "text_of",
    "threads",
    "who",
]

#: Maximum length of a command line in a sentence, in characters.
_COMMAND = 60
_MOST_HOLDERS = 20
_STRING = 256


class Holder(Value):
    """A process that has a file open; ``flags`` are those of open(2)."""

    pid: int
    descriptor: int
    flags: int

    @property
    def reads(self) -> bool:
        """True if the descriptor is open for reading."""
        return self.flags & os.O_ACCMODE in (os.O_RDONLY, os.O_RDWR)

    @property
    def writes(self) -> bool:
        """True if the descriptor is open for writing."""
        return self.flags & os.O_ACCMODE in (os.O_WRONLY, os.O_RDWR)


def text(pid: int, name: str) -> str:
    """Return the text of a file in /proc/PID, "" if it cannot be read."""
    return text_of(f"{pid}/{name}")


def text_of(name: str) -> str:
    """Return the text of a file in /proc, "" if it cannot be read."""
    try:
        with open(f"/proc/{name}", errors="replace") as file:
            return file.read()
    except (OSError, ValueError):
        return ""


def link(pid: int, name: str) -> str:
    """Return the target of a link in /proc/PID, "" if it cannot be read."""
    try:
        return os.readlink(f"/proc/{pid}/{name}")
    except OSError:
        return ""


def net(pid: int, name: str) -> Iterator[str]:
    """Yield the rows of /proc/PID/net/NAME, without the heading.

    One by one: a user can have a million sockets.
    """
    try:
        with open(f"/proc/{pid}/net/{name}", errors="replace", newline="\n") as file:
            yield from islice(file, 1, None)
    except OSError:
        pass


def memory(pid: int, address: int, size: int) -> bytes:
    """Return memory of the process, b"" unless all ``size`` bytes can be read."""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as file:
            found = os.pread(file.fileno(), size, address)
    except (OSError, OverflowError, ValueError):
        return b""
    return found if len(found) == size else b""


def string(pid: int, address: int) -> str:
    """Return a string from the memory of the process, cut after 256 bytes."""
    page = 4096
    first = min(page - address % page, _STRING)
    found = memory(pid, address, first)
    if b"\0" not in found and first < _STRING:
        found += memory(pid, address + first, _STRING - first)
    return found.partition(b"\0")[0].decode(errors="replace")


def pids() -> list[int]:
    """Return the ids of all processes."""
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdecimal()]
    except OSError:
        return []


def threads(pid: int) -> list[int]:
    """Return the ids of a process's threads, the main thread first."""
    try:
        found = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []
    return sorted(found, key=lambda tid: (tid != pid, tid))


def stat_words(pid: int, tid: int) -> tuple[str, list[str]]:
    """Return the thread's comm and the words of its stat from the state on.

    Both are empty if the thread has ended.
    """
    found = text(pid, f"task/{tid}/stat")
    before, bracket, behind = found.rpartition(")")
    return (before.partition("(")[2], behind.split()) if bracket else ("", [])


def parent(pid: int) -> int:
    """Return the PID of the parent, 0 for a process without a parent."""
    words = stat_words(pid, pid)[1]
    return int(words[1]) if len(words) > 1 else 0


def children(pid: int) -> list[int]:
    """Return the PIDs of the children, sorted."""
    if _has_children():
        lists = (text(pid, f"task/{tid}/children") for tid in threads(pid))
        return sorted(int(one) for found in lists for one in found.split())
    return sorted(one for one in pids() if parent(one) == pid)


@cache
def _has_children() -> bool:
    """Return True if /proc lists the children of a thread (CONFIG_PROC_CHILDREN)."""
    return os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def comm(pid: int) -> str:
    """Return the name (comm) of the process, "" if it has ended."""
    return text(pid, "comm").strip()


def who(pid: int) -> str:
    """Return a process with its command line: ``PID 12 (sleep 100)``."""
    words = " ".join(text(pid, "cmdline").replace("\0", " ").split()) or comm(pid)
    if len(words) > _COMMAND:
        words = words[: _COMMAND - 3] + "..."
    return f"PID {pid} ({words})" if words else f"PID {pid}"


def open_flags(pid: int, descriptor: int) -> int:
    """Return the open(2) flags of a descriptor, 0 if they cannot be read."""
    for line in text(pid, f"fdinfo/{descriptor}").splitlines():
        if line.startswith("flags:"):
            return int(line.split()[1], 8)
    return 0


def inode(pid: int, descriptor: int) -> int:
    """Return the inode number of a descriptor's file, 0 if it cannot be read."""
    try:
        return os.stat(f"/proc/{pid}/fd/{descriptor}").st_ino
    except OSError:
        return 0


def descriptors(pid: int) -> list[int]:
    """Return the open descriptors of a process."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/fd"))
    except OSError:
        return []


class Holders(Value):
    """The processes that have a file open; ``remark`` is a sentence if the search was cut short."""

    found: tuple[Holder, ...]
    remark: str = ""


class _Index:
    """The descriptors of all processes by link target, read in one search."""

    def __init__(self) -> None:
        search = Search()
        self._rows: dict[str, list[tuple[int, int]]] = {}
        for pid in (*search.processes(), os.getpid()):
            for descriptor, target in search.descriptors(pid):
                rows = self._rows.setdefault(target, [])
                if len(rows) < _MOST_HOLDERS:
                    rows.append((pid, descriptor))
        self._remark = search.remark

    def holders(self, target: str) -> Holders:
        rows = self._rows.get(target, ())
        return Holders(
            tuple(Holder(pid, number, open_flags(pid, number)) for pid, number in rows),
            self._remark,
        )


_index: ContextVar[list[_Index] | None] = ContextVar("_index", default=None)


@contextmanager
def searched_once() -> Iterator[None]:
    """Within the body, read the open files of all processes at most once."""
    token = _index.set([])
    try:
        with together():
            yield
    finally:
        _index.reset(token)


def holders(target: str) -> Holders:
    """Return the processes that have ``target`` open (``pipe:[123]``, ``/dev/fuse``)."""
    kept = _index.get()
    if kept is None:
        return _Index().holders(target)
    if not kept:
        kept.append(_Index())
    return kept[0].holders(target)


def is_fifo(path: Path) -> bool:
    """Return True if a path is a FIFO."""
    try:
        return stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


def root_of(pid: int, path: str) -> Path:
    """Return the path, for this process, of a path in the root directory of another process."""
    return Path(f"/proc/{pid}/root") / path.lstrip("/")
