# SPDX-License-Identifier: BSD-2-Clause
"""Select the failing system call that a command reported, by evidence.

Each failing call is a candidate. The output of the command after the call and the end of its
process give the call points. The call with the most points is selected; of several equal calls, the
last one. The choice includes its evidence, so a reader can judge it.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from errno import ENOENT
from pathlib import PurePath

from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.operation import object_of, opens_to_create
from retsnoop_py.cause.wording import Wording
from retsnoop_py.kernel.errno import error_name
from retsnoop_py.value import Value

__all__ = [
    "LINES",
    "Choice",
    "Evidence",
    "Line",
    "choose",
    "errors_written",
    "lines_of",
    "reported_elsewhere",
]


class Evidence(Enum):
    """Evidence for or against a call: its points, and its text for the user."""

    ERROR_TEXT = 40, "the command wrote this error"
    ANSWER = 60, "the command wrote the message of the kernel's answer"
    LAST_WORDS = 35, "it is the last error that the command wrote"
    OTHER_WORDS = 20, "the command wrote words for this error"
    FULL_NAME = 25, "the text names the path or address of the call"
    SHORT_NAME = 15, "the text has the last part of its path, or its port"
    CALL_NAME = 8, "the text names the system call"
    LAST_BEFORE = 6, "no call failed with it later, before that text"
    SAME_PROCESS = 4, "the same process wrote the text"
    EXITED = 3, "its process then ended without success"
    LOOKS = -2, "programs often look for what need not be there"
    ORDINARY = -12, "programs try such calls in their ordinary work"
    NEVER = -40, "nothing depends on such calls"
    UNREAD = 0, "there was too much text to compare all of it with all calls"

    @property
    def points(self) -> int:
        """Return the points of the evidence; negative if against the call."""
        return int(self.value[0])

    @property
    def text(self) -> str:
        """Return the explanation of the evidence for the user."""
        return str(self.value[1])


#: Standard error: its text may be about an error without an error's name.
_ERRORS = 2
#: Evidence against a call.
_AGAINST = (Evidence.LOOKS, Evidence.ORDINARY, Evidence.NEVER)
#: Evidence from the text that the command wrote.
_OF_TEXT = (
    *(Evidence.ANSWER, Evidence.ERROR_TEXT, Evidence.OTHER_WORDS),
    *(Evidence.FULL_NAME, Evidence.SHORT_NAME),
)


class Line(Value):
    """A line that a process wrote: the time of its first piece, in ns."""

    time: int
    pid: int
    stream: int
    text: str


class Choice(Value):
    """A call, its evidence, and the output ``line`` that selected it, if any."""

    call: SystemCall
    evidence: tuple[Evidence, ...]
    line: Line | None

    @property
    def points(self) -> int:
        """Return the sum of the points."""
        return sum(one.points for one in self.evidence)

    @property
    def is_reported(self) -> bool:
        """Return whether the command's output is about this call.

        For a call that programs make in their ordinary work, the error alone is not sufficient:
        another call, or an answer of netlink, may have had the same error.
        """
        if Evidence.ANSWER in self.evidence:
            return True
        is_named = Evidence.FULL_NAME in self.evidence or Evidence.SHORT_NAME in self.evidence
        if is_named:
            return Evidence.ERROR_TEXT in self.evidence or Evidence.OTHER_WORDS in self.evidence
        return Evidence.ERROR_TEXT in self.evidence and not self.is_ordinary

    @property
    def is_ordinary(self) -> bool:
        """Return whether programs make such calls in their ordinary work."""
        return any(one in self.evidence for one in _AGAINST)


#: Maximum length of a line of output.
_MOST_CHARACTERS = 4096


def lines_of(witnessed: Witnessed) -> list[Line]:
    """Return the lines of the output; several pieces of text may form a line.

    Of a longer line only the last 4096 characters: a program may write dots for hours.
    """
    open_lines: dict[tuple[int, int], Line] = {}
    found: list[Line] = []
    for piece in witnessed.written:
        key = piece.pid, piece.stream
        for text in piece.text.splitlines(keepends=True):
            before = open_lines.pop(key, None)
            if before is None:
                line = Line(piece.time, piece.pid, piece.stream, text)
            else:
                whole = (before.text + text)[-_MOST_CHARACTERS:]
                # a meter of progress writes its line again, before and after the call
                when = piece.time if "\r" in whole.rstrip("\r\n") else before.time
                line = Line(when, before.pid, before.stream, whole)
            if text.endswith("\n"):
                found.append(line)
            else:
                open_lines[key] = line
    found += open_lines.values()
    return sorted((one for one in found if one.text.strip()), key=lambda one: one.time)


def choose(
    witnessed: Witnessed,
    wording: Wording,
    is_ordinary: Callable[[SystemCall], Evidence | None],
    candidates: Sequence[SystemCall] | None = None,
) -> list[Choice]:
    """Return the calls by their evidence, the strongest last.

    ``is_ordinary`` returns whether programs make a call in ordinary work (ORDINARY, NEVER, or
    None). ``candidates`` are the calls to choose from; by default all failing calls.
    """
    calls = witnessed.calls if candidates is None else candidates
    programs = {call.pid: call.process for call in witnessed.calls}
    calls = [one for one in calls if not _has_ended_well(one, programs.get(one.pid, ""))]
    written = lines_of(witnessed)
    _, last = _last_error(written, wording) or (None, None)
    # A process usually reports its fatal error last.
    lines = [
        (line, _meaning(line, wording, programs.get(line.pid, ""))) for line in written[-LINES:]
    ]
    # The last of several similar calls represents all.
    alike = {_key(call): call for call in sorted(calls, key=lambda one: one.time)}
    found = []
    end = time.process_time() + _SECONDS
    for call in sorted(alike.values(), key=lambda one: one.time, reverse=True):
        read = lines if time.process_time() < end else ()
        found.append(_judged(call, witnessed, read, last, is_ordinary))
    found.reverse()
    if time.process_time() >= end:
        found = [Choice(one.call, (*one.evidence, Evidence.UNREAD), one.line) for one in found]
    return sorted(_with_last(found), key=lambda one: (one.points, one.call.time))


def _has_ended_well(call: SystemCall, program: str) -> bool:
    """Return whether the call is part of a search of PATH for the program that then ran.

    ``program`` is the name of the process at its last failing call.
    """
    if call.error != ENOENT or program in ("", call.process):
        return False
    return PurePath(object_of(call)).name[:_COMM] == program


def _key(call: SystemCall) -> tuple[object, ...]:
    rest = () if call.texts else call.arguments
    return call.tid, call.name, call.error, call.texts, call.address, rest


#: Characters of the name of a process (TASK_COMM_LEN).
_COMM = 15
#: The number of last lines that are examined.
LINES = 200
#: The number of last lines in which an error is looked for.
_MOST_LINES = 2000
#: Calls are compared with these lines for so many seconds of processor time, the last calls first.
_SECONDS = 5.0


class _Meaning(Value):
    """The meaning of a line; ``text`` is the line without the program's name before it.

    ``without_folders`` is the text with only the last part of each path.
    """

    text: str
    without_folders: str
    errors: frozenset[int]
    hinted: frozenset[int]
    words: frozenset[str]


def _meaning(line: Line, wording: Wording, program: str) -> _Meaning:
    text = line.text.removeprefix(f"{program}: ") if program else line.text
    # mount(8) writes "permission denied", the text of EACCES, for EPERM
    errors, hinted = wording.errors(line.text), wording.hinted(line.text)
    short = _FOLDERS.sub("/", text)
    return _Meaning(text, short, errors, hinted, frozenset(_WORD.findall(line.text)))


#: The directories of a path: all up to the slash before its last part.
_FOLDERS = re.compile(r"(?<![\w.+@-])[\w.+@-]*/(?:[\w.+@-]+/)*(?=[\w.])")
_WORD = re.compile(r"[\w.+@-]+")


def _judged(
    call: SystemCall,
    witnessed: Witnessed,
    lines: Sequence[tuple[Line, _Meaning]],
    last: Line | None,
    is_ordinary: Callable[[SystemCall], Evidence | None],
) -> Choice:
    """Return a call with its evidence. ``last`` is the last line that names an error."""
    best: tuple[Evidence, ...] = ()
    by: Line | None = None
    for line, meaning in lines:
        if line.time < call.time or not _is_heard(witnessed, call, line):
            continue
        said = tuple(_said(call, line, meaning))
        if line is last and Evidence.ERROR_TEXT in said:
            said = (*said, Evidence.LAST_WORDS)
        if any(one in _OF_TEXT for one in said) and _sum(said) >= _sum(best):
            best, by = said, line
    rest = []
    end = witnessed.end_of(call.pid)
    if end is not None and (end.status or end.signal):
        rest.append(Evidence.EXITED)
    ordinary = is_ordinary(call)
    if ordinary is not None:
        rest.append(ordinary)
    return Choice(call, (*best, *rest), by)


def _sum(evidence: Sequence[Evidence]) -> int:
    return sum(one.points for one in evidence)


def _is_heard(witnessed: Witnessed, call: SystemCall, line: Line) -> bool:
    """Return whether the process of ``call``, an ancestor or a descendant wrote the line."""
    return witnessed.is_below(call.pid, line.pid) or witnessed.is_below(line.pid, call.pid)


def _said(call: SystemCall, line: Line, meaning: _Meaning) -> Iterator[Evidence]:
    if _is_answer(call, line.text):
        yield Evidence.ANSWER
    elif call.error in meaning.errors:
        yield Evidence.ERROR_TEXT
    elif call.error in meaning.hinted:
        yield Evidence.OTHER_WORDS
    elif meaning.errors or line.stream != _ERRORS:
        return  # it is about another error, or part of the output
    yield from _named(call, meaning)
    if _plain_name(call.name) in meaning.words:
        yield Evidence.CALL_NAME
    if call.pid == line.pid:
        yield Evidence.SAME_PROCESS


def _is_answer(call: SystemCall, text: str) -> bool:
    """Return whether the text has the kernel's message about a netlink request, as of ip(8)."""
    message = call.request.message.strip(" .") if call.request is not None else ""
    return bool(message) and message in text


