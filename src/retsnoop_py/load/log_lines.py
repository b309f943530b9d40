# SPDX-License-Identifier: BSD-2-Clause
"""Lines of a log from anywhere, freed of what others put around them.

A verifier log reaches people through libbpf, bpftool, Go and Rust loaders, systemd, container
engines and CI pages, each of which adds colours, time stamps, names, or quotes the whole of it
as one string.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Protocol

from retsnoop_py.value import Value

__all__ = ["Lines", "Segment", "clean", "segments"]

#: Bytes of one line that are looked at; the verifier's own are below 1 KiB, a quoted log is one.
_MAX_LINE = 1 << 20
#: Characters of a line that are kept, once a quotation is taken apart: the longest states.
_MAX_TEXT = 4096
#: Bytes of one program's log that are kept: its end says why, its beginning is left out.
_MAX_SEGMENT = 2 << 20

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r")
_LOGFMT = re.compile(r'\b(?:msg|error|err)="((?:[^"\\]|\\.)*)"')
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_PREFIX = re.compile(
    r"(?:"
    rf"\[?\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?\]?:?\s"  # ISO 8601, Go's log
    rf"|[A-Z][a-z]{{2}}\s+\d+\s{_CLOCK}\s\S+\s[^\s:]+:\s?"  # syslog, journalctl
    rf"|\[?{_CLOCK}\]?\s"
    r"|\[\s*\d+\.\d+\]\s"  # dmesg
    r"|[IWEF]\d{4}\s[\d:.]+\s+\d+\s\S+:\d+\]\s"  # klog
    r"|(?:\[)?(?:DEBUG|INFO|WARN|WARNING|ERROR|TRACE)(?:\])?:?\s+"
    r"|[A-Za-z][\w./-]*\s*\|\s"  # docker compose
    r"|##\[\w+\]"  # GitHub's annotations
    r"|>(?!>)\s?"  # a quotation
    r"|(?:libbpf|bpf):\s(?=\S)"
    r")"
)
_MOST_PREFIXES = 5
#: What only a verifier's log has, inside a string that quotes the whole of it.
_QUOTED = re.compile(r"\\n\\?t?\s*(?:\d+: \([0-9a-f]{2}\)|processed \d+ insns|R\d+ )")


class Lines(Protocol):
    """What lines are read from: a binary file, say."""

    def readline(self, size: int, /) -> bytes:
        """The next line, no more than ``size`` bytes of it; nothing at the end."""


class Segment(Value):
    """Lines that belong together: one program's log, or what stands between two.

    ``first``: the number of its first line in the input, from 1. ``dropped``: lines left out of
    its beginning. ``bytes``: of all of it.
    """

    first: int
    lines: tuple[str, ...]
    dropped: int
    bytes: int


def clean(line: str) -> str:
    """``line`` without colours, time stamps and the like; its indentation stays."""
    if "\x1b" in line or "\r" in line:
        line = _ANSI.sub("", line)
    if "msg=" in line:
        told = _LOGFMT.findall(line)
        if told:
            line = ": ".join(told).replace('\\"', '"')
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(line.lstrip())
        if found is None or not found.end():
            break
        line = line.lstrip()[found.end() :]
    return line.rstrip()


def _unquoted(line: str) -> list[str]:
    """The lines of a log that somebody wrote as one string, its line ends escaped."""
    if "\\n" not in line or not _QUOTED.search(line):
        return [line]
    return line.replace("\\t", "\t").replace('\\"', '"').split("\\n")


def _raw_lines(stream: Lines) -> Iterator[bytes]:
    while line := stream.readline(_MAX_LINE):
        yield line


def _ends(line: bytes) -> bool:
    """Whether a program's log ends with this line."""
    return (
        (b"processed " in line and b" insns" in line)
        or (b"-- END " in line and b"LOG" in line)
        or b"line(s) omitted)" in line  # cilium/ebpf's summary is one line
    )


def _begins(line: bytes) -> bool:
    return b"BEGIN " in line and b" LOG" in line


def segments(stream: Lines) -> Iterator[Segment]:
    """The input cut where one program's log ends and another begins.

    Whatever the input's length, no more than two segments' worth of it is in memory.
    """
    kept: deque[bytes] = deque()
    size = held = dropped = 0
    first = 1
    for number, raw in enumerate(_raw_lines(stream), 1):
        if kept and _begins(raw):
            yield _segment(kept, first, dropped, size)
            kept, size, held, dropped, first = deque(), 0, 0, 0, number
        kept.append(raw)
        size += len(raw)
        held += len(raw)
        while held > _MAX_SEGMENT and len(kept) > 1:
            held -= len(kept.popleft())
            dropped += 1
        if _ends(raw):
            yield _segment(kept, first, dropped, size)
            kept, size, held, dropped, first = deque(), 0, 0, 0, number + 1
    if kept:
        yield _segment(kept, first, dropped, size)


def _segment(lines: Iterable[bytes], first: int, dropped: int, size: int) -> Segment:
    cleaned = [
        clean(line[:_MAX_TEXT])
        for raw in lines
        for line in _unquoted(raw.decode(errors="replace").rstrip("\n"))
    ]
    return Segment(first, tuple(cleaned), dropped, size)
