# SPDX-License-Identifier: BSD-2-Clause
"""Read a verifier log from any source: the program's name, the last messages, the executed path.

A verifier log reaches people through libbpf, bpftool, Go and Rust loaders, systemd, container
engines and CI pages. These tools add colours, time stamps or names, or quote the whole log as one
string.

The verifier prints instructions in the order in which it follows them, and returns to a branch with
``from A to B``. This module follows the instructions in the same order. It finds out where the
value of a register came from, what changed it and what checked it last.
"""

from __future__ import annotations

import re
from codecs import getincrementaldecoder
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import lru_cache

from retsnoop_py.load.loud_lines import OF_BPF, joined, may_report_failure, names_bpf
from retsnoop_py.load.time_limit import Lines
from retsnoop_py.value import Value, replace

#: Maximum length of a line in bytes. The verifier's lines have less than 1 KiB; a quoted log is one
#: line.
_MAX_LINE = 1 << 20
#: Maximum length of a line in characters after a quoted log is split. The longest lines are states.
_MAX_TEXT = 4096
#: Maximum size of one program's log in bytes. The beginning is dropped, because the end has the
#: reason.
_MAX_SEGMENT = 2 << 20
#: Maximum number of lines. The verifier's lines have at least 20 bytes; the limit bounds the time
#: for empty lines.
_MAX_LINES = 1 << 17

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\r")
_LOGFMT = re.compile(r'\b(?:msg|error|err)="((?:[^"\\]|\\.)*)"')
_JSON = re.compile(r'"(?:msg|message|log|error|err)": ?"((?:[^"\\]|\\.)*)"')
_JSON_ESCAPE = re.compile(r"\\u00([0-7][0-9a-fA-F])|\\[nr]$")
_CLOCK = r"\d\d:\d\d:\d\d(?:[.,]\d+)?"
_PREFIX = re.compile(
    r"(?:"
    rf"\[?\d{{4}}[-/]\d\d[-/]\d\d[T ]{_CLOCK}(?:Z|[+-]\d\d:?\d\d)?\]?:?\s"  # ISO 8601, Go's log
    rf"|[^\W\d_]{{3,4}}\.?\s+\d+\s{_CLOCK}\s\S+\s[^\s:]+:\s?"  # syslog, journalctl
    r"|[A-Za-z][\w.-]{0,40}\[\d+\]:\s(?=\S)"  # journalctl without the time
    rf"|\[?{_CLOCK}\]?\s"
    r"|\[\s*\d+\.\d+\]\s"  # dmesg
    r"|[IWEF](?:\d{4}){1,2}\s[\d:.]+\s+\d+\s\S+:\d+\]\s"  # klog
    r"|(?:TRAC|DEBU|INFO|WARN|ERRO|FATA)\[\d+\]\s"  # logrus
    r"|std(?:out|err) [FP] "  # a container's log, as Kubernetes stores it
    r"|\d\d-\d\d \d\d:\d\d:\d\d\.\d+\s+\d+\s+\d+ [VDIWEF] (?=\S)"  # logcat
    r"|(?:\[)?(?:DEBUG|INFO|WARN|WARNING|ERROR|FATAL|TRACE)(?:\])?:?\s+"
    r"|[A-Za-z][\w./-]*\s*\|\s"  # docker compose
    r"|\|\s\([\w./-]+:\d+ in \w+\)\s\|\s"  # source location in the loader, after the level
    r"|##\[\w+\]"  # GitHub's annotations
    r"|>(?!>)\s?"  # a quotation
    r"|(?:libbpf|bpf):\s(?=\S)"
    r")"
)
_MOST_PREFIXES = 6
#: Text that only a verifier log contains, inside a string that quotes the whole log.
_QUOTED = re.compile(r"\\n\\?t?\s*(?:\d+: \([0-9a-f]{2}\)|processed \d+ insns|R\d+ )")


