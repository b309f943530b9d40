# SPDX-License-Identifier: BSD-2-Clause
"""Calls that still run when tracing ends, as records from the kernel side's own maps.

A session stays in its place of the map ``sessions`` until its entry function returns. After the
gate in front of the probes is closed, a session in the map either still runs or has returned since.
The thread's kernel stack in /proc shows which is the case.
"""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from retsnoop_py.capture.load import LoadedObject
from retsnoop_py.capture.process_ids import ProcessIds, process_ids
from retsnoop_py.errors import RetsnoopError
from retsnoop_py.kernel.functions import Function
from retsnoop_py.kernel.kallsyms import Kallsyms
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.session.collector import RecordType, SessionFlags
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.value import Value

_FRAME = re.compile(r"^\[<0>\] (\S+?)\+0x([0-9a-f]+)/0x([0-9a-f]+)(?: \[(\S+)\])?$", re.MULTILINE)
_IDS = ("NSpid", "NStgid")
_SWITCHES = re.compile(r"ctxt_switches:\s+(\d+)")
_MAX_DEPTH, _COMM_LEN = 64, 16
#: RSN_MAX_KSTACK of records.h.
_MAX_KSTACK = 96
#: BUCKET_SIZE of table.bpf.h: the threads of a bucket.
_BUCKET_SIZE = 8
#: The frame at which an unwinder without support for return probes stops (before 19138af1bd88).
_RETURN_PROBE = "kretprobe_trampoline"
#: How long to watch a thread that runs on a CPU and therefore has no stack, in s.
_WATCHED, _STEP = 0.06, 0.01


class _Place(NamedTuple):
    """A used place of the table: its number, and the session's bytes."""

    number: int
    data: bytes


class Seen(Value):
    """The threads that had a session shortly before the end of tracing.

    ``switches``: by thread and start, the number of context switches of the thread.
    """

    switches: Mapping[tuple[int, int], int]
    ids: ProcessIds = ProcessIds()


class _Thread:
    """A thread in /proc, by its ids there; None for ids that /proc does not show."""

    def __init__(self, tgid: int | None, tid: int | None, proc: Path) -> None:
        self.folder = proc / str(tgid) / "task" / str(tid)

    def _read(self, name: str) -> str:
        try:
            return (self.folder / name).read_text(errors="backslashreplace")
        except OSError:
            return ""

    def inner_ids(self) -> tuple[int, int, int]:
        """Return thread and process id in their own PID namespace, and its inode.

        The result is three zeros in the first namespace.
        """
        status = self._read("status")
        inner = [re.search(rf"^{name}:.*\s(\d+)$", status, re.MULTILINE) for name in _IDS]
        if in_first("pid", self.folder) or None in inner:
            return 0, 0, 0
        tid, tgid = (int(found[1]) for found in inner if found)
        try:
            return tid, tgid, (self.folder / "ns/pid").stat().st_ino
        except OSError:
            return 0, 0, 0

    def comm(self) -> bytes:
        return self._read("comm").removesuffix("\n").encode(errors="replace")[: _COMM_LEN - 1]

    def switches(self) -> int:
        return sum(map(int, _SWITCHES.findall(self._read("status"))))

    def state(self) -> str:
        """Return the letter of the state; empty for a thread that has ended."""
        return self._read("stat").rpartition(")")[2].strip()[:1]

    def user_ticks(self) -> str:
        """Return how long the thread has run outside the kernel, as text in ticks."""
        return (self._read("stat").rpartition(")")[2].split() or [""] * 12)[11]

    def stack(self) -> list[tuple[str, int, int, str | None]]:
        """Return name, offset, size and module of each frame, innermost first."""
        frames = _FRAME.findall(self._read("stack"))
        return [(name, int(at, 16), int(size, 16), mod or None) for name, at, size, mod in frames]


def places_in_use(buckets: bytes, size: int) -> list[int]:
    """Return the places of the table that a thread uses, from its ``buckets`` of ``size`` bytes.

    A bucket begins with the addresses of its threads' ``task_struct``. The upper byte of an address
    is never 0. Usually all buckets are empty, so the function scans that byte of all buckets at
    once.
    """
    return sorted(
        number * _BUCKET_SIZE + i
        for i in range(_BUCKET_SIZE)
        for number, last in enumerate(buckets[8 * i + 7 :: size].rstrip(b"\0"))
        if last
    )


