# SPDX-License-Identifier: BSD-2-Clause
"""The guest that live tests share, and the output about the guest of a failed test."""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.live.kernels import later_series

from retsnoop_py.vm import kernels
from retsnoop_py.vm.command import Command, Sink
from retsnoop_py.vm.errors import Result
from retsnoop_py.vm.machine import Machine

__all__ = ["PATIENCE", "SharedGuest", "available"]

#: How much of the console and of each output a failure shows, in characters from the end.
_CONSOLE, _OUTPUT = 4000, 6000
_COMMANDS = 3
#: Limits of time in tests are those of a machine with nothing else to do. They are multiplied by
#: this, since a machine may be half as fast, and busy.
PATIENCE = 3


def available(name: str) -> str:
    """``name``, or where Debian's archive has dropped that series the next one it has.

    Suites such as sid move on. Prints which kernel replaces which.
    """
    for each in (name, *later_series(name)):
        try:
            kernels.ensure(each)
        except kernels.SeriesGone as gone:
            dropped = gone
        else:
            if each != name:
                text = f"Debian no longer has Linux {name}; its tests run on {each} instead"
                print(f"  kernel   {text}", file=sys.stderr, flush=True)
            return each
    raise dropped


class PatientCommand(Command):
    """A command that has several times the time that a test gives it."""

    def wait(self, timeout: float | None = None, sink: Sink | None = None) -> Result:
        """Wait as :meth:`Command.wait` does."""
        return super().wait(None if timeout is None else timeout * PATIENCE, sink)


class SharedGuest(Machine):
    """A guest that is patient and remembers its last commands for the report of a failed test."""

    command_type = PatientCommand

    def __init__(self, kernel: str, kernel_options: Sequence[str] = ()) -> None:
        self._last: deque[Command] = deque(maxlen=_COMMANDS)
        super().__init__(
            available(kernel), kernel_options=kernel_options, boot_timeout=90 * PATIENCE
        )

    def _boot(self) -> None:
        super()._boot()
        # a clone may lie in a folder that only root can enter; the guest's files are a layer of its
        # own, so this changes nothing here
        above = [str(folder) for folder in Path(__file__).resolve().parents]
        self.run(["chmod", "a+x", *above])
        self._last.clear()

    def start(self, argv: Sequence[str], **how: Any) -> Command:
        """Start a command, as :meth:`Machine.start` does, and remember it."""
        command = super().start(argv, **how)
        self._last.append(command)
        return command

    def forget(self) -> None:
        """Forget the commands of the test before."""
        self._last.clear()

    def story(self) -> str:
        """The last commands with both outputs, and the end of the console."""
        parts = [_told(command) for command in self._last]
        return "\n".join([*parts, "--- end of the guest's console ---", self.console[-_CONSOLE:]])


def _told(command: Command) -> str:
    lines = [f"$ {shlex.join(command.argv)}"]
    for name, data in zip(("standard output", "standard error"), command.output(), strict=True):
        text = data.decode(errors="replace")[-_OUTPUT:]
        lines += [f"--- {name} ---", text] if text else []
    return "\n".join(lines)
