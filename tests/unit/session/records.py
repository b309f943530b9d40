# SPDX-License-Identifier: BSD-2-Clause
"""Raw records made by hand, with the layouts of ``src/bpf/records.h`` read from its text."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Sequence
from math import prod
from pathlib import Path
from typing import TextIO

from retsnoop_py.kernel.flags import flags_of, result_for
from retsnoop_py.kernel.functions import FuncFlags, Function, ResultKind, ResultType
from retsnoop_py.render.renderers import Printer
from retsnoop_py.session.layouts import RECORD_STRUCTS, Layout, Member
from retsnoop_py.session.model import Call, CapturedValue, EventKind, Session
from retsnoop_py.session.pipeline import Pipeline, Recorder
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.frames import Resolved, SourceFrame, Symbolizer, UserSymbolizer

HEADER = (Path(__file__).parents[3] / "src/bpf/records.h").read_text()
_CODES = {
    "__u8": "B",
    "__u16": "H",
    "__s16": "h",
    "__u32": "I",
    "__s32": "i",
    "__u64": "Q",
    "__s64": "q",
}

INT = ResultType(ResultKind.INT)
LONG = ResultType(ResultKind.INT, 8, True, "long")
PTR = ResultType(ResultKind.PTR, 8, False, "void *")
VOID = ResultType(ResultKind.VOID, 0, False, "void")
BOOL = ResultType(ResultKind.BOOL, 1, False, "bool")


def enumerators(name: str) -> dict[str, int]:
    """The constants of an enum of the header."""
    body = re.search(rf"enum {name} \{{(.*?)\}}", HEADER, re.S)
    assert body
    return {k: int(v) for k, v in re.findall(r"(\w+) = (\d+),", body[1])}


def _length(expression: str) -> int:
    """Of an array: a product of the header's constants."""
    return prod(int(re.findall(rf"{one} = (\d+),", HEADER)[0]) for one in expression.split(" * "))