class RunningCalls:
    """Finds the sessions in the maps of ``loaded``.

    ``is_sure``: the kernel misses no return. Then a thread without a context switch is still in its
    call, even if a tail call has removed the call's frame from the stack.
    """

    def __init__(
        self,
        loaded: LoadedObject,
        functions: Sequence[Function],
        kallsyms: Kallsyms,
        *,
        is_sure: bool,
        proc: Path = Path("/proc"),
    ) -> None:
        self._obj = loaded.obj
        self._types = loaded.types
        self._buckets = loaded.obj.map("buckets")
        self._functions = functions
        self._kallsyms = kallsyms
        self._is_sure = is_sure
        self._proc = proc

    # usually no session exists, and these values are not needed

    @cached_property
    def _offsets(self) -> dict[str, dict[str, int]]:
        structs = {name: self._types.btf.struct(name) or () for name in ("session", "log_mark")}
        return {
            name: {member.name: member.bit_offset // 8 for member in members}
            for name, members in structs.items()
        }

    @cached_property
    def _record(self) -> Layout:
        return layout_named(self._types.layouts, "rsn_session")

    @cached_property
    def _slot_size(self) -> int:
        return layout_named(self._types.layouts, "rsn_slot").size

    @cached_property
    def _field(self) -> dict[str, int]:
        return {member.name: index for index, member in enumerate(self._record.members)}

    def see(self) -> Seen:
        """Return the current sessions' threads. Call it before the gate is closed."""
        seen = {}
        places = self._places()
        ids = self._ids_now() if places else ProcessIds()
        for place in places:
            fields = self._fields(place)
            tgid, tid, start = (fields[self._field[name]] for name in ("tgid", "tid", "start_ts"))
            seen[tid, start] = self._thread(ids, tgid, tid).switches()
        return Seen(seen, ids)

    def _thread(self, ids: ProcessIds, tgid: int, tid: int) -> _Thread:
        """Return the thread with these kernel ids."""
        return _Thread(ids.proc_thread(tgid), ids.proc_thread(tid), self._proc)

    def _ids_now(self) -> ProcessIds:
        """Return the current ids of threads in /proc."""
        try:
            return process_ids(self._obj)
        except RetsnoopError:
            return ProcessIds({})

    def records(self, seen: Seen) -> bytes:
        """Return the records of all running calls, in the kernel side's format."""
        return b"".join(self._records_of(place, seen) for place in self._places())

    def _places(self) -> list[_Place]:
        size = self._buckets.value_size
        places = places_in_use(self._buckets.read_all(), size)
        if not places:
            return []
        sessions = self._obj.map("sessions")
        found = [_Place(place, sessions.lookup(struct.pack("=I", place))) for place in places]
        at_rest, depth = self._offsets["session"]["at_rest"], self._offsets["session"]["depth"]
        return [
            place
            for place in found
            if place.data[at_rest] and struct.unpack_from("=I", place.data, depth)[0]
        ]

    def _fields(self, place: _Place) -> list[Any]:
        at = self._offsets["session"]["rec"]
        return list(self._record.format().unpack_from(place.data, at))

    def _number(self, place: _Place, name: str, code: str = "I") -> int:
        value: int = struct.unpack_from("=" + code, place.data, self._offsets["session"][name])[0]
        return value

    def _records_of(self, place: _Place, seen: Seen) -> bytes:
        """Return the session's record after its log; empty if the session has ended since."""
        fields, now = self._fields(place), time.monotonic_ns()
        field = self._field
        tgid, tid, start = (int(fields[field[name]]) for name in ("tgid", "tid", "start_ts"))
        thread = self._thread(seen.ids, tgid, tid)
        depth = min(self._number(place, "depth"), _MAX_DEPTH)
        at = self._offsets["session"]["slots"]
        slots = place.data[at : at + depth * self._slot_size]
        running = [
            self._functions[number]
            for (number,) in struct.iter_unpack(f"=I{self._slot_size - 4}x", slots)
        ]
        kstack = self._where(thread, running, unmoved=seen.switches.get((tid, start)))
        if kstack is None:
            return b""
        if self._number(place, "outer_cnt"):
            kstack = [*kstack, *self._call_sites(place, depth)]
        del kstack[_MAX_KSTACK:]
        events = self._events(place, fields)
        flags = SessionFlags.RUNNING
        if self._number(place, "misses_shared", "B"):
            flags |= SessionFlags.SWITCHED
        size = self._record.size + len(slots) + 8 * len(kstack)
        for name, value in (
            *(("type", RecordType.SESSION), ("size", size), ("emit_ts", now), ("flags", flags)),
            *(("depth", depth), ("slot_cnt", depth), ("stitch_pos", 0)),
            *(("kstack_cnt", len(kstack)), ("parts", fields[field["parts"]] + bool(events))),
            ("task_comm", thread.comm()),
            ("proc_comm", self._thread(seen.ids, tgid, tgid).comm()),
            ("proc_tgid", seen.ids.proc_thread(tgid) or 0),
            *zip(("ns_tid", "ns_tgid", "pid_ns"), thread.inner_ids(), strict=True),
        ):
            fields[field[name]] = value
        record = self._record.format().pack(*fields)
        return events + record + slots + struct.pack(f"={len(kstack)}Q", *kstack)

    def _where(
        self, thread: _Thread, running: Sequence[Function], unmoved: int | None
    ) -> list[int] | None:
        """Return the kernel stack of a thread inside its calls; None if it has left them or ended.

        A thread that runs on a CPU has no stack. It counts as inside its calls if it does not leave
        the kernel while it is watched.
        """
        ticks, end = thread.user_ticks(), time.monotonic() + _WATCHED
        while thread.state() == "R" and time.monotonic() < end:
            time.sleep(_STEP)
        state = thread.state()
        if state == "R":
            return [] if thread.user_ticks() == ticks else None
        frames = thread.stack() if state else []
        inside = any(_is_frame_of(function, frame) for function in running for frame in frames)
        if not inside and not (state and self._is_sure and unmoved == thread.switches()):
            return None
        addresses = []
        for frame in frames:
            if frame[0].endswith(_RETURN_PROBE):
                break
            addresses.append(self._address(*frame))
        return addresses

    def _address(self, name: str, offset: int, size: int, module: str | None) -> int:
        """Return the address of a frame in /proc; 0 if its symbol is unknown."""
        symbols = self._kallsyms.named(name, module)
        symbols = [symbol for symbol in symbols if symbol.module == module] or symbols
        best = [symbol for symbol in symbols if symbol.size == size] or symbols
        return best[0].address + offset if best else 0

    def _call_sites(self, place: _Place, depth: int) -> list[int]:
        """Return the running calls' return addresses, innermost first, then the callers above."""
        at, outer = (self._offsets["session"][name] for name in ("sites", "outer"))
        sites = struct.unpack_from(f"={depth}Q", place.data, at)
        above = struct.unpack_from(f"={self._number(place, 'outer_cnt')}Q", place.data, outer)
        return [*reversed(sites), *above[2:]]

    def _events(self, place: _Place, fields: Sequence[Any]) -> bytes:
        """Return the session's log as a record."""
        mark, at = self._offsets["log_mark"], self._offsets["session"]["log"]
        used, count = (
            struct.unpack_from("=I", place.data, at + mark[name])[0] for name in ("bytes", "events")
        )
        logs = self._obj.map("logs")
        if not used or logs.max_entries <= place.number:
            return b""
        log = logs.lookup(struct.pack("=I", place.number))
        part = layout_named(self._types.layouts, "rsn_part")
        values = {
            "type": RecordType.EVENTS,
            "size": part.size + used,
            "start_ts": fields[self._field["start_ts"]],
            "tid": fields[self._field["tid"]],
            "cnt": count,
        }
        head = part.format().pack(*(values[member.name] for member in part.members))
        room = int.from_bytes(self._obj.global_bytes(".rodata", "log_bytes")[:], "little")
        start = len(log) - room
        return head + log[start : start + used]


def _is_frame_of(function: Function, frame: tuple[str, int, int, str | None]) -> bool:
    """Return True if the frame belongs to ``function``, or to the trampoline that calls it."""
    name, _, _, module = frame
    if name.startswith("bpf_trampoline_"):
        key = name.removeprefix("bpf_trampoline_")
        return key.isdecimal() and int(key) & 0xFFFFFFFF == function.btf_id
    return name.partition(".cold")[0] == function.name and module == function.module
