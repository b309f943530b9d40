# SPDX-License-Identifier: BSD-2-Clause
"""The actions of a command and its children, as the kernel's tracepoints reported them."""

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
    """Return the address in a ``struct sockaddr``; None if the data is too short."""
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
    """The state of a process when one of its calls failed: its resources and rights.

    * ``begin``: ns of CLOCK_MONOTONIC, when the call began; 0: unknown
    * ``limits``: soft and hard, by number (``resource.RLIMIT_NOFILE``)
    * ``capabilities``: the effective capabilities, a bit each
    * ``namespace``: the number of user namespaces above its own
    * ``cgroup``: the inode number of its folder in cgroup2; 0: unknown
    * ``mapped``, ``data``, ``locked``: bytes of address space, of private writable memory, of
      locked memory
    * ``mappings``: the number of its memory mappings
    * ``mounts``: the inode number of its mount namespace; 0: unknown
    * ``groups``: its supplementary groups; None if it has more than were captured
    * ``network``: the inode number of its network namespace; 0: unknown
    * ``used``: at least this many of the lowest descriptors are in use; None: unknown
    * ``written``: the first bytes of the data for a write(2)
    * ``bounds``: the lowest and highest number that a setting below /proc/sys accepts, for a write
      to that setting (None: without such a bound); None for other files and settings
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
    """The file of a descriptor, or the current folder or the root of a process.

    * ``path``: from our root on; None if it is unknown, or if no mount leads to the file
    * ``mode``: as in stat(2); ``inode``: the inode number
    * ``is_detached``: no mount leads to the file, as for pipes and sockets
    * ``is_deleted``: the file was removed
    """

    path: str | None
    mode: int
    inode: int
    is_detached: bool = False
    is_deleted: bool = False


class Request(Value):
    """A netlink message that the kernel rejected: its ``protocol`` (NETLINK_*) and ``type``.

    ``message`` is the kernel's message in the answer, ``data`` the first bytes after the header.
    """

    protocol: int
    type: int
    message: str
    data: bytes


class Denied(Value):
    """A capability that a thread did not have when the kernel tested it.

    ``namespace``: the number of user namespaces above the tested namespace. ``is_silent``: the
    test did not decide about the call, as for the memory that is reserved for root.
    """

    time: int
    tid: int
    capability: int
    namespace: int = 0
    is_silent: bool = False


class Audited(Value):
    """An audit record of a thread: an operation that a security module denied."""

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

    * ``family``: of the table, as nft(8) writes it ("inet"); ``table``, ``chain``
    * ``handle``: of the rule; 0 if the policy of the chain decided, or the rule is unknown
    * ``host``, ``port``: destination of the packet; "" and 0: unknown
    * ``network``: the inode number of the network namespace with the rule; 0: unknown
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
    network: int


class Deferred(Enum):
    """How a program got an error that no system call returned, as text for the user."""

    SOCKET_ERROR = "getsockopt(SO_ERROR) read it after the call had begun the operation"
    COMPLETION = "a completion of io_uring returned it, and the system call succeeded"


class SystemCall(Value):
    """A system call that returned an error.

    * ``time``: ns of CLOCK_MONOTONIC, when it returned; ``tid``, ``pid``: the kernel's ids
    * ``name``: as in asm/unistd.h; ``error``: the errno, positive
    * ``arguments``: six registers; ``texts``: its strings, each behind the argument's number
    * ``uid``, ``gid``: the ids that the kernel tests permissions with
    * ``cwd``: the thread's current folder then; None: unknown
    * ``root``: its root, "" if it has the same root as we; None: unknown
    * ``places``: the files of its descriptors, by the argument's number
    * ``is_filtered``: the thread has a seccomp filter
    * ``was_entered``: whether the kernel began the call; False if seccomp or ptrace set its result;
      None: unknown
    * ``state``: the resources and rights of the process then
    * ``is_elsewhere``: its mount namespace is not ours, so we cannot look up its paths
    * ``has_removed_cwd``: its current folder was removed
    * ``deferred``: how the program got the error, if no system call returned it
    * ``request``: the rejected netlink message, if this is a message instead of a call
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
    has_removed_cwd: bool = False
    deferred: Deferred | None = None
    request: Request | None = None

    def place(self, number: int) -> Place | None:
        """Return the file of the descriptor in argument ``number``."""
        return next((place for at, place in self.places if at == number), None)

    def text(self, number: int) -> str | None:
        """Return the argument ``number``, if it is a string."""
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
    """A memory mapping: from ``start`` (0: no mapping) up to ``end``.

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
    """The state when a signal was sent; except the limits, only if the thread signalled itself.

    * ``instruction``: its address, 0: unknown; ``code`` is the mapping with the instruction, for
      other faults
    * ``access``: 1 for reading, 2 for writing, 3 for executing, 0: unknown
    * ``at``: the mapping with the address, for a fault at a mapped address
    * ``stack``: the begin of the first thread's stack
    * ``is_in_call``: the thread was in a system call; then ``descriptor`` is its first argument,
      ``file`` the last part of the path of that descriptor's file, ``mode`` its mode as of stat(2)
    * ``call``: the system call that a seccomp filter rejected, as in ``mkdir()``
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
    """All events of one run, each kind in the order of time.

    * ``parents``: the parent of each process
    * ``victims``: processes killed by the OOM killer, with their cgroup (the folder's inode number)
    * ``denied``: capabilities that were missing
    * ``audited``: records of the audit log
    * ``installed``: filters and rule sets that processes installed for themselves
    * ``dropped``: packets that nftables dropped; like ``installed``, of the whole machine
    * ``lost``: the number of events that did not fit into the buffer
    * ``problem``: why no events were captured at all, else None
    * ``uses_netlink``: a process of the command opened a netlink socket
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
        """Return the processes that began and did not end in the run; empty if events were lost."""
        if self.lost:
            return ()
        ended = {one.pid for one in self.ends}
        return tuple(sorted(pid for pid in self.parents if pid not in ended))

    def is_below(self, pid: int, ancestor: int) -> bool:
        """Return whether ``pid`` is ``ancestor`` or its descendant."""
        seen = set()
        while pid not in seen:
            if pid == ancestor:
                return True
            seen.add(pid)
            pid = self.parents.get(pid, pid)
        return False

    def killed_itself(self, end: Ended) -> bool:
        """Return whether another process of the command sent the signal that killed ``end.pid``."""
        own = {*self.parents, *(one.pid for one in self.ends)} - {end.pid}
        senders = (
            one.sender
            for one in reversed(self.signals)
            if (one.pid, one.number) == (end.pid, end.signal)
        )
        return next(senders, 0) in own

    def end_of(self, pid: int) -> Ended | None:
        """Return the end of a process, if it was captured."""
        return next((one for one in reversed(self.ends) if one.pid == pid), None)
