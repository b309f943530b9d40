# SPDX-License-Identifier: BSD-2-Clause
"""One command that runs in a guest: its files, its output and its exit status."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import signal
import socket
import stat
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Protocol

from retsnoop_py.vm.errors import KernelCrashed, Result, VmError, VmTimeout

__all__ = ["Channel", "Command", "JobFiles", "job_script", "release_told"]

Sink = Callable[[int, bytes], None]
"""Takes output as it comes: 1 and bytes of stdout, 2 and bytes of stderr."""

_POLL_S = 0.02
#: Largest part of a stream, in bytes, that is read and passed to a sink at once.
_CHUNK = 1 << 20
#: Maximum bytes of a line on a channel, and of each stream that is kept in memory.
_MAX_LINE = 4096
_MAX_OUTPUT = 256 << 20


def job_script(argv: Sequence[str], env: Mapping[str, str], cwd: Path) -> bytes:
    """Return the shell script that becomes the command.

    The script writes its PID to a file, sets the environment and the directory, and calls exec.
    """
    lines = ['echo $$ >"$RSN_PID_FILE"', "unset RSN_PID_FILE OLDPWD"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    lines.append(f"cd {shlex.quote(str(cwd))} || exit 125")
    lines.append("exec " + " ".join(shlex.quote(word) for word in argv))
    # file names are bytes and need not be UTF-8
    return ("\n".join(lines) + "\n").encode(errors="surrogateescape")


class JobFiles:
    """The files of a command: script, input and output. Both host and guest write them.

    The guest can replace these files. Therefore the host opens them relative to the descriptor
    ``jobs``, creates only new files and follows no links. A link in the guest cannot make the
    host read or write another file. Raises VmError if a file was replaced or cannot be opened.
    """

    def __init__(self, jobs: int, name: str) -> None:
        try:
            os.mkdir(name, dir_fd=jobs)
            flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
            self._folder = os.open(name, flags, dir_fd=jobs)
        except OSError as error:
            raise _meddled(name, error) from error
        weakref.finalize(self, os.close, self._folder)

    def write(self, name: str, data: bytes) -> None:
        """Create the file ``name``, which must not exist, with ``data``."""
        with self.create(name) as file:
            file.write(data)

    def create(self, name: str) -> BinaryIO:
        """Create the file ``name``, which must not exist; return it, open for writing.

        Whatever the guest puts in its place later, the host writes the file that it created.
        """
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        try:
            return os.fdopen(os.open(name, flags, 0o600, dir_fd=self._folder), "wb", buffering=0)
        except OSError as error:
            raise _meddled(name, error) from error

    def read(self, name: str, offset: int = 0, size: int = -1) -> bytes:
        """Return at most ``size`` bytes of ``name`` from ``offset``; b"" if the file is missing."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY
        try:
            with os.fdopen(os.open(name, flags, dir_fd=self._folder), "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    raise VmError(f"the guest replaced the command's {name}")
                file.seek(offset)
                return file.read(size)
        except FileNotFoundError:
            return b""
        except OSError as error:
            raise _meddled(name, error) from error


def _meddled(name: str, error: OSError) -> VmError:
    return VmError(
        f"cannot open the command's {name}, which the guest can also write: {error.strerror}"
    )


class Channel:
    """A line-based connection over a socket; reading never blocks.

    The channel does not report that the guest has ended: no more lines arrive. A caller that
    waits for a line must also check that the guest is alive.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._pending = b""

    def say(self, line: str) -> None:
        """Send one line."""
        with contextlib.suppress(OSError):
            self._end.sendall(line.encode() + b"\n")

    def lines(self) -> list[str]:
        """Return the complete lines since the last call. Raises VmError for an overlong line."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._pending += self._end.recv(65536, socket.MSG_DONTWAIT)
        *done, self._pending = self._pending.split(b"\n")
        if len(self._pending) > _MAX_LINE:
            raise VmError(f"the guest sent a line of more than {_MAX_LINE} bytes")
        return [line.decode(errors="replace") for line in done]


def release_told(line: str) -> str:
    """Return the kernel's release from a guest's line ``ready RELEASE``. Raises VmError."""
    found = re.fullmatch(r"ready ([\w.+~-]{1,64})", line)
    if not found:
        raise _unclear(line)
    return found[1]


#: The largest exit status of a process.
_MOST_STATUS = 255


def _status_told(line: str) -> int:
    """Return the exit status from a guest's line ``exit ID STATUS``. Raises VmError."""
    found = re.fullmatch(r"exit \d{1,9} (\d{1,3})", line)
    if not found or int(found[1]) > _MOST_STATUS:
        raise _unclear(line)
    return int(found[1])


def _unclear(line: str) -> VmError:
    return VmError(f"the guest sent an unexpected line: {line[:80]!r}")


class Guest(Protocol):
    """The interface of a machine that a command uses."""

    @property
    def release(self) -> str:
        """The output of ``uname -r`` in the guest."""
        ...

    @property
    def console(self) -> str:
        """The text on the guest's console so far."""
        ...

    @property
    def signals(self) -> Channel:
        """The channel that sends signals to commands."""
        ...

    def alive(self) -> bool:
        """Return True if the guest still runs."""
        ...

    def crash(self, result: Result | None) -> KernelCrashed:
        """Return an error that explains why the guest has ended; the caller raises it."""
        ...

    def release_lane(self, lane: Channel) -> None:
        """Return the lane of a command that has ended to the free lanes."""
        ...


class Command:
    """A command that runs in the guest; created by ``Machine.start``."""

    def __init__(
        self, machine: Guest, lane: Channel, number: int, files: JobFiles, argv: Sequence[str]
    ) -> None:
        self.argv = tuple(argv)
        self.started = time.monotonic()
        self._machine = machine
        self._lane = lane
        self._number = number
        self._files = files
        self._seen = {1: 0, 2: 0}
        self._streams = False
        self._has_more = False
        self._result: Result | None = None
        lane.say(f"run {number}")

    def send_signal(self, number: int, group: bool = True) -> None:
        """Send a signal to the command's process group, as a terminal does, or to its process."""
        name = signal.Signals(number).name.removeprefix("SIG")
        self._machine.signals.say(f"{name} {self._number} {'group' if group else 'process'}")

    def output(self) -> tuple[bytes, bytes]:
        """Return the output of the command so far: (stdout, stderr).

        Raises VmError if either stream exceeds 256 MiB; pass such output to a sink.
        """
        out, err = (self._files.read(name, 0, _MAX_OUTPUT + 1) for name in ("stdout", "stderr"))
        for name, data in (("standard output", out), ("standard error", err)):
            if len(data) > _MAX_OUTPUT:
                raise VmError(f"{self.argv[0]} wrote more than {_MAX_OUTPUT >> 20} MiB to {name}")
        return out, err

    def poll(self, sink: Sink | None = None) -> Result | None:
        """Pass new output to ``sink``; return the result if the command has ended, else None.

        A caller that passes a sink must pass it in each call. A call passes at most 1 MiB of each
        stream; the call that passes the last output returns the result. Raises KernelCrashed if
        the guest ended, VmError if the guest violates the protocol.
        """
        self._streams = self._streams or sink is not None
        if self._result is None:
            ended = next((line for line in self._lane.lines() if line.startswith("exit ")), None)
            if ended:
                self._finish(_status_told(ended))
            elif not self._machine.alive():
                if self._pump(sink):
                    return None
                raise self._machine.crash(self._partial(-1))
        return None if self._pump(sink) else self._result

    def wait(self, timeout: float | None = None, sink: Sink | None = None) -> Result:
        """Wait at most ``timeout`` seconds for the result; pass new output to ``sink``.

        The time counts from the start of the command. Raises VmTimeout after killing the command's
        process group, KernelCrashed if the guest ended. Both errors contain the output so far as
        ``result``.
        """
        limit = None if timeout is None else self.started + timeout
        while True:
            result = self.poll(sink)
            if result:
                return result
            if limit is not None and time.monotonic() > limit:
                raise self._expire(timeout, sink)
            if not self._has_more:
                time.sleep(_POLL_S)

    def _expire(self, timeout: float | None, sink: Sink | None) -> VmTimeout:
        self.send_signal(signal.SIGKILL)
        patience = time.monotonic() + 5
        while self.poll(sink) is None and time.monotonic() < patience:
            if not self._has_more:
                time.sleep(_POLL_S)
        return VmTimeout(
            f"{self.argv[0]} did not end within {timeout:g} s on Linux {self._machine.release}",
            "use a longer --timeout",
            console=self._machine.console,
            result=self._partial(-1),
        )

    def _finish(self, status: int) -> None:
        self._result = self._partial(status)
        self._machine.release_lane(self._lane)

    def _partial(self, status: int) -> Result:
        out, err = (b"", b"") if self._streams else self.output()
        return Result(self.argv, status, out, err, time.monotonic() - self.started)

    def _pump(self, sink: Sink | None) -> bool:
        """Pass the next part of each stream to ``sink``; return True if more may be available."""
        self._has_more = False
        for stream, name in ((1, "stdout"), (2, "stderr")) if sink else ():
            new = self._files.read(name, self._seen[stream], _CHUNK)
            self._seen[stream] += len(new)
            self._has_more |= len(new) == _CHUNK
            if new and sink:
                sink(stream, new)
        return self._has_more
