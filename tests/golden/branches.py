# SPDX-License-Identifier: BSD-2-Clause
"""Branch records made from the stacks of a real run, for CPUs that record no branches.

Each session of a recording gets plausible return branches: from the innermost traced function, then
from each function to its caller. Two branches of tracing itself precede them.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from retsnoop_py.recording.format import (
    FrameKind,
    decode_end,
    decode_header,
    decode_symbols,
)
from retsnoop_py.recording.reader import read_frames
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.session.collector import Collector, RecordType
from retsnoop_py.session.layouts import Layout, layout_named
from retsnoop_py.session.model import Session
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.value import replace

#: PERF_SAMPLE_BRANCH_KERNEL and ANY_RETURN.
RETURNS = 1 << 1 | 1 << 5
#: Branches of tracing itself, inside BPF programs.
_TRACING = (
    (0xFFFFFFFFC0000000, 0xFFFFFFFFC0000100),
    (0xFFFFFFFFC0000200, 0xFFFFFFFFC0000300),
)
#: Offset of the return in each function.
_RETURN = 4

Known = dict[int, Resolved]


def with_branches(source: Path, target: Path) -> None:
    """Write the recording ``source`` with branches to ``target``."""
    frames = list(read_frames(source))
    header = decode_header(frames[0].payload)
    live = replace(header, views=replace(header.views, lbr=RETURNS))
    known: Known = {}
    collector = Collector(header.functions, header.layouts)
    with RecordingWriter(target) as writer:
        writer.start(live)
        for frame in frames:
            if frame.kind == FrameKind.SYMBOLS:
                symbols = decode_symbols(frame.payload)
                known.update((resolved.address, resolved) for _, resolved in symbols)
                writer.write(symbols, b"")
            elif frame.kind == FrameKind.RECORDS:
                batch = b"".join(_records(header, collector, frame.payload, known))
                writer.write([(False, resolved) for resolved in known.values()], batch)
            elif frame.kind == FrameKind.END:
                writer.end(decode_end(frame.payload).stats, {})


def _records(
    header: StreamHeader, collector: Collector, batch: bytes, known: Known
) -> Iterator[bytes]:
    """Yield the records of a batch, with the branches of each session before its record."""
    layout = layout_named(header.layouts, "rsn_session")
    position = 0
    while position < len(batch):
        _, size = struct.unpack_from("<II", batch, position)
        record = bytearray(batch[position : position + (size + 7 & ~7)])
        for session in collector.feed(bytes(record)):
            yield _branches(header, session, known)
            _count_part(layout, record)
        yield bytes(record)
        position += len(record)


def _branches(header: StreamHeader, session: Session, known: Known) -> bytes:
    innermost = session.calls[-1].function
    left = innermost.address + _RETURN
    known[left] = Resolved(left, innermost.name, _RETURN, innermost.address, innermost.module)
    ways = [*_TRACING, *pairwise((left, *session.kstack))]
    payload = b"".join(struct.pack("<QQQ", *way, 0) for way in ways[:32])
    head = layout_named(header.layouts, "rsn_part")
    fields = {
        "type": int(RecordType.BRANCHES),
        "size": head.size + len(payload),
        "start_ts": session.start_ns,
        "tid": session.tid,
        "cnt": len(payload) // 24,
    }
    return head.format().pack(*(fields[member.name] for member in head.members)) + payload


def _count_part(layout: Layout, record: bytearray) -> None:
    (parts,) = (member for member in layout.members if member.name == "parts")
    (count,) = struct.unpack_from("<I", record, parts.offset)
    struct.pack_into("<I", record, parts.offset, count + 1)
