# SPDX-License-Identifier: BSD-2-Clause
"""Find the file with the DWARF of the running kernel or of a module, by build id.

A vmlinux of another build would give wrong results that look right, so every file must have the
running kernel's build id. The search records each path with the reason for which it was rejected.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from retsnoop_py.errors import DataError, InputError
from retsnoop_py.foreign_path import open_file
from retsnoop_py.kernel.debuginfod import Debuginfod
from retsnoop_py.kernel.elf_file import ElfFile
from retsnoop_py.value import Value

__all__ = ["ImageFacts", "ImageSearch", "find_image", "find_module_image"]


class ImageFacts(Protocol):
    """The facts about the kernel that a search needs."""

    @property
    def release(self) -> str:
        """Return the release, as ``uname -r`` prints it."""
        ...

    @property
    def build_id(self) -> str | None:
        """Return the kernel's build id in hex."""
        ...

    def module_build_id(self, name: str) -> str | None:
        """Return the build id of a loaded module in hex."""
        ...


class ImageSearch(Value):
    """The result of a search: the file, or None, and (path, reason) for each rejected path."""

    what: str
    path: Path | None = None
    tried: tuple[tuple[str, str], ...] = ()

    @property
    def notice(self) -> str | None:
        """Return one line for the user if no file was found, else None."""
        if self.path is not None:
            return None
        present = [(path, why) for path, why in self.tried if why != _MISSING]
        because = f" ({present[0][0]}: {present[0][1]})" if present else ""
        return (
            f"no debug information of {self.what} found{because}; stacks show no source lines. "
            "Install the kernel's debug package, set DEBUGINFOD_URLS, or use -k;"
            " -v lists the paths that were tried."
        )

    @property
    def report(self) -> tuple[str, ...]:
        """Return one line per searched path, for ``-v``."""
        lines = [f"{path}: {why}" for path, why in self.tried]
        if self.path is not None:
            lines.append(f"{self.path}: used")
        return tuple(f"debug information of {self.what}: {line}" for line in lines)


_MISSING = "no such file"
#: Bytes of modules.dep that are read; Debian 12 has 600 kB. -k can lead to another user's tree.
_MOST_OF_INDEX = 64 << 20
_GET = "the debug package of exactly the running kernel has the right vmlinux"
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR)


class _RejectedError(Exception):
    """A file was rejected: the reason, and advice for a user who named the file.

    ``links`` may lead to a valid file; ``unreadable`` is set if the file could not be read at all.
    """

    def __init__(
        self, reason: str, hint: str, links: Sequence[Path] = (), *, unreadable: bool = False
    ) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint
        self.links = links
        self.unreadable = unreadable


class _Search:
    """Try candidates until one has this build id and DWARF."""

    def __init__(self, build_id: str | None, root: Path) -> None:
        self.build_id = build_id
        self.root = root
        self.tried: list[tuple[str, str]] = []
        self.seen: set[str] = set()

    def first(self, candidates: Iterator[Path]) -> Path | None:
        for candidate in candidates:
            found = self.accept(candidate)
            if found:
                return found
        return None

    def accept(self, path: Path) -> Path | None:
        """Return ``path`` or a file to which it links; if rejected, record why and return None."""
        name = str(path)
        if name in self.seen:
            return None
        self.seen.add(name)
        try:
            self.check(path)
        except _RejectedError as rejected:
            self.tried.append((name, rejected.reason))
            return self.first(iter(rejected.links))
        return path

    def check(self, path: Path) -> None:
        """Raise _RejectedError unless ``path`` is the right image with usable DWARF."""
        try:
            with ElfFile(path) as elf:
                self._check_elf(elf)
        except OSError as error:
            missing = error.errno in _NOT_THERE
            reason = _MISSING if missing else os.strerror(error.errno or 0)
            hint = "leave -k out to search the usual places"
            raise _RejectedError(reason, hint, unreadable=True) from error
        except DataError as error:
            reason = error.message.removeprefix(f"{path} ")
            raise _RejectedError(reason, f"vmlinuz and bzImage contain no DWARF; {_GET}") from error

    def _check_elf(self, elf: ElfFile) -> None:
        found = elf.build_id
        if self.build_id is None:
            raise _RejectedError(
                "the kernel does not report its build ID, so the file cannot be checked",
                "use -sn; source lines need /sys/kernel/notes",
            )
        if found != self.build_id:
            reason = f"wrong build id {found or '(none)'} != {self.build_id}"
            raise _RejectedError(reason, f"it belongs to another kernel; {_GET}")
        if not elf.has_dwarf:
            by_id = _by_build_id(self.root, self.build_id)
            raise _RejectedError("it has no DWARF", _GET, (*_debug_links(elf, self.root), *by_id))
        if elf.compression not in (None, "zlib") or elf.alternate_link:
            _try_to_decode(elf.path)


def _try_to_decode(path: Path) -> None:
    """Raise _RejectedError if libdw cannot read the DWARF that the headers announce.

    Only trying shows whether this libelf supports zstd, and whether a supplementary file is found.
    """
    from retsnoop_py.unprivileged.dwarf import defect

    found = defect(path)
    if found:
        why, is_compressed = found
        hint = "install the debug package again"
        if is_compressed:
            hint = "make a plain copy: objcopy --decompress-debug-sections FILE COPY"
        raise _RejectedError(why, hint)


def _debug_links(elf: ElfFile, root: Path) -> Iterator[Path]:
    """Yield possible debug files of a stripped image, by gdb's rules for .gnu_debuglink."""
    link = elf.debug_link
    if not link:
        return
    folder = elf.path.parent.absolute()
    yield folder / link
    yield folder / ".debug" / link
    yield root / "usr/lib/debug" / folder.relative_to(folder.anchor) / link


