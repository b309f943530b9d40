# SPDX-License-Identifier: BSD-2-Clause
"""Record a command's actions: failing calls, written texts, signals, ends of processes.

The programs are in a separate object (``src/bpf/witness.bpf.c``) and attached to tracepoints. There
they see the result of each system call, wherever the result was made. Other runs have no overhead.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from errno import EINPROGRESS
from itertools import islice
from pathlib import Path
from signal import SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU
from socket import AF_NETLINK
from struct import Struct, pack
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from retsnoop_py.capture.refused import Refusals
from retsnoop_py.cause import netlink
from retsnoop_py.cause.events import (
    Deferred,
    Denied,
    Ended,
    Fault,
    Mapping,
    Place,
    Request,
    Signalled,
    State,
    SystemCall,
    Witnessed,
    Written,
    read_address,
)
from retsnoop_py.errors import BpfError, RetsnoopError
from retsnoop_py.kernel.btf import Kind as BtfKind
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.kernel.syscalls import Syscall, system_calls
from retsnoop_py.libbpf.closing import Closing, close_all
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.libbpf.reader import CountingRing
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.capture.hang import HangWatch
    from retsnoop_py.kernel.facts import KernelFacts

__all__ = ["CallsByThread", "Witness"]

_OBJECT = "witness.bpf.o"
_PROGRAMS = (
    *("witness_entry", "witness_call", "witness_fork", "witness_exec", "witness_exit"),
    "witness_oom",
)
#: One of the two is loaded: the first if the kernel can look up mappings (Linux 5.17).
_SIGNALS = ("witness_signal_mapped", "witness_signal")
#: These programs use kprobes, which a kernel may have disabled. Without them, only tests of
#: capabilities and rejected netlink messages are missing.
_CHECKS = ("witness_checked", "witness_check")
_REFUSALS = ("witness_request",)
#: A kernel may lack io_uring.
_COMPLETIONS = ("witness_complete",)
_RING_BYTES = 8 << 20
_QUEUE_BYTES = 32 << 20
#: struct witness_event.
_EVENT = Struct("=IIQII16sIIq6QIIII")
#: struct witness_fault: with two of struct witness_mapping.
_FAULT = Struct("=7Q4I64s5Q64s5Q64s")
_IN_CALL = 1
#: struct entry.
_ENTRY = Struct("=QI4x")
#: struct witness_state.
_LIMITS, _GROUPS = 16, 32
_STATE = Struct(f"={2 * _LIMITS}Q6QIIIII{_GROUPS}II3QII40s")
_HAS_LOW, _HAS_HIGH = 1, 2
#: Handlers of settings below /proc/sys with two numbers as bounds: bits, and if they may be
#: negative. Other handlers may store other data there.
_NUMBERS = {
    "proc_dointvec_minmax": (32, True),
    "proc_douintvec_minmax": (32, False),
    "proc_dou8vec_minmax": (32, False),
    "proc_doulongvec_minmax": (64, False),
    # these do more, and leave the number to proc_dointvec_minmax()
    "proc_dointvec_minmax_sysadmin": (32, True),
    "proc_dointvec_minmax_coredump": (32, True),
    "yama_dointvec_minmax": (32, True),
    "bpf_unpriv_handler": (32, True),
    "overcommit_policy_handler": (32, True),
    "dirty_ratio_handler": (32, True),
    "dirty_background_ratio_handler": (32, True),
    "drop_caches_sysctl_handler": (32, True),
    "perf_cpu_time_max_percent_handler": (32, True),
}
#: struct witness_place, _PLACES per call; WITNESS_OF_* and WITNESS_PLACE_*.
_PLACE, _PLACES = Struct("=QIIII"), 4
_OF_CWD, _OF_ROOT = 6, 7
#: The offset of the names in a call's record, behind the struct witness_event.
_NAMES = _STATE.size + _PLACES * _PLACE.size
#: struct nlmsghdr.
_MESSAGE_HEAD = 16
_UNKNOWN, _DETACHED, _DELETED = 1, 2, 4
#: enum WITNESS_* of the object: actions for a call, flags of a record.
_DO_ADDRESS, _DO_ADDRESS_4, _DO_WRITE, _DO_WRITEV = (1 << bit for bit in range(8, 12))
_DO_SUCCESS, _DO_SO_ERROR, _DO_DESCRIPTOR = 1 << 12, 1 << 13, 16
_COMPAT, _FILTERED, _ADDRESS, _ENTERED, _NOT_ENTERED = (1 << bit for bit in range(5))
_SO_ERROR, _COMPLETION = 1 << 5, 1 << 6
#: An option of cap_capable(): the failure is expected (CAP_OPT_NOAUDIT).
_NO_AUDIT = 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WRITES = {"write": _DO_WRITE, "pwrite64": _DO_WRITE, "writev": _DO_WRITEV}
#: ``enum io_uring_op`` (linux/io_uring.h), from 0 on.
_REQUEST_NAMES = """
nop readv writev fsync read_fixed write_fixed poll_add poll_remove sync_file_range sendmsg recvmsg
timeout timeout_remove accept async_cancel link_timeout connect fallocate openat close files_update
statx read write fadvise madvise send recv openat2 epoll_ctl splice provide_buffers remove_buffers
tee shutdown renameat unlinkat mkdirat symlinkat linkat msg_ring fsetxattr setxattr fgetxattr
getxattr socket uring_cmd send_zc sendmsg_zc read_multishot waitid futex_wait futex_wake futex_waitv
fixed_fd_install ftruncate bind listen
"""
_REQUESTS = tuple(_REQUEST_NAMES.split())
_STOPS = (SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU)
#: Values in the process tree: the command, which has retsnoop-py's root directory, and other
#: processes.
_COMMAND, _OTHER = b"\2", b"\1"
#: Maximum numbers of calls (also of ends and signals), texts and processes; the newest are kept.
_KEPT_CALLS, _KEPT_TEXTS, _KEPT_PROCESSES = 20_000, 20_000, 100_000
#: Number of earlier failures that are compared with one asynchronous error.
_SEARCHED = 1000
#: Maximum number of calls that are kept by thread.
_MOST_BY_THREAD = 50_000


class Kind(IntEnum):
    """``enum WITNESS_*`` of the object: the kind of a record."""

    CALL = 1
    TEXT = 2
    EXEC = 3
    FORK = 4
    EXIT = 5
    SIGNAL = 6
    OOM = 7
    DENIED = 8
    REQUEST = 9


class Event(NamedTuple):
    """``struct witness_event``."""

    type: int
    size: int
    time: int
    tid: int
    tgid: int
    comm: bytes
    number: int
    flags: int
    result: int
    arg0: int
    arg1: int
    arg2: int
    arg3: int
    arg4: int
    arg5: int
    uid: int
    gid: int
    mask: int
    bytes: int


def _nothing(_: int) -> None:
    return None


class Witness:
    """Watches a run. Call :meth:`open` before the command may run, :meth:`close` after its end.

    ``hang`` checks the waits of the threads. ``finds_mappings``: the kernel has bpf_find_vma().
    ``function_at`` returns the name of the kernel function at an address. ``by_thread`` also gets
    the failed system calls. ``found`` contains the records; it is complete after :meth:`close`. If
    the kernel rejects the programs, this is not an error: ``found.problem`` contains the message.
    """

    def __init__(
        self,
        machine: str,
        hang: HangWatch | None = None,
        *,
        finds_mappings: bool = False,
        function_at: Callable[[int], str | None] = _nothing,
        by_thread: CallsByThread | None = None,
    ) -> None:
        self._machine = machine
        self._function_at = function_at
        self._finds_mappings = finds_mappings
        self._hang = hang
        self._stack = ExitStack()
        self._object: BpfObject | None = None
        self._links: Sequence[Closing] = ()
        self._reader: CountingRing | None = None
        self._decoder: Decoder | None = None
        self._by_thread = by_thread
        self._lost = 0
        self._has_same_ids = in_first("pid")
        self._problem: str | None = None
        self._refusals = Refusals(machine)

    @classmethod
    def of(
        cls,
        facts: KernelFacts,
        hang: HangWatch | None = None,
        by_thread: CallsByThread | None = None,
    ) -> Witness:
        """Return a witness for the kernel of ``facts``."""

        def function_at(address: int) -> str | None:
            found = facts.kallsyms.lookup(address)
            return found[0].name if found is not None and not found[1] else None

        mapped = facts.require_btf().find("bpf_find_vma", BtfKind.FUNC) is not None
        machine = facts.machine
        return cls(
            machine, hang, finds_mappings=mapped, function_at=function_at, by_thread=by_thread
        )

    def open(self) -> None:
        """Load and attach the programs. Watching begins with :meth:`watch`."""
        try:
            with ExitStack() as stack:
                obj = stack.enter_context(BpfObject(OBJECTS / _OBJECT))
                mapped = self._finds_mappings
                signals = _SIGNALS[0 if mapped else 1]
                obj.program(_SIGNALS[1 if mapped else 0]).set_autoload(False)
                obj.load()
                table = obj.map("calls")
                actions = {
                    number: action
                    for number, call in system_calls(self._machine).items()
                    if (action := _action(call))
                }
                table.update_many(
                    [(pack("=I", number), pack("=I", what)) for number, what in actions.items()]
                )
                links: list[Closing] = []
                stack.callback(close_all, links)
                links += (obj.program(name).attach() for name in (*_PROGRAMS, signals))
                for optional in (_CHECKS, _REFUSALS, _COMPLETIONS):
                    with suppress(BpfError):
                        links += (obj.program(name).attach() for name in optional)
                reader = stack.enter_context(
                    CountingRing(obj, ring_bytes=_RING_BYTES, limit_bytes=_QUEUE_BYTES)
                )
                self._decoder = Decoder(self._machine, self._function_at, self._by_thread)
                self._object, self._reader = obj, reader
                stack.enter_context(self._refusals)
                self._links = (*links, *self._refusals.links)
                self._stack = stack.pop_all()
        except BpfError as error:
            self._problem = error.message

    def watch(self, kernel_id: int, proc_id: int, *, is_command: bool) -> None:
        """Watch a process and its descendants.

        ``proc_id``: its id in /proc. ``is_command``: retsnoop-py started the process, and it has
        run no program yet, so it has retsnoop-py's root directory.
        """
        if self._hang is not None and proc_id:
            self._hang.roots.append(proc_id)
        if self._object is not None:
            kind = _COMMAND if is_command else _OTHER
            self._object.map("tree").update(pack("=I", kernel_id), kind)

    def is_time_to_look(self) -> bool:
        """Return True if :meth:`look` would check the threads of the command now."""
        return self._hang is not None and self._hang.is_due()

    def look(self, *, at_end: bool = False) -> None:
        """Have the :class:`HangWatch` check the waits of the threads; ``at_end``: the last time.

        :meth:`close` must not interrupt this method.
        """
        if self._hang is None:
            return
        self.read()
        self._hang.look(self, at_end=at_end)

    def read(self) -> None:
        """Read the records so far. :meth:`close` must not interrupt this method."""
        while self._reader is not None and self._decoder is not None:
            data = self._reader.take(0)
            if not data:
                break
            self._decoder.feed(data)

    def living(self) -> frozenset[int]:
        """Return the processes started by the watched ones; none if /proc has other ids."""
        if self._decoder is None or not self._has_same_ids:
            return frozenset()
        return frozenset(self._decoder.living)

    def begun(self, tid: int, number: int) -> int | None:
        """Return when a thread began its current system call, in ns of CLOCK_MONOTONIC.

        Return None if the call began before the watching, or if the time is unknown.
        """
        data = self._element("entries", tid)
        time, of = _ENTRY.unpack(data) if data else (0, 0)
        return time if time and of == number else None

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        """Return the last signal that stops the process, and its sender, or None."""
        return self._decoder.stop_of(pid) if self._decoder is not None else None

    def _element(self, name: str, number: int) -> bytes | None:
        if self._object is None or not self._has_same_ids:
            return None
        try:
            return self._object.map(name).lookup(pack("=I", number))
        except BpfError:
            return None

    def close(self) -> None:
        """Detach, and read the remaining records. Idempotent."""
        reader, self._reader = self._reader, None
        if reader is None or self._object is None or self._decoder is None:
            return
        close_all(self._links)
        with self._stack:
            reader.stop()
            while (data := reader.take(0)) is not None:
                self._decoder.feed(data)
            self._lost = reader.lost()
            self._object = None

    @property
    def found(self) -> Witnessed:
        """The records."""
        if self._decoder is None:
            return Witnessed(problem=self._problem)
        return self._refusals.add_to(self._decoder.found(self._lost))

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RetsnoopError):
            self.close()


def _action(call: Syscall) -> int:
    """Return the programs' actions for a call (``WITNESS_DO_*``)."""
    found = sum(1 << one for one in call.texts) | _WRITES.get(call.name, 0)
    found |= sum(1 << _DO_DESCRIPTOR + one for one in call.descriptors)
    if call.address is not None:
        found |= _DO_ADDRESS if call.address == 1 else _DO_ADDRESS_4
    if call.name == "getsockopt":
        found |= _DO_SO_ERROR
    return found | (_DO_SUCCESS if call.name == "socket" else 0)