class Segment(Value):
    """Lines that belong together: one program's log, or the lines between two logs.

    ``first``: the number of the first line in the input, from 1. ``dropped``: lines dropped from
    the beginning. ``bytes``: size of all lines. ``light`` and ``loud``: lines whose prefix has a
    level below warning, or of an error. ``names_bpf``: the dropped prefixes name BPF. ``goes_on``:
    the next segment continues or ends the same long log. ``is_verifiers``: the long log has
    verifier instructions. ``own``: start and end of the segment's own lines; other lines are
    context. None: all lines.
    """

    first: int
    lines: tuple[str, ...]
    dropped: int
    bytes: int
    light: frozenset[int] = frozenset()
    names_bpf: bool = False
    loud: frozenset[int] = frozenset()
    goes_on: bool = False
    is_verifiers: bool = False
    own: tuple[int, int] | None = None

    def own_lines(self) -> range:
        """Return the offsets of the segment's own lines."""
        return range(*self.own) if self.own else range(len(self.lines))


#: Log levels below warning.
_LIGHT = re.compile(
    r"\b(?:level|lvl|severity)\"?[=:] ?\"?(?:debug|info|trace)\b"
    r"|(?<![\w/.])(?:DEBUG?|INFO?|TRACE?|TRC|DBG|INF)(?![\w/])|\[(?:debug|info|trace)\]"
    r"|^\s*[ID]\d{4} [\d:.]+ ",
    re.IGNORECASE,
)
#: Log levels of an error.
_AS_ERROR = re.compile(
    r"\b(?:level|lvl|severity)\"?[=:] ?\"?(?:err(?:or)?|fatal|panic|crit\w*)\b"
    r"|(?<![\w/.])(?:ERROR?|ERR|FATAL?|FTL|PANIC?|CRIT\w*|[Ee]rror|[Pp]anic|[Ff]atal)"
    r"(?:\[|\W{0,2}[: ])|\[(?:error|fatal|panic)\]"
    r"|^\s*[EF]\d{4} [\d:.]+ "
)
#: Error levels that :func:`clean` keeps.
_LOUD_HEAD = re.compile(r"\s*(?:panic: |fatal error: |FATAL? ?[\[:]|ERRO\[)")
#: A level stands within this number of characters from the start of a line.
_BEFORE_TEXT = 120


def _is_light(line: str) -> bool:
    """Return True if ``line`` has a level below warning. Go's loggers write the time first."""
    found = _LIGHT.search(line[:_BEFORE_TEXT])
    return found is not None and not re.search(r"err(?:or)?=", line[: found.start()])


#: Names in the kernel have at most 511 characters. Longer words are data, and slow for patterns.
_LONGEST_WORD = 600
_LONG_WORD = re.compile(rf"\w{{{_LONGEST_WORD + 1},}}")


#: Typographic quotes, as word processors and chat programs write them.
_TYPESET = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


def clean(line: str) -> str:
    """Return ``line`` without colours, time stamps and other prefixes; indentation stays."""
    if "\x1b" in line or "\r" in line:
        line = _ANSI.sub("", line)
    if not line.isascii():
        line = line.translate(_TYPESET)
    if "msg=" in line:
        told = _LOGFMT.findall(line)
        if told:
            line = ": ".join(told).replace('\\"', '"')
    elif '":' in line and (told := [_unescaped(text) for text in _JSON.findall(line)]):
        line = ": ".join(told)
    for _ in range(_MOST_PREFIXES):
        found = _PREFIX.match(line.lstrip())
        if found is None or not found.end():
            break
        line = line.lstrip()[found.end() :]
    if len(line) > _LONGEST_WORD:
        line = _LONG_WORD.sub("...", line)
    return line.rstrip()


def _unescaped(text: str) -> str:
    """Return the text of a JSON string, decoded as far as one line needs."""
    text = _JSON_ESCAPE.sub(lambda found: chr(int(found[1] or "20", 16)), text)
    return text.replace('\\"', '"').replace("\\t", "\t").replace("\\\\", "\\").rstrip()


