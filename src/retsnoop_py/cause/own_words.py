# SPDX-License-Identifier: BSD-2-Clause
"""Failures that a program found itself, by the words that it wrote or by its exit status.

own_words.toml has the words, and statuses.toml the exit statuses. A Python program that ends with
an exception names the line of its code.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

from msgspec import Struct

from retsnoop_py.cause.complaint import LINES, Line, lines_of
from retsnoop_py.cause.events import Witnessed
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason
from retsnoop_py.cause.tables import read_table
from retsnoop_py.value import Value, replace

__all__ = [
    "Words",
    "instead_of_call",
    "meaning_of_status",
    "own_decision",
    "own_words",
    "statuses",
]

_ERRORS = 2


class Words(Struct, frozen=True, forbid_unknown_fields=True):
    """A row; the head of the file explains each field."""

    pattern: str
    text: str
    advice: tuple[str, ...]
    instead: bool = False
    output: bool = False
    first: bool = False


class _File(Struct, frozen=True, forbid_unknown_fields=True):
    words: tuple[Words, ...]


@lru_cache(1)
def own_words() -> tuple[Words, ...]:
    """All rows."""
    return read_table("own_words.toml", _File).words


class Status(Struct, frozen=True, forbid_unknown_fields=True):
    """A row of statuses.toml; the head of that file explains each field."""

    programs: tuple[str, ...]
    status: int
    text: str
    advice: tuple[str, ...]


class _Statuses(Struct, frozen=True, forbid_unknown_fields=True):
    status: tuple[Status, ...]


@lru_cache(1)
def statuses() -> tuple[Status, ...]:
    """All rows of statuses.toml."""
    return read_table("statuses.toml", _Statuses).status


def own_decision(witnessed: Witnessed) -> Reason | None:
    """Return the meaning of the last line of standard error with a rule; None without one.

    A traceback of Python is the last event of its program, so earlier lines do not count.
    """
    lines = lines_of(witnessed)[-LINES:]
    raised = _traceback(lines)
    if raised is not None:
        lines = [raised.last, *(one for one in lines if one.time > raised.last.time)]
    for line in reversed(lines):
        found = _of_line(line, lines)
        if found is None:
            continue
        if raised is None or line is not raised.last:
            return found
        return replace(found, text=f"{found.text} The exception came from {raised.place}.")
    return raised.reason() if raised is not None else None


def _of_line(line: Line, lines: Sequence[Line]) -> Reason | None:
    for row in own_words():
        if not row.output and line.stream != _ERRORS:
            continue
        found = _meaning(line.text, (row,))
        if found is not None and row.first:
            earlier = (_meaning(one.text, (row,)) for one in lines if one.pid == line.pid)
            return next((one for one in earlier if one is not None), found)
        if found is not None:
            return found
    return None


def meaning_of_status(witnessed: Witnessed, status: int) -> Reason | None:
    """Return what an exit status means in the program that ended with it; None if that is unknown.

    The program is the last process that ended, or the one before: a shell ends with the status of
    its last command.
    """
    for end in [*witnessed.ends][:-3:-1]:
        if end.status != status or end.signal:
            return None
        for row in statuses():
            if row.status == status and end.process in row.programs:
                # from the program's documentation, and by the name of the process
                return Reason("program", row.text, row.advice, is_inferred=True)
    return None


def instead_of_call(text: str) -> Reason | None:
    """Return the meaning of a line that names an error of one of several calls of a search."""
    return _meaning(text, [one for one in own_words() if one.instead])


def _meaning(text: str, rows: Iterable[Words]) -> Reason | None:
    for row in rows:
        found = re.search(row.pattern, text.strip())
        if found is not None:
            names = [one for one in found.groups() if one is not None]
            words = row.text.format(*map(show, names))
            return Reason("program", words, row.advice, is_seen_later=False)
    return None


class _Raised(Value):
    """An exception that ended a Python program: its ``last`` line, and the place in its code.

    ``raiser`` is the file with the code that raised it: of the program, or of a library.
    """

    last: Line
    raiser: str
    exception: str
    message: str
    file: str
    number: str

    @property
    def place(self) -> str:
        """The line of the program's own code."""
        return f"line {self.number} of {show(self.file)}"

    def reason(self) -> Reason:
        """Return the reason of an exception without a rule."""
        if self.exception == "KeyError" and _OS.search(self.raiser):
            name = show(self.message.strip("'"))
            text = f"The environment variable {name} is not set. Line {self.number} of "
            text += f"{show(self.file)} reads it."
            return Reason("program", text, ("set it first: NAME=VALUE COMMAND",), False)
        message = f": {show(self.message)}" if self.message else ""
        text = f"The Python code raised {self.exception} in {self.place}{message}."
        return Reason("program", text, is_seen_later=False)


def _traceback(lines: Sequence[Line]) -> _Raised | None:
    """Return the exception of the last traceback of Python, with the last line of own code."""
    begins = [at for at, one in enumerate(lines) if one.text.startswith(_TRACEBACK)]
    if not begins:
        return None
    pid, frames = lines[begins[-1]].pid, []
    for line in lines[begins[-1] + 1 :]:
        text = line.text.rstrip()
        if line.pid != pid or line.stream != _ERRORS:
            continue
        frame = _FRAME.match(text)
        if frame is not None:
            frames.append(frame)
        elif not text.startswith(" "):
            raised = _EXCEPTION.match(text)
            if raised is None or not frames:
                return None
            own = [one for one in frames if not _LIBRARY.search(one[1])] or frames
            place = own[-1]
            return _Raised(line, frames[-1][1], raised[1], raised[2] or "", place[1], place[2])
    return None


_TRACEBACK = "Traceback (most recent call last):"
_FRAME = re.compile(r'  File "([^"]+)", line (\d+)')
_EXCEPTION = re.compile(r"([A-Za-z_][\w.]*)(?:: (.*))?$")
#: The module that has os.environ.
_OS = re.compile(r"^<frozen os>$|/lib(?:64)?/python[\d.]+/os\.py$")
#: Files of Python itself and of packages.
_LIBRARY = re.compile(r"/lib(?:64)?/python[\d.]+/|/(?:site|dist)-packages/|^<frozen ")
