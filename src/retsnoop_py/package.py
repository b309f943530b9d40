# SPDX-License-Identifier: BSD-2-Clause
"""The installed package: its files, the files that a user adds, and the command to restart it.

In a checkout and in a wheel the package's files lie in folders. The one-file program
(``make standalone``) has them in an archive at its end, and is its own Python interpreter.
"""

from __future__ import annotations

import os
import stat
import sys
from errno import ENOENT
from pathlib import Path

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "entry",
    "entry_options",
    "expanded",
    "home",
    "is_one_file",
    "program",
    "python",
    "read",
    "search_path",
    "user_file",
]

#: The program of :func:`entry_options`. The standard library is searched first, so that no package
#: replaces a module of it; then the given folders, before the system's packages. The path of a
#: folder is an argument, never a part of this text.
_ENTRY = (
    "import sys; own = sys.path[:]; import site; site.main(); at = sys.argv.index('--'); "
    "sys.path[:] = dict.fromkeys([*own, *sys.argv[1:at], *sys.path]); "
    "name, _, function = sys.argv[at + 1].partition(':'); "
    "module = __import__(name, fromlist=[function]); "
    "sys.argv[:at + 2] = [module.__file__]; getattr(module, function)()"
)


def is_one_file() -> bool:
    """Return whether this is the one-file program, which sets ``sys.frozen`` as usual."""
    return bool(getattr(sys, "frozen", False))


def program() -> list[str]:
    """Return the command that starts retsnoop-py in an isolated Python."""
    return [sys.executable] if is_one_file() else entry("retsnoop_py.cli.start:program")


def entry(function: str) -> list[str]:
    """Return the command that calls ``function`` (``MODULE:NAME``) in an isolated Python.

    The caller appends the arguments that the function finds in ``sys.argv``. ``-I`` hides packages
    of PYTHONPATH and of ``pip install --user``; the folders of :func:`search_path` replace them.
    """
    return [*python(), *entry_options(search_path(), function)]


def entry_options(folders: Iterable[str], function: str) -> list[str]:
    """Return options for a Python with ``-I``: search in ``folders``, and call ``function``."""
    return ["-S", "-c", _ENTRY, *folders, "--", function]


def python() -> list[str]:
    """Return the command that starts an isolated Python; the caller appends its options.

    That Python ignores the current folder, PYTHONPATH and the user's own packages. To import this
    package there, pass it :func:`search_path`.
    """
    return [sys.executable, "--python"] if is_one_file() else [sys.executable, "-I"]


def search_path() -> list[str]:
    """Return the folders that an isolated Python searches for this package and its libraries.

    The first folder contains this package. The others are folders of ``sys.path``, but not the
    current folder, and no folder that another user can change.
    """
    ours = [] if is_one_file() else [_package_folder()]
    return list(dict.fromkeys([*ours, *filter(_is_trusted, sys.path)]))


def _package_folder() -> str:
    return str(Path(__file__).absolute().parent.parent)


def _is_trusted(folder: str) -> bool:
    """Return whether Python itself searches ``folder``, or only trusted users can change it.

    Trusted users are root, this user, and the owner of this package.
    """
    if not folder.startswith("/"):
        return False
    # Without PYTHONPATH and the current folder, Python and its starter have chosen all folders.
    if sys.flags.isolated or is_one_file():
        return True
    prefixes = {sys.prefix, sys.base_prefix, sys.exec_prefix, sys.base_exec_prefix}
    if any(Path(folder).is_relative_to(prefix) for prefix in prefixes):
        return True
    real = os.path.realpath(folder)
    try:
        is_current = real == os.path.realpath(".")
        if is_current and folder != getattr(sys.modules.get("site"), "USER_SITE", None):
            return False
        trusted = {0, os.geteuid(), Path(_package_folder()).stat().st_uid}
        places = [Path(real), *Path(real).parents]
        return all(_is_kept_from_others(trusted, place, place != places[0]) for place in places)
    except OSError:
        return False


def _is_kept_from_others(users: set[int], place: Path, is_above: bool) -> bool:
    """Return whether only ``users`` can change a folder, or, of one above it, replace a folder."""
    found = place.stat()
    # the group of a user alone has the user's number on most systems
    shared = 0o002 if found.st_gid in (0, found.st_uid) else 0o022
    is_sticky = is_above and found.st_mode & stat.S_ISVTX
    return found.st_uid in users and not (found.st_mode & shared and not is_sticky)


def home() -> Path:
    """Return the user's home; the root directory if neither HOME nor passwd has a home."""
    try:
        return Path.home()
    except RuntimeError:
        return Path("/")


def expanded(name: str) -> Path:
    """Return ``name`` with a leading ``~`` or ``~USER`` replaced, if that user has a home."""
    try:
        return Path(name).expanduser()
    except RuntimeError:
        return Path(name)


def user_file(name: str) -> Path:
    """Return the path of a user's file that extends one of this package; it may not exist.

    A relative XDG_CONFIG_HOME or HOME is ignored: the file would be one of the current folder.
    """
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base.startswith("/") else Path("/", home(), ".config")
    return folder / "retsnoop-py" / name


def read(path: Path) -> bytes:
    """Return the bytes of a file, which may be a file of this package. Raises OSError."""
    if is_one_file() and path.is_relative_to(sys.executable):
        from zipimport import zipimporter

        try:
            return zipimporter(sys.executable).get_data(str(path))
        except OSError:  # without errno or text
            raise FileNotFoundError(ENOENT, os.strerror(ENOENT), str(path)) from None
    return path.read_bytes()
