# SPDX-License-Identifier: BSD-2-Clause
"""BPF objects that somebody else may have made: a process without rights opens them first.

libbpf and libelf are C libraries, and their authors do not promise that they survive a hostile
file. So a child without rights (:mod:`retsnoop_py.unprivileged.process`) reads all parts of the
object in both ways in which this package reads it: by :class:`ObjectFile` and by libbpf. An object
that the child does not survive is refused. Both then read the same bytes, a copy in memory that no
one can change.
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

#: Bytes of an object. Those of Cilium and of the kernel's tests have less than 20 MB.
_MAX_BYTES = 256 << 20
#: Seconds for one object. A small one takes 0.2 s, most of them for the start of the child.
_SECONDS = 60.0
_MAX_ANSWER = 64 << 10
_UNTRUSTED = "the object may be made to attack the program that reads it; do not load it"
#: The SHA-256 of each object that a child has read.
_checked: set[bytes] = set()


def open_object(path: Path, kernel: Btf | None = None, source: Path | None = None) -> ObjectFile:
    """The object at ``path``, after a child without rights has read it; see :class:`ObjectFile`.

    Raises as :func:`read_checked` and :class:`ObjectFile` do.
    """
    with in_memory(read_checked(path)) as fd:
        return ObjectFile(path, kernel, source, fd)


def read_checked(path: Path) -> bytes:
    """The bytes of the object at ``path``, after a child without rights has read them.

    Raises OSError if the file cannot be read, DataError if the child ends, takes more than a
    minute or 1 GiB of memory, or if the file has more than 256 MiB, and UnavailableError if root
    can start no child. For other users the bytes are then those of the file, unread.
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
    """A descriptor of a file in memory with the bytes ``data``."""
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
                return  # here the file meets no more rights than its reader's own
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
    """Read the object that comes as ``fds`` in all ways; errors are what the parent will find."""
    from retsnoop_py.libbpf.object import BpfObject

    path = Path(os.fsdecode(name))
    try:
        with suppress(DataError):
            ObjectFile(path, fd=fds[0]).read_tables()
        data = os.pread(fds[0], _MAX_BYTES, 0)
        # OSError: the text of an error needs a system call that is denied here
        with suppress(BpfError, OSError), BpfObject(path, image=data) as opened:
            opened.programs()
            opened.maps()
    except MemoryError:
        return b"memory"
    return b"read"


def serve(descriptor: int) -> None:
    """Be the child: read an object whenever the parent sends one."""
    from retsnoop_py.libbpf import object as _  # noqa: F401 - it is imported before rights go

    answer_requests(descriptor, _answer)
