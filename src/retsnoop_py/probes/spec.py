# SPDX-License-Identifier: BSD-2-Clause
"""The user's notation for injected probes, and the resulting places in a kernel.

``kprobe:NAME[+OFF]``, ``kprobe:FILE:LINE``, ``kretprobe:NAME``, ``rawtp:NAME`` and
``tp:CATEGORY:NAME``; in names ``*`` is any text and ``?`` any single character.
"""

from __future__ import annotations

import re
from enum import Enum

from retsnoop_py.errors import UsageError
from retsnoop_py.kernel.tracefs import Tracepoint
from retsnoop_py.value import Value

__all__ = ["Probe", "ProbeKind", "ProbeSpec", "parse"]

_FUNCTION = re.compile(
    r"(?P<name>[A-Za-z0-9_.*?]{1,255})(?:(?P<sign>[+-])(?P<offset>0[xX][0-9a-fA-F]+|[0-9]+))?"
)
_SOURCE_LINE = re.compile(r"(?P<path>[^:\s]{1,255}):(?P<line>[0-9]{1,9})")
_TRACEPOINT = re.compile(r"[A-Za-z0-9_*?-]{1,255}")
#: Larger than any function.
_OFFSET_LIMIT = 1 << 31

FORMATS = "kprobe:NAME[+OFF], kprobe:FILE:LINE, kretprobe:NAME, rawtp:NAME and tp:CATEGORY:NAME"


class ProbeKind(Enum):
    """The kinds of probes, as they are written."""

    KPROBE = "kprobe"
    KRETPROBE = "kretprobe"
    RAWTP = "rawtp"
    TP = "tp"


class ProbeSpec(Value):
    """A parsed ``-J``.

    ``name`` is the name of a function or tracepoint, possibly a glob. If ``line`` is not 0,
    ``name`` is the path of a source file. ``offset`` is in bytes, ``category`` belongs to a ``tp``.
    """

    text: str
    kind: ProbeKind
    name: str
    category: str = ""
    offset: int = 0
    line: int = 0

    @property
    def is_broad(self) -> bool:
        """True if the spec may mean several places, so that some of them may fail."""
        return bool(self.line) or self.is_glob

    @property
    def is_glob(self) -> bool:
        """True if the spec has wildcards."""
        return not self.line and bool(set("*?") & set(self.name + self.category))


class Probe(Value):
    """A place where a probe is injected; its id is its position among all probes of the run.

    ``label`` is the text in the output. ``address`` belongs to a kprobe or kretprobe, ``function``
    is the name of the function there. ``tracepoint`` has no category for a raw tracepoint, and is
    None for kprobes. ``event`` is the number of a ``tp``.
    """

    spec: ProbeSpec
    label: str
    address: int = 0
    function: str = ""
    tracepoint: Tracepoint | None = None
    event: int = 0

    @property
    def kind(self) -> ProbeKind:
        """The kind of the probe."""
        return self.spec.kind


def parse(text: str) -> ProbeSpec:
    """Return the probe spec of ``text``. Raises :class:`UsageError` for invalid text."""
    word, colon, rest = text.partition(":")
    try:
        kind = ProbeKind(word)
    except ValueError:
        raise UsageError(
            f"-J {text}: " + (f"unknown kind of probe '{word}'" if colon else "not a probe"),
            f"there are {FORMATS}",
        ) from None
    if kind is ProbeKind.TP:
        return _tracepoint(text, rest)
    if kind is ProbeKind.RAWTP:
        if not _TRACEPOINT.fullmatch(rest):
            hint = "write rawtp:NAME, without a category" if ":" in rest else "write rawtp:NAME"
            raise UsageError(f"-J {text}: '{rest}' is not the name of a tracepoint", hint)
        return ProbeSpec(text, kind, rest)
    if kind is ProbeKind.KPROBE and ":" in rest:
        return _source_line(text, rest)
    return _function(text, kind, rest)


def _tracepoint(text: str, rest: str) -> ProbeSpec:
    category, colon, name = rest.partition(":")
    if not colon or not all(map(_TRACEPOINT.fullmatch, (category, name))):
        raise UsageError(
            f"-J {text}: '{rest}' is not the category and the name of a tracepoint",
            "write tp:CATEGORY:NAME, such as tp:sched:sched_process_exec or 'tp:nfs:*'",
        )
    return ProbeSpec(text, ProbeKind.TP, name, category)


def _source_line(text: str, rest: str) -> ProbeSpec:
    found = _SOURCE_LINE.fullmatch(rest)
    if not found or not int(found["line"]):
        raise UsageError(
            f"-J {text}: '{rest}' is not a line of a source file",
            "write kprobe:FILE:LINE, such as kprobe:kernel/bpf/syscall.c:1100",
        )
    return ProbeSpec(text, ProbeKind.KPROBE, found["path"], line=int(found["line"]))


def _function(text: str, kind: ProbeKind, rest: str) -> ProbeSpec:
    found = _FUNCTION.fullmatch(rest)
    if not found:
        what = "the name of a function, with or without +OFFSET"
        raise UsageError(
            f"-J {text}: '{rest}' is not {what}",
            f"write {kind.value}:NAME" + ("[+OFF]" if kind is ProbeKind.KPROBE else ""),
        )
    spec = ProbeSpec(text, kind, found["name"], offset=_offset(text, found["offset"] or "0"))
    if found["sign"] == "-" and spec.offset:
        raise UsageError(
            f"-J {text}: an offset counts from a function's start, so it cannot be negative"
        )
    if spec.offset and kind is ProbeKind.KRETPROBE:
        raise UsageError(
            f"-J {text}: a kretprobe has no offset: it fires when the whole function returns",
            f"write kretprobe:{spec.name}, or kprobe:{rest}",
        )
    if spec.offset and spec.is_glob:
        raise UsageError(
            f"-J {text}: an offset makes sense in one function only", "write that function's name"
        )
    return spec


def _offset(text: str, digits: str) -> int:
    """Return an integer in C notation: hexadecimal after ``0x``, octal after ``0``."""
    octal = digits.startswith("0") and digits.isdecimal()
    try:
        offset = int(digits, 8 if octal else 0)
    except ValueError:
        raise UsageError(
            f"-J {text}: '{digits}' is not a number: it begins with 0, so it is octal"
        ) from None
    if offset >= _OFFSET_LIMIT:
        raise UsageError(f"-J {text}: no function has {offset} bytes")
    return offset
