# SPDX-License-Identifier: BSD-2-Clause
"""One command running in a guest: the files it is described by, its output, its end."""

from __future__ import annotations

import shlex
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.vm.channel import Channel
from retsnoop_py.vm.errors import VmTimeout

if TYPE_CHECKING:
    from retsnoop_py.vm.machine import Machine

__all__ = ["Command", "Result", "job_script"]

Sink = Callable[[int, bytes], None]
"""Takes output as it comes: 1 and bytes of stdout, 2 and bytes of stderr."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Result:
    """How a command ended. ``status`` is its own, 128+N after signal N; ``seconds`` wall time."""

    argv: tuple[str, ...]
    status: int
    stdout: bytes
    stderr: bytes
    seconds: float

    @property
    def out(self) -> str:
        """stdout as text."""
        return self.stdout.decode(errors="replace")

    @property
    def err(self) -> str:
        """stderr as text."""
        return self.stderr.decode(errors="replace")


def job_script(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> bytes:
    """The shell script that becomes the command: it leaves its pid, sets the scene and execs."""
    lines = ['echo $$ >"$RSN_PID_FILE"', "unset RSN_PID_FILE OLDPWD"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    lines.append(f"cd {shlex.quote(str(cwd))} || exit 125")
    lines.append("exec " + " ".join(shlex.quote(word) for word in argv))
    # file names are bytes and need not be UTF-8
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


class Command:
    """A command that was started in the guest; made by :meth:`Machine.start`."""

    def __init__(
        self, machine: Machine, lane: Channel, number: int, folder: Path, argv: Sequence[str]
    ) -> None:
        self.argv = tuple(argv)
        self.started = time.monotonic()
        self._machine = machine
        self._lane = lane
        self._number = number
        self._folder = folder
        self._seen = {1: 0, 2: 0}
        self._result: Result | None = None
        lane.say(f"run {number}")

    def send_signal(self, number: int, group: bool = True) -> None:
        """Send a signal to the command's process group, as a terminal does, or to it alone."""
        name = signal.Signals(number).name.removeprefix("SIG")
        self._machine.signals.say(f"{name} {self._number} {'group' if group else 'process'}")

    def output(self) -> tuple[bytes, bytes]:
        """What the command has written so far: (stdout, stderr)."""
        return self._read("stdout"), self._read("stderr")

    def poll(self, sink: Sink | None = None) -> Result | None:
        """The result if the command has ended, else None; passes new output to ``sink``.

        Raises KernelCrashed if the guest went down under it.
        """
        if self._result is None:
            ended = next((line for line in self._lane.lines() if line.startswith("exit ")), None)
            if ended:
                self._finish(int(ended.split()[2]))
            elif not self._machine.alive():
                self._pump(sink)
                raise self._machine.crash(self._partial(-1))
        self._pump(sink)
        return self._result

    def wait(self, timeout: float | None = None, sink: Sink | None = None) -> Result:
        """Wait for the end, at most ``timeout`` seconds; passes output to ``sink`` as it comes.

        Raises VmTimeout after killing the command's process group, KernelCrashed if the guest
        went down. Both carry what was written until then as ``result``.
        """
        limit = None if timeout is None else self.started + timeout
        while True:
            result = self.poll(sink)
            if result:
                return result
            if limit is not None and time.monotonic() > limit:
                raise self._expire(timeout, sink)
            time.sleep(_POLL_S)

    def _expire(self, timeout: float | None, sink: Sink | None) -> VmTimeout:
        self.send_signal(signal.SIGKILL)
        patience = time.monotonic() + 5
        while self.poll(sink) is None and time.monotonic() < patience:
            time.sleep(_POLL_S)
        return VmTimeout(
            f"{self.argv[0]} did not end within {timeout:g} s on Linux {self._machine.release}",
            "give it longer with --timeout",
            console=self._machine.console,
            result=self._partial(-1),
        )

    def _finish(self, status: int) -> None:
        self._result = self._partial(status)
        self._machine.release_lane(self._lane)

    def _partial(self, status: int) -> Result:
        out, err = self.output()
        return Result(self.argv, status, out, err, time.monotonic() - self.started)

    def _pump(self, sink: Sink | None) -> None:
        if sink is None:
            return
        for stream, name in ((1, "stdout"), (2, "stderr")):
            new = self._read(name, self._seen[stream])
            self._seen[stream] += len(new)
            if new:
                sink(stream, new)

    def _read(self, name: str, offset: int = 0) -> bytes:
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(offset)
                return file.read()
        except FileNotFoundError:
            return b""
