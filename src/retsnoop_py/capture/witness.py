# SPDX-License-Identifier: BSD-2-Clause
"""Watches what a command does and says: failing calls, texts, signals, ends of processes.

The programs are in an object of their own (``src/bpf/witness.bpf.c``) and attached to tracepoints,
so that they see what a system call returned whoever made the result, and cost other runs nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from enum import IntEnum
from errno import EINPROGRESS
from pathlib import Path
from struct import Struct, pack
from typing import NamedTuple, Self

from retsnoop_py.cause import netlink
from retsnoop_py.cause.events import (
    Address,
    Denied,
    Ended,
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
from retsnoop_py.kernel.syscalls import Syscall, system_calls
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.libbpf.reader import Reader

__all__ = ["Witness"]

_OBJECT = "witness.bpf.o"
_PROGRAMS = (
    *("witness_entry", "witness_call", "witness_fork", "witness_exec", "witness_exit"),
    *("witness_signal", "witness_oom"),
)
#: These take kprobes, which a kernel may have switched off. Without them no test of a capability is
#: seen and no refused netlink message, and nothing else is missing.
_CHECKS = ("witness_checked", "witness_check", "witness_request")
_RING_BYTES = 8 << 20
_QUEUE_BYTES = 32 << 20
#: struct witness_event.
_EVENT = Struct("=IIQII16sIIq6QIIII")
#: struct witness_state.
_LIMITS, _GROUPS = 16, 32
_STATE = Struct(f"={2 * _LIMITS}Q6QIIIII{_GROUPS}I4x")
#: struct witness_place, so many of them in each call; WITNESS_OF_* and WITNESS_PLACE_*.
_PLACE, _PLACES = Struct("=QIIII"), 4
_OF_CWD, _OF_ROOT = 6, 7
#: struct nlmsghdr.
_MESSAGE_HEAD = 16
_UNKNOWN, _DETACHED, _DELETED = 1, 2, 4
#: enum WITNESS_* of the object: what is done about a call, flags of a record.
_DO_ADDRESS, _DO_ADDRESS_4, _DO_WRITE, _DO_WRITEV = (1 << bit for bit in range(8, 12))
_DO_SO_ERROR, _DO_DESCRIPTOR = 1 << 12, 16
#: Arguments of a getsockopt(2) that fetches the error of a connection: SOL_SOCKET, SO_ERROR.
_SO_ERROR = (1, 4)
_COMPAT, _FILTERED, _ADDRESS, _ENTERED, _NOT_ENTERED = (1 << bit for bit in range(5))
#: An option of cap_capable(): a failure is no news (CAP_OPT_NOAUDIT).
_NO_AUDIT = 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_WRITES = {"write": _DO_WRITE, "pwrite64": _DO_WRITE, "writev": _DO_WRITEV}
#: What the tree of processes has for the command, whose root is ours, and for others.
_COMMAND, _OTHER = b"\2", b"\1"
#: Calls and texts that are kept, the newest.
_KEPT_CALLS, _KEPT_TEXTS = 20_000, 20_000


class Kind(IntEnum):
    """``enum WITNESS_*`` of the object: what a record tells of."""

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


class Witness:
    """Watches one run. :meth:`open` it before the command may run, :meth:`close` it behind its end.

    ``found`` is what was seen; complete behind :meth:`close`. A kernel that refuses the programs
    makes no error: ``found.problem`` says it.
    """

    def __init__(self, machine: str) -> None:
        self._machine = machine
        self._stack = ExitStack()
        self._object: BpfObject | None = None
        self._reader: Reader | None = None
        self._decoder: Decoder | None = None
        self._lost = 0
        self._problem: str | None = None

    def open(self) -> None:
        """Load and attach; nothing is watched yet."""
        try:
            with ExitStack() as stack:
                obj = stack.enter_context(BpfObject(OBJECTS / _OBJECT))
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
                for name in _PROGRAMS:
                    stack.callback(obj.program(name).attach().close)
                for name in _CHECKS:
                    with suppress(BpfError):
                        stack.callback(obj.program(name).attach().close)
                reader = stack.enter_context(
                    Reader(
                        obj.map("events"),
                        is_perf=False,
                        ring_bytes=_RING_BYTES,
                        limit_bytes=_QUEUE_BYTES,
                    )
                )
                reader.start()
                self._decoder = Decoder(self._machine)
                self._object, self._reader = obj, reader
                self._stack = stack.pop_all()
        except BpfError as error:
            self._problem = error.message

    def watch(self, kernel_id: int, *, is_command: bool) -> None:
        """Watch a process, and what descends from it.

        ``is_command``: we began it, and it has run nothing yet, so that its root is ours.
        """
        if self._object is not None:
            kind = _COMMAND if is_command else _OTHER
            self._object.map("tree").update(pack("=I", kernel_id), kind)

    def close(self) -> None:
        """Detach, and read what still waits. Idempotent."""
        reader, self._reader = self._reader, None
        if reader is None or self._object is None or self._decoder is None:
            return
        with self._stack:
            reader.stop()
            while (data := reader.take(0)) is not None:
                self._decoder.feed(data)
            stats = reader.stats()
            counted = bytes(self._object.global_bytes(".bss", "lost"))
            self._lost = int.from_bytes(counted, "little") + stats.lost_memory + stats.lost_kernel
            self._object = None

    @property
    def found(self) -> Witnessed:
        """What was seen."""
        if self._decoder is None:
            return Witnessed(problem=self._problem)
        return self._decoder.found(self._lost)

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RetsnoopError):
            self.close()


def _action(call: Syscall) -> int:
    """What the programs do about a call (``WITNESS_DO_*``)."""
    found = sum(1 << one for one in call.texts) | _WRITES.get(call.name, 0)
    found |= sum(1 << _DO_DESCRIPTOR + one for one in call.descriptors)
    if call.address is not None:
        found |= _DO_ADDRESS if call.address == 1 else _DO_ADDRESS_4
    return found | (_DO_SO_ERROR if call.name == "getsockopt" else 0)


class Decoder:
    """Records as values."""

    def __init__(self, machine: str) -> None:
        self._calls = system_calls(machine)
        self._failed: deque[SystemCall] = deque(maxlen=_KEPT_CALLS)
        self._written: deque[Written] = deque(maxlen=_KEPT_TEXTS)
        self._ends: list[Ended] = []
        self._signals: list[Signalled] = []
        self._parents: dict[int, int] = {}
        self._victims: dict[int, int] = {}
        self._denied: deque[Denied] = deque(maxlen=_KEPT_CALLS)
        self._own_mounts = _mount_namespace()
        #: By process and descriptor: the address that a socket connects to meanwhile.
        self._connecting: dict[tuple[int, int], Address] = {}

    def feed(self, data: bytes) -> None:
        """Take whole records."""
        at = 0
        while at + _EVENT.size <= len(data):
            event = Event._make(_EVENT.unpack_from(data, at))
            size = max(event.size, _EVENT.size)
            self._take(event, data[at + _EVENT.size : at + size])
            at += size + -size % 8

    def found(self, lost: int) -> Witnessed:
        """All that came; each processor's events come in order, those of several may not."""
        return Witnessed(
            sorted(self._failed, key=lambda one: one.time),
            sorted(self._written, key=lambda one: one.time),
            sorted(self._ends, key=lambda one: one.time),
            sorted(self._signals, key=lambda one: one.time),
            dict(self._parents),
            dict(self._victims),
            sorted(self._denied, key=lambda one: one.time),
            lost,
        )

    def _take(self, event: Event, rest: bytes) -> None:
        pid = event.tgid
        match event.type:
            case Kind.CALL:
                self._call(event, rest)
            case Kind.TEXT:
                text = rest[: event.bytes].decode(errors="replace")
                self._written.append(Written(event.time, event.tid, pid, event.number, text))
            case Kind.FORK:
                self._parents[event.number] = pid
            case Kind.EXIT:
                status, signal = event.result >> 8 & 0xFF, event.result & 0x7F
                self._ends.append(Ended(event.time, pid, _text(event.comm), status, signal))
            case Kind.SIGNAL:
                code = event.arg0 - (1 << 64) if event.arg0 >> 63 else event.arg0
                sender = _text(event.comm)
                self._signals.append(
                    Signalled(event.time, pid, event.number, code, event.arg1, event.arg2, sender)
                )
            case Kind.OOM:
                self._victims[pid] = event.arg0
            case Kind.REQUEST:
                self._request(event, rest)
            case Kind.DENIED:
                silent = bool(event.arg0 & _NO_AUDIT)
                self._denied.append(Denied(event.time, event.tid, event.number, event.arg1, silent))

    def _call(self, event: Event, rest: bytes) -> None:
        known = None if event.flags & _COMPAT else self._calls.get(event.number)
        is_address = bool(event.flags & _ADDRESS)
        state = _state(rest)
        names = rest[_STATE.size + _PLACES * _PLACE.size :]
        texts: dict[int, str] = {}
        at = event.bytes if is_address else 0
        if event.mask and not is_address:
            found, at = _texts(names, event.mask.bit_count())
            texts = dict(zip(known.texts if known else (), found, strict=False))
        places = dict(_places(rest[_STATE.size :], names[at:]))
        root, cwd = places.pop(_OF_ROOT, None), places.pop(_OF_CWD, None)
        name = known.name if known else f"number {event.number}"
        address = read_address(names[: event.bytes]) if is_address else None
        if name == "connect" and -event.result == EINPROGRESS and address is not None:
            self._connecting[event.tgid, event.arg0] = address
        elif name == "getsockopt" and (event.arg1, event.arg2) == _SO_ERROR:
            # the error is that of the connection, which the socket kept
            address = self._connecting.pop((event.tgid, event.arg0), None)
            name = name if address is None else "connect"
        self._failed.append(
            SystemCall(
                event.time,
                event.tid,
                event.tgid,
                _text(event.comm),
                name,
                -event.result,
                (event.arg0, event.arg1, event.arg2, event.arg3, event.arg4, event.arg5),
                tuple(texts.items()),
                address,
                event.uid,
                event.gid,
                None if cwd is None or cwd.is_deleted else cwd.path,
                bool(event.flags & _FILTERED),
                _was_entered(event.flags),
                state,
                None if root is None or root.path is None else root.path.rstrip("/"),
                tuple(places.items()),
                bool(state.mounts) and state.mounts != self._own_mounts,
            )
        )

    def _request(self, event: Event, rest: bytes) -> None:
        names = rest[_STATE.size + _PLACES * _PLACE.size :]
        (message,), at = _texts(names, 1)
        data = names[at + _MESSAGE_HEAD : at + event.bytes]
        request = Request(event.arg0, event.number, message, data)
        name, what = netlink.name_of(request), netlink.object_of(request)
        state = _state(rest)
        self._failed.append(
            SystemCall(
                event.time,
                event.tid,
                event.tgid,
                _text(event.comm),
                name,
                -event.result,
                (0,) * 6,
                ((0, what),) if what else (),
                None,
                event.uid,
                event.gid,
                None,
                False,
                state=state,
                request=request,
            )
        )


