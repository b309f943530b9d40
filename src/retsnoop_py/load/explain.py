# SPDX-License-Identifier: BSD-2-Clause
"""Find every failure that a loader's log reports, and explain each failure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

from msgspec import structs

from retsnoop_py.load.diagnose import diagnose
from retsnoop_py.load.errno_rules import (
    errno_in,
    explain_cut,
    explain_errno,
    says_errno,
)
from retsnoop_py.load.joined_lines import (
    was_tried_again,
    with_btf,
    with_cause,
    with_innermost,
    with_probe,
    with_reference,
    with_relocation,
)
from retsnoop_py.load.loader_rules import explain_line, is_of_map
from retsnoop_py.load.loud_lines import LOUD, OF_BPF, names_bpf
from retsnoop_py.load.model import VERSION, Explained, Explanation
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.operation_rules import explain_operation
from retsnoop_py.load.read_log import ProgramLog, Segment, read_log, segments
from retsnoop_py.load.time_limit import LimitedLines, Lines, TimeLimit
from retsnoop_py.load.word_rules import explain_words, is_understood

__all__ = ["explain_log"]

#: A program failed to load; groups ``a`` and ``b`` match the program's name.
_LOAD_FAILED = re.compile(
    r"(?:prog '(?P<a>[^']+)': (?:BPF program load failed|failed to (?:load|(?:auto-)?attach))"
    r"|program (?P<b>[\w./-]+): load program"
    r"|\bload program: (?=[a-z])|load bpf program failed|error loading BPF program:"
    r"|failed to load program '(?P<c>[^']+)'"
    r"|[Ff]ailed to load (?:BPF |bpf )?program"
    r"(?: b?'(?P<d>\w+)'| (?P<f>(?!(?:for|with|from|in|on|at|to|of|and|by)\b)\w+))?"
    r"|Prog section '(?P<e>[^']+)' rejected"
    r"|BPF_PROG_LOAD`? (?:syscall )?(?:failed|returned)"
    r"|bpf_(?:prog_)?load(?:_program)?\(\)? (?:err|failed|event=)|\bbpf\(BPF_PROG_LOAD\)$"
    r"|error while loading \"(?P<g>[^\"]+)\" \("
    r"|bpf_prog_load lib call for \S+ \((?P<h>\w+)\) returned fd: -)"
)
#: A failed load that is not reported per program. These lines count only with an errno.
_LOAD_TOLD = re.compile(
    r"(?:fail\w*(?: to)?|can ?n[o']t|can't|could ?n[o']t|unable to|error(?: while| when)?)"
    r"\W+load(?:ing)?\W+(?:\S+ ){0,3}?(?:e?bpf|programs?|progs?|collection|skeleton)\b"
    r"|\bload\w* (?:e?bpf )?(?:objects?|collection|skeleton|programs?): ",
    re.IGNORECASE,
)
_NAMED = re.compile(r"prog '([^']+)'|program (?!(?:failed|error)\b)([\w./-]+):")
#: A line with the text of strerror(3) only.
_BARE_ERRNO = re.compile(
    r"(?:bpf: )?(?:Invalid argument|Permission denied|Operation not permitted"
    r"|No space left on device"
    r"|Argument list too long|Bad file descriptor|Cannot allocate memory|Out of memory"
    r"|Function not implemented)"
)
#: The first line of a verifier log.
_ONLY_BEGAN = re.compile(r"BEGIN PROG LOAD LOG")
#: Lines of a Python traceback.
_TRACEBACK = re.compile(r"\s*(?:raise \w+\(|File \".*\", line \d+|Traceback )")
#: Failures that the loader ignores.
_SURVIVED = re.compile(
    r"\boptional\b.*\bignor|ignored and continue|doesn't support \S+, skipping"
    r"|libxdp: Kernel DOES NOT support XDP programs with"  # libxdp continues without XDP programs
    r"|(?:open|read|stat) /proc/\d+/(?!root/)\S+: no such"  # a process that has exited
    r"|struct_ops \S+: member \S+ not found in kernel, skipping"  # libbpf sets the member to zero
    r"|\bbpf\(BPF_\w*(?:NEXT|LOOKUP)\w*, .* = -1 ENOENT",  # the end of a walk, or no such entry
    re.IGNORECASE,
)
#: Messages about a whole object that a loader prints after any failure.
_SAID_LAST = re.compile(
    r"failed to perform CO-RE|: ParseError\("
    r"|(?:open|load)\w* (?:the )?(?:e?BPF )?(?:object|skeleton)(?: file)?: No such file"
)
#: libbpf's message before the last message about a map with a pin of another kind.
_REUSED = re.compile(r"error reusing pinned map")
#: Words that report a failure.
_FAILS = re.compile(
    r"\b(?:fail\w*|error|panicked|cannot|can't|couldn't|could not"
    r"|unable|refused|rejected|interrupted|unsuccessful|FTL|FATAL|fatal"
    r"|bailing out|giving up|gave up|aborting)\b",
    re.IGNORECASE,
)
#: Weaker words of failure. Lines do not match if the loader continues.
_COMPLAINS = re.compile(
    r"^(?!.*(?:\b(?:skip|ignor|default|optional)|fall\w* ?back|\bdebug\b)).*(?:\berr\b|unsupported"
    r"|not (?:be )?(?:found|supported|mounted|permitted|available|enabled)|missing"
    r"|(?:do|does|did|is|are|was|has|have|could)(?: not|n't)\b|\bno \w+ (?:for|of|in|found)\b"
    r"|\bno (?:\S+ ){1,3}support|must be|mismatch|\bexceed|incompatib|\bundefined\b|\bterminated\b"
    r"|\bkilled\b|\btimed? ?out\b|corrupt|malformed|\blacks?\b|\bunknown\b|\brequires?\b"
    r"|denied|unavailable|giving up|too old|try (?:\w+ ){0,4}again"
    r"|already running|is NULL|non-zero extra|\binvalid\b)",
    re.IGNORECASE,
)
#: Words that mean BPF if other lines of the log name BPF.
_MAY_BE = re.compile(
    r"\bprobes?\b|\bprog(?:ram)?s?\b|\bmaps?\b|attach|\bpin|skeleton|dispatcher|\bELF\b|symbol",
    re.IGNORECASE,
)


#: The last messages of libbpf and its callers about an object. The cause is on a line above.
_SUMMARY = re.compile(
    r"failed to (?:initialize skeleton|load (?:object|BPF skeleton)|open and load|load and verify)"
    r"|^\W*(?:Error: )?[\w ]+ \(os error \d+\)$",
    re.IGNORECASE,
)
#: Debug messages of libbpf. These messages do not report the cause of a failure.
_CHATTER = re.compile(
    r"success|skip|load(?:ing|ed)\b|found|collect|patched|looking|relo |^\d+: \(|processed \d"
    r"|-- END"
)


#: A final line with an errno but without a subject.
_ERRNO_ALONE = re.compile(r"\W*(?:Error|ERROR|error|fatal|FATAL): [\w ]+ \(os error \d+\)$")
#: No errno, and errno values of an agent's network connections, which are unrelated to BPF.
_OF_NETWORK = (
    *("", "ECONNREFUSED", "ECONNRESET", "EPIPE", "ETIMEDOUT", "EHOSTUNREACH", "ENETUNREACH"),
    *("ENOTCONN", "ECONNABORTED", "EINTR", "EADDRINUSE"),
)
#: The kernel's own message about lockdown.
_LOCKED_DOWN = re.compile(r"Lockdown: .* is restricted")
_READS = re.compile(r"The kernel has bpf_probe_\w+\(\).* and refuses it here")
#: Log levels below warning: the loader does not treat the line as a failure.
_MEANT_LIGHTLY = re.compile(r"(?<![\w/])(?:INFO|DEBUG|TRACE)(?![\w/])|level=(?:info|debug)\b")
#: Messages about failures after which the loader continues.
_GOES_ON = re.compile(
    r"\bskipping\b|\bskipped\b|\bignoring\b|\bignored\b|\bfall(?:ing|s)? back\b"
    r"|\bwill (?:use|try|retry|continue)\b|\bretrying\b|\bcontinuing\b|\bnon-?fatal\b"
    r"|\bassuming\b|failed to attach to cgroup: (?:-EBADF|Bad file descriptor)$"  # systemd's probe
    r"|[Ff]ailed to bump RLIMIT_MEMLOCK"  # newer kernels use no RLIMIT_MEMLOCK for BPF
    r"|\btrying \S+ instead|\bgo(?:es|ing)? on without",
    re.IGNORECASE,
)
#: A line that the verifier wrote: an instruction, registers or program source.
_VERIFIERS = re.compile(r"\d+: (?:\([0-9a-f]{2}\)|R\d)|; ")


#: A line with only a level or a heading.
_LEVEL_ALONE = re.compile(
    r"\W*(?:error|fatal|failed|failure|panic|warning|exception)\W*", re.IGNORECASE
)
#: Messages about the end of a loader's process.
_ENDED = re.compile(
    r"signal: killed|exit (?:status|code):? (?:126|127|137)\b|exec format error|\bsegfault at "
    r"|core dumped|terminate called after|command: Killed\b"
)


#: HTML, documentation and advice, which describe possible failures instead of actual ones.
_PROSE = re.compile(
    r"<(?:!DOCTYPE|/?(?:html|head|body|p|li|ul|ol|h\d|div|t[dr]|footer|header|a|br)\b)[^>]*>"
    r"|(?:^|[.!] )[^\w(]*(?:If|When|Unless)\b[^:=]*,"
    r" (?:you|please|run|use|try|set|add|send|raise|check)\b"
    r"|\b(?:may|might|would|will) (?:also )?fail\b"
)
#: Explanations that fit any program. They are reported only for logs about BPF.
_OF_ANYTHING = {"rights", "memory", "files", "file-missing", "unsupported", "compile"}
_OF_MAP = re.compile(
    r"(?:creat|load|updat)\w*(?: \S+){0,2} maps?\b|\bmaps? (?:creat|load)|for program\b",
    re.IGNORECASE,
)
_OBJECT = re.compile(r"\.o\b")
#: Size of the caches of pattern results per line. A loader that tries again repeats its log.
_RECENT = 4096


#: Long numbers, except the verifier's count of too many instructions. Numbers differ from line to
#: line.
_NUMBER = re.compile(r"(?!1000001 )\d{2,}")


@lru_cache(maxsize=_RECENT)
def _is_survived(line: str) -> bool:
    """Return True if ``line`` reports no failure, or a failure that the loader ignores."""
    return any(
        found is not None
        for found in (_TRACEBACK.match(line), _SURVIVED.search(line), _PROSE.search(line))
    )


def _is_heard(segment: Segment, offset: int) -> bool:
    """Return True if the line at ``offset`` may report a failure that ended the load."""
    line = segment.lines[offset]
    if _VERIFIERS.match(line) or _is_survived(_NUMBER.sub("00", line)):
        return False
    return not ("bpf(BPF_" in line and was_tried_again(segment.lines, offset))


@lru_cache(maxsize=_RECENT)
def _weight(line: str) -> int:
    """Return how informative a failure line is: 3 at most, 0 for a summary.

    Plain words of failure count 2, an errno or the end of a process counts 1. A level below warning
    subtracts 1.
    """
    if _SUMMARY.search(line):
        return 0
    told = 2 * bool(_FAILS.search(line)) + bool(errno_in(line) or _ENDED.search(line))
    return told - bool(told and _MEANT_LIGHTLY.search(line))


@lru_cache(maxsize=256)
def _is_telling(line: str) -> bool:
    """Return True if ``line``, which matches no rule, has an errno or a known complaint."""
    return bool(errno_in(line)) or is_understood(line)


_names_bpf = lru_cache(maxsize=_RECENT)(names_bpf)


def _is_of_bpf(told: Explained) -> bool:
    return OF_BPF.matches(told.explanation.words[0])


class _Told:
    """The reported failures: program, id of the explanation, verifier line."""

    def __init__(self) -> None:
        self._keys: set[tuple[str, str, str]] = set()
        self.programs: set[str] = set()
        self.ids: set[str] = set()
        #: Ids of the failures without a program name.
        self.nameless_ids: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._keys)

    def add(self, program: str, id_: str, line: str) -> bool:
        """Record a failure; return True if the failure is new."""
        key = (program, id_, line)
        if key in self._keys:
            return False
        self._keys.add(key)
        self.programs.add(program)
        self.ids.add(id_)
        if not program:
            self.nameless_ids.add(id_)
        return True


class _Said(NamedTuple):
    """A loader's log line that matches a rule.

    ``is_light``: the loader does not treat the line as a failure, or continued after it.
    ``is_last``: the line is the last line of its segment.
    """

    number: int
    explanation: Explanation
    is_light: bool
    is_last: bool


class _Waiting:
    """Programs that failed to load and have no explanation yet.

    ``entries``: for each program the line number, the errno and the line, in the order of the
    lines. No method scans all entries, because a hostile log can contain a hundred thousand
    failures.
    """

    def __init__(self) -> None:
        self.entries: dict[str, tuple[int, str, str]] = {}
        self._by_line: dict[int, str] = {}
        #: For each program with an errno that does not mean missing rights, the line number.
        self._others: dict[str, int] = {}

    def __bool__(self) -> bool:
        return bool(self.entries)

    def note(self, program: str, number: int, errno: str, line: str) -> None:
        """Add the failure of ``program``, unless it already has one."""
        if program in self.entries:
            return
        self.entries[program] = (number, errno, line)
        self._by_line[number] = program
        if errno not in ("", *_OF_RIGHTS):
            self._others[program] = number

    def drop(self, program: str) -> None:
        """Forget the failure of ``program``, if there is one."""
        number, _, _ = self.entries.pop(program, (0, "", ""))
        self._by_line.pop(number, None)
        self._others.pop(program, None)

    def entry(self, program: str) -> tuple[int, str, str]:
        """Return the entry of ``program``; 0 and empty texts without an entry."""
        return self.entries.get(program, (0, "", ""))

    def first_of_another_errno(self) -> float:
        """Return the line of the first failure not about rights, or infinity."""
        return next(iter(self._others.values()), math.inf)

    def just_above(self, number: int) -> Iterator[tuple[str, str]]:
        """Errno and line of the failures a few lines above line ``number``."""
        for at in range(number - _FOLLOWING, number):
            if at in self._by_line:
                yield self.entries[self._by_line[at]][1:]


def _first_of_each(said: Iterable[_Said]) -> dict[tuple[str, ...], _Said]:
    """Return the first failure for each combination of program, rule id, errno and lightness."""
    found: dict[tuple[str, ...], _Said] = {}
    for one in said:
        line = one.explanation.words[0]
        named = _NAMED.search(line)
        key = (one.explanation.id, named[0] if named else "", errno_in(line), str(one.is_light))
        found.setdefault(key, one)
    return found


class _Reader:
    """State that is kept from one segment to the next."""

    def __init__(self, target: ObjectFile | None, limit: TimeLimit) -> None:
        self._target = target
        self._limit = limit
        self._program = ""
        self._errno = ""
        #: True after the verifier reported the reason of a failure.
        self._verified = False
        #: Programs without an explanation so far, each with the line that reports its failure.
        self._waiting = _Waiting()
        self._told = _Told()
        #: Lines that match no rule, with long numbers removed.
        self._nothing: set[str] = set()
        #: A line with only an errno, as bcc writes it.
        self._bare: tuple[int, str] | None = None
        #: Line number, program, line and id of the last reported failure.
        self._told_at, self._told_of, self._told_line, self._told_id = 0, "", "", ""
        #: True after a failure with an errno was reported.
        self._told_with_errno = False
        self._of_bpf = False
        #: True if a verifier log was complete except for its reason.
        self._cut = False
        #: A missing file. Loaders search for several files and continue if some are missing.
        self._looked_for: tuple[int, Explanation] | None = None
        #: The first failure after which the loader continued.
        self._lightly: Explained | None = None
        #: A failed BTF load. Most loaders continue without BTF.
        self._btf: Explained | None = None
        #: A load failure that is reported unless a verifier log with the reason follows.
        self._held: tuple[int, Explanation, str] | None = None
        #: A missing helper that reads memory, held back until the following lines are read.
        self._read: Explained | None = None
        #: Lines of the current segment; empty after they were searched for BPF names.
        self._lines: tuple[str, ...] = ()
        #: The last line with only an errno, used if no other line reports a failure.
        self._only_errno: tuple[int, str] | None = None
        #: The first line that reports a failure but matches no rule.
        self._own_words: tuple[int, str] | None = None
        #: Loader lines of a log that continues in the next segment.
        self._said: dict[tuple[str, ...], _Said] = {}

    def read(self, segment: Segment) -> Iterator[Explained]:
        """Yield the failures that a segment reports."""
        said = [*self._said.values(), *self._loader_lines(segment)]
        self._said.clear()
        if segment.goes_on and segment.is_verifiers and len(said) < _MOST_KEPT:
            self._said = _first_of_each(said)
            return
        if segment.goes_on:
            yield from self._tell_loaders(said)
            return
        log = read_log(segment)
        found = diagnose(log, self._target)
        yield from self._tell_held(found is not None and bool(_ONLY_BEGAN.search(segment.lines[0])))
        if found is not None and not (log.followed or log.processed is not None or log.explained):
            # Without any verifier output, the rule for the loader's own line is more exact.
            own = {one.explanation.words[0] for one in said if one.explanation.words}
            is_summary = any("line(s) omitted" in word for word in found.words)
            found = None if own.issuperset(found.words) and not is_summary else found
        program = log.program or self._program
        yield from self._tell_read(said)
        if found is not None and (
            self._is_summary(segment, found) or self._may_be_locked(segment.first, found, log)
        ):
            return
        if found is not None:
            for number, explanation, *_ in said:  # the program that uses the map is unknown
                line = explanation.words[0] if explanation.words else ""
                if is_of_map(line) and "load program" not in line:
                    yield from self._tell(number, explanation, "", errno_in(line), None)
            self._waiting.drop(program)
            self._waiting.drop("")
            yield from self._tell(segment.first, found, program, self._errno, log.processed)
            self._verified = True
            self._program = self._errno = ""
            return
        if log.processed is not None and not log.followed:
            self._note_cut(segment, program)
        yield from self._tell_loaders(said)

    def _tell_loaders(self, said: Iterable[_Said]) -> Iterator[Explained]:
        """Yield the failures that loaders report, without a verifier log with their reason."""
        for one in said:
            if self._limit.stop():
                return
            number, explanation = one.number, one.explanation
            line = explanation.words[0]
            named = _NAMED.search(line)
            program = next(filter(None, named.groups())) if named else ""
            if self._is_repeated(explanation.id, line, number) or self._is_kept(one, program):
                continue
            self._waiting.drop(program)
            yield from self._tell(number, explanation, program, errno_in(line), None)

    def _is_kept(self, said: _Said, program: str) -> bool:
        """Return True if the line is not a failure yet, because the next lines decide."""
        number, found, is_light, is_last = said
        line = found.words[0]
        if self._follows(number, found, program):
            self._told_of = self._told_of or program
            return True
        if is_light:
            if errno_in(line) or _FAILS.search(line):
                told = Explained(VERSION, number, found, program, errno_in(line))
                if self._lightly is None or not _is_of_bpf(self._lightly):
                    self._lightly = told if _is_of_bpf(told) else self._lightly or told
                if self._waiting.entry(program)[0] == number:
                    self._waiting.drop(program)
            return True
        if found.id == "btf-refused" and not _MANDATORY.search(line):
            self._btf = self._btf or Explained(VERSION, number, found, program, errno_in(line))
            return True
        if is_last and found.id == "xdp-dispatcher" and _LOAD_FAILED.search(line):
            self._held = number, found, program
            return True
        if (found.id in _LOOKED_FOR and errno_in(line) == "ENOENT") or _TIDIED.match(line):
            self._looked_for = self._looked_for or (number, found)
            return True
        return False

    def _tell_held(self, is_known: bool) -> Iterator[Explained]:
        """Yield the failure that was held back, unless the verifier's reason ``is_known``."""
        if self._held is not None and not is_known:
            number, explanation, program = self._held
            line = explanation.words[0]
            self._waiting.drop(program)
            yield from self._tell(number, explanation, program, errno_in(line), None)
        self._held = None

    def _may_be_locked(self, first: int, found: Explanation, log: ProgramLog) -> bool:
        """Return True if ``found`` is held back: a lockdown message may follow."""
        if found.id != "helper-unknown" or not _READS.search(found.reason):
            return False
        program = log.program or self._program
        for name in (program, ""):
            self._waiting.drop(name)
        self._read = Explained(VERSION, first, found, program, self._errno, log.processed)
        self._verified = True
        self._program = self._errno = ""
        return True

    def _tell_read(self, said: Iterable[_Said] = ()) -> Iterator[Explained]:
        """Yield the missing helper that was held back, unless the kernel reports lockdown below."""
        was, self._read = self._read, None
        words = [one.explanation.words for one in said]
        locked = any(_LOCKED_DOWN.search(each[0]) for each in words if each)
        if was is not None and not locked:
            yield from self._tell(
                was.line, was.explanation, was.program, was.errno, was.instructions
            )

    def _note_cut(self, segment: Segment, program: str) -> None:
        """Record the failed program of a verifier log that has its counts but no reason."""
        for offset, line in enumerate(segment.lines):
            if _ONLY_BEGAN.search(line) and not self._told:
                number = segment.first + segment.dropped + offset
                self._waiting.note(program, number, self._errno, line)
                self._verified = True
        self._cut = self._cut or bool(self._waiting)

    def _is_repeated(self, id_: str, line: str, number: int) -> bool:
        """Return True if a loader's line only repeats a failure that is already reported."""
        told = self._told.ids
        if id_ == "xdp-dispatcher" and self._verified:
            return "'xdp_pass'" in line  # libxdp's test; its own failure would have more lines
        if id_ == "rights" and _LOCKED_DOWN.search(line):
            return False  # the kernel's own message
        if id_ == "rights":
            other = self._waiting.first_of_another_errno() <= number
            return (self._verified or other) and not is_of_map(line)
        if id_ == "refused" and _LOG_ELSEWHERE.search(line):
            return self._verified
        if self._told_with_errno and not errno_in(line) and _ATTACHES.search(line):
            own = explain_operation(line)
            if own is not None and own.id == id_ and _ATTACHES.search(self._told_line):
                return True  # reports the failure without a cause
        causes = _OF_MAPS if _WITHOUT_MAP.search(line) else set()
        if told & (causes | _CAUSED_BY.get(id_, set())) and (
            not errno_in(line) or _SUMMARY.search(line)
        ):
            return True
        if id_ in _TARGETS and (id_ == "kprobe-target" or not errno_in(line)):
            others = {"tracefs", "attach-busy", "kprobes-missing"}
            return bool(told & (others if errno_in(line) else others | {"rights", "memory"}))
        return bool(told) and _SAID_LAST.search(line) is not None

    def _explain(self, line: str) -> Explanation | None:
        """Return the explanation of ``line``, or None if no rule matches.

        Lines that differ only in long numbers are matched once.
        """
        alike = _LONG_NUMBER.sub("0", line)
        if not line or alike in self._nothing:
            return None
        found = explain_line(line)
        if found is None and len(self._nothing) < _MOST_KEPT:
            self._nothing.add(alike)
        return found

    def _says_more(self, line: str) -> bool:
        """Return True if ``line`` is the first failure, or more informative than the one so far."""
        if self._own_words is None:
            return True
        more = _weight(line) - _weight(self._own_words[1])
        return more > 0 or (more == 0 and not _is_telling(self._own_words[1]) and _is_telling(line))

    def _follows(self, number: int, found: Explanation, program: str) -> bool:
        """Return True if the failure is a consequence of the failure reported a few lines above."""
        line = found.words[0]
        above = number - self._told_at <= _FOLLOWING and program in ("", self._told_of)
        if found.id == "name-missing":
            return bool(self._told)
        if "attach" in line and any(
            errno and "attach" not in load for errno, load in self._waiting.just_above(number)
        ):
            return explain_operation(line) == found
        if self._told_at and not self._told_of and number - self._told_at <= _FOLLOWING:
            above = above or found.id == self._told_id  # a later line names the program
        if not self._told_at or not above:
            return False
        if program and not self._told_of:
            return found.id == self._told_id
        if found.id in _ATTACHED and _KERNEL_SAID.search(self._told_line):
            return True
        return explain_operation(line) == found or (found.id in _TARGETS and not errno_in(line))

    def _is_own(self, line: str, is_loud: bool) -> bool:
        """Return True if the loader reports a BPF failure on this line, without a matching rule.

        ``is_loud``: the line has the level of an error.
        """
        return self._is_of_bpf() and bool(
            (is_loud or _FAILS.search(line) or says_errno(line) or _COMPLAINS.search(line))
            and (_names_bpf(line) or _MAY_BE.search(line))
        )

    def _is_of_bpf(self) -> bool:
        """Return True if any line of the log so far, including this segment, names BPF."""
        if self._lines and not self._of_bpf:
            maybe = OF_BPF.offsets("\n".join(self._lines))
            self._of_bpf = any(_names_bpf(self._lines[offset]) for offset in maybe)
        self._lines = ()
        return self._of_bpf

    def _is_summary(self, segment: Segment, found: Explanation) -> bool:
        """Return True if the line summarizes a log that is already explained (cilium/ebpf)."""
        line = segment.lines[-1] if segment.lines else ""
        return "line(s) omitted" in line and found.id in self._told.nameless_ids

    def _loader_lines(self, segment: Segment) -> Iterator[_Said]:
        self._lines = segment.lines
        self._of_bpf = self._of_bpf or segment.names_bpf
        loud = {*LOUD.offsets("\n".join(segment.lines)), *segment.loud}
        for offset in sorted(loud.intersection(segment.own_lines())):
            if self._limit.stop():
                return
            line = segment.lines[offset]
            if not _is_heard(segment, offset):
                continue
            if _BARE_ERRNO.fullmatch(line):
                self._errno = errno_in(line)  # bcc prints no more; a later line names the program
                self._bare = (segment.first + segment.dropped + offset, line)
            if failed := _LOAD_FAILED.search(line):
                name = next(filter(None, failed.groups()), "")
                self._program = "" if name in self._told.programs else name or self._program
                below = errno_in(with_cause(segment.lines, offset))
                self._errno = errno_in(line) or below or self._errno
                number = segment.first + segment.dropped + offset
                if _ONLY_BEGAN.search(self._waiting.entry(name)[2]):
                    self._waiting.drop(name)  # this line is more exact than an empty log's head
                self._waiting.note(name, number, self._errno, line)
            elif _LOAD_TOLD.search(line) and not self._waiting and (told := errno_in(line)):
                self._waiting.note("", segment.first + segment.dropped + offset, told, line)
            above = segment.lines[offset - 1] if offset else ""
            if is_of_map(line) and _REUSED.search(above):
                continue  # the line above has the reason
            if "failed to create tracepoint" in line and "perf_event_open() failed" in above:
                continue  # the line above has the reason
            explanation = (
                self._explain(with_relocation(segment.lines, offset))
                or self._explain(with_probe(segment.lines, offset))
                or self._explain(with_reference(segment.lines, offset))
                or self._explain(line)
                or self._explain(with_cause(segment.lines, offset))
            )
            if explanation is not None and (
                explanation.id not in _OF_ANYTHING
                or _OF_MAP.search(line)
                or _OBJECT.search(line)
                or self._is_of_bpf()
            ):
                found = with_btf(explanation, segment.lines, offset)
                yield _Said(
                    segment.first + segment.dropped + offset,
                    found,
                    offset in segment.light or _GOES_ON.search(found.words[0]) is not None,
                    is_last=not segment.goes_on and offset == len(segment.lines) - 1,
                )
            elif explanation is None:
                self._note_own(segment, offset)

    def _note_own(self, segment: Segment, offset: int) -> None:
        """Record a line that matches no rule if the loader reports a failure on it."""
        line, above = segment.lines[offset], segment.lines[offset - 1] if offset else ""
        line = with_innermost(segment.lines, offset) or line
        if _LEVEL_ALONE.fullmatch(line):
            return
        number = segment.first + segment.dropped + offset
        if offset in segment.light and not (_FAILS.search(line) or says_errno(line)):
            return
        is_loud = offset in segment.loud and not _GOES_ON.search(line)
        if self._says_more(line) and (
            self._is_own(line, is_loud) or (self._of_bpf and _ENDED.search(line))
        ):
            is_last = _SUMMARY.search(line) and LOUD.matches(above) and not _CHATTER.search(above)
            self._own_words = (number - 1, above) if is_last else (number, line)
        elif _ENDED.search(line) or (offset not in segment.light and self._is_last_resort(line)):
            self._only_errno = (number, line)

    def _is_last_resort(self, line: str) -> bool:
        """Return True if ``line`` is worth reporting when the log reports nothing about BPF."""
        if _ERRNO_ALONE.match(line):
            return True
        errno = errno_in(line)
        if errno and errno not in _OF_NETWORK:
            return _FAILS.search(line) is not None or "::unwrap()" in line
        if errno or (self._only_errno is not None and _is_telling(self._only_errno[1])):
            return False
        return bool(_FAILS.search(line) or _COMPLAINS.search(line))

    def _tell(
        self, number: int, found: Explanation, program: str, errno: str, processed: int | None
    ) -> Iterator[Explained]:
        # A loader reports a failure on several lines, the verifier once for each program.
        line = found.words[-1] if found.instruction and found.words else ""
        if self._told.add(program, found.id, line):
            self._told_at, self._told_of, self._told_id = number, program, found.id
            self._told_line = found.words[0] if found.words else ""
            self._told_with_errno = self._told_with_errno or bool(errno)
            yield Explained(VERSION, number, found, program, errno, processed)

    def _is_first_cause(self, looked_for: Explanation) -> bool:
        """Return True if the loader calls the missing file a failure and the rest has no errno."""
        own = self._own_words[1] if self._own_words is not None else ""
        failed = _FAILS_TO_LOAD.search(looked_for.words[0]) is not None
        return failed and not self._waiting and not errno_in(own)

    def _failed_otherwise(self) -> bool:
        """Return True if the log has another failure than the missing file, with another errno."""
        loads = any(errno not in ("", "ENOENT") for _, errno, _ in self._waiting.entries.values())
        if loads or self._own_words is None:
            return loads
        own = errno_in(self._own_words[1])
        return own != "ENOENT" and (own != "" or _weight(self._own_words[1]) > 1)

    def end(self) -> Iterator[Explained]:
        """Yield the failures that are left without an explanation at the end of the log."""
        yield from self._tell_read()
        yield from self._tell_held(is_known=False)
        if self._btf is not None and all("map" in id_ for id_ in self._told.ids):
            yield self._btf
            return
        if self._told:
            return
        if self._lightly is not None and not self._waiting:
            yield self._lightly
            return
        if self._looked_for is not None and (
            not self._failed_otherwise() or self._is_first_cause(self._looked_for[1])
        ):
            number, found = self._looked_for
            yield Explained(VERSION, number, found, "", errno_in(found.words[0]))
            return
        if self._waiting:
            yield from self._tell_waiting()
        else:
            yield from self._tell_own()

    def _tell_own(self) -> Iterator[Explained]:
        """Yield the failure in the loader's own words, if the log names no failed load."""
        if self._own_words is None and self._bare is not None:
            number, line = self._bare
            found = explain_errno(self._errno, "a program", line)
            yield Explained(VERSION, number, found, "", self._errno)
        elif self._own_words is not None or (self._only_errno is not None and self._of_bpf):
            number, line = self._own_words or self._only_errno or (0, "")
            errno = errno_in(line)
            found = explain_words(line, errno, self._own_words is not None)
            yield Explained(VERSION, number, found, "", errno)

    def _tell_waiting(self) -> Iterator[Explained]:
        """Yield the meaning of the errno of each failed load."""
        if len(self._waiting.entries) > 1:
            self._waiting.drop("")  # that line is about a program that has a name here
        for program, (number, errno, line) in self._waiting.entries.items():
            label = f"program '{program}'" if program else "a program"
            cut = self._cut and errno in ("", "EINVAL", "EACCES", "EPERM")
            if self._limit.stop():
                return
            if cut:
                why = explain_cut(line, errno)
            elif errno == "ESRCH":
                said = explain_line("load object: No such process")
                why = structs.replace(said or explain_errno(errno, label), words=(line.strip(),))
            elif errno:
                why = explain_errno(errno, label, line)
            else:
                why = explain_words(line, "")
            if self._bare is not None and not errno_in(line) and errno == errno_in(self._bare[1]):
                why = structs.replace(why, words=(self._bare[1], *why.words))
            yield Explained(VERSION, number, why, program, errno)