def _layout(name: str) -> Layout:
    body = re.search(rf"struct {name} \{{(.*?)\n\}}", HEADER, re.S)
    assert body
    members, position, largest = [], 0, 1
    for kind, member, array in re.findall(r"\t(\w+) (\w+)(?:\[([\w *]+)\])?;", body[1]):
        code = f"{_length(array)}s" if array else _CODES[kind]
        align = 1 if array else struct.calcsize(code)
        position = -(-position // align) * align
        members.append(Member(member, position, code))
        position += struct.calcsize(code)
        largest = max(largest, align)
    return Layout(name, -(-position // largest) * largest, tuple(members))


LAYOUTS = tuple(_layout(name) for name in RECORD_STRUCTS)


def function(
    name: str,
    address: int = 0,
    result: ResultType = INT,
    flags: FuncFlags | None = None,
    module: str | None = None,
) -> Function:
    """A function; its flags follow from its type unless given."""
    if flags is None:
        flags = flags_of(result_for(name, result))
    return Function(name, address, 0x100, flags, result, module)


def call(
    of: Function | str,
    result: int = -22,
    latency_ns: int = 5000,
    *,
    finished: bool = True,
    stitched: bool = False,
) -> Call:
    """A traced call."""
    traced = function(of) if isinstance(of, str) else of
    func_id = FUNCTIONS.index(traced) if traced in FUNCTIONS else 0
    return Call(traced, func_id, 0, result, latency_ns, finished, stitched)


def session(*calls: Call, kstack: Sequence[int] = (), **changes: object) -> Session:
    """A failing session of thread 250, unless changed."""
    values: dict[str, object] = {
        "start_ns": 1_000_000_000,
        "emit_ns": 2_000_000_000,
        "tid": 250,
        "tgid": 240,
        "task_comm": "worker",
        "proc_comm": "loader",
        "is_error": True,
        "died": False,
        "calls": calls,
        "kstack": tuple(kstack),
        "last_seq": 9,
    }
    losses = dict.fromkeys(("dropped", "too_deep", "lost_exits", "lost_entries"), 0)
    return Session(**(values | losses | changes))  # type: ignore[arg-type]


def pack(name: str, **values: object) -> bytes:
    """A struct as bytes; members not given are 0."""
    layout = next(layout for layout in LAYOUTS if layout.name == name)
    empty = {m.name: b"" if m.code.endswith("s") else 0 for m in layout.members}
    assert values.keys() <= empty.keys()
    return layout.format().pack(*(empty | values).values())


def raw_session(
    slots: Sequence[tuple[int, int, int, int]],
    kstack: Sequence[int] = (),
    extra: bytes = b"",
    **values: object,
) -> bytes:
    """A session record, padded to 8 bytes; ``slots`` are func_id, seq, result, latency."""
    tail = b"".join(
        pack("rsn_slot", func_id=f, seq=s, result=r, latency=ns) for f, s, r, ns in slots
    )
    tail += struct.pack(f"<{len(kstack)}Q", *kstack) + extra
    counts = {"slot_cnt": len(slots), "kstack_cnt": len(kstack)}
    size = len(pack("rsn_session")) + len(tail)
    record = pack("rsn_session", **({"type": 1, "size": size} | counts | values)) + tail
    return record + bytes(-len(record) % 8)


def raw_events(
    start_ts: int, tid: int, *events: tuple[EventKind, int, int, int], first: int = 1
) -> bytes:
    """A part with events: kind, depth, function or probe, result, a microsecond apart."""
    items = b"".join(
        pack(
            "rsn_event",
            size=len(pack("rsn_event")),
            kind=int(kind),
            depth=depth,
            id=number,
            seq=seq,
            ts=start_ts + (seq - first) * 1000,
            result=result,
        )
        for seq, (kind, depth, number, result) in enumerate(events, first)
    )
    head = pack("rsn_part")
    size = len(head) + len(items)
    return pack("rsn_part", type=2, size=size, start_ts=start_ts, tid=tid, cnt=len(events)) + items


def captured_item(values: Sequence[CapturedValue], kind: int = 4, **head: int) -> bytes:
    """``struct rsn_args`` with what follows it; ``head``: id and seq."""
    table = b"".join(
        pack("rsn_arg", value=len(one.value), data=len(one.data) if not one.error else -one.error)
        for one in values
    )
    data = b"".join(_padded(part) for one in values for part in (one.value, one.data))
    size = len(pack("rsn_args")) + len(_padded(table)) + len(data)
    return pack("rsn_args", size=size, kind=kind, cnt=len(values), **head) + _padded(table) + data


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 8)


def raw_part(payload: bytes, kind: int = 2, **values: object) -> bytes:
    """A part of a session, of events unless ``kind`` says otherwise."""
    size = len(pack("rsn_part")) + len(payload)
    return pack("rsn_part", type=kind, size=size, **values) + _padded(payload)


#: Three functions one calling the other, and where they call.
SYS_BPF = function("__x64_sys_bpf", 0xFFFFFFFF81001000, LONG, FuncFlags.ENTRY)
MAP_CREATE = function("map_create", 0xFFFFFFFF81002000)
ALLOC = function("array_map_alloc", 0xFFFFFFFF81003000, PTR)
FUNCTIONS = (SYS_BPF, MAP_CREATE, ALLOC)

#: Innermost first, as the kernel gives it.
KSTACK = (0xFFFFFFFF8100211F, 0xFFFFFFFF81001021, 0xFFFFFFFF81000087)


def failing_session(**values: object) -> bytes:
    """A record of the three functions: -ENOMEM through a NULL."""
    slots = [(0, 0, -12, 73_000), (1, 1, 0xFFFFFFF4, 70_000), (2, 2, 0, 50_000)]
    head = {
        "start_ts": 10_000_000_000,
        "emit_ts": 10_000_100_000,
        "tid": 7,
        "tgid": 6,
        "task_comm": b"worker",
        "proc_comm": b"loader",
        "flags": 1,
        "last_seq": 5,
    }
    return raw_session(slots, KSTACK, **(head | values))


#: What happened in the session of :func:`failing_session`, the last return being ``last_seq``.
EVENTS = (
    (EventKind.ENTRY, 1, 0, 0),
    (EventKind.ENTRY, 2, 1, 0),
    (EventKind.ENTRY, 3, 2, 0),
    (EventKind.EXIT, 3, 2, 0),
    (EventKind.EXIT, 2, 1, 0xFFFFFFF4),
    (EventKind.EXIT, 1, 0, -12),
)


def traced_session() -> bytes:
    """:func:`failing_session` with its events before it."""
    return raw_events(10_000_000_000, 7, *EVENTS) + failing_session(last_seq=6, parts=1)


class Symbols:
    """A symbolizer over a few functions: name, start, size, DWARF frames by address."""

    def __init__(
        self,
        *functions: tuple[str, int, int] | Function,
        sources: dict[int, tuple[SourceFrame, ...]] | None = None,
    ) -> None:
        self._functions = [
            f if isinstance(f, tuple) else (f.name, f.address, f.size) for f in functions
        ]
        self._sources = sources or {}
        self.asked: list[tuple[int, bool]] = []

    def resolve(self, address: int, *, is_return: bool = True) -> Resolved:
        self.asked.append((address, is_return))
        for name, start, size in self._functions:
            if start <= address < start + size:
                frames = self._sources.get(address, ())
                return Resolved(address, name, address - start, start, None, frames)
        return Resolved(address, None, 0, 0, None)


SYMBOLS = (
    ("do_syscall_64", 0xFFFFFFFF81000000, 0x100),
    *((f.name, f.address, 0x200) for f in FUNCTIONS),
)
SOURCES = {
    KSTACK[2]: (
        SourceFrame("do_syscall_64", "arch/x86/entry/common.c", 78),
        SourceFrame("do_syscall_x64", "arch/x86/entry/common.c", 47),
    ),
    KSTACK[1]: (SourceFrame("__se_sys_bpf", "kernel/bpf/syscall.c", 5784),),
}


def symbols() -> Symbols:
    """The symbolizer that knows :data:`KSTACK`."""
    return Symbols(*SYMBOLS, sources=SOURCES)


def facts(**changes: object) -> StreamHeader:
    """Facts of a run that traced :data:`FUNCTIONS`, one hour ahead of UTC."""
    values: dict[str, object] = {
        "functions": FUNCTIONS,
        "layouts": LAYOUTS,
        "realtime_offset_ns": 1_700_000_000_000_000_000,
        "utc_offset_s": 3600,
        "release": "6.12.107",
    }
    return StreamHeader(**(values | changes))  # type: ignore[arg-type]


def session_part(kind: int, payload: bytes, cnt: int, start_ts: int = 10_000_000_000) -> bytes:
    """A part of the session of :func:`failing_session`; ``kind`` is of ``rsn_record_type``."""
    size = len(pack("rsn_part")) + len(payload)
    head = pack("rsn_part", type=kind, size=size, start_ts=start_ts, tid=7, cnt=cnt)
    return head + payload + bytes(-size % 8)


def raw_branches(*branches: tuple[int, int], error: int = 0) -> bytes:
    """Branch records, newest first, or why there are none (an errno)."""
    payload = b"".join(struct.pack("<QQQ", source, target, 0) for source, target in branches)
    return session_part(3, payload, -error or len(branches))


def raw_user_stack(*frames: tuple[int, str, int]) -> bytes:
    """A user stack: status, build id in hex and offset or address of each frame."""
    payload = b"".join(
        struct.pack("<i20sQ", status, bytes.fromhex(build_id), place)
        for status, build_id, place in frames
    )
    return session_part(4, payload, len(frames))


def printing(
    stream: StreamHeader,
    settings: Settings,
    symbolizer: Symbolizer,
    out: TextIO,
    recorder: Recorder | None = None,
    err: TextIO | None = None,
    users: UserSymbolizer | None = None,
) -> Pipeline:
    """A pipeline that prints, as the command line's."""
    sink = Printer(stream, settings, out, err or io.StringIO())
    return Pipeline(stream, settings, symbolizer, sink, recorder, users)
