# SPDX-License-Identifier: BSD-2-Clause
"""Open BPF objects from other users, first in a process without privileges.

libbpf and libelf are C libraries, and their authors do not promise safety against malicious files.
Therefore a child without privileges (:mod:`retsnoop_py.unprivileged.process`) reads all parts of
the object in both ways in which this package reads them: by :class:`ObjectFile` and by libbpf. If
the child crashes, the object is rejected. Both processes read the same bytes, from a copy in memory
that no other process can change.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.errors import BpfError, DataError, UnavailableError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.load.object_file import ObjectFile
from retsnoop_py.unprivileged.process import Unprivileged, answer_requests

if TYPE_CHECKING:
    from retsnoop_py.kernel.btf import Btf

__all__ = ["open_object", "read_checked"]

#: Maximum size of an object in bytes. Cilium's objects and the kernel's tests have less than 20 MB.
_MAX_BYTES = 256 << 20
#: Seconds for one object. A small object takes 0.2 s, mainly for the start of the child.
_SECONDS = 60.0
_MAX_ANSWER = 64 << 10
_UNTRUSTED = "the object may be made to attack the program that reads it; do not load it"
#: The SHA-256 of each object that a child has read.
_checked: set[bytes] = set()


def open_object(path: Path, kernel: Btf | None = None, source: Path | None = None) -> ObjectFile:
    """Return the object at ``path``, after a child without privileges has read it.

    See :class:`ObjectFile`. Raise the errors of :func:`read_checked` and :class:`ObjectFile`.
    """
    with in_memory(read_checked(path)) as fd:
        return ObjectFile(path, kernel, source, fd)


def read_checked(path: Path) -> bytes:
    """Return the bytes of the object at ``path``, after a child without privileges read them.

    Raise OSError if the file cannot be read. Raise DataError if the child crashes, takes more than
    a minute or 1 GiB of memory, or if the file has more than 256 MiB. Raise UnavailableError if
    root cannot start a child. For other users the file's bytes are then returned unchecked.
    """
    with open_file(path) as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DataError(f"{path} is too large for a BPF object: more than {_MAX_BYTES >> 20} MiB")
    digest = hashlib.sha256(data).digest()
    if digest not in _checked:
        _check(path, data)
        _checked.add(digest)
    return data


@contextmanager
def in_memory(data: bytes) -> Iterator[int]:
    """Yield a descriptor of a file in memory with the bytes ``data``."""
    fd = os.memfd_create("retsnoop-object", os.MFD_CLOEXEC)
    try:
        with os.fdopen(os.dup(fd), "wb") as file:
            file.write(data)
        yield fd
    finally:
        os.close(fd)


def _check(path: Path, data: bytes) -> None:
    child = Unprivileged(__name__, _MAX_ANSWER)
    try:
        try:
            child.start()
        except OSError as error:
            if os.geteuid() != 0:
                return  # this user has no more privileges than the file's reader
            raise UnavailableError(
                f"no process without rights can be started to read {path}: {error.strerror}"
            ) from error
        with in_memory(data) as fd:
            answer = child.ask(str(path).encode(errors="surrogateescape"), (fd,), _SECONDS)
        if answer != b"read":
            raise DataError(f"{path}: reading it takes too much memory", _UNTRUSTED)
    except TimeoutError:
        raise DataError(
            f"{path}: reading it takes longer than {_SECONDS:.0f} s", _UNTRUSTED
        ) from None
    except OSError:
        raise DataError(
            f"{path} is damaged: the process without rights that reads it first crashed",
            _UNTRUSTED,
        ) from None
    finally:
        child.stop()


def _answer(name: bytes, fds: list[int]) -> bytes:
    """Read the object in ``fds`` in all ways; the parent will find the errors itself."""
    from retsnoop_py.libbpf.object import BpfObject

    path = Path(os.fsdecode(name))
    try:
        with suppress(DataError):
            ObjectFile(path, fd=fds[0]).read_tables()
        data = os.pread(fds[0], _MAX_BYTES, 0)
        # OSError: the text of an error needs a system call that is denied here.
        with suppress(BpfError, OSError), BpfObject(path, image=data) as opened:
            opened.programs()
            opened.maps()
    except MemoryError:
        return b"memory"
    return b"read"


def serve(descriptor: int) -> None:
    """Run the child: read each object that the parent sends."""
    from retsnoop_py.libbpf import object as _  # noqa: F401 - it is imported before rights go

    answer_requests(descriptor, _answer, shares=True)