def _unquoted(line: str) -> list[str]:
    """Return the lines of a log that is one string with escaped line ends or carriage returns."""
    if "\r" in line:
        line = line.rstrip("\r")
        if "\r" in line:
            return [part for one in line.split("\r") for part in _unquoted(one)]
    if "\\n" not in line or not _QUOTED.search(line):
        return [line]
    parts = line.replace("\\t", "\t").replace('\\"', '"').split("\\n")
    return [part.rstrip("\\") for part in parts]  # a string inside a string has one more escape


def _raw_lines(stream: Lines) -> Iterator[bytes]:
    first = stream.readline(_MAX_LINE)
    coding = _wide(first[:_HEAD])
    decode = getincrementaldecoder(coding)(errors="replace").decode if coding else None
    text, line = "", first
    while line:
        if decode is None:
            yield line
        else:
            *whole, text = (text + decode(line)).split("\n")
            for one in whole:
                yield one.encode(errors="replace") + b"\n"
            if len(text) > _MAX_LINE:
                yield text.encode(errors="replace")
                text = ""
        line = stream.readline(_MAX_LINE)
    if text:
        yield text.encode(errors="replace")


#: Number of bytes from which the encoding is detected.
_HEAD = 4096


def _wide(head: bytes) -> str:
    """Return the encoding of a UTF-16 log, as PowerShell writes it; empty for other logs."""
    if head.startswith((b"\xff\xfe", b"\xfe\xff")):
        return "utf-16"
    pairs = len(head) // 2
    for coding, nothing in (("utf-16-le", head[1::2]), ("utf-16-be", head[::2])):
        if nothing.count(0) * 2 > pairs > 0:
            return coding
    return ""


def _ends(line: bytes) -> bool:
    """Return True if a program's log ends with this line."""
    return (
        (b"processed " in line and b" insns" in line)
        or (b"-- END " in line and b"LOG" in line)
        or b"line(s) omitted)" in line  # cilium/ebpf's summary is one line
    )


def _begins(line: bytes) -> bool:
    return b"BEGIN " in line and b" LOG" in line


def segments(stream: Lines, *, only_ends: bool = False) -> Iterator[Segment]:
    """Yield the input as segments, cut where one program's log ends and another begins.

    At most two segments are in memory, whatever the input's length. The first line of a log is kept
    because it names the program. If a log is too long, the lines that may report a failure come
    first, in segments with ``goes_on``; ``only_ends`` omits these segments.
    """
    log = _Log(1)
    for number, raw in enumerate(_raw_lines(stream), 1):
        if log.lines and _begins(raw):
            yield log.segment()
            log = _Log(number, log.names_bpf)
        log.add(raw)
        if log.is_long():
            yield from log.shorten(with_excerpts=not only_ends)
        if _ends(raw):
            yield log.segment()
            log = _Log(number + 1, log.names_bpf)
    if log.lines:
        yield log.segment()


#: Lines of context above and below a line that may report a failure, and their maximum size in
#: bytes.
_ABOVE, _BELOW, _SURROUNDINGS = 40, 40, 1 << 16
#: Lines of context below a bpf(2) call, which may be repeated, and below BTF, which the kernel
#: lists.
_FAR_BELOW = 200