def _mount_namespace() -> int:
    """The inode number of ours; 0 where it is not known."""
    with suppress(OSError):
        return Path("/proc/self/ns/mnt").stat().st_ino
    return 0


def _was_entered(flags: int) -> bool | None:
    return None if not flags & (_ENTERED | _NOT_ENTERED) else bool(flags & _ENTERED)


def _state(raw: bytes) -> State:
    values = _STATE.unpack_from(raw)
    limits = tuple(zip(values[: 2 * _LIMITS : 2], values[1 : 2 * _LIMITS : 2], strict=True))
    more, groups = values[2 * _LIMITS : -_GROUPS], values[-_GROUPS:]
    capabilities, cgroup, begin, mapped, data, locked, namespace, mappings = more[:8]
    mounts, network, count = more[8:]
    pages = (mapped * _PAGE, data * _PAGE, locked * _PAGE)
    some = tuple(groups[:count]) if count <= _GROUPS else None
    return State(
        begin, limits, capabilities, namespace, cgroup, *pages, mappings, mounts, some, network
    )


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


def _texts(names: bytes, count: int) -> tuple[list[str], int]:
    """The first ``count`` strings, and where they end. Names keep bytes that are not UTF-8."""
    found, at = [], 0
    for _ in range(count):
        end = names.find(b"\0", at)
        end = len(names) if end < 0 else end
        found.append(os.fsdecode(names[at:end]))
        at = end + 1
    return found, at


def _places(raw: bytes, names: bytes) -> Iterator[tuple[int, Place]]:
    """Each place, by the argument's number or ``_OF_*``."""
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
