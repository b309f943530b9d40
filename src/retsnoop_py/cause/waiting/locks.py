# SPDX-License-Identifier: BSD-2-Clause
"""Waits for a lock on a file (flock, fcntl) or in memory (futex)."""

from __future__ import annotations

from struct import unpack

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.search import Search
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.model import INFERRED, UNKNOWN, Blocked, Certainty, Finding

__all__ = ["file_lock", "futex", "owners_of"]

#: fcntl(2): the commands that wait.
_WAITING = (7, 38)
#: futex(2): the command without its flags.
_COMMAND = 0x7F
_WAIT, _LOCK_PI, _WAIT_BITSET, _WAIT_REQUEUE_PI, _LOCK_PI2 = 0, 6, 9, 11, 13
#: Bits of the word of a futex that contains its owner: thread id, and "has waiters".
_TID, _WAITERS = 0x3FFFFFFF, 0x80000000
#: Offset of the owner in glibc's pthread_mutex_t, in bytes from the lock word.
_OWNER = 8
_DEBUGGER = (
    "gdb -p {pid} -batch -ex 'thread apply all bt' shows where each thread of it is; py-spy dump "
    "--pid {pid} does for Python"
)


def file_lock(thread: Blocked) -> Finding | None:
    """Return the file and the lock's holders for flock(2), lockf(3), fcntl(2) with F_SETLKW."""
    if thread.call == "fcntl" and thread.arguments[1:2] and thread.arguments[1] not in _WAITING:
        return None
    row, held = _rows(thread.pid, proc.inode(thread.pid, thread.descriptor))
    path = proc.link(thread.pid, f"fd/{thread.descriptor}")
    if not row:
        if not thread.is_in("*flock*", "*lock_inode*", "fcntl_setlk*"):
            return None
        return Finding(
            "lock",
            f"{{waits}} for a lock on {show(path)}",
            "/proc/locks does not list this lock. The server of a network file system may hold it.",
            (f"fuser -v {shell_path(path)} lists processes of this machine that use the file",),
            facts=(("path", path),),
        )
    of = row[-3]  # maj:min:inode
    search = Search()
    owners = _owners(of, held, thread.pid, search)
    part = ""
    if held[-2:] != ["0", "EOF"]:
        part = f" (bytes {held[-2]} to {'the end' if held[-1] == 'EOF' else held[-1]})"
    kind = {"FLOCK": "flock", "POSIX": "fcntl", "OFDLCK": "fcntl, OFD"}.get(held[0], held[0])
    mode = "a read lock" if held[2] == "READ" else "a write lock"
    names = " and ".join(proc.who(one) for one in owners[:3]) + (", ..." if len(owners) > 3 else "")
    more = f"{names} {'hold' if len(owners) > 1 else 'holds'} it ({kind}, {mode})."
    advice = (f"end PID {owners[0]}, or wait until it releases the lock",) if owners else ()
    if not owners:
        more = f"No process of this machine is known to hold it ({kind}, {mode})."
    if not search.is_whole:
        more += f" {search.remark}"
    own = "flock -w SECONDS gives up after a time" if thread.name == "flock" else ""
    return Finding(
        "lock",
        f"{{waits}} for a lock on {show(path)}{part}",
        more,
        (*advice, *filter(None, [own])),
        facts=(("path", path), ("lock", kind), ("holders", " ".join(map(str, owners)))),
        on=tuple(owners),
    )


def _rows(pid: int, inode: int) -> tuple[list[str], list[str]]:
    """Return the rows of /proc/locks for the waiting process and for the lock, without numbers.

    The kernel lists no process for an OFD lock, so its waiting row is found by the file alone.
    """
    held: list[str] = []
    for line in proc.text_of("locks").splitlines():
        words = line.split()[1:]
        if words and words[0] != "->":
            held = words
        elif len(words) > 5 and words[4] in (str(pid), "-1") and words[5].endswith(f":{inode}"):
            return words[1:], held
    return [], []