class _Log:
    """Lines that belong together, within the limits. ``first``: the number of the first line."""

    def __init__(self, first: int, names_bpf: bool = False) -> None:
        self.lines: list[bytes] = []
        self.names_bpf = names_bpf
        self._first = first
        self._size = self._held = self._dropped = 0
        #: Number of lines at the start that were already searched.
        self._past = 0

    def add(self, raw: bytes) -> None:
        """Add a line."""
        self.lines.append(raw)
        self._size += len(raw)
        self._held += len(raw)

    def is_long(self) -> bool:
        """Return True if the lines exceed the limits."""
        long = self._held > _MAX_SEGMENT or len(self.lines) > _MAX_LINES
        return long and len(self.lines) > self._past + 1

    def segment(self) -> Segment:
        """Return the kept lines as the end of the log."""
        found = _segment(self.lines, self._first, self._dropped, self._size)
        if not self._past:
            return found
        return replace(
            found,
            own=(_count(self.lines[: self._past]), len(found.lines)),
            names_bpf=found.names_bpf or self.names_bpf,
        )

    def shorten(self, *, with_excerpts: bool) -> Iterator[Segment]:
        """Drop about half of the lines; yield the dropped lines that may report a failure."""
        cut, held = self._past, self._held
        while cut < len(self.lines) - 1 and (
            cut == self._past or held * 2 > _MAX_SEGMENT or (len(self.lines) - cut) * 2 > _MAX_LINES
        ):
            held -= len(self.lines[cut])
            cut += 1
        if with_excerpts:
            yield from self._excerpts(cut)
        kept = max(cut - _ABOVE, 0)
        while kept < cut and sum(map(len, self.lines[kept:cut])) > _SURROUNDINGS:
            kept += 1
        head = self.lines[:1] if _begins(self.lines[0]) and kept else []
        self._dropped += kept - len(head)
        self._past = cut - kept + len(head)
        self.lines = head + self.lines[kept:]
        self._held = sum(map(len, self.lines))

    def _excerpts(self, cut: int) -> Iterator[Segment]:
        """Yield the lines before ``cut`` that may report a failure, with context."""
        text = joined(self.lines[self._past : cut])
        found = [self._past + number for number in may_report_failure(text)]
        if not self.names_bpf and OF_BPF.matches(text):
            lines = text.split("\n")
            self.names_bpf = any(names_bpf(lines[at]) for at in OF_BPF.offsets(text))
        is_verifiers = bool(found) and ": (" in text and _ANY_INSN.search(text) is not None
        for group in _groups(found):
            begin, last = max(group[0] - _ABOVE, 0), group[-1] + 1
            below = _FAR_BELOW if any(map(_has_far_below, self.lines[begin:last])) else _BELOW
            raw = self.lines[begin : last + below]
            excerpt = _segment(raw, self._first, self._dropped + begin, sum(map(len, raw)))
            yield replace(
                excerpt,
                own=(_count(raw[: group[0] - begin]), _count(raw[: last - begin])),
                names_bpf=self.names_bpf or excerpt.names_bpf,
                goes_on=True,
                is_verifiers=is_verifiers,
            )


def _groups(numbers: list[int]) -> Iterator[list[int]]:
    """Yield ``numbers`` (ascending) in groups; the context of a group's lines overlaps."""
    group: list[int] = []
    for number in numbers:
        if group and number - group[-1] > _ABOVE + _BELOW:
            yield group
            group = []
        group.append(number)
    if group:
        yield group


def _has_far_below(line: bytes) -> bool:
    return b"bpf(BPF_" in line or b"BTF" in line


def _count(raw: Iterable[bytes]) -> int:
    """Return the number of lines that a segment has after ``raw`` is split."""
    return sum(
        len(_unquoted(line.decode(errors="replace").rstrip("\n")))
        if b"\\n" in line or b"\r" in line
        else 1
        for line in raw
    )


#: An instruction as the verifier writes it, anywhere in a line.
_ANY_INSN = re.compile(r"(?<![\w.])\d+: \([0-9a-f]{2}\) \S")
#: Text that the verifier itself writes before an instruction: registers, or the branch.
_OWN = re.compile(r"\bR\d+|regs=|\bfrom \d+ to |^\s*;|line\(s\) omitted")
#: Parts of a foreign prefix that differ from line to line: numbers, spaces, levels.
_VARIES = re.compile(
    r"(\d+)|((?:\\? )+|(?:\\?\t)+)|\b(?:TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|FATAL|[DIWEF])\b"
)
_LONGEST_PREFIX = 200


def _prefix(lines: Iterable[str]) -> re.Pattern[str] | None:
    """Return a pattern for the prefix of a log's lines, found at its instructions, or None."""
    shapes: Counter[str] = Counter()
    for line in lines:
        found = _ANY_INSN.search(line) if ": (" in line else None
        before = line[: found.start()] if found else ""
        if before.strip() and len(before) < _LONGEST_PREFIX and not _OWN.search(before):
            shapes[_VARIES.sub(_varying, re.escape(before.rstrip()))] += 1
    best = shapes.most_common(1)
    return re.compile(best[0][0] + r"(?: |\t|$)?") if best and best[0][1] > 1 else None