def _named(call: SystemCall, meaning: _Meaning) -> Iterator[Evidence]:
    text, last = meaning.text, meaning.without_folders
    names = [one for _, one in call.texts if one]
    if call.address is not None and call.address.path:
        names.append(call.address.path)
    place = None if call.texts else call.place(0)
    if place is not None and place.path and not place.is_detached:
        names.append(place.path)
    short = [PurePath(one).name for one in names]
    short = [one for one in short if len(one) > 2]
    whole = []
    if call.address is not None and call.address.port:
        whole.append(str(call.address.port))
    if opens_to_create(call):
        # of a temporary file, programs report only the directory
        whole += [folder for one in names if len(folder := os.path.dirname(one)) > 1]
    if any(_has(text, one) if len(one) > 1 else _has_quoted(text, one) for one in names):
        yield Evidence.FULL_NAME
    elif any(_has(last, one) for one in short) or any(_has(text, one) for one in whole):
        yield Evidence.SHORT_NAME


def _has(text: str, name: str) -> bool:
    """Return whether a text has the name as a whole word."""
    at = text.find(name)
    while at >= 0:
        end = at + len(name)
        before, behind = text[at - 1 : at], text[end : end + 1]
        is_begin = not (before.isalnum() and name[0].isalnum())
        is_end = not (behind.isalnum() and name[-1].isalnum()) and not _goes_on(text, end)
        if is_begin and is_end:
            return True
        at = text.find(name, at + 1)
    return False


