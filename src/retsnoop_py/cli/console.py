# SPDX-License-Identifier: BSD-2-Clause
"""What a run says about itself goes to stderr: stdout holds the results and nothing else."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager

from retsnoop_py.listener import Listener, Progress
from retsnoop_py.terminal import Aside, Bar

__all__ = ["Console"]


class Console(Listener):
    """Shows everything on standard error."""

    def say(self, line: str) -> None:
        """One line, at once."""
        print(line, file=sys.stderr, flush=True)

    def say_aside(self, text: str) -> None:
        """What cannot be written without waiting is left out."""
        Aside(sys.stderr).write(text)

    def progress(
        self, what: str, unit: str = "functions", *, is_aside: bool = False
    ) -> AbstractContextManager[Progress]:
        """A bar, or lines in a pipe; nothing in the first second."""
        return Bar(what, unit, Aside(sys.stderr) if is_aside else sys.stderr)