_FAILS_TO_LOAD = re.compile(r"fail\w* to (?:load|attach|start)|error (?:load|attach)ing")
#: The loader stops without BTF.
_MANDATORY = re.compile(r"mandatory|required", re.IGNORECASE)
#: Operations on a loaded program.
_ATTACHES = re.compile(r"\battach|PERF_EVENT_IOC|link_create|BPF_LINK_CREATE", re.IGNORECASE)
#: For each explanation, other explanations that can be its cause. A line of the first kind that has
#: no errno, or is about the whole object, only repeats the cause.
_CAUSED_BY = {
    "compile": {"kernel-headers", "map-type-unsupported", "pin"},
    "kernel-btf": {"attach-target-missing"},
    "map-refused": {"map-definition", "map-size", "map-type-unsupported", "map-flags", "rights"},
}
#: Causes for which bcc's compiler cannot create a map, and bcc's messages about uses of the map.
_OF_MAPS = {"rights", "map-refused", "map-too-large", "map-size", "map-flags", "map-definition"}
_WITHOUT_MAP = re.compile(
    r"expected initialized handle for bpf_table|error: bpf_table \w+ failed to open"
    r"|[Ff]ailed to compile BPF (?:module|program|text)"
)
#: Missing files and pins (ENOENT) that loaders look for first. The next failures show whether the
#: missing file matters.
_LOOKED_FOR = ("pin", "file-missing")
#: tc's messages if a loader removes leftovers of an earlier run and there are none.
_TIDIED = re.compile(
    r"\W*Error: Parent [Qq]disc doesn't exist|.{0,80}\bNo XDP (?:program|dispatcher) "
    r"|.{0,80}Kernel error message: (?:Invalid handle|Filter with specified)"
)
#: libbpf's own errno for a program that the verifier rejected.
_LOG_ELSEWHERE = re.compile(r"verifier blocks program|-4007\b")
#: Errno values that mean missing rights. After a load that failed with another errno, such lines
#: are consequences.
_OF_RIGHTS = ("EPERM", "EACCES")
#: Times, process ids, addresses: numbers too long for an errno.
_LONG_NUMBER = re.compile(r"\d{4,}")
_MOST_KEPT = 4096
#: Explanations of a target that only repeat an earlier failure.
_TARGETS = ("kprobe-target", "uprobe-target", "tracepoint-missing")
#: Failed attachments for which the kernel adds its own message (netlink's extended
#: acknowledgement).
_ATTACHED = ("attach-refused", "attach-unsupported")
_KERNEL_SAID = re.compile(r"[Kk]ernel error message:")
#: Number of lines below a failure in which its consequences appear.
_FOLLOWING = 4


#: Seconds of CPU time for reading a log, and then for the conclusions.
_MOST_SECONDS = 18.0
_LAST_SECONDS = 4.0


def explain_log(
    stream: Lines, target: ObjectFile | None = None, seconds: float | None = None
) -> Iterator[Explained]:
    """Yield each failure that ``stream`` reports, in order.

    After ``seconds`` of CPU time (default 18) the function stops reading, yields its conclusions
    and raises :class:`PartlyReadError` after the last failure.
    """
    limit = TimeLimit(_MOST_SECONDS if seconds is None else seconds)
    lines = LimitedLines(stream, limit)
    reader = _Reader(target, limit)
    for segment in segments(lines):
        yield from reader.read(segment)
    limit.extend(_LAST_SECONDS)
    yield from reader.end()
    if limit.stopped:
        raise limit.error(lines)
