# SPDX-License-Identifier: BSD-2-Clause
"""What a command and its children did, as the kernel's tracepoints told it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from socket import AF_INET, AF_INET6, AF_UNIX, inet_ntop
from struct import unpack_from
from types import MappingProxyType

from retsnoop_py.value import Value

__all__ = [
    "Address",
    "Audited",
    "Denied",
    "Dropped",
    "Ended",
    "Installed",
    "Signalled",
    "State",
    "SystemCall",
    "Witnessed",
    "Written",
    "read_address",
]


class Address(Value):
    """A socket address: ``family`` is an AF_*; ``host`` of IP is text, ``path`` of AF_UNIX."""

    family: int
    host: str = ""
    port: int = 0
    path: str = ""

    def __str__(self) -> str:
        if self.family == AF_UNIX:
            return self.path or "an unnamed socket"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}" if self.host else f"an address of family {self.family}"


def read_address(data: bytes) -> Address | None:
    """The address in a ``struct sockaddr``; None where it is too short to be one."""
    if len(data) < 2:
        return None
    (family,) = unpack_from("=H", data)
    if family == AF_INET and len(data) >= 8:
        return Address(family, inet_ntop(AF_INET, data[4:8]), unpack_from(">H", data, 2)[0])
    if family == AF_INET6 and len(data) >= 24:
        return Address(family, inet_ntop(AF_INET6, data[8:24]), unpack_from(">H", data, 2)[0])
    if family == AF_UNIX:
        abstract = data[2:3] == b"\0"
        name = data[3:] if abstract else data[2:]
        path = name.partition(b"\0")[0].decode(errors="replace")
        return Address(family, path="@" + path if abstract and path else path)
    return Address(family)


class State(Value):
    """What a process had and was allowed as a call of it failed.

    * ``begin``: ns of CLOCK_MONOTONIC, when the call began; 0 where that is not known
    * ``limits``: soft and hard, by number (``resource.RLIMIT_NOFILE``)
    * ``capabilities``: the effective ones, a bit each
    * ``namespace``: how many user namespaces lie above its own
    * ``cgroup``: the inode number of its folder in cgroup2; 0 where that is not known
    * ``mapped``, ``data``, ``locked``: bytes of address space, of private writable memory, of
      locked memory
    * ``mappings``: how many mappings of memory it has
    """

    begin: int = 0
    limits: tuple[tuple[int, int], ...] = ()
    capabilities: int = 0
    namespace: int = 0
    cgroup: int = 0
    mapped: int = 0
    data: int = 0
    locked: int = 0
    mappings: int = 0


class Denied(Value):
    """A capability that a thread did not have when the kernel tested it.

    ``namespace``: how many user namespaces lie above the one that it was tested in. ``is_silent``:
    the kernel only wanted to know, as for the memory that is reserved for root.
    """

    time: int
    tid: int
    capability: int
    namespace: int = 0
    is_silent: bool = False


class Audited(Value):
    """A record of the audit log that a thread made: what a security module refused."""

    time: int
    tid: int
    text: str


class Installed(Value):
    """A call by which a process restricted itself: ``seccomp``, ``landlock_restrict_self``."""

    time: int
    pid: int
    process: str
    call: str


class Dropped(Value):
    """A packet that nftables dropped.

    * ``family``: that of the table, as nft(8) writes it ("inet"); ``table``, ``chain``
    * ``handle``: the rule's; 0 where the policy of the chain decided, or the rule is not known
    * ``host``, ``port``: where the packet was to go; "" and 0 where that is not known
    """

    time: int
    tid: int
    family: str
    table: str
    chain: str
    handle: int
    is_policy: bool
    host: str
    port: int


class SystemCall(Value):
    """A system call that returned an error.

    * ``time``: ns of CLOCK_MONOTONIC, when it returned; ``tid``, ``pid``: the kernel's ids
    * ``name``: as in asm/unistd.h; ``error``: the errno, positive
    * ``arguments``: six registers; ``texts``: its strings, each behind the argument's number
    * ``uid``, ``gid``: those that the kernel tests permissions with
    * ``cwd``: the thread's folder then; None where it is not known
    * ``is_filtered``: the thread has a seccomp filter
    * ``was_entered``: whether the kernel began the call; False where seccomp or ptrace made its
      result; None where that is not known
    * ``state``: what the process had and was allowed then
    """

    time: int
    tid: int
    pid: int
    process: str
    name: str
    error: int
    arguments: tuple[int, ...]
    texts: tuple[tuple[int, str], ...]
    address: Address | None
    uid: int
    gid: int
    cwd: str | None
    is_filtered: bool
    was_entered: bool | None = None
    state: State | None = None

    def text(self, number: int) -> str | None:
        """The argument ``number``, if it is a string."""
        return next((text for at, text in self.texts if at == number), None)


class Written(Value):
    """A piece of text that a process wrote; ``stream``: 1 standard output, 2 standard error."""

    time: int
    tid: int
    pid: int
    stream: int
    text: str


class Ended(Value):
    """The end of a process: its exit ``status``, or the ``signal`` that killed it (else 0)."""

    time: int
    pid: int
    process: str
    status: int
    signal: int


class Signalled(Value):
    """A signal for a process of the command.

    ``code`` is si_code. ``sender`` and ``sender_name`` are the process that ran when it was sent.
    ``address`` has a meaning for faults (SIGSEGV, SIGBUS, SIGILL, SIGFPE).
    """

    time: int
    pid: int
    number: int
    code: int
    address: int
    sender: int
    sender_name: str


class Witnessed(Value):
    """All that was seen of one run, each kind in the order of time.

    ``parents``: by process, who began it. ``victims``: by process that the kernel killed for want
    of memory, its cgroup (the folder's inode number). ``denied``: capabilities that were missing.
    ``audited``: records of the audit log. ``installed``: filters and rule sets that processes
    put on themselves. ``dropped``: packets that nftables dropped; both of the whole machine.
    ``lost``: so many events there was no room for; ``problem`` says why nothing was
    seen at all, else it is None.
    """

    calls: Sequence[SystemCall] = ()
    written: Sequence[Written] = ()
    ends: Sequence[Ended] = ()
    signals: Sequence[Signalled] = ()
    parents: Mapping[int, int] = MappingProxyType({})
    victims: Mapping[int, int] = MappingProxyType({})
    denied: Sequence[Denied] = ()
    lost: int = 0
    audited: Sequence[Audited] = ()
    installed: Sequence[Installed] = ()
    dropped: Sequence[Dropped] = ()
    problem: str | None = None

    def is_below(self, pid: int, ancestor: int) -> bool:
        """Whether ``pid`` is ``ancestor``, or descends from it."""
        seen = set()
        while pid not in seen:
            if pid == ancestor:
                return True
            seen.add(pid)
            pid = self.parents.get(pid, pid)
        return False

    def killed_itself(self, end: Ended) -> bool:
        """Whether another process of the command sent the signal that killed the one of ``end``."""
        own = {*self.parents, *(one.pid for one in self.ends)} - {end.pid}
        senders = (
            one.sender
            for one in reversed(self.signals)
            if (one.pid, one.number) == (end.pid, end.signal)
        )
        return next(senders, 0) in own

    def end_of(self, pid: int) -> Ended | None:
        """The end of a process, if it was seen."""
        return next((one for one in reversed(self.ends) if one.pid == pid), None)
