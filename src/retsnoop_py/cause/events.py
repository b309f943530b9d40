# SPDX-License-Identifier: BSD-2-Clause
"""What a command and its children did, as the kernel's tracepoints told it."""

from __future__ import annotations

from collections import abc
from collections.abc import Sequence
from enum import Enum
from socket import AF_INET, AF_INET6, AF_UNIX, inet_ntop
from struct import unpack_from
from types import MappingProxyType

from retsnoop_py.value import Value

__all__ = [
    "Address",
    "Audited",
    "Deferred",
    "Denied",
    "Dropped",
    "Ended",
    "Fault",
    "Installed",
    "Mapping",
    "Place",
    "Request",
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
    * ``mounts``: the inode number of its mount namespace; 0 where that is not known
    * ``groups``: its supplementary groups; None where there are more than were captured
    * ``network``: the inode number of its network namespace; 0 where that is not known
    * ``used``: so many of the lowest descriptors are in use, at least; None: not known
    * ``written``: the first bytes of what a write(2) was to write
    * ``bounds``: the lowest and the highest number that the setting below /proc/sys takes which it
      was to be written to (None: without such a bound); None of other files and settings
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
    mounts: int = 0
    groups: tuple[int, ...] | None = ()
    network: int = 0
    used: int | None = None
    written: bytes = b""
    bounds: tuple[int | None, int | None] | None = None


class Place(Value):
    """Where a descriptor, the current folder or the root of a process is.

    * ``path``: from our root on; None where it is not known, or no mount leads there
    * ``mode``: as in stat(2); ``inode``: its number
    * ``is_detached``: no mount leads there, as to pipes and sockets
    * ``is_deleted``: it was removed
    """

    path: str | None
    mode: int
    inode: int
    is_detached: bool = False
    is_deleted: bool = False


class Request(Value):
    """A netlink message that the kernel refused: its ``protocol`` (NETLINK_*) and ``type``.

    ``message`` are the kernel's words in the answer, ``data`` the first bytes behind its head.
    """

    protocol: int
    type: int
    message: str
    data: bytes


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


class Deferred(Enum):
    """How a program got an error that no system call returned: in words."""

    SOCKET_ERROR = "getsockopt(SO_ERROR) read it after the call had begun the operation"
    COMPLETION = "a completion of io_uring returned it, and the system call succeeded"


class SystemCall(Value):
    """A system call that returned an error.

    * ``time``: ns of CLOCK_MONOTONIC, when it returned; ``tid``, ``pid``: the kernel's ids
    * ``name``: as in asm/unistd.h; ``error``: the errno, positive
    * ``arguments``: six registers; ``texts``: its strings, each behind the argument's number
    * ``uid``, ``gid``: those that the kernel tests permissions with
    * ``cwd``: the thread's folder then; None where it is not known
    * ``root``: its root, "" where that is ours; None where it is not known
    * ``places``: what its descriptors are, by the argument's number
    * ``is_filtered``: the thread has a seccomp filter
    * ``was_entered``: whether the kernel began the call; False where seccomp or ptrace made its
      result; None where that is not known
    * ``state``: what the process had and was allowed then
    * ``is_elsewhere``: its mount namespace is not ours, so that we cannot look up its paths
    * ``deferred``: how the program got the error, if no system call returned it
    * ``request``: what was refused if this is a netlink message, and no call
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
    root: str | None = ""
    places: tuple[tuple[int, Place], ...] = ()
    is_elsewhere: bool = False
    deferred: Deferred | None = None
    request: Request | None = None

    def place(self, number: int) -> Place | None:
        """What the descriptor is that was the argument ``number``."""
        return next((place for at, place in self.places if at == number), None)

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


class Mapping(Value):
    """A mapping of memory: from ``start`` (0: there is none) up to ``end``.

    ``flags`` are VM_*. ``file`` is the last part of a path, "" without a file, ``offset`` of
    ``start`` in it and its size ``bytes`` as the signal was sent.
    """

    start: int = 0
    end: int = 0
    flags: int = 0
    offset: int = 0
    bytes: int = 0
    file: str = ""


class Fault(Value):
    """What was known as a signal was sent; all but the limits only of one for the own thread.

    * ``instruction``: its address, 0 where it is not known; ``code`` is the mapping with it, of
      other faults
    * ``access``: 1 for reading, 2 for writing, 3 for executing, 0 where it is not known
    * ``at``: the mapping with the address, of a fault by an address that is mapped
    * ``stack``: where the first thread's stack begins
    * ``is_in_call``: the thread was in a system call; then ``descriptor`` is its first argument,
      ``file`` the last part of the path of that descriptor's file, ``mode`` its mode as of stat(2)
    * ``call``: the system call that a seccomp filter refused, as in ``mkdir()``
    * ``limit_cpu`` and ``hard_limit_cpu`` in seconds, ``limit_stack`` and ``limit_file`` in bytes
    """

    instruction: int = 0
    stack: int = 0
    limit_cpu: int = 0
    hard_limit_cpu: int = 0
    limit_stack: int = 0
    limit_file: int = 0
    access: int = 0
    is_in_call: bool = False
    descriptor: int = 0
    mode: int = 0
    file: str = ""
    call: str = ""
    at: Mapping = Mapping()
    code: Mapping = Mapping()


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
    fault: Fault | None = None


class Witnessed(Value):
    """All that was seen of one run, each kind in the order of time.

    ``parents``: by process, who began it. ``victims``: by process that the kernel killed for want
    of memory, its cgroup (the folder's inode number). ``denied``: capabilities that were missing.
    ``audited``: records of the audit log. ``installed``: filters and rule sets that processes
    put on themselves. ``dropped``: packets that nftables dropped; both of the whole machine.
    ``lost``: so many events there was no room for; ``problem`` says why nothing was
    seen at all, else it is None. ``uses_netlink``: a process of the command opened a netlink
    socket.
    """

    calls: Sequence[SystemCall] = ()
    written: Sequence[Written] = ()
    ends: Sequence[Ended] = ()
    signals: Sequence[Signalled] = ()
    parents: abc.Mapping[int, int] = MappingProxyType({})
    victims: abc.Mapping[int, int] = MappingProxyType({})
    denied: Sequence[Denied] = ()
    lost: int = 0
    audited: Sequence[Audited] = ()
    installed: Sequence[Installed] = ()
    dropped: Sequence[Dropped] = ()
    problem: str | None = None
    uses_netlink: bool = False

    @property
    def running(self) -> tuple[int, ...]:
        """Processes that were begun and did not end while the run was watched; none if unsure."""
        if self.lost:
            return ()
        ended = {one.pid for one in self.ends}
        return tuple(sorted(pid for pid in self.parents if pid not in ended))

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
