# SPDX-License-Identifier: BSD-2-Clause
"""Lines to and from one port of the guest."""

from __future__ import annotations

import contextlib
import socket

__all__ = ["Channel"]


class Channel:
    """Talks in lines over a socket and never blocks on reading.

    A guest that is gone shows as silence; who waits for an answer asks whether it is alive.
    """

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._pending = b""

    def say(self, line: str) -> None:
        """Send one line."""
        with contextlib.suppress(OSError):
            self._end.sendall(line.encode() + b"\n")

    def lines(self) -> list[str]:
        """The complete lines that arrived since last asked."""
        with contextlib.suppress(BlockingIOError, ConnectionError):
            self._pending += self._end.recv(65536, socket.MSG_DONTWAIT)
        *done, self._pending = self._pending.split(b"\n")
        return [line.decode(errors="replace") for line in done]
