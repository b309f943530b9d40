# SPDX-License-Identifier: BSD-2-Clause
"""Watches what a command does and says: failing calls, texts, signals, ends of processes.

The programs are in an object of their own (``src/bpf/witness.bpf.c``) and attached to tracepoints,
so that they see what a system call returned whoever made the result, and cost other runs nothing.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from enum import IntEnum
from pathlib import Path
from struct import Struct, pack
from typing import NamedTuple, Self

from retsnoop_py.capture.refused import Refusals
from retsnoop_py.cause.events import (
    Denied,
    Ended,
    Signalled,
    State,
    SystemCall,
    Witnessed,
    Written,
    read_address,
)
from retsnoop_py.errors import BpfError, RetsnoopError
from retsnoop_py.kernel.syscalls import system_calls
from retsnoop_py.libbpf.object import OBJECTS, BpfObject
from retsnoop_py.libbpf.reader import Reader

__all__ = ["Witness"]

_OBJECT = "witness.bpf.o"
_PROGRAMS = (
    *("witness_entry", "witness_call", "witness_fork", "witness_exec", "witness_exit"),
    *("witness_signal", "witness_oom"),
)
#: These take kprobes, which a kernel may have switched off. Without them no test of a capability is
#: seen, and nothing else is missing.
_CHECKS = ("witness_checked", "witness_check")
_RING_BYTES = 8 << 20
_QUEUE_BYTES = 32 << 20
#: struct witness_event.
_EVENT = Struct("=IIQII16sIIq6QIIII")
#: struct witness_state.
_LIMITS = 16
_STATE = Struct(f"={2 * _LIMITS}Q6QII")
#: enum WITNESS_* of the object: what is done about a call, flags of a record.
_DO_ADDRESS, _DO_ADDRESS_4, _DO_WRITE, _DO_WRITEV, _DO_SUCCESS = (1 << bit for bit in range(8, 13))
_COMPAT, _FILTERED, _ADDRESS, _ENTERED, _NOT_ENTERED = (1 << bit for bit in range(5))
#: An option of cap_capable(): a failure is no news (CAP_OPT_NOAUDIT).
_NO_AUDIT = 2
_PAGE = os.sysconf("SC_PAGE_SIZE")
_TEXT_BYTES = 256
_WRITES = {"write": _DO_WRITE, "pwrite64": _DO_WRITE, "writev": _DO_WRITEV}
#: Where a process is changes what its relative paths mean.
_MOVES = ("chdir", "fchdir", "chroot")
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
        self._refusals = Refusals(machine)

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
                    if (action := _action(call.name, call.texts, call.address))
                }
                table.update_many(
                    [(pack("=I", number), pack("=I", what)) for number, what in actions.items()]
                )
                for name in _PROGRAMS:
                    stack.callback(obj.program(name).attach().close)
                with suppress(BpfError):
                    for name in _CHECKS:
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
                stack.enter_context(self._refusals)
                self._stack = stack.pop_all()
        except BpfError as error:
            self._problem = error.message

    def watch(self, kernel_id: int, folder: str | None) -> None:
        """Watch a process, whose current folder is ``folder``, and what descends from it."""
        if self._object is not None and self._decoder is not None:
            self._object.map("tree").update(pack("=I", kernel_id), b"\1")
            self._decoder.folders[kernel_id] = folder

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
        return self._refusals.add_to(self._decoder.found(self._lost))

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(RetsnoopError):
            self.close()


def _action(name: str, texts: Sequence[int], address: int | None) -> int:
    """What the programs do about a call (``WITNESS_DO_*``)."""
    found = sum(1 << one for one in texts) | _WRITES.get(name, 0)
    if address is not None:
        found |= _DO_ADDRESS if address == 1 else _DO_ADDRESS_4
    return found | (_DO_SUCCESS if name in _MOVES else 0)


class Decoder:
    """Records as values; ``folders`` says where each process is, None where that is not known."""

    def __init__(self, machine: str) -> None:
        self._calls = system_calls(machine)
        self._failed: deque[SystemCall] = deque(maxlen=_KEPT_CALLS)
        self._written: deque[Written] = deque(maxlen=_KEPT_TEXTS)
        self._ends: list[Ended] = []
        self._signals: list[Signalled] = []
        self._parents: dict[int, int] = {}
        self._victims: dict[int, int] = {}
        self._denied: deque[Denied] = deque(maxlen=_KEPT_CALLS)
        self.folders: dict[int, str | None] = {}

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
                self.folders[event.number] = self.folders.get(pid)
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
            case Kind.DENIED:
                silent = bool(event.arg0 & _NO_AUDIT)
                self._denied.append(Denied(event.time, event.tid, event.number, event.arg1, silent))

    def _call(self, event: Event, rest: bytes) -> None:
        known = None if event.flags & _COMPAT else self._calls.get(event.number)
        name = known.name if known else f"number {event.number}"
        is_address = bool(event.flags & _ADDRESS)
        state, rest = _state(rest), rest[_STATE.size :]
        texts: dict[int, str] = {}
        if known and not is_address:
            texts = dict(zip(known.texts, _texts(rest), strict=False))
        if event.result >= 0:
            self._move(event.tgid, name, texts)
            return
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
                read_address(rest[: event.bytes]) if is_address else None,
                event.uid,
                event.gid,
                self.folders.get(event.tgid),
                bool(event.flags & _FILTERED),
                _was_entered(event.flags),
                state,
            )
        )

    def _move(self, pid: int, name: str, texts: dict[int, str]) -> None:
        """A process went to another folder."""
        before, path = self.folders.get(pid), texts.get(0)
        if name != "chdir" or not path:
            self.folders[pid] = None
        elif path.startswith("/"):
            self.folders[pid] = path
        else:
            self.folders[pid] = None if before is None else os.path.normpath(Path(before) / path)


def _was_entered(flags: int) -> bool | None:
    return None if not flags & (_ENTERED | _NOT_ENTERED) else bool(flags & _ENTERED)


def _state(rest: bytes) -> State:
    values = _STATE.unpack_from(rest)
    limits = tuple(zip(values[: 2 * _LIMITS : 2], values[1 : 2 * _LIMITS : 2], strict=True))
    capabilities, cgroup, begin, mapped, data, locked, namespace, mappings = values[2 * _LIMITS :]
    pages = (mapped * _PAGE, data * _PAGE, locked * _PAGE)
    return State(begin, limits, capabilities, namespace, cgroup, *pages, mappings)


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode(errors="replace")


def _texts(rest: bytes) -> Iterator[str]:
    """The strings of a record, each in its own place."""
    for at in range(0, len(rest), _TEXT_BYTES):
        yield _text(rest[at : at + _TEXT_BYTES])