def _by_build_id(root: Path, build_id: str | None) -> Iterator[Path]:
    if build_id:
        yield root / "usr/lib/debug/.build-id" / build_id[:2] / f"{build_id[2:]}.debug"


def _standard_places(root: Path, release: str, build_id: str | None) -> Iterator[Path]:
    places = (
        f"boot/vmlinux-{release}",
        f"lib/modules/{release}/vmlinux-{release}",
        f"lib/modules/{release}/build/vmlinux",
        f"lib/modules/{release}/vmlinux",
        f"usr/lib/modules/{release}/kernel/vmlinux",
        f"usr/lib/debug/boot/vmlinux-{release}",
        f"usr/lib/debug/boot/vmlinux-{release}.debug",
        f"usr/lib/debug/lib/modules/{release}/vmlinux",
        f"usr/lib/debug/lib/modules/{release}/vmlinux.debug",
        f"usr/lib/debug/usr/lib/modules/{release}/vmlinux",
        f"usr/lib/debug/usr/lib/modules/{release}/vmlinux.debug",
    )
    yield from (root / place for place in places)
    yield from _by_build_id(root, build_id)


def find_image(
    facts: ImageFacts,
    explicit: Path | None = None,
    *,
    root: Path = Path("/"),
    debuginfod: Debuginfod | None = None,
) -> ImageSearch:
    """Return the vmlinux with DWARF of the running kernel.

    ``explicit`` is the user's ``-k``: then no other file is tried, a missing file raises InputError
    and an unusable file DataError. Without ``explicit`` a search never fails.
    """
    search = _Search(facts.build_id, root)
    if explicit is not None:
        return ImageSearch("the kernel", _explicit_image(search, explicit))
    found = search.first(_standard_places(root, facts.release, facts.build_id))
    if found is None:
        found = _ask_servers(search, debuginfod or Debuginfod())
    return ImageSearch(f"Linux {facts.release}", found, tuple(search.tried))


def _ask_servers(search: _Search, servers: Debuginfod) -> Path | None:
    if not search.build_id:
        return None
    file = servers.find(search.build_id)
    search.tried += servers.tried
    servers.tried.clear()
    return search.accept(file) if file else None


def _explicit_image(search: _Search, path: Path) -> Path:
    if path.is_dir():
        raise InputError(f"-k {path} is a directory", "give the vmlinux file itself")
    try:
        search.check(path)
    except _RejectedError as rejected:
        found = search.first(iter(rejected.links))
        if found:
            return found
        kind = InputError if rejected.unreadable else DataError
        raise kind(f"-k {path}: {rejected.reason}", rejected.hint) from rejected
    return path


def find_module_image(
    facts: ImageFacts,
    module: str,
    vmlinux: Path | None = None,
    *,
    root: Path = Path("/"),
    debuginfod: Debuginfod | None = None,
) -> ImageSearch:
    """Return the file with the DWARF of loaded ``module``, searched beside ``vmlinux`` first."""
    build_id = facts.module_build_id(module)
    search = _Search(build_id, root)
    found = search.first(_by_build_id(root, build_id))
    if found is None:
        found = search.first(_module_places(root, facts.release, module, vmlinux))
    if found is None:
        found = _ask_servers(search, debuginfod or Debuginfod())
    return ImageSearch(f"module {module}", found, tuple(search.tried))


def _module_places(root: Path, release: str, module: str, vmlinux: Path | None) -> Iterator[Path]:
    trees = [
        *(_trees_beside(vmlinux, release) if vmlinux else ()),
        root / "usr/lib/debug/lib/modules" / release,
        root / "usr/lib/debug/usr/lib/modules" / release,
        root / "lib/modules" / release,
    ]
    for tree in dict.fromkeys(trees):
        path = _listed_path(tree, module)
        if path is None:
            path = _listed_path(root / "lib/modules" / release, module)
        if path is None:
            yield from _walk(tree, module)
        else:
            yield tree / path
            yield tree / f"{path}.debug"


def _trees_beside(vmlinux: Path, release: str) -> Iterator[Path]:
    """Yield the module trees of an unpacked debug package: beside boot/ or lib/modules/R/."""
    folder = vmlinux.absolute().parent
    for tree in (folder, folder.parent / "lib/modules" / release):
        if (tree / "kernel").is_dir():
            yield tree
    usr = folder.parent / "usr/lib/modules" / release
    if (usr / "kernel").is_dir():
        yield usr


def _listed_path(tree: Path, module: str) -> str | None:
    """Return the module's path below ``tree`` from modules.dep or modules.order, or None.

    The path ends with .ko, without the suffix of a compression.
    """
    names = [f"/{module}.ko", f"/{module.replace('_', '-')}.ko"]
    for index in ("modules.dep", "modules.order"):
        try:
            with open_file(tree / index) as file:
                text = file.read(_MOST_OF_INDEX).decode(errors="replace")
        except (OSError, DataError):
            continue
        for name in names:
            at = text.find(name)
            if at >= 0:
                start = text.rfind("\n", 0, at) + 1
                return text[start : at + len(name)]
    return None


def _walk(tree: Path, module: str) -> Iterator[Path]:
    """Search a tree without an index: yield each match. Names mix ``-`` and ``_``."""
    wanted = (f"{module}.ko", f"{module}.ko.debug")
    for folder, _, files in os.walk(tree):
        for name in files:
            if name.replace("-", "_") in wanted:
                yield Path(folder, name)