def _varying(found: re.Match[str]) -> str:
    return r"\d+" if found[1] else r"\s+" if found[2] else r"\w+"


#: cilium/ebpf's one-line summary of a verifier log, and the text at its end.
_SUMMARY = re.compile(r"load program: [\w ]+: \S")
_SUMMARY_ENDS = "line(s) omitted)"
_WRAPPED_LINES = 3


def _unwrapped(lines: list[str]) -> list[str]:
    """Return ``lines`` with the final summary joined if a terminal or a person wrapped it."""
    if not lines or _SUMMARY_ENDS not in lines[-1] or _SUMMARY.search(lines[-1]):
        return lines
    for at in range(len(lines) - 2, max(len(lines) - 2 - _WRAPPED_LINES, -1), -1):
        if _SUMMARY.search(lines[at]):
            whole = " ".join(part.strip() for part in lines[at + 1 :])
            return [*lines[:at], f"{lines[at].rstrip()} {whole}", *("" for _ in lines[at + 1 :])]
    return lines


#: Number of segments whose cleaned lines are cached. A loader that tries again repeats its log.
_RECENT = 64
#: Maximum size of a cached segment in bytes.
_SHORT = 16 << 10


def _segment(lines: Iterable[bytes], first: int, dropped: int, size: int) -> Segment:
    raw = tuple(lines)
    cleaned = _cleaned_again(raw) if size <= _SHORT else _cleaned(raw)
    return replace(cleaned, first=first, dropped=dropped, bytes=size)


def _cleaned(raw: tuple[bytes, ...]) -> Segment:
    told = [
        line[:_MAX_TEXT]
        for one in raw
        for line in _unquoted(one.decode(errors="replace").rstrip("\n"))
    ]
    told = _unwrapped(told[-_MAX_LINES:])
    cleaned = [clean(line) for line in told]
    # A line without a prefix has no level.
    light = frozenset(
        number
        for number, (line, text) in enumerate(zip(told, cleaned, strict=True))
        if len(text) != len(line) and _is_light(line)
    )
    loud = frozenset(
        number
        for number, (line, text) in enumerate(zip(told, cleaned, strict=True))
        if _LOUD_HEAD.match(line)
        or (len(text) != len(line) and _AS_ERROR.search(line[: max(len(line) - len(text), 1)]))
    )
    prefix = _prefix(cleaned)
    if prefix is not None:
        cleaned = [
            prefix.sub("", line, count=1) if prefix.match(line) else line for line in cleaned
        ]
    names_bpf = any(
        "bpf" in line and "bpf" not in text for line, text in zip(told, cleaned, strict=True)
    )
    return Segment(1, tuple(cleaned), 0, 0, light, names_bpf, loud)


_cleaned_again = lru_cache(maxsize=_RECENT)(_cleaned)


#: Maximum number of stored branches. The verifier usually returns to a recent branch.
_MAX_BRANCHES = 4096
#: Helpers that invalidate pointers into the packet, from the kernel's
#: ``bpf_helper_changes_pkt_data`` in net/core/filter.c.
_CHANGES_PACKET = re.compile(
    r"bpf_(?:skb_(?:vlan_push|vlan_pop|store_bytes|change_\w+|pull_data|adjust_room)"
    r"|clone_redirect"
    r"|l[34]_csum_replace|xdp_adjust_\w+|msg_(?:pull|push|pop)_data|lwt_\w+|tcp_\w+|"
    r"(?:store|reserve)_hdr_opt)"
)

