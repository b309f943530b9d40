# SPDX-License-Identifier: BSD-2-Clause
"""Every failure that a log tells of, with its explanation."""

from __future__ import annotations

import re
from collections.abc import Iterator

from retsnoop_py.load.diagnose import diagnose
from retsnoop_py.load.errno_rules import errno_in, explain_errno
from retsnoop_py.load.loader_rules import explain_line, is_of_map
from retsnoop_py.load.model import VERSION, Explained, Explanation
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.load.read_log import Lines, Segment, read_log, segments

__all__ = ["explain_log"]

#: A program's load failed: whose, and with what.
_LOAD_FAILED = re.compile(
    r"(?:prog '(?P<a>[^']+)': (?:BPF program load failed|failed to (?:load|(?:auto-)?attach))"
    r"|program (?P<b>[\w./-]+): load program"
    r"|\bload program: (?=[a-z])|load bpf program failed|failed to load program '(?P<c>[^']+)'"
    r"|[Ff]ailed to load (?:BPF )?program(?: b?'?(?P<d>\w+)'?)?"
    r"|Prog section '(?P<e>[^']+)' rejected"
    r"|BPF_PROG_LOAD`? (?:syscall )?(?:failed|returned)"
    r"|bpf_(?:prog_)?load(?:_program)?\(\)? (?:err|failed))"
)
_NAMED = re.compile(r"prog '([^']+)'|program ([\w./-]+):")
#: A line without any of these tells of no failure; most lines are such.
_LOUD = re.compile(
    r"fail|error|load program|\bno[tn]?\b|invalid|unable|can'?not|can't|couldn't|requires|missing"
    r"|denied|\berr=|unsupported|disabled|too low|too large|must be|permitted|returned|busy|exists"
    r"|already|rejected|tracing/events|exclusivity|isn't|doesn't|unexpected|ambig|corrupt|\bbad "
    r"|is empty",
    re.IGNORECASE,
)


class _Reader:
    """What is known while segments come."""

    def __init__(self, target: ObjectFile | None) -> None:
        self._target = target
        self._program = ""
        self._errno = ""
        #: Programs that failed to load, with the line that says so, until a reason is found.
        self._waiting: dict[str, tuple[int, str, str]] = {}
        self._told: set[tuple[str, str, str]] = set()

    def read(self, segment: Segment) -> Iterator[Explained]:
        """The failures a segment tells of."""
        said = list(self._loader_lines(segment))
        log = read_log(segment)
        found = diagnose(log, self._target)
        if found is not None and not (log.followed or log.processed is not None or log.explained):
            # without any of a verifier's log, a loader's own line knows better what it means
            own = {explanation.words[0] for _, explanation in said if explanation.words}
            found = None if own.issuperset(found.words) else found
        program = log.program or self._program
        if found is not None:
            for number, explanation in said:  # maps of who knows which program
                line = explanation.words[0] if explanation.words else ""
                if is_of_map(line) and "load program" not in line:
                    yield from self._tell(number, explanation, "", errno_in(line), None)
            self._waiting.pop(program, None)
            self._waiting.pop("", None)
            yield from self._tell(segment.first, found, program, self._errno, log.processed)
            self._program = self._errno = ""
            return
        for number, explanation in said:
            line = explanation.words[0]
            named = _NAMED.search(line)
            program = next(filter(None, named.groups())) if named else ""
            self._waiting.pop(program, None)
            yield from self._tell(number, explanation, program, errno_in(line), None)

    def _loader_lines(self, segment: Segment) -> Iterator[tuple[int, Explanation]]:
        for offset, line in enumerate(segment.lines):
            if not _LOUD.search(line):
                continue
            if failed := _LOAD_FAILED.search(line):
                name = next(filter(None, failed.groups()), "")
                self._program = name or self._program
                self._errno = errno_in(line) or self._errno
                number = segment.first + segment.dropped + offset
                self._waiting.setdefault(name, (number, self._errno, line))
            explanation = explain_line(line) or explain_line(_with_cause(segment.lines, offset))
            if explanation is not None:
                yield segment.first + segment.dropped + offset, explanation

    def _tell(
        self, number: int, found: Explanation, program: str, errno: str, processed: int | None
    ) -> Iterator[Explained]:
        # a loader says the same in several lines, the verifier once for each program
        key = (program, found.id, found.words[-1] if found.instruction and found.words else "")
        if key not in self._told:
            self._told.add(key)
            yield Explained(VERSION, number, found, program, errno, processed)

    def end(self) -> Iterator[Explained]:
        """What failed and is not explained by anything that was said."""
        if self._told:
            return
        if len(self._waiting) > 1:
            self._waiting.pop("", None)  # that line is about one of those with a name
        for program, (number, errno, line) in self._waiting.items():
            label = f"program '{program}'" if program else "a program"
            yield Explained(VERSION, number, explain_errno(errno, label, line), program, errno)


#: What Rust's loaders write below "Caused by:" last, with or without a number.
_CAUSE = re.compile(r"\s*(?:\d+: )?(\S.* \(os error \d+\))$")
#: Lines behind one in which its cause is looked for.
_CAUSE_LINES = 6


def _with_cause(lines: tuple[str, ...], at: int) -> str:
    """Line ``at`` and the errno that the lines below it end in, as other loaders say it in one."""
    if at + 1 < len(lines) and lines[at].rstrip().endswith(("failed", "`")):
        for line in lines[at + 1 : at + 1 + _CAUSE_LINES]:
            if found := _CAUSE.match(line):
                return f"{lines[at]}: {found[1]}"
    return ""


def explain_log(stream: Lines, target: ObjectFile | None = None) -> Iterator[Explained]:
    """Each failure in ``stream``, in its order; nothing for a log that tells of none."""
    reader = _Reader(target)
    for segment in segments(stream):
        yield from reader.read(segment)
    yield from reader.end()
