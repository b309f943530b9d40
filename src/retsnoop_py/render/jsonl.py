# SPDX-License-Identifier: BSD-2-Clause
"""``--format json``: an object for each session, one per line, and a summary at the end."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from retsnoop_py.foreign_json import encode
from retsnoop_py.model import session as to
from retsnoop_py.render.encode import SessionEncoder
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import NS, Clock, StreamHeader, SymbolicClock
from retsnoop_py.settings import Settings
from retsnoop_py.text import json_escaped, printable_json

#: NUL in a template as JSON escapes it, and the placeholder of a value.
_NUL = r"\u0000"
_VALUE = re.compile(r'"\\u0000([^\\]*)\\u0000"')


class JsonRenderer:
    """Write sessions as JSON lines, in ASCII if the output requires it.

    Control characters of terminals are always escaped.
    """

    def __init__(self, header: StreamHeader, settings: Settings, out: TextIO | None = None) -> None:
        self._header = header
        self._objects = SessionEncoder(header, settings)
        self._clock = Clock(header.realtime_offset_ns, header.utc_offset_s)
        self.clock_ns = header.realtime_offset_ns + header.utc_offset_s * NS
        encoding = (getattr(out, "encoding", None) or "utf-8").lower()
        self._escape = settings.views.ascii or not encoding.startswith("utf")
        self._shown = 0

    def session(self, report: Report) -> str:
        """Return a session as a line with its end."""
        self._shown += 1
        return self._text(report)

    def template(self, report: Report) -> str | None:
        """See :class:`~.report.TextWriter`."""
        from retsnoop_py.session.repeats import Kind, placeholder, symbolic

        if self._objects.has_arguments or report.paths or _NUL in self._text(report):
            return None

        def result(number: int, register: Any) -> Any:
            return placeholder(Kind.RESULT, register, function=number)

        like = copy.copy(self)
        clock = SymbolicClock(0, self._clock.utc_offset_s)
        vars(like).update(_objects=self._objects.like(clock, result))
        # Placeholders of numbers and objects are in quotes, placeholders in texts are not.
        return _VALUE.sub("\0\\1\0", like.session(symbolic(report))).replace(_NUL, "\0")

    def word(self, function: int, value: int) -> str:
        """See :class:`~.report.TextWriter`."""
        if function >= 0:
            return self._printed(encode(self._objects.result(function, value)).decode())
        return self._clock.timestamp(value * NS - self.clock_ns).split(".")[0]

    def repeated(self, times: int) -> None:
        """See :class:`~.report.TextWriter`."""
        self._shown += times

    def _text(self, report: Report) -> str:
        return self._line(self._objects.session(report))

    def summary(self, lost: Mapping[str, int], warnings: Sequence[str]) -> str:
        """Write the last line: counters by name, and all messages of stderr."""
        header = self._header
        return self._line(
            to.Summary(
                version=to.VERSION,
                sessions=self._shown,
                lost=dict(lost),
                warnings=tuple(warnings),
                kernel=header.release,
                machine=header.machine,
                mechanism=header.mechanism,
                tool_version=header.tool_version,
            )
        )

    def _line(self, value: to.Line) -> str:
        return self._printed(encode(value, enc_hook=str).decode()) + "\n"

    def _printed(self, text: str) -> str:
        if self._escape and not text.isascii():
            text = "".join(char if char.isascii() else json_escaped(char) for char in text)
        return printable_json(text)
