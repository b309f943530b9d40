# SPDX-License-Identifier: BSD-2-Clause
"""Sessions on one stream, as text or JSON, and what is to be told beside them on another."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TextIO

from retsnoop_py.errors import OutputError
from retsnoop_py.render.views import renderer
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import Settings
from retsnoop_py.terminal import takes_more
from retsnoop_py.text import printable

__all__ = ["Printer"]


class Printer:
    """Writes sessions to ``out`` as ``settings`` say, and lines for people to ``err``.

    A :class:`~retsnoop_py.session.pipeline.Sink`. Raises OutputError if ``out`` cannot be
    written, BrokenPipeError if nobody reads it any more.
    """

    def __init__(self, header: StreamHeader, settings: Settings, out: TextIO, err: TextIO) -> None:
        self._out = out
        self._err = err
        self._renderer = renderer(header, settings, out)
        self._said: list[str] = []
        #: Whether a text is being written: it may be cut where that was interrupted.
        self._is_writing = False

    def show(self, reports: Sequence[Report]) -> None:
        """Write them in one piece."""
        self._write_out("".join([self._renderer.session(report) for report in reports]))

    def say(self, line: str) -> None:
        """Write a line, at once."""
        text = printable(line)
        self._said.append(text)
        _write(self._err, text + "\n")
        self._err.flush()

    def end(self, lost: Mapping[str, int]) -> None:
        """Write the last line of JSON."""
        self._write_out(self._renderer.summary(lost, self._said))

    def abandon(self) -> None:
        """Where writing was cut short, or nobody reads what we write, write nothing more."""
        if self._is_writing or not takes_more(self._out):
            with Path(os.devnull).open("w") as nowhere:
                os.dup2(nowhere.fileno(), self._out.fileno())

    def _write_out(self, text: str) -> None:
        if not text:
            return
        self._is_writing = True
        try:
            _write(self._out, text)
            self._out.flush()
            self._is_writing = False
        except BrokenPipeError:
            raise
        except OSError as err:
            raise OutputError(
                f"the output could not be written: {err.strerror}",
                "free some space, or send the output elsewhere",
            ) from err


def _write(out: TextIO, text: str) -> None:
    try:
        out.write(text)
    except UnicodeEncodeError as err:
        out.write(text.encode(err.encoding, "backslashreplace").decode(err.encoding))