def _keep(table: dict[int, int], number: int, value: int) -> None:
    """Set the value of a process as the newest; forget the oldest if there are many.

    A command can start processes without end.
    """
    table.pop(number, None)
    table[number] = value
    if len(table) > _KEPT_PROCESSES:
        del table[next(iter(table))]


class CallsByThread:
    """Failed system calls, found by thread and by a time inside the call.

    The times of each thread must not decrease: calls before the last time are forgotten.
    """

    def __init__(self) -> None:
        self._calls: dict[int, deque[SystemCall]] = {}
        self._count = 0
        #: By thread: the return time of the last call that was dropped because too many were kept.
        self._dropped: dict[int, int] = {}

    def add(self, call: SystemCall) -> None:
        """Keep a call that returned later than the earlier calls of its thread."""
        self._calls.setdefault(call.tid, deque()).append(call)
        self._count += 1
        if self._count > _MOST_BY_THREAD:
            first = next(iter(self._calls))
            self._dropped[first] = self._calls[first][0].time
            self._drop(first)

    def around(self, tid: int, start: int, end: int) -> SystemCall | None:
        """Return the call of the thread from ``start`` to ``end``, in ns of CLOCK_MONOTONIC.

        Return None if the call did not fail, or if its return was not recorded.
        """
        while (calls := self._calls.get(tid)) and calls[0].time < end:
            self._drop(tid)
        if not calls or self.has_dropped(tid, end):
            return None
        began = calls[0].state.begin if calls[0].state is not None else 0
        return calls[0] if began <= start else None

    def has_dropped(self, tid: int, end: int) -> bool:
        """Return True if the thread's call at ``end`` may have been dropped by the limit."""
        return self._dropped.get(tid, 0) >= end

    def _drop(self, tid: int) -> None:
        """Forget the oldest call of a thread."""
        self._calls[tid].popleft()
        self._count -= 1
        if not self._calls[tid]:
            del self._calls[tid]


