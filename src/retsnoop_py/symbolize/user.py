# SPDX-License-Identifier: BSD-2-Clause
"""Resolve addresses of programs, which may have ended.

The kernel side records the build id of a file and an offset in the file. The mappings of processes,
read when a process is first seen, show which file has the build id. For a process that ended
earlier, the mappings of other processes are used. The last resort is a search in PATH, first for a
program with the process's name, and in the folders of known libraries.

Processes are untrusted: they choose the names and the contents of their files. A mapped file is
opened by its link in map_files, which leads only to the mapped file. Its name is used only if the
link cannot be opened, and only regular files are opened. This process reads one page of a file, for
the build id. A child reads the rest (:mod:`retsnoop_py.symbolize.isolated`).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import NamedTuple, Self

from retsnoop_py.errors import DataError
from retsnoop_py.foreign_path import open_regular
from retsnoop_py.kernel.elf_file import noted_build_id
from retsnoop_py.package import is_one_file
from retsnoop_py.symbolize.frames import Resolved, UserAddress
from retsnoop_py.symbolize.isolated import ProgramReader, debug_file

__all__ = ["ProcessSymbolizer"]

_VDSO = "[vdso]"
#: Maximum number of cached processes.
_MAX_PROCESSES = 1 << 12
#: Maximum number of files that are searched if no process maps the file.
_MAX_FILES = 1 << 13
#: Maximum number of seconds for all searches among installed programs.
_SEARCH_S = 5.0
#: Maximum number of mapped files that stay open: the first ones. Other files are found by name.
_MAX_OPEN = 1 << 7
#: Maximum size of a list of mappings in bytes: 65,530 mappings with names of usual length.
_MAX_MAPS = 16 << 20


class _File(NamedTuple):
    """A mapped file: device, inode and name as bytes, and the name as text.

    ``path`` is the path by which this process finds the file.
    """

    identity: bytes
    name: str
    path: Path | None = None


class _Mapping(NamedTuple):
    """An executable mapping."""

    start: int
    end: int
    offset: int
    file: _File


class ProcessSymbolizer:
    """Resolve addresses of this machine's processes; a context manager that closes files.

    ``lines``: also read source lines if DWARF exists. ``warnings`` has the files without symbols
    and the reasons.
    """

    def __init__(self, root: Path = Path("/"), *, lines: bool = True) -> None:
        self._root = root
        self._reader = ProgramReader(lines=lines)
        self._mappings: dict[int, list[_Mapping]] = {}
        self._unread: dict[_File, None] = {}
        self._expected: list[_File] = []
        #: Open files, and all searched files with a build id.
        self._open: dict[_File, int] = {}
        self._files: dict[str, _File] = {}
        self._programs: dict[_File, int | None] = {}
        self._unknown: set[str] = set()
        #: The installed files that are not searched yet; None before the first search.
        self._installed_left: Iterator[_File] | None = None
        self._search_left = _SEARCH_S
        self._warnings: list[str] = []

    @property
    def child(self) -> int | None:
        """Return the process id of the child that reads programs, or None."""
        return self._reader.child

    def __enter__(self) -> Self:
        self._reader.start()
        # The process id would be wrong if /proc belongs to another PID namespace.
        self._look_at(self._root / "proc/self")
        if is_one_file():  # a single-file executable maps no C library
            self._unread.update(dict.fromkeys(self._c_libraries()))
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    @property
    def warnings(self) -> list[str]:
        """Return the files without symbols, and why."""
        return [*self._reader.warnings, *self._warnings]

    def expect(self, path: str) -> None:
        """Add the program at ``path``, which runs next and may end before it can be inspected."""
        self._expected.append(_named(self._root / path.lstrip("/"), path))

    def see(self, tgid: int) -> None:
        """Read the mappings of a process, which may end at any moment."""
        if len(self._mappings) >= _MAX_PROCESSES:
            self._mappings.pop(next(iter(self._mappings)))
        mappings = self._look_at(self._root / f"proc/{tgid}")
        self._mappings[tgid] = mappings or self._mappings.get(tgid, [])

    def _look_at(self, process: Path) -> list[_Mapping]:
        """Return the mappings of a process, and record their files."""
        base = process / "root" if self._is_elsewhere(process) else self._root
        mappings = list(_read_maps(process / "maps", base))
        for mapping in mappings:
            if mapping.file.path is not None and mapping.file not in self._programs:
                self._keep_open(process, mapping)
                self._unread[mapping.file] = None
        return mappings

    def _keep_open(self, process: Path, mapping: _Mapping) -> None:
        """Open the file of a mapping, so that it stays readable after the process has ended."""
        file = mapping.file
        if file in self._open or len(self._open) >= _MAX_OPEN:
            return
        link = process / f"map_files/{mapping.start:x}-{mapping.end:x}"
        try:
            self._open[file] = open_regular(link)
        except (OSError, DataError):
            pass  # the name is tried when the file is needed

    def resolve_user(
        self, tgid: int, address: UserAddress, proc_tgid: int | None = None, name: str = ""
    ) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.UserSymbolizer`."""
        tgid = tgid if proc_tgid is None else proc_tgid
        if tgid not in self._mappings:
            self.see(tgid)
        place = address.place
        if address.build_id:
            file = self._by_build_id(tgid, address.build_id, name)
            found = self._resolve(file, place, place) if file else None
            if found is not None:
                return found
            module = file.name if file else f"[build id {address.build_id}]"
            return Resolved(place, None, 0, 0, module)
        mapping = self._mapping(tgid, place)
        if mapping is None:
            return Resolved(place, None, 0, 0, None)
        offset = place - mapping.start + mapping.offset
        found = self._resolve(mapping.file, offset, place)
        return found or Resolved(place, None, 0, 0, mapping.file.name or None)

    def _is_elsewhere(self, process: Path) -> bool:
        """Return True if a process has another mount namespace, as in a container."""
        try:
            ours, theirs = (p / "ns/mnt" for p in (self._root / "proc/self", process))
            return not ours.samefile(theirs)
        except OSError:
            return False

    def _mapping(self, tgid: int, place: int) -> _Mapping | None:
        for look_again in (True, False):
            for mapping in self._mappings.get(tgid, ()):
                if mapping.start <= place < mapping.end:
                    return mapping
            if look_again:
                self.see(tgid)
        return None

    def _by_build_id(self, tgid: int, build_id: str, name: str) -> _File | None:
        file = self._files.get(build_id)
        if file is None and (self._unread or build_id not in self._unknown):
            file = self._find(tgid, build_id, name)
            if file is None:
                self._unknown.add(build_id)
        return file

    def _find(self, tgid: int, build_id: str, name: str) -> _File | None:
        """Return the file with a build id, or None."""
        if not self._identify(self._take_unread(), build_id):
            self.see(tgid)  # the process may have mapped more files, or run another program now
            if not self._identify(chain(self._take_unread(), self._expected), build_id):
                self._search_installed(build_id, name)
        if build_id not in self._files:
            debug = debug_file(build_id, self._root)
            return _named(debug) if debug else None
        return self._files[build_id]

    def _take_unread(self) -> Iterator[_File]:
        while self._unread:
            file = next(iter(self._unread))
            del self._unread[file]
            yield file

    def _search_installed(self, wanted: str, name: str) -> None:
        """Search the programs called ``name``, then all installed files, until ``wanted`` is found.

        There are thousands of files. The time is limited as well, because a folder can be on a slow
        disk.
        """
        if self._installed_left is None:
            self._installed_left = self._installed()
        began = time.monotonic()
        for file in chain(self._called(name), self._installed_left):
            with self._opened(file) as fd:
                found = None if fd is None else _noted(fd)
            if found:
                self._files.setdefault(found, file)
                if found == wanted:
                    break
            if time.monotonic() - began > self._search_left:
                self._installed_left = iter(())
                self._warnings.append(
                    "programs that ended before they were looked at may have no symbols: looking"
                    f" for them among those installed took longer than {_SEARCH_S:.0f} s"
                )
                break
        self._search_left -= time.monotonic() - began

    def _identify(self, files: Iterable[_File], wanted: str) -> bool:
        """Record the build ids of files; return True as soon as ``wanted`` is found."""
        for file in files:
            with self._opened(file) as fd:
                found = None if fd is None else self._build_id(fd, file.name)
            if found:
                self._files.setdefault(found, file)
                if found == wanted:
                    return True
        return False

    def _build_id(self, fd: int, name: str) -> str | None:
        return _noted(fd) or self._reader.build_id(fd, name)

    def _called(self, name: str) -> Iterator[_File]:
        """Yield the programs in PATH with this name, which can be any text."""
        if name.isprintable() and "/" not in name and name not in ("", ".", ".."):
            for folder in filter(os.path.isabs, os.get_exec_path()):
                yield _named(self._root / folder[1:] / name, f"{folder}/{name}")

    def _installed(self) -> Iterator[_File]:
        """Yield the programs in PATH, and the files beside known libraries."""
        known = {file.path for file in self._files.values()}
        folders = [*map(Path, os.get_exec_path())]
        folders += [Path("/", path.parent.relative_to(self._root)) for path in known if path]
        left = _MAX_FILES
        seen = set()
        for folder in dict.fromkeys(folders):
            try:
                where = self._root / folder.relative_to("/")
                about = where.stat()
                if (about.st_dev, about.st_ino) in seen:  # /bin is /usr/bin
                    continue
                seen.add((about.st_dev, about.st_ino))
                with os.scandir(where) as entries:
                    files = [e.name for e in entries if not e.is_dir(follow_symlinks=False)]
            except (OSError, ValueError):  # missing, or not absolute
                continue
            files = sorted(files)[:left]
            left -= len(files)
            for name in files:
                path = where / name
                if path not in known:
                    yield _named(path, f"{folder}/{name}")

    def _c_libraries(self) -> Iterator[_File]:
        """Yield the usual paths of the C library, which nearly all programs map."""
        machine = os.uname().machine
        for name in ("libc.so.6", f"ld-musl-{machine}.so.1"):
            for folder in (f"usr/lib/{machine}-linux-gnu", "usr/lib64", "lib64", "usr/lib", "lib"):
                path = self._root / folder / name
                if path.is_file():
                    # Mappings have the file's real name, and musl's loader is a link to its
                    # libc.so.
                    file = path.resolve()
                    yield _named(file, f"/{file.relative_to(self._root.resolve())}")
                    break

    def _resolve(self, file: _File, offset: int, place: int) -> Resolved | None:
        if file not in self._programs:
            self._programs[file] = self._add(file)
        number = self._programs[file]
        return None if number is None else self._reader.resolve(number, offset, place)

    def _add(self, file: _File) -> int | None:
        """Pass a file and its debug file to the reader; return its number, or None."""
        with self._vdso() if file.name == _VDSO else self._opened(file) as fd:
            if fd is None:
                return None
            debug = debug_file(self._build_id(fd, file.name), self._root)
            try:
                own = os.dup(fd)
            except OSError:  # too many files are open
                return None
        return self._reader.add(own, _open(debug), file.name)

    @contextmanager
    def _opened(self, file: _File) -> Iterator[int | None]:
        """Yield a descriptor of the file, which may already be open; None if it is missing."""
        fd = self._open.get(file)
        if fd is not None:
            yield fd
            return
        fd = _open(file.path)
        try:
            yield fd
        finally:
            if fd is not None:
                os.close(fd)

    @contextmanager
    def _vdso(self) -> Iterator[int | None]:
        """Yield the kernel's vDSO, which is the same in all processes, as a file."""
        found = _read_maps(Path("/proc/self/maps"), Path("/"))
        copy = os.memfd_create("vdso")
        try:
            with Path("/proc/self/mem").open("rb") as memory:
                for mapping in found:
                    if mapping.file.name == _VDSO:
                        memory.seek(mapping.start)
                        os.write(copy, memory.read(mapping.end - mapping.start))
            yield copy
        finally:
            os.close(copy)


