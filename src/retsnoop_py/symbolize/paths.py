# SPDX-License-Identifier: BSD-2-Clause
"""Source files of the kernel: their usual names, and their lines.

Names are relative to the root of the source tree. In DWARF the names depend on how the kernel was
built::

    in the tree         comp_dir /src/linux              name kernel/bpf/syscall.c
    make O=build        comp_dir /src/build              name ../linux/kernel/bpf/syscall.c
                                                           or /src/linux/kernel/bpf/syscall.c
    Debian, C           comp_dir debian/build/X          name kernel/bpf/syscall.c
    Debian, assembly    comp_dir /b/linux/debian/build/X name /b/linux/arch/x86/...

A file below comp_dir is generated, or the kernel was built in its source tree. All other files are
below the source root, and comp_dir helps to find this root.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable
from pathlib import Path

from retsnoop_py.foreign_path import read_below

__all__ = ["SourcePaths", "SourceTree", "source_root"]

#: Directories at the top of the kernel's source tree.
_TOP = frozenset(
    [
        *("arch", "block", "certs", "crypto", "drivers", "fs", "include", "init", "io_uring"),
        *("ipc", "kernel", "lib", "mm", "net", "rust", "samples", "scripts", "security"),
        *("sound", "tools", "usr", "virt"),
    ]
)

#: The source folder that `make modules_install` records.
_INSTALLED = "/lib/modules/{release}/source"
#: A recording may contain any text as its release, which becomes part of a path.
_RELEASE = re.compile(r"[0-9][\w.+~-]*", re.ASCII)
_VERSION = re.compile(r"^(VERSION|PATCHLEVEL|SUBLEVEL) *= *([0-9]+)", re.MULTILINE)
#: Maximum size of a source file in bytes, and maximum number of cached files.
_MAX_BYTES = 16 << 20
_MAX_FILES = 64
#: Every vmlinux has this unit.
_LANDMARK = "init/main.c"


def source_root(units: Iterable[tuple[str, str]]) -> str | None:
    """Return the absolute path of the source tree, from the (name, comp_dir) of vmlinux's units.

    Return None if the names are already relative to the source tree.
    """
    for name, comp_dir in units:
        if name.endswith(_LANDMARK):
            path = posixpath.normpath(posixpath.join(comp_dir, name))
            if path.startswith("/") and path.endswith("/" + _LANDMARK):
                return path[: -len(_LANDMARK) - 1]
    return None


class SourcePaths:
    """Convert file names to paths relative to the kernel's source tree; results are cached.

    ``find_root`` is called at most once, for a name that comp_dir does not explain.
    """

    def __init__(self, find_root: Callable[[], str | None] = lambda: None) -> None:
        self._find_root = find_root
        self._root: str | None = None
        self._asked = False
        self._known: dict[tuple[str, str], str] = {}

    def relative(self, path: str, comp_dir: str) -> str:
        """Return ``path``, from a unit compiled in ``comp_dir``, relative to the source root."""
        key = (path, comp_dir)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._relative(path, comp_dir)
        return found

    def _relative(self, path: str, comp_dir: str) -> str:
        comp_dir = posixpath.normpath(comp_dir) if comp_dir else ""
        path = posixpath.normpath(path)
        if not path.startswith("/") and comp_dir.startswith("/"):
            path = posixpath.normpath(posixpath.join(comp_dir, path))
        inside = _below(path, comp_dir)
        if inside is not None:
            return inside
        if not path.startswith("/"):
            return _climbed(path)
        return self._below_root(path, comp_dir)

    def _below_root(self, path: str, comp_dir: str) -> str:
        if "/rustlib/" not in path:  # lib/rustlib is not the kernel's lib/
            inside = _below(path, _common(path, comp_dir))
            if inside is not None and inside.split("/", 1)[0] in _TOP:
                return inside
        if not self._asked:
            self._asked = True
            self._root = self._find_root()
        inside = _below(path, self._root or "")
        return path if inside is None else inside


def _below(path: str, folder: str) -> str | None:
    """Return ``path`` relative to ``folder``; None if it is not below ``folder``."""
    if len(folder) > 1 and path.startswith(folder + "/"):
        return path[len(folder) + 1 :]
    return None


def _common(path: str, comp_dir: str) -> str:
    if not comp_dir.startswith("/"):
        return ""
    return posixpath.commonpath((path, comp_dir))


def _climbed(path: str) -> str:
    """Return a name relative to a build directory in the source tree (``../../kernel/x.c``)."""
    while path.startswith("../"):
        path = path[3:]
    return path


class SourceTree:
    """The lines of the kernel's source in ``root``, or where kernel ``release`` was built here.

    Files are read when a line is needed.
    """

    def __init__(self, root: Path | None, release: str = "") -> None:
        self.root = root
        if root is None and _RELEASE.fullmatch(release):
            self.root = Path(_INSTALLED.format(release=release))
        self._files: dict[str, list[str]] = {}

    def line(self, file: str, number: int) -> str | None:
        """Return line ``number``, from 1, of a file as named by :class:`SourcePaths`.

        Return None if the tree lacks the line.
        """
        if self.root is None or number < 1:
            return None
        lines = self._files.get(file)
        if lines is None:
            if len(self._files) >= _MAX_FILES:
                self._files.clear()
            lines = self._files[file] = self._read(file)
        return lines[number - 1] if number <= len(lines) else None

    def _read(self, file: str) -> list[str]:
        assert self.root is not None
        name = posixpath.normpath(file)
        if name.startswith(("/", "../")):  # DWARF or a recording names a file outside of the tree
            return []
        text = read_below(self.root, name, _MAX_BYTES)
        return [] if text is None else text.split("\n")

    def notice(self, release: str) -> str | None:
        """Return a sentence if the tree's version differs from kernel ``release``, else None.

        The tree's version is in its Makefile. If the third number of the release is 0, as in
        Ubuntu's releases, only two numbers are compared.
        """
        text = None if self.root is None else read_below(self.root, "Makefile", _MAX_BYTES)
        if text is None:
            return None
        found = dict(_VERSION.findall(text))
        own = [found.get(name, "0") for name in ("VERSION", "PATCHLEVEL", "SUBLEVEL")]
        theirs = re.findall(r"[0-9]+", release)[:3]
        length = 3 if len(theirs) > 2 and theirs[2] != "0" else 2
        if own[:length] == theirs[:length]:
            return None
        return (
            f"the source in {self.root} is of Linux {'.'.join(own)}, the kernel is {release}: "
            "lines may be other ones"
        )