_COPY = re.compile(r"[rw](\d+) = \(?(?:s\d+\))?[rw](\d+)$")
_LOAD = re.compile(r"[rw](\d+) = \*\([us]\d+ \*\)\(r(\d+) ?([+-]\d+)\)")
_SPILL = re.compile(r"\*\(u64 \*\)\(r10 ?(-\d+)\) = r(\d+)")
_MOVED = re.compile(r"r(\d+) \+= (-?\d+)$")
_CALL = re.compile(r"call (?:(\w+)#(-?\d+)|(\d+)|(pc[+-]\d+|\w+))")
_SET = re.compile(r"[rw](\d+) = (.+)")
_CHANGE = re.compile(r"[rw](\d+) (?:[-+*/%|&^]|<<|>>|s>>|s/|s%)= ")
_NULL_TEST = re.compile(r"if r\d+ [!=]= 0x0 goto")
_BRANCH = re.compile(r"if [rw](\d+) \S+ (?:[rw](\d+)|\S+) goto")


class SourceLine(Value):
    """A line of the program's source, as quoted in the log."""

    text: str
    file: str = ""
    line: int = 0


class Insn(Value):
    """An instruction that the verifier followed."""

    index: int
    text: str
    source: SourceLine | None = None


class ValueHistory(Value):
    """The last instructions that made, changed and checked a value in a register or on the stack.

    ``passed``: the last call that received the address of the stack slot from which the value came.
    """

    made: Insn | None = None
    changed: Insn | None = None
    checked: Insn | None = None
    passed: Insn | None = None


_UNKNOWN = ValueHistory()


class PathState:
    """Registers and stack on the path that the log follows, before the log's last instruction.

    The verifier rejected the last instruction.
    """

    def __init__(self) -> None:
        self.registers: dict[int, ValueHistory] = {}
        self.slots: dict[int, ValueHistory] = {}
        self.last: Insn | None = None
        #: The last call that invalidated pointers into the packet.
        self.packet_changed: Insn | None = None
        #: For each name of a helper, the last call.
        self.acquired: dict[str, Insn] = {}
        self.visits: Counter[SourceLine] = Counter()
        #: Offsets of the stack addresses in registers.
        self._addresses: dict[int, int] = {}
        self._branches: dict[
            int, tuple[dict[int, ValueHistory], dict[int, ValueHistory], dict[int, int]]
        ] = {}

    def go_back(self, index: int) -> None:
        """Continue at the other side of the branch at ``index``."""
        if self.last is not None:
            self._take(self.last)
            self.last = None
        kept = self._branches.get(index)
        if kept is not None:
            self.registers, self.slots, self._addresses = map(dict, kept)  # type: ignore[arg-type]

    def follow(self, insn: Insn) -> None:
        """Follow one more instruction. The verifier accepted the instruction before."""
        before, self.last = self.last, insn
        if insn.source is not None:
            self.visits[insn.source] += 1
        if before is not None:
            self._take(before)

    def _take(self, insn: Insn) -> None:
        text = insn.text
        if text.startswith("if "):
            self._branch(insn)
        elif text.startswith("call"):
            self._call(insn)
        elif text.startswith("*("):
            found = _SPILL.match(text)
            if found:
                self.slots[int(found[1])] = self.registers.get(int(found[2]), _UNKNOWN)
        else:
            self._assign(insn)

    def _assign(self, insn: Insn) -> None:
        text = insn.text
        registers = self.registers
        self._address(text)
        if found := _COPY.match(text):
            registers[int(found[1])] = registers.get(int(found[2]), _UNKNOWN)
        elif found := _LOAD.match(text):
            made = ValueHistory(made=insn)
            if found[2] == "10":
                made = self.slots.get(int(found[3]), made)
            registers[int(found[1])] = made
        elif found := _CHANGE.match(text):
            number = int(found[1])
            registers[number] = replace(registers.get(number, _UNKNOWN), changed=insn)
        elif found := _SET.match(text):
            registers[int(found[1])] = ValueHistory(made=insn)

    def _address(self, text: str) -> None:
        """Track the registers that hold addresses of the stack."""
        if found := _COPY.match(text):
            source = 0 if found[2] == "10" else self._addresses.get(int(found[2]))
            if source is not None:
                self._addresses[int(found[1])] = source
                return
        elif found := _MOVED.match(text):
            if (at := self._addresses.get(int(found[1]))) is not None:
                self._addresses[int(found[1])] = at + int(found[2])
                return
        elif not (found := _SET.match(text)):
            return
        self._addresses.pop(int(found[1]), None)

    def _call(self, insn: Insn) -> None:
        for number in range(6):
            self.registers.pop(number, None)
            offset = self._addresses.pop(number, None)
            if number and offset is not None and offset in self.slots:
                self.slots[offset] = replace(self.slots[offset], passed=insn)
        self.registers[0] = ValueHistory(made=insn)
        found = _CALL.match(insn.text)
        name = found[1] if found else None
        if name:
            self.acquired[name] = insn
            if _CHANGES_PACKET.match(name):
                self.packet_changed = insn

    def _branch(self, insn: Insn) -> None:
        if len(self._branches) > _MAX_BRANCHES:
            self._branches.clear()
        found = _BRANCH.match(insn.text)
        for number in filter(None, found.groups() if found else ()):
            known = self.registers.get(int(number), _UNKNOWN)
            self.registers[int(number)] = replace(known, checked=insn)
            if known.made is not None and _NULL_TEST.match(insn.text):
                self._check_copies(known, insn)
        kept = dict(self.registers), dict(self.slots), dict(self._addresses)
        self._branches[insn.index] = kept

    def _check_copies(self, known: ValueHistory, insn: Insn) -> None:
        """Apply a NULL check to each copy of the checked value."""
        for place in (self.registers, self.slots):
            for number, other in place.items():
                if other.made is known.made and other.changed is known.changed:
                    place[number] = replace(other, checked=insn)

    def history(self, register: int) -> ValueHistory:
        """Return the history of ``register``, including checks of copies of the same value."""
        own = self.registers.get(register, _UNKNOWN)
        if own.checked is None and own.made is not None:
            for other in [*self.registers.values(), *self.slots.values()]:
                if other.made is own.made and other.checked is not None:
                    return replace(own, checked=other.checked)
        return own