def _has_quoted(text: str, name: str) -> bool:
    """Return whether a text has a name of one character in quotation marks."""
    return any(f"{one}{name}{two}" in text for one, two in ("''", "\u2018\u2019", '""', "`'"))


def _goes_on(text: str, at: int) -> bool:
    """Return whether a file name continues at this place: /tmp/prog is not named by /tmp/prog.c."""
    return text[at : at + 1] in (".", "-", "_") and text[at + 1 : at + 2].isalnum()


def _plain_name(name: str) -> str:
    """Return the common name of a call: ``open`` for openat, ``stat`` for newfstatat."""
    for short in ("open", "stat", "unlink", "mkdir", "rename", "link", "access", "chmod", "chown"):
        if short in name and name.endswith(("at", "at2", "statx")):
            return short
    return name


def _with_last(found: Sequence[Choice]) -> Iterator[Choice]:
    """Yield the choices; the last of each thread, error and line also gets LAST_BEFORE."""
    last: dict[tuple[int, int, int], Choice] = {}
    for one in found:
        if one.line is not None:
            last[one.call.tid, one.call.error, one.line.time] = one
    nearest = {id(one) for one in last.values()}
    for one in found:
        if id(one) in nearest:
            yield Choice(one.call, (*one.evidence, Evidence.LAST_BEFORE), one.line)
        else:
            yield one


def errors_written(witnessed: Witnessed, wording: Wording) -> tuple[frozenset[int], Line] | None:
    """Return the errors in the last line that names any error, and that line.

    Only the last 2000 lines are read, for at most 5 s.
    """
    return _last_error(lines_of(witnessed), wording)


def _last_error(lines: Sequence[Line], wording: Wording) -> tuple[frozenset[int], Line] | None:
    end = time.process_time() + _SECONDS
    for line in reversed(lines[-_MOST_LINES:]):
        if errors := wording.errors(line.text):
            return errors, line
        if time.process_time() > end:
            break
    return None


def reported_elsewhere(
    witnessed: Witnessed, wording: Wording, calls: Sequence[SystemCall]
) -> tuple[Line, str] | None:
    """Return the last line with an error that none of the calls returned, and that error."""
    written = errors_written(witnessed, wording)
    if written is None:
        return None
    errors, line = written
    given = {one.error for one in calls}
    return None if errors & given else (line, error_name(min(errors)))