def _open(path: Path | None) -> int | None:
    """Open the regular file at ``path``; return None if it is missing or not readable."""
    try:
        return None if path is None else open_regular(path)
    except (OSError, DataError, ValueError):
        return None


def _noted(fd: int) -> str | None:
    """Return the build id on a file's first page; None if it has none or cannot be read."""
    try:
        return noted_build_id(fd)
    except OSError:
        return None


def _named(path: Path, name: str | None = None) -> _File:
    """Return a file that was not found by a process's mapping."""
    return _File(b"", _text(os.fsencode(name or path)), path)


def _text(name: bytes) -> str:
    r"""Return a file's name as text; bytes that are not UTF-8 become ``\xNN``."""
    return name.decode("utf-8", "backslashreplace")


def _read_maps(path: Path, base: Path) -> Iterator[_Mapping]:
    r"""Yield the executable mappings of a process; none after it has ended.

    ``base`` is its root directory. A name can contain any byte except NUL and ``\n``, which the
    kernel writes as ``\012``.
    """
    try:
        with path.open("rb") as file:
            lines = file.read(_MAX_MAPS).split(b"\n")
    except OSError:
        return
    for line in lines:
        fields = line.split(b" ", 5)
        if len(fields) < 5 or b"x" not in fields[1]:
            continue
        start, _, end = fields[0].partition(b"-")
        name = fields[5].lstrip(b" ") if len(fields) > 5 else b""
        told = _File(
            b" ".join((*fields[3:5], name)),
            _text(name),
            base / os.fsdecode(name.lstrip(b"/")) if name.startswith(b"/") else None,
        )
        try:
            yield _Mapping(int(start, 16), int(end, 16), int(fields[2], 16), told)
        except ValueError:  # cut off
            return