_INSN = re.compile(r"(\d+): (?:\([0-9a-f]{2}\) |(?=<invalid ))(.*)")
#: Registers that the verifier prints after an instruction; Linux 5.18 and newer use the same line.
_BESIDE = re.compile(r"\s*(?:; (?:R\d|fp|frame|refs=|\()|\d+: (?:frame\d+: )?R\d+(?:_\w+)?=).*$")
_SOURCE = re.compile(r"; ?(.*?)(?: @ (\S+?):(\d+)(?::\d+)?)?$")
_FROM = re.compile(r"from (\d+) to (\d+)")
_STATE = re.compile(r"(?:\d+: )?(?:frame\d+: ?)?(?:R\d+(?:_\w+)?=|fp-?\d+|refs=)")
_LATE_INSN = re.compile(r"(?:\d+: )?(?:frame\d+: ?)?R\d+.*? (\d+: \([0-9a-f]{2}\) .*)")
#: Verifier messages that never report the reason.
_ASIDE = re.compile(
    r"mark_precise|last_idx|regs=|parent |propagating|processed \d|verification time|stack depth"
    r"|-- (?:BEGIN|END)|max_states|caller:|callee:|returning from|to caller at|Func#\d|safe$"
    r"|Validating .*\(\) func#|reg type unsupported|insns processed|Live regs|func#\d"
    r"|func '\w+' arg\d+ has btf_id \d+ type|marking pointer arg|btf_vmlinux is malformed"
    r"|prog '[^']*': missing \.BTF\.ext"
    r"|force_precise|Cannot find btf of tracepoint template|bpf_loop iteration limit reached"
    r"|from \d+ to \d+: safe|arg#\d+ reference type\('UNKNOWN|live regs|\(?\d+ line\(s\) omitted"
)
_PROCESSED = re.compile(r"(?:^|.*\))processed (\d+) insns")
#: Text that follows a message without an end of line.
_TIME = re.compile(r"(?:verification time \d+ usec|(?<=\))processed \d+ insns).*$")
_PROGRAM = re.compile(
    r"(?:prog(?:ram)? '([^']+)'|program ([\w./-]+): (?:load program|attaching)"
    r"|[Ff]ailed to load (?:BPF )?program (?:b?'([\w/]+)'|([\w/]+))"
    r"|sec(?:tion)? '([^']+)'(?=.*prog))"
)
#: libbpf's messages about a program after the program's log. The next log belongs to another
#: program.
_LAST_WORDS = re.compile(r"prog '[^']+': failed to load: -|failed to load program '")
_KERNEL_SAYS = "Verification failed: "
#: Number of lines after the last instruction in which the reason is searched.
_MAX_SAID = 60
#: Number of lines searched for the state of a register.
_STATE_LINES = 400


