# SPDX-License-Identifier: BSD-2-Clause
"""Addresses of programs, whether they still run or not.

The kernel side tells the build id of a file and an offset in it. Which file that is, is learnt from
the mappings of processes, looked at when they are seen first; for one that was gone by then, from
those of others, and at last from the programs in PATH, first that of the process's name, and the
libraries beside known ones.

Processes are not to be trusted: they choose the names and contents of their files. A mapped file
is opened by its link in map_files, which leads to what is mapped and nothing else; a name is
followed only where that link cannot be, and nothing but a regular file is opened. Of its contents
one page is looked at here, for the build id; the rest is read by a child
(:mod:`retsnoop_py.symbolize.isolated`).
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
#: So many processes are remembered.
_MAX_PROCESSES = 1 << 12
#: So many files are looked at, at the most, where no process tells.
_MAX_FILES = 1 << 13
#: Seconds that all looking for programs among those installed may take.
_SEARCH_S = 5.0
#: So many mapped files are kept open, those that were seen first; others are found by their names.
_MAX_OPEN = 1 << 7
#: Bytes of a list of mappings that are read: 65,530 mappings with names of a usual length.
_MAX_MAPS = 16 << 20


class _File(NamedTuple):
    """A file that somebody maps: device and inode, and its name there, as bytes and as text.

    ``path`` is where we find what the process knows by that name.
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
    """Resolves addresses of this machine's processes; a context manager that closes files.

    ``lines``: source lines as well, where there is DWARF. ``warnings`` tells whose symbols were
    given up.
    """

    def __init__(self, root: Path = Path("/"), *, lines: bool = True) -> None:
        self._root = root
        self._reader = ProgramReader(lines=lines)
        self._mappings: dict[int, list[_Mapping]] = {}
        self._unread: dict[_File, None] = {}
        self._expected: list[_File] = []
        #: Files that are open, and of all that were looked at those with a build id.
        self._open: dict[_File, int] = {}
        self._files: dict[str, _File] = {}
        self._programs: dict[_File, int | None] = {}
        self._unknown: set[str] = set()
        #: What of the installed files was not looked at yet; None: nothing was.
        self._installed_left: Iterator[_File] | None = None
        self._search_left = _SEARCH_S
        self._warnings: list[str] = []

    @property
    def child(self) -> int | None:
        """The process id of the child that reads programs; None if there is none."""
        return self._reader.child

    def __enter__(self) -> Self:
        self._reader.start()
        # not by our process id: where /proc belongs to another PID namespace that is somebody else
        self._look_at(self._root / "proc/self")
        if is_one_file():  # which maps none
            self._unread.update(dict.fromkeys(self._c_libraries()))
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()
        for fd in self._open.values():
            os.close(fd)
        self._open.clear()

    @property
    def warnings(self) -> list[str]:
        """Which files' symbols were given up, and why."""
        return [*self._reader.warnings, *self._warnings]

    def expect(self, path: str) -> None:
        """Know the program at ``path``, which is run next and may end before it can be seen."""
        self._expected.append(_named(self._root / path.lstrip("/"), path))

    def see(self, tgid: int) -> None:
        """Look at the mappings of a process, which may end any moment."""
        if len(self._mappings) >= _MAX_PROCESSES:
            self._mappings.pop(next(iter(self._mappings)))
        mappings = self._look_at(self._root / f"proc/{tgid}")
        self._mappings[tgid] = mappings or self._mappings.get(tgid, [])

    def _look_at(self, process: Path) -> list[_Mapping]:
        """The mappings of a process, whose files are noted."""
        base = process / "root" if self._is_elsewhere(process) else self._root
        mappings = list(_read_maps(process / "maps", base))
        for mapping in mappings:
            if mapping.file.path is not None and mapping.file not in self._programs:
                self._keep_open(process, mapping)
                self._unread[mapping.file] = None
        return mappings

    def _keep_open(self, process: Path, mapping: _Mapping) -> None:
        """Have the file of a mapping, whatever becomes of the process and of its name."""
        file = mapping.file
        if file in self._open or len(self._open) >= _MAX_OPEN:
            return
        link = process / f"map_files/{mapping.start:x}-{mapping.end:x}"
        try:
            self._open[file] = open_regular(link)
        except (OSError, DataError):
            pass  # the name is tried when it is needed

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
        """Whether a process sees another file system than we do, as in a container."""
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
        """The file with a build id."""
        if not self._identify(self._take_unread(), build_id):
            self.see(tgid)  # it may have loaded more, or be another program by now
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
        """Look at the programs called ``name``, then go on among all, up to the one ``wanted``.

        These are thousands. Time is limited as well: a folder may be on a slow disk.
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
        """Note the build ids of files, until ``wanted`` is among them."""
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
        """The programs in PATH with a name, which may be any text."""
        if name.isprintable() and "/" not in name and name not in ("", ".", ".."):
            for folder in filter(os.path.isabs, os.get_exec_path()):
                yield _named(self._root / folder[1:] / name, f"{folder}/{name}")

    def _installed(self) -> Iterator[_File]:
        """Programs in PATH, and what is beside the libraries that are known."""
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
            except (OSError, ValueError):  # it is not there, or not absolute
                continue
            files = sorted(files)[:left]
            left -= len(files)
            for name in files:
                path = where / name
                if path not in known:
                    yield _named(path, f"{folder}/{name}")

    def _c_libraries(self) -> Iterator[_File]:
        """Where systems have the C library that nearly all programs map."""
        machine = os.uname().machine
        for name in ("libc.so.6", f"ld-musl-{machine}.so.1"):
            for folder in (f"usr/lib/{machine}-linux-gnu", "usr/lib64", "lib64", "usr/lib", "lib"):
                path = self._root / folder / name
                if path.is_file():
                    # mappings have the file's own name, and musl's loader is a link to its libc.so
                    file = path.resolve()
                    yield _named(file, f"/{file.relative_to(self._root.resolve())}")
                    break

    def _resolve(self, file: _File, offset: int, place: int) -> Resolved | None:
        if file not in self._programs:
            self._programs[file] = self._add(file)
        number = self._programs[file]
        return None if number is None else self._reader.resolve(number, offset, place)

    def _add(self, file: _File) -> int | None:
        """Give a file to the reader, with the debug file that belongs to it."""
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
        """A descriptor of the file, which may be open already; None where there is no such file."""
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
        """The kernel's vDSO, which is the same in all processes, as a file."""
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
    """The regular file at ``path``; None where there is none, or no right to read it."""
    try:
        return None if path is None else open_regular(path)
    except (OSError, DataError, ValueError):
        return None


def _noted(fd: int) -> str | None:
    """The build id on a file's first page; None where there is none, or it cannot be read."""
    try:
        return noted_build_id(fd)
    except OSError:
        return None


def _named(path: Path, name: str | None = None) -> _File:
    """A file that no process told of."""
    return _File(b"", _text(os.fsencode(name or path)), path)


def _text(name: bytes) -> str:
    r"""A file's name as text, what is not UTF-8 as ``\xNN``."""
    return name.decode("utf-8", "backslashreplace")


def _read_maps(path: Path, base: Path) -> Iterator[_Mapping]:
    r"""The executable mappings of a process; none once it is gone.

    ``base`` is its root directory. A name may hold any byte but NUL and ``\n``, which the kernel
    writes as ``\012``.
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
