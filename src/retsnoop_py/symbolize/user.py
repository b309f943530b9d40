# SPDX-License-Identifier: BSD-2-Clause
"""Addresses of programs, whether they still run or not.

The kernel side tells the build id of a file and an offset in it. Which file that is, is learnt from
the mappings of processes, looked at when they are seen first; for one that was gone by then, from
those of others, and at last from the programs in PATH and the libraries beside known ones.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Self

from retsnoop_py.errors import DataError
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.symbolize.frames import Resolved, UserAddress
from retsnoop_py.symbolize.programs import Program, debug_file

__all__ = ["ProcessSymbolizer"]

_VDSO = "[vdso]"
#: So many processes are remembered.
_MAX_PROCESSES = 1 << 12
#: So many files are looked at, at the most, where no process tells.
_MAX_FILES = 1 << 13


class _Mapping(NamedTuple):
    """An executable mapping; ``file`` is where we find what the process knows as ``path``."""

    start: int
    end: int
    offset: int
    path: str
    file: str = ""


class ProcessSymbolizer:
    """Resolves addresses of this machine's processes; a context manager that closes files.

    ``lines``: source lines as well, where there is DWARF.
    """

    def __init__(self, root: Path = Path("/"), *, lines: bool = True) -> None:
        self._root = root
        self._lines = lines
        self._mappings: dict[int, list[_Mapping]] = {}
        self._unread: dict[str, None] = {}
        self._files: dict[str, str] = {}
        self._programs: dict[str, Program | None] = {}
        self._unknown: set[str] = set()
        self._searched = False

    def __enter__(self) -> Self:
        self.see(os.getpid())
        return self

    def __exit__(self, *_: object) -> None:
        for program in self._programs.values():
            if program is not None:
                program.close()

    def see(self, tgid: int) -> None:
        """Look at the mappings of a process, which may end any moment."""
        if len(self._mappings) >= _MAX_PROCESSES:
            self._mappings.pop(next(iter(self._mappings)))
        process = self._root / f"proc/{tgid}"
        elsewhere = f"/proc/{tgid}/root" if self._is_elsewhere(process) else ""
        mappings = [
            mapping._replace(file=elsewhere + mapping.path)
            if mapping.path.startswith("/")
            else mapping
            for mapping in _read_maps(process / "maps")
        ]
        self._mappings[tgid] = mappings or self._mappings.get(tgid, [])
        self._unread.update(dict.fromkeys(mapping.file for mapping in mappings if mapping.file))

    def resolve_user(self, tgid: int, address: UserAddress) -> Resolved:
        """See :class:`retsnoop_py.symbolize.frames.UserSymbolizer`."""
        if tgid not in self._mappings:
            self.see(tgid)
        if address.build_id:
            program = self._by_build_id(tgid, address.build_id)
            if program is not None:
                return program.resolve(address.place, address.place)
            return Resolved(address.place, None, 0, 0, f"[build id {address.build_id}]")
        mapping = self._mapping(tgid, address.place)
        if mapping is None:
            return Resolved(address.place, None, 0, 0, None)
        program = self._program(mapping.file or mapping.path)
        if program is None:
            return Resolved(address.place, None, 0, 0, mapping.path or None)
        return program.resolve(address.place - mapping.start + mapping.offset, address.place)

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

    def _by_build_id(self, tgid: int, build_id: str) -> Program | None:
        path = self._files.get(build_id)
        if path is None and (self._unread or build_id not in self._unknown):
            path = self._find(tgid, build_id)
            if path is None:
                self._unknown.add(build_id)
        return self._program(path) if path else None

    def _find(self, tgid: int, build_id: str) -> str | None:
        """The path of the file with a build id."""
        if not self._identify(self._take_unread(), build_id):
            self.see(tgid)  # it may have loaded more, or be another program by now
            if not self._identify(self._take_unread(), build_id) and not self._searched:
                self._searched = True
                self._identify(self._installed(), None)
        if build_id not in self._files:
            debug = debug_file(build_id, self._root)
            return str(debug) if debug else None
        return self._files[build_id]

    def _take_unread(self) -> Iterator[str]:
        while self._unread:
            path = next(iter(self._unread))
            del self._unread[path]
            yield path

    def _identify(self, paths: Iterable[str], wanted: str | None) -> bool:
        """Note the build ids of files, until ``wanted`` is among them."""
        for path in paths:
            try:
                with ElfFile(self._root / path.lstrip("/")) as elf:
                    found = elf.build_id
            except (OSError, DataError):
                continue
            if found:
                self._files.setdefault(found, path)
                if found == wanted:
                    return True
        return False

    def _installed(self) -> Iterator[str]:
        """Programs in PATH, and what is beside the libraries that are known."""
        known = set(self._files.values())
        folders = [*map(Path, os.get_exec_path()), *(Path(path).parent for path in known)]
        left = _MAX_FILES
        for folder in dict.fromkeys(folders):
            try:
                files = sorted((self._root / folder.relative_to("/")).iterdir())[:left]
            except (OSError, ValueError):  # it is not there, or not absolute
                continue
            left -= len(files)
            paths = (f"/{file.relative_to(self._root)}" for file in files)
            yield from (path for path in paths if path not in known)

    def _program(self, path: str) -> Program | None:
        if path not in self._programs:
            self._programs[path] = self._open(path)
        return self._programs[path]

    def _open(self, path: str) -> Program | None:
        try:
            if path == _VDSO:
                with _vdso() as path_of_copy:
                    return Program(path_of_copy, _VDSO, lines=False)
            if path.startswith("/"):
                where = self._root / path.lstrip("/")
                return Program(where, _shown(path), self._root, lines=self._lines)
        except (OSError, DataError):
            pass
        return None


def _shown(path: str) -> str:
    """The path a process knows a file by."""
    folder, _, inside = path.partition("/root/")
    return f"/{inside}" if folder.startswith("/proc/") and inside else path


@contextmanager
def _vdso() -> Iterator[Path]:
    """The kernel's vDSO, which is the same in all processes, as a file."""
    found = [mapping for mapping in _read_maps(Path("/proc/self/maps")) if mapping.path == _VDSO]
    copy = os.memfd_create("vdso")
    try:
        with Path("/proc/self/mem").open("rb") as memory:
            for mapping in found:
                memory.seek(mapping.start)
                os.write(copy, memory.read(mapping.end - mapping.start))
        yield Path(f"/proc/self/fd/{copy}")
    finally:
        os.close(copy)


def _read_maps(path: Path) -> Iterator[_Mapping]:
    """The executable mappings of a process; none once it is gone."""
    try:
        lines = path.read_text(errors="surrogateescape").splitlines()
    except OSError:
        return
    for line in lines:
        fields = line.split(maxsplit=5)
        if len(fields) < 5 or "x" not in fields[1]:
            continue
        start, _, end = fields[0].partition("-")
        name = fields[5] if len(fields) > 5 else ""
        yield _Mapping(int(start, 16), int(end, 16), int(fields[2], 16), name)
