# SPDX-License-Identifier: BSD-2-Clause
"""Read the running kernel's memory from /proc/kcore."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Self

from retsnoop_py.errors import PrivilegeError, UnavailableError

__all__ = ["Kcore"]

_PT_LOAD = 1
_HEADER_BYTES = 64
_SEGMENT = struct.Struct("=IIQQQQQQ")


class Kcore:
    """The memory of the running kernel, open until closed; a context manager.

    Raise PrivilegeError if the kernel forbids access. Raise UnavailableError if the kernel has no
    such file, or if it is masked: containers mount an empty file over it.
    """

    def __init__(self, path: Path = Path("/proc/kcore")) -> None:
        self.name = str(path)
        try:
            self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except PermissionError as error:
            raise PrivilegeError(
                f"{path} cannot be read: {error.strerror}",
                "run as root; if root has no permission, `dmesg` may report a lockdown",
            ) from error
        except OSError as error:
            raise UnavailableError(f"{path} cannot be read: {error.strerror}") from error
        self._segments = self._read_segments()
        if not self._segments:
            os.close(self._fd)
            raise UnavailableError(
                f"{path} is empty or masked: it has nothing of the kernel's memory",
                f"umount {path}, or run outside of the container",
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)

    def _read_segments(self) -> list[tuple[int, int, int]]:
        """Return address, offset in the file and size of each segment."""
        header = os.pread(self._fd, _HEADER_BYTES, 0)
        if len(header) < _HEADER_BYTES or header[:4] != b"\x7fELF":
            return []
        (table,) = struct.unpack_from("=Q", header, 32)
        entry, count = struct.unpack_from("=HH", header, 54)
        raw = os.pread(self._fd, entry * count, table)
        found = []
        for at in range(0, len(raw) - _SEGMENT.size + 1, entry):
            kind, _, offset, address, _, size, _, _ = _SEGMENT.unpack_from(raw, at)
            if kind == _PT_LOAD:
                found.append((address, offset, size))
        return found

    def read(self, address: int, size: int) -> bytes:
        """Return ``size`` bytes at ``address``; fewer if not all can be read."""
        for start, offset, length in self._segments:
            if start <= address < start + length:
                size = min(size, start + length - address)
                try:
                    return os.pread(self._fd, size, offset + address - start)
                except OSError:
                    return b""
        return b""
