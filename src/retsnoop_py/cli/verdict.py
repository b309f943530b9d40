# SPDX-License-Identifier: BSD-2-Clause
"""The exit status of a run and its summary: ``--fail-on``, ``--expect``, ``--summary``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py import own_file
from retsnoop_py.cli.report import say
from retsnoop_py.foreign_json import encode
from retsnoop_py.session.verdict import Caught
from retsnoop_py.settings import VerdictSettings

if TYPE_CHECKING:
    from retsnoop_py.model.session import RunResult

__all__ = ["UNEXPECTED", "Judge"]

#: The exit status of a run with unexpected failures, or without an expected failure.
UNEXPECTED = 3
_BY_SIGNAL = 128


class Judge:
    """The counted failures of a run (``caught``), and the exit status that follows from them."""

    def __init__(self, settings: VerdictSettings, summary: Path | None = None) -> None:
        self.caught = Caught(settings)
        self._settings = settings
        self._summary = summary

    def status(self, ours: int, command: int | None) -> int:
        """Print unexpected results on stderr, write the summary, and return the exit status.

        ``ours`` is nonzero if output could not be written. ``command`` is the exit status of the
        traced command, or None. Raises OutputError.
        """
        said = self.caught.surprises()
        for line in said:
            say(f"retsnoop-py: {line}")
        status = ours or command or 0
        if said:
            status = UNEXPECTED
        elif self._settings.expect and command is not None and command < _BY_SIGNAL:
            status = ours
        if self._summary is not None:
            self._write(self._summary, said, status, command)
        return status

    def _write(self, path: Path, said: list[str], status: int, command: int | None) -> None:
        result = self._result(said, status, command)
        own_file.write(path, encode(result) + b"\n", own_file.SHARED)

    def _result(self, said: list[str], status: int, command: int | None) -> RunResult:
        from retsnoop_py.model import session as to

        header = self.caught.header
        return to.RunResult(
            to.VERSION,
            "unexpected" if said else "failed" if status else "ok",
            status,
            kernel=header.release if header else "",
            sessions=dict(self.caught.errors.most_common()),
            lost=self.caught.lost,
            command_status=command,
            why=tuple(said),
        )
