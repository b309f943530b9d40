# SPDX-License-Identifier: BSD-2-Clause
"""A child process without privileges that answers requests about untrusted files.

:class:`Unprivileged` is the parent's side. A module that reads such files has a function ``serve``
that calls :func:`answer_requests` in the child. The child has no environment, no network, few
system calls, and only the files that the parent sends (:mod:`retsnoop_py.unprivileged.sandbox`).

The child has to start fast under emulation, so the parent's functions import their modules late.
"""

from __future__ import annotations

import os
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING

from retsnoop_py.package import python, search_path

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

__all__ = ["Unprivileged", "answer_requests"]

_HEAD = 4
#: The child's program. ``-m`` would import runpy. The child imports from the parent's folders.
_CHILD = (
    "import sys; name, descriptor, *folders = sys.argv[1:]; "
    "sys.path[:] = dict.fromkeys([*sys.path, *folders]); "
    "__import__(name, fromlist=['serve']).serve(int(descriptor))"
)
#: The maximum number of descriptors in one request.
_MAX_FILES = 2


class Unprivileged:
    """A child that runs ``serve`` of ``module``, started by the first request.

    ``largest``: bytes of the longest answer that the parent accepts.
    """

    def __init__(self, module: str, largest: int) -> None:
        self._module = module
        self._largest = largest
        self._child: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Return the process id of the child; None if no child runs."""
        return None if self._child is None else self._child.pid

    def start(self) -> None:
        """Start the child unless it runs. Raises OSError."""
        import subprocess

        if self._child is not None:
            return
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                self._child = subprocess.Popen(
                    [
                        *python(),
                        "-S",
                        "-c",
                        _CHILD,
                        self._module,
                        str(theirs.fileno()),
                        *search_path(),
                    ],
                    env={},
                    pass_fds=(theirs.fileno(),),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    cwd="/",
                    start_new_session=True,
                )
            except OSError:
                ours.close()
                raise
        self._socket = ours

    def ask(self, request: bytes, fds: tuple[int, ...], seconds: float) -> bytes:
        """Send ``request`` with the open files ``fds``; return the child's answer.

        Raises TimeoutError if the answer is not complete after ``seconds``. Raises OSError if the
        child cannot be started, ends, or sends malformed data. Call :meth:`stop` after an error.
        """
        self.start()
        assert self._socket is not None
        end = time.monotonic() + seconds
        self._socket.settimeout(seconds)
        _send(self._socket, request, fds)
        return _receive(self._socket, self._largest, end)

    def stop(self) -> None:
        """End the child."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        if self._child is not None:
            self._child.kill()
            self._child.wait()
            self._child = None


def answer_requests(
    descriptor: int,
    answer: Callable[[bytes, list[int]], bytes],
    memory: int | None = None,
    *,
    shares: bool = False,
) -> None:
    """Drop all privileges, then answer requests on a socket until the parent closes the socket.

    ``answer`` gets each request and its open files, which are closed afterwards. All imports must
    be done before. ``memory`` and ``shares``: see :func:`sandbox.enter`.
    """
    from retsnoop_py.unprivileged import sandbox

    with socket.socket(fileno=descriptor) as parent:
        sandbox.enter(memory, shares=shares)
        with suppress(ConnectionError):
            while True:
                head, fds, _, _ = socket.recv_fds(parent, _HEAD, _MAX_FILES)
                head += _exactly(parent, _HEAD - len(head)) if head else b""
                if not head:
                    return
                request = _exactly(parent, int.from_bytes(head, "little"))
                try:
                    answered = answer(request, list(fds))
                finally:
                    for fd in fds:
                        os.close(fd)
                _send(parent, answered)


def _send(to: socket.socket, data: bytes, fds: tuple[int, ...] = ()) -> None:
    message = len(data).to_bytes(_HEAD, "little") + data
    sent = socket.send_fds(to, [message], fds) if fds else 0
    to.sendall(memoryview(message)[sent:])


def _receive(source: socket.socket, largest: int, end: float) -> bytes:
    """Return a whole message. Raises OSError if the message is too large or incomplete."""
    size = int.from_bytes(_exactly(source, _HEAD, end), "little")
    if size > largest:
        raise OSError("an impossible answer")
    return _exactly(source, size, end)


def _exactly(source: socket.socket, size: int, end: float | None = None) -> bytes:
    """Return ``size`` bytes. Raises TimeoutError at the time ``end`` (monotonic).

    The time is for all bytes together: a hostile process could send one byte now and then.
    """
    data = bytearray()
    while len(data) < size:
        if end is not None:
            left = end - time.monotonic()
            if left <= 0:
                raise TimeoutError("the answer is not complete")
            source.settimeout(left)
        part = source.recv(min(size - len(data), 1 << 20))
        if not part:
            raise ConnectionError("the other process has ended")
        data += part
    return bytes(data)
