# SPDX-License-Identifier: BSD-2-Clause
"""A child process that reads the files of traced processes, which may be made to do harm.

An ELF file with its DWARF is a program for libelf and libdw, in C, and whoever is traced chooses
it: it may crash them, keep them busy for ever, or shrink while it is mapped. So they run in a
process of their own, which has no rights, no files but those it is sent, little memory, and so
many seconds for each request. What it answers is data of known types, and what goes wrong costs
the symbols of that one file.

:func:`serve` is the child. How long that takes to start counts under emulation, so what only the
parent needs is imported where it is used.
"""

from __future__ import annotations

import json
import os
import resource
import socket
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.symbolize.frames import Resolved

if TYPE_CHECKING:
    import subprocess

    from retsnoop_py.symbolize.programs import Program

__all__ = ["ProgramReader", "serve"]

#: Seconds a request may take, and all that failed together: nobody waits for hostile files longer.
_REQUEST_S = 20.0
_PATIENCE_S = 60.0
#: Bytes of the child's memory, and of its address space: the files are mapped there.
_MEMORY = 1 << 30
_ADDRESSES = 8 << 30
#: So many files are kept open for a child that has to take the place of one that ended.
_MAX_KEPT = 64
_NOBODY = 65534
_HEAD = 4
#: The child's program. That of ``-m`` would import runpy.
_CHILD = f"from {__name__} import serve; serve({{}})"
#: Bytes of an answer: 64 frames of two names of 4,096 characters, and some.
_MAX_ANSWER = 4 << 20
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS, _SIGKILL = 1, 38, 9


class _Request(NamedTuple):
    """What is asked: with ``name`` a file comes, and perhaps its debug file.

    Without an offset only the build id is wanted.
    """

    number: int
    name: str = ""
    offset: int | None = None
    place: int = 0
    lines: bool = False


class _Answer(NamedTuple):
    """The build id in hex, or what is at the place; neither: the file cannot be read."""

    build_id: str | None = None
    resolved: Resolved | None = None


class _File(NamedTuple):
    fd: int
    debug: int | None
    name: str