class ProgramLog(Value):
    """The contents of one program's log.

    ``said``: the lines after the last instruction, which include the reason. ``explained``: the
    block that Linux 7.3 writes, unchanged. ``processed``: number of instructions that the verifier
    counted, or None. ``followed``: True if the log contains an instruction.
    """

    segment: Segment
    program: str
    said: tuple[str, ...]
    explained: tuple[str, ...]
    path: PathState
    processed: int | None
    followed: bool


def read_log(segment: Segment) -> ProgramLog:
    """Read the log once, from the first line to the last."""
    follow = _follow_again if segment.bytes <= _SHORT else _follow
    return replace(follow(segment.lines), segment=segment)


def _follow(lines: tuple[str, ...]) -> ProgramLog:
    path = PathState()
    said: list[str] = []
    explained: list[str] = []
    source: SourceLine | None = None
    program, before, processed, followed, within = "", "", None, False, False
    for line in lines:
        text = line.strip()
        if within and not text.startswith(("processed ", "-- END", "prog '")):
            explained.append(line)
            continue
        within = False
        found = _instruction(text)
        if found:
            # libbpf prints a poisoned instruction as <invalid ...>.
            said[:] = [found[2]] if found[2].startswith("<") else []
            followed = True
            path.follow(Insn(int(found[1]), _BESIDE.sub("", found[2]), source))
        elif text.startswith(";"):
            source = _source(text) or source
        elif text.startswith("from ") and (back := _FROM.match(text)):
            path.go_back(int(back[1]))
        elif text.startswith(_KERNEL_SAYS):
            within = True
            explained = [text]
        elif text and not _STATE.match(text):
            if told := _PROCESSED.match(text):
                processed = int(told[1])
            if named := _PROGRAM.search(text):
                name = next(filter(None, named.groups()))
                ends = not followed and _LAST_WORDS.search(text)
                program, before = (program, name) if ends else (name, before)
            if not _ASIDE.match(text):
                said.append(_TIME.sub("", text))
                del said[:-_MAX_SAID]
    while explained and not explained[-1].strip():
        explained.pop()
    program = program or ("" if followed else before)
    segment = Segment(1, lines, 0, 0)
    return ProgramLog(segment, program, tuple(said), tuple(explained), path, processed, followed)


_follow_again = lru_cache(maxsize=_RECENT)(_follow)


def _instruction(text: str) -> re.Match[str] | None:
    """Return the match of an instruction; before 5.18 registers could precede it."""
    found = _INSN.match(text)
    if found is None and text.startswith(("R", "0: R", "frame")):
        late = _LATE_INSN.match(text)
        found = _INSN.match(late[1]) if late else None
    return found


def _source(text: str) -> SourceLine | None:
    found = _SOURCE.match(text)
    if not found or not found[1] or found[1].startswith("instruction poisoned by CO-RE"):
        return None  # cilium/ebpf prints this text instead of the source
    return SourceLine(found[1].strip(), found[2] or "", int(found[3] or 0))


def register_state(log: ProgramLog, register: int) -> str:
    """Return the last printed state of ``register``, such as ``scalar(umax=255)``; or empty."""
    wanted = re.compile(
        rf"\bR{register}(?:_[a-z]+)?=((?:[^\s()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))+)"
    )
    for line in reversed(log.segment.lines[-_STATE_LINES:]):
        if f"R{register}" in line and (found := wanted.search(line)):
            return found[1]
    return ""
