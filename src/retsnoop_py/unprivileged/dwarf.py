# SPDX-License-Identifier: BSD-2-Clause
"""Untrusted DWARF, read by libdw in a child without privileges.

The kernel's debug packages are root's own files below the system's folders: libdw reads these in
this process. Every other image (from a debuginfod server, or a vmlinux that the user names) may
exploit libdw, so :class:`UnprivilegedImage` reads it in a child.
"""

from __future__ import annotations

import json
import os
import stat
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from retsnoop_py.errors import DataError, InputError, RetsnoopError
from retsnoop_py.foreign_json import decode
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.libbpf.dwarf import (
    CompileUnit,
    DwarfImage,
    DwarfStats,
    LinePlaces,
    Location,
    Variable,
    load,
)
from retsnoop_py.libbpf.dwarf import defect as read_here
from retsnoop_py.unprivileged.process import Unprivileged, answer_requests

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["UnprivilegedImage", "is_installed", "open_image"]

T = TypeVar("T")

#: The folders for debug files and modules of packages.
_INSTALLED = ("boot", "lib/modules", "usr/lib/modules", "usr/lib/debug")
#: Timeouts in seconds: to open an image, and for each later request. To open an image, libelf may
#: have to decompress sections, which takes more than a minute on a busy emulated CPU.
_OPEN_S, _REQUEST_S = 600.0, 60.0
#: Bytes of memory for DWARF that libelf decompresses, and of the list of all compile units.
_MEMORY = 4 << 30
_MAX_ANSWER = 256 << 20


class _Request(NamedTuple):
    """A method of :class:`DwarfImage` and its arguments; ``open`` also passes the file."""

    method: str
    arguments: list[Any]


def is_installed(path: Path) -> bool:
    """Return whether ``path`` is below a system folder and only root could create the file."""
    real = Path(os.path.realpath(path))
    folders = {os.path.realpath(f"/{folder}") for folder in _INSTALLED}
    if not any(real.is_relative_to(folder) for folder in folders):
        return False
    try:
        seen = [place.lstat() for place in (real, *real.parents)]
    except OSError:
        return False
    return all(
        each.st_uid == 0 and not each.st_mode & (stat.S_IWGRP | stat.S_IWOTH) for each in seen
    )


def open_image(
    path: Path, sections: Mapping[str, int] | None = None
) -> DwarfImage | UnprivilegedImage:
    """Return the DWARF of an image, read in a child unless :func:`is_installed`.

    Raises as :class:`DwarfImage` does.
    """
    # Resolve once, for the check and for reading: another user may change a link in between.
    real = Path(os.path.realpath(path))
    return DwarfImage(real, sections) if is_installed(real) else UnprivilegedImage(path, sections)


class UnprivilegedImage:
    """A :class:`DwarfImage` in a child without privileges; methods and errors are the same.

    Also raises DataError if the child ends or exceeds a timeout; all later requests fail.
    """

    def __init__(self, path: Path, sections: Mapping[str, int] | None = None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._process = Unprivileged(__name__, _MAX_ANSWER)
        self._lost: DataError | None = None
        try:
            fd = open_regular(path)
        except OSError as error:
            raise InputError(f"{path}: {error.strerror}") from error
        try:
            self._ask(bool, "open", str(path), dict(sections or {}), fds=(fd,))
        except BaseException:
            self.close()
            raise
        finally:
            os.close(fd)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the child; the image must not be used afterwards. A second call does nothing."""
        with self._lock:
            self._process.stop()
            self._lost = self._lost or DataError(f"{self.path}: it is closed")

    def lookup(self, address: int) -> Location | None:
        """See :meth:`DwarfImage.lookup`."""
        return self._ask(Location | None, "lookup", address)  # type: ignore[arg-type]

    def variables(self, address: int) -> tuple[Variable, ...]:
        """See :meth:`DwarfImage.variables`."""
        return self._ask(tuple[Variable, ...], "variables", address)

    def units(self) -> tuple[CompileUnit, ...]:
        """See :meth:`DwarfImage.units`."""
        return self._ask(tuple[CompileUnit, ...], "units")

    def find_line(self, unit: int, path: str, line: int) -> LinePlaces:
        """See :meth:`DwarfImage.find_line`."""
        return self._ask(LinePlaces, "find_line", unit, path, line)

    @property
    def stats(self) -> DwarfStats:
        """See :attr:`DwarfImage.stats`."""
        return self._ask(DwarfStats, "stats")

    def _ask(self, kind: type[T], method: str, *words: Any, fds: tuple[int, ...] = ()) -> T:
        import msgspec

        seconds = _OPEN_S if method == "open" else _REQUEST_S
        with self._lock:
            if self._lost is not None:
                raise self._lost
            try:
                request = msgspec.json.encode(_Request(method, list(words)))
                answer = self._process.ask(request, fds, seconds)
                if answer[:1] != b"e":
                    return decode(msgspec.json.Decoder(kind), answer[1:])
                failure = decode(msgspec.json.Decoder(tuple[bool, str, str | None]), answer[1:])
            except TimeoutError:
                self._lose(f"reading it takes longer than {seconds:.0f} s")
            except (OSError, DataError):
                self._lose("it is damaged, and the process that reads it ended")
            else:
                raise _error(*failure)
            assert self._lost is not None
            raise self._lost

    def _lose(self, why: str) -> None:
        self._process.stop()
        self._lost = DataError(f"{self.path}: {why}")


def defect(path: Path) -> tuple[str, bool] | None:
    """Return why libdw cannot read the DWARF of ``path``, and whether compression is the reason.

    Return None if libdw can read the DWARF.
    """
    real = Path(os.path.realpath(path))
    if is_installed(real):
        return read_here(real)
    try:
        UnprivilegedImage(path).close()
    except RetsnoopError as error:
        why = error.message.removeprefix(f"{path}: ")
        return why, "objcopy" in (error.hint or "")
    return None


def _error(is_input: bool, message: str, hint: str | None) -> RetsnoopError:
    return (InputError if is_input else DataError)(message, hint)


class _Child:
    """The image that the child reads."""

    def __init__(self) -> None:
        self._image: DwarfImage | None = None

    def answer(self, data: bytes, fds: list[int]) -> bytes:
        """Return ``r`` and the result as JSON, or ``e`` and the error."""
        request = _Request(*json.loads(data))
        try:
            return b"r" + json.dumps(self._result(request, fds)).encode()
        except RetsnoopError as error:
            told = isinstance(error, InputError), error.message, error.hint
        except MemoryError:
            told = False, "reading it takes too much memory", None
        return b"e" + json.dumps(told).encode()

    def _result(self, request: _Request, fds: list[int]) -> Any:
        if request.method == "open":
            path, sections = request.arguments
            self._image = DwarfImage(Path(path), sections, fd=fds[0])
            return True
        assert self._image is not None
        found: Callable[..., Any] = getattr(self._image, request.method)
        return found if request.method == "stats" else found(*request.arguments)


def serve(descriptor: int) -> None:
    """Run the child: answer requests on a socket until the parent closes the socket."""
    load()
    answer_requests(descriptor, _Child().answer, _MEMORY)