class ProgramReader:
    """Build ids and symbols of files that are not to be trusted.

    ``lines``: source lines as well, where there is DWARF. ``warnings`` tells which files were
    given up and why. Nothing here raises for what a file holds.
    """

    def __init__(self, *, lines: bool) -> None:
        import msgspec

        self._lines = lines
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._files: list[_File | None] = []
        #: Numbers of files that the child has, and of those it will not be given again.
        self._sent: set[int] = set()
        self._bad: set[int] = set()
        self._patience = _PATIENCE_S
        self.warnings: list[str] = []
        self._encode = msgspec.json.encode
        self._decode = msgspec.json.Decoder(_Answer).decode

    def start(self) -> None:
        """Start the child, which takes a moment, before it is needed."""
        import subprocess

        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._child = subprocess.Popen(
                    [sys.executable, "-P", "-c", _CHILD.format(theirs.fileno())],
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                self._patience = 0
                self.warnings.append(f"no symbols of programs: no process for them: {error}")
                return
        self._socket = ours

    def close(self) -> None:
        """End the child and close the files."""
        self._stop()
        for file in self._files:
            if file is not None:
                _close(file)
        self._files.clear()

    def build_id(self, fd: int, name: str) -> str | None:
        """The build id in hex of the file open as ``fd``, None where it has none."""
        answer = self._ask(_Request(-1, name), name, (fd,))
        return None if answer is None else answer.build_id

    def add(self, fd: int, debug: int | None, name: str) -> int:
        """A number for the file open as ``fd`` and its debug file; both are closed here."""
        self._files.append(_File(fd, debug, name))
        return len(self._files) - 1

    def resolve(self, number: int, offset: int, place: int) -> Resolved | None:
        """The call that returns to ``offset`` in a file; None if the file cannot be read."""
        file = self._files[number]
        if number in self._bad or (file is None and number not in self._sent):
            return None
        request = _Request(number, "", offset, place, self._lines)
        fds: tuple[int, ...] = ()
        name = "a program" if file is None else file.name
        if file is not None and number not in self._sent:
            request = request._replace(name=name)
            fds = (file.fd,) if file.debug is None else (file.fd, file.debug)
        answer = self._ask(request, name, fds)
        if answer is None or answer.resolved is None:
            self._bad.add(number)
            return None
        self._sent.add(number)
        if file is not None and number >= _MAX_KEPT:
            _close(file)
            self._files[number] = None
        return answer.resolved

    def _ask(self, request: _Request, name: str, fds: tuple[int, ...]) -> _Answer | None:
        if self._patience <= 0:
            return None
        if self._socket is None:
            self.start()
        if self._socket is None:
            return None
        try:
            self._socket.settimeout(_REQUEST_S)
            _send(self._socket, self._encode(request), fds)
            return self._decode(_receive(self._socket))
        except TimeoutError:
            self._patience -= _REQUEST_S
            self._give_up(name, f"it takes longer than {_REQUEST_S:.0f} s")
        except (OSError, ValueError):  # msgspec's errors are ValueErrors
            self._patience -= 1
            self._give_up(name, "it is damaged, and what reads it crashed")
        return None

    def _give_up(self, name: str, why: str) -> None:
        self._stop()
        self.warnings.append(f"no symbols of {name}: {why}")
        if self._patience <= 0:
            self.warnings.append("no more symbols of programs: too many cannot be read")

    def _stop(self) -> None:
        self._sent.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def _send(to: socket.socket, data: bytes, fds: tuple[int, ...] = ()) -> None:
    message = len(data).to_bytes(_HEAD, "little") + data
    sent = socket.send_fds(to, [message], fds) if fds else 0
    to.sendall(message[sent:])


def _receive(source: socket.socket) -> bytes:
    """A whole message; OSError if nobody sends one."""
    size = int.from_bytes(_exactly(source, _HEAD), "little")
    if size > _MAX_ANSWER:
        raise OSError("an impossible answer")
    return _exactly(source, size)


def _exactly(source: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise ConnectionError("the other side is gone")
        data += part
    return bytes(data)


def _close(file: _File) -> None:
    os.close(file.fd)
    if file.debug is not None:
        os.close(file.debug)


class _Child:
    """What the child keeps."""

    def __init__(self, kind: type[Program]) -> None:
        self._kind = kind
        self._programs: dict[int, Program] = {}

    def answer(self, request: _Request, fds: list[int]) -> _Answer:
        """Answer a request; the files that came with it are closed."""
        try:
            if request.offset is None:
                with ElfFile(request.name, fds[0]) as elf:
                    return _Answer(elf.build_id)
            if fds:
                files = [*fds, None][:2]
                made = self._kind(files[0] or 0, request.name, files[1], lines=request.lines)
                self._programs[request.number] = made
            program = self._programs[request.number]
            return _Answer(resolved=program.resolve(request.offset, request.place))
        except (OSError, DataError, MemoryError):
            return _Answer()
        finally:
            for fd in fds:
                os.close(fd)


def _give_up_rights() -> None:
    """Keep nothing that a file could abuse; what is needed is imported and open by now."""
    import ctypes

    for limit, most in (
        (resource.RLIMIT_AS, _ADDRESSES),
        (resource.RLIMIT_DATA, _MEMORY),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
    ):
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(limit)[1]
            least = most if hard == resource.RLIM_INFINITY else min(most, hard)
            resource.setrlimit(limit, (least, least))
    if os.geteuid() == 0:
        # in some containers there is nobody else to be: that leaves the limits
        with suppress(OSError):
            os.setgroups([])
            os.setresgid(_NOBODY, _NOBODY, _NOBODY)
            os.setresuid(_NOBODY, _NOBODY, _NOBODY)
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)


def serve(descriptor: int) -> None:
    """Be the child: answer at a socket until nobody asks any more."""
    # before the rights to read them are gone
    from retsnoop_py.libbpf import dwarf
    from retsnoop_py.symbolize import programs

    dwarf.load()
    child = _Child(programs.Program)
    with socket.socket(fileno=descriptor) as parent:
        _give_up_rights()
        with suppress(ConnectionError):
            while True:
                head, fds, _, _ = socket.recv_fds(parent, _HEAD, 2)
                head += _exactly(parent, _HEAD - len(head)) if head else b""
                if not head:
                    return
                request = json.loads(_exactly(parent, int.from_bytes(head, "little")))
                answer = child.answer(_Request(*request), list(fds))
                _send(parent, json.dumps(answer).encode())