class Decoder:
    """Decodes records; ``by_thread`` also gets the failed calls."""

    def __init__(
        self,
        machine: str,
        function_at: Callable[[int], str | None] = _nothing,
        by_thread: CallsByThread | None = None,
    ) -> None:
        self._function_at = function_at
        self._by_thread = by_thread
        self._calls = system_calls(machine)
        self._failed: deque[SystemCall] = deque(maxlen=_KEPT_CALLS)
        self._written: deque[Written] = deque(maxlen=_KEPT_TEXTS)
        self._ends: deque[Ended] = deque(maxlen=_KEPT_CALLS)
        self._signals: deque[Signalled] = deque(maxlen=_KEPT_CALLS)
        self._parents: dict[int, int] = {}
        self._victims: dict[int, int] = {}
        self._denied: deque[Denied] = deque(maxlen=_KEPT_CALLS)
        self._uses_netlink = False
        #: Started processes that have not ended.
        self.living: set[int] = set()
        self._own_mounts = _mount_namespace()

    def feed(self, data: bytes) -> None:
        """Decode complete records."""
        at = 0
        while at + _EVENT.size <= len(data):
            event = Event._make(_EVENT.unpack_from(data, at))
            size = max(event.size, _EVENT.size)
            self._take(event, data[at + _EVENT.size : at + size])
            at += size + -size % 8

    def found(self, lost: int) -> Witnessed:
        """Return all records, sorted by time. Events of several CPUs may arrive out of order."""
        return Witnessed(
            sorted(self._failed, key=lambda one: one.time),
            sorted(self._written, key=lambda one: one.time),
            sorted(self._ends, key=lambda one: one.time),
            sorted(self._signals, key=lambda one: one.time),
            dict(self._parents),
            dict(self._victims),
            sorted(self._denied, key=lambda one: one.time),
            lost,
            uses_netlink=self._uses_netlink,
        )

    def stop_of(self, pid: int) -> tuple[int, int] | None:
        """Return the last signal that stops process ``pid``, and its sender."""
        for one in reversed(self._signals):
            if one.pid == pid and one.number in _STOPS:
                return one.number, one.sender
        return None

    def _take(self, event: Event, rest: bytes) -> None:
        pid = event.tgid
        match event.type:
            case Kind.CALL if event.flags & _COMPLETION:
                self._completion(event, rest)
            case Kind.CALL if event.flags & _SO_ERROR:
                self._socket_error(event, rest)
            case Kind.CALL:
                self._call(event, rest)
            case Kind.TEXT:
                text = rest[: event.bytes].decode(errors="replace")
                self._written.append(Written(event.time, event.tid, pid, event.number, text))
            case Kind.FORK:
                _keep(self._parents, event.number, pid)
                self.living.add(event.number)
            case Kind.EXIT:
                self.living.discard(pid)
                status, signal = event.result >> 8 & 0xFF, event.result & 0x7F
                self._ends.append(Ended(event.time, pid, _text(event.comm), status, signal))
            case Kind.SIGNAL:
                code = event.arg0 - (1 << 64) if event.arg0 >> 63 else event.arg0
                sender = _text(event.comm)
                fault = self._fault(rest) if len(rest) >= _FAULT.size else None
                arguments = (event.time, pid, event.number, code, event.arg1, event.arg2, sender)
                self._signals.append(Signalled(*arguments, fault))
            case Kind.OOM:
                _keep(self._victims, pid, event.arg0)
            case Kind.REQUEST:
                self._request(event, rest)
            case Kind.DENIED:
                silent = bool(event.arg0 & _NO_AUDIT)
                self._denied.append(Denied(event.time, event.tid, event.number, event.arg1, silent))

    def _completion(self, event: Event, rest: bytes) -> None:
        """Record a failed io_uring request; the call that submitted it succeeded."""
        name = _REQUESTS[event.number] if event.number < len(_REQUESTS) else "request"
        call = self._made(event, rest)
        self._failed.append(
            replace(call, name=f"io_uring {name}", deferred=Deferred.COMPLETION, is_filtered=False)
        )

    def _socket_error(self, event: Event, rest: bytes) -> None:
        """Record an asynchronous error: the program read SO_ERROR after an earlier call."""
        call = replace(
            self._made(event, rest),
            name=self._calls[event.number].name,
            deferred=Deferred.SOCKET_ERROR,
            is_filtered=False,
        )
        for one in islice(reversed(self._failed), _SEARCHED):
            is_of_socket = (one.pid, one.arguments[0]) == (call.pid, call.arguments[0])
            if is_of_socket and one.error == EINPROGRESS:
                begun = one.name, one.arguments, one.address
                call = replace(call, name=begun[0], arguments=begun[1], address=begun[2])
                break
        self._failed.append(call)

    def _fault(self, rest: bytes) -> Fault:
        values = _FAULT.unpack_from(rest)
        instruction, stack, detail, cpu, hard_cpu, limit_stack, limit_file = values[:7]
        access, flags, descriptor, mode, file = values[7:12]
        number = detail & 0xFFFFFFFF
        known = self._calls.get(number)
        return Fault(
            instruction=instruction,
            stack=stack,
            limit_cpu=cpu,
            hard_limit_cpu=hard_cpu,
            limit_stack=limit_stack,
            limit_file=limit_file,
            access=access,
            is_in_call=bool(flags & _IN_CALL),
            descriptor=descriptor,
            mode=mode,
            file=_text(file),
            call=f"{known.name}()" if known else f"system call {number}",
            at=_mapping(values[12:18]),
            code=_mapping(values[18:24]),
        )

    def _call(self, event: Event, rest: bytes) -> None:
        known = None if event.flags & _COMPAT else self._calls.get(event.number)
        name = known.name if known else f"system call {event.number}"
        if event.result >= 0:
            self._uses_netlink |= name == "socket" and event.arg0 == AF_NETLINK
            return
        names = rest[_NAMES:]
        texts: dict[int, str] = {}
        address, at = None, 0
        if event.flags & _ADDRESS:
            address, at = read_address(names[: event.bytes]), event.bytes
        elif event.mask:
            found, at = _texts(names, event.mask.bit_count())
            texts = dict(zip(known.texts if known else (), found, strict=False))
        call = self._made(event, rest, at)
        call = replace(call, name=name, texts=tuple(texts.items()), address=address)
        self._failed.append(call)
        if self._by_thread is not None:
            self._by_thread.add(call)

    def _request(self, event: Event, rest: bytes) -> None:
        """Record a rejected netlink message; the call that sent it succeeded."""
        names = rest[_NAMES:]
        (message,), at = _texts(names, 1)
        data = names[at + _MESSAGE_HEAD : at + event.bytes]
        request = Request(event.arg0, event.number, message, data)
        what = netlink.object_of(request)
        self._failed.append(
            replace(
                self._made(event, rest),
                name=netlink.name_of(request),
                arguments=(0,) * 6,
                texts=((0, what),) if what else (),
                is_filtered=False,
                was_entered=None,
                request=request,
            )
        )

    def _made(self, event: Event, rest: bytes, at: int = 0) -> SystemCall:
        """Return a call with the common parts of all call records; place names begin at ``at``.

        The caller sets its name, texts and address.
        """
        state = self._state(rest)
        places = dict(_places(rest[_STATE.size :], rest[_NAMES + at :]))
        root, cwd = places.pop(_OF_ROOT, None), places.pop(_OF_CWD, None)
        return SystemCall(
            event.time,
            event.tid,
            event.tgid,
            _text(event.comm),
            "",
            -event.result,
            (event.arg0, event.arg1, event.arg2, event.arg3, event.arg4, event.arg5),
            (),
            None,
            event.uid,
            event.gid,
            None if cwd is None or cwd.is_deleted else cwd.path,
            bool(event.flags & _FILTERED),
            _was_entered(event.flags),
            state,
            None if root is None or root.path is None else root.path.rstrip("/"),
            tuple(places.items()),
            bool(state.mounts) and state.mounts != self._own_mounts,
            cwd is not None and cwd.is_deleted,
        )

    def _state(self, raw: bytes) -> State:
        values = _STATE.unpack_from(raw)
        limits = tuple(zip(values[: 2 * _LIMITS : 2], values[1 : 2 * _LIMITS : 2], strict=True))
        more, values = values[2 * _LIMITS :][:11], values[2 * _LIMITS + 11 :]
        groups, next_fd, value = values[:_GROUPS], values[_GROUPS], values[_GROUPS + 1 :]
        capabilities, cgroup, begin, mapped, data, locked, namespace, mappings = more[:8]
        mounts, network, count = more[8:]
        pages = (mapped * _PAGE, data * _PAGE, locked * _PAGE)
        some = tuple(groups[:count]) if count <= _GROUPS else None
        return State(
            *(begin, limits, capabilities, namespace, cgroup),
            *pages,
            mappings,
            mounts,
            some,
            network,
            next_fd,
            *self._value(value),
        )

    def _value(self, values: tuple[Any, ...]) -> tuple[bytes, tuple[int | None, int | None] | None]:
        """Return the value that was to be written, and the bounds of the setting."""
        handler, low, high, flags, count, text = values
        name = self._function_at(handler) if handler else None
        if name not in _NUMBERS:
            return text[:count], None
        bits, signed = _NUMBERS[name]
        bounds = (
            _number(low, bits, signed=signed) if flags & _HAS_LOW else None,
            _number(high, bits, signed=signed) if flags & _HAS_HIGH else None,
        )
        return text[:count], bounds


