# SPDX-License-Identifier: BSD-2-Clause
"""A bounded copy of the text that a guest writes to its serial console."""

from __future__ import annotations

import socket
import threading

__all__ = ["Console"]

#: Bytes kept of the beginning and of the end; a boot writes about 40 kB.
_HEAD = 1 << 20
_TAIL = 1 << 20
_CHUNK = 65536
_PATIENCE_S = 2.0


class Console:
    """A thread that reads a socket until the other end is closed.

    If a guest writes more than 2 MiB, the middle is dropped: the beginning shows why a boot
    failed, the end shows why a guest crashed.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()
        self._lock = threading.Lock()
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._thread = threading.Thread(target=self._read, name="console", daemon=True)

    def start(self) -> None:
        """Start to read, and close this process's copy of QEMU's end."""
        self._theirs.close()
        self._thread.start()

    def fileno(self) -> int:
        """Return the descriptor of QEMU's end; valid until :meth:`start`."""
        return self._theirs.fileno()

    def text(self, *, is_over: bool = False) -> str:
        """Return the kept text. ``is_over``: QEMU has ended, so wait for the rest."""
        if is_over and self._thread.is_alive():
            self._thread.join(_PATIENCE_S)
        with self._lock:
            gap = f"\n[{self._dropped} bytes dropped]\n".encode() if self._dropped else b""
            data = self._head + gap + self._tail
        return data.decode(errors="replace").replace("\r", "")

    def close(self) -> None:
        """End the thread and close both ends. Idempotent."""
        self._theirs.close()
        if self._thread.is_alive():
            self._ours.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        self._ours.close()

    def _read(self) -> None:
        try:
            while data := self._ours.recv(_CHUNK):
                self._keep(data)
        except OSError:
            pass  # closed meanwhile

    def _keep(self, data: bytes) -> None:
        with self._lock:
            room = _HEAD - len(self._head)
            self._head += data[:room]
            self._tail += data[room:]
            if len(self._tail) > 2 * _TAIL:
                self._dropped += len(self._tail) - _TAIL
                del self._tail[:-_TAIL]