def owners_of(inode: int) -> list[int]:
    """Return the processes that hold locks on the file with this inode number."""
    found: dict[int, None] = {}
    search = Search()
    for line in proc.text_of("locks").splitlines():
        words = line.split()[1:]
        if len(words) > 6 and words[0] != "->" and words[4].endswith(f":{inode}"):
            found |= dict.fromkeys(_owners(words[4], words, 0, search))
    return list(found)


def _owners(of: str, held: list[str], waiter: int, search: Search) -> list[int]:
    """Return the holders of a lock.

    These are the process that acquired it, if it still runs, and for locks of open files all other
    processes that have the file open with this lock.
    """
    taker = int(held[3])
    found = [taker] if taker > 0 and proc.comm(taker) and taker != waiter else []
    if held[0] == "POSIX":
        return found
    wanted = f"{held[0]} "
    for pid in search.processes():
        if pid in (waiter, taker):
            continue
        for descriptor, _ in search.descriptors(pid):
            lines = proc.text(pid, f"fdinfo/{descriptor}").splitlines()
            if any(one.startswith("lock:") and wanted in one and of in one for one in lines):
                found.append(pid)
                break
    return found


def futex(thread: Blocked) -> Finding | None:
    """Return the wait for a lock, a condition variable or a thread's end, from the futex word."""
    if len(thread.arguments) < 4:
        return None
    address, operation, value, timeout = thread.arguments[:4]
    command = operation & _COMMAND
    word = int.from_bytes(thread.memory(0, 4), "little")
    threads = proc.threads(thread.pid)
    limit = "" if not timeout or command == _WAIT_REQUEUE_PI else ", with a time limit"
    facts: tuple[tuple[str, int | str], ...] = (("address", f"{address:#x}"), ("value", word))
    if limit:
        facts += (("timed", 1),)
    debug = _DEBUGGER.format(pid=thread.pid)
    owner = word & _TID
    if command in (_LOCK_PI, _LOCK_PI2) or (word & _WAITERS and _lives(owner, threads)):
        return _owned(thread, owner, "observed", facts)
    if command not in (_WAIT, _WAIT_BITSET):
        return None
    if word == value & 0xFFFFFFFF and owner in threads and owner != thread.tid:
        return Finding(
            "thread",
            f"{{waits}} for the end of thread {owner} ({_comm(thread.pid, owner)}){limit}",
            "This is pthread_join(3), by the value in memory.",
            (debug,),
            INFERRED,
            facts,
            (owner,),
        )
    if word == 2 == value & 0xFFFFFFFF:
        raw = proc.memory(thread.pid, address + _OWNER, 4)
        owner = unpack("=I", raw)[0] if raw else 0
        if _lives(owner, threads):
            return _owned(thread, owner, INFERRED, facts)
    others = "" if len(threads) > 1 else " The process has no other thread that could do it."
    return Finding(
        "futex",
        f"{{waits}} until another thread wakes it (futex: a lock, a semaphore or a condition "
        f"variable at {address:#x}){limit}",
        f"The kernel does not know which thread that would be.{others}",
        (debug,),
        UNKNOWN,
        facts,
    )


def _owned(
    thread: Blocked, owner: int, certainty: Certainty, facts: tuple[tuple[str, int | str], ...]
) -> Finding:
    if owner == thread.tid:
        more = "It holds this lock itself, so it waits for ever."
    else:
        name = _comm(thread.pid, owner)
        more = (
            f"Thread {owner} ({name}) holds it." if name else f"Thread {owner} held it, and ended."
        )
    if certainty == INFERRED:
        more += " This is the owner in the pthread_mutex_t of the C library."
    debug = _DEBUGGER.format(pid=thread.pid)
    return Finding(
        "mutex",
        f"{{waits}} for the lock in memory at {facts[0][1]}",
        more,
        (debug,),
        certainty,
        (*facts, ("owner", owner)),
        (owner,),
    )


def _lives(tid: int, threads: list[int]) -> bool:
    return tid in threads or bool(tid and proc.comm(tid))


def _comm(pid: int, tid: int) -> str:
    return proc.text(pid, f"task/{tid}/comm").strip() or proc.comm(tid)