def _number(raw: int, bits: int, *, signed: bool) -> int:
    number = raw & (1 << bits) - 1
    return number - (1 << bits) if signed and number >> (bits - 1) else number


def _mount_namespace() -> int:
    """Return the inode number of this process's mount namespace; 0 if unknown."""
    with suppress(OSError):
        return Path("/proc/self/ns/mnt").stat().st_ino
    return 0


def _mapping(values: tuple[Any, ...]) -> Mapping:
    start, end, flags, offset, size, file = values
    return Mapping(start, end, flags, offset, size, _text(file))


def _was_entered(flags: int) -> bool | None:
    return None if not flags & (_ENTERED | _NOT_ENTERED) else bool(flags & _ENTERED)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


def _texts(names: bytes, count: int) -> tuple[list[str], int]:
    """Return the first ``count`` strings and their end. Names keep bytes that are not UTF-8."""
    found, at = [], 0
    for _ in range(count):
        end = names.find(b"\0", at)
        end = len(names) if end < 0 else end
        found.append(os.fsdecode(names[at:end]))
        at = end + 1
    return found, at


def _places(raw: bytes, names: bytes) -> Iterator[tuple[int, Place]]:
    """Yield each place, by the argument's number or ``_OF_*``."""
    at = 0
    for number in range(_PLACES):
        inode, argument, size, mode, flags = _PLACE.unpack_from(raw, number * _PLACE.size)
        if not mode:
            continue
        parts = [os.fsdecode(one) for one in names[at : at + size].split(b"\0") if one]
        at += size
        is_known = not flags & (_UNKNOWN | _DETACHED)
        path = "/" + "/".join(reversed(parts)) if is_known else None
        yield (
            argument,
            Place(path, mode, inode, bool(flags & _DETACHED), bool(flags & _DELETED)),
        )
