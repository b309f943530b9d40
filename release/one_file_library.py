# SPDX-License-Identifier: BSD-2-Clause
"""Make the archive of modules at the end of the one-file program; run by the Python inside it.

``one_file_library.py ARCHIVE STDLIB FOLDER...`` compiles every module below the folders, and the
modules of the standard library that they import, also inside functions. Other files of the folders
are data.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
import zipfile
from collections.abc import Iterator
from modulefinder import ModuleFinder
from pathlib import Path

#: Modules without an import statement: Python finds codecs by their names, and imports some
#: modules at its start.
UNNAMED = (
    *("encodings", "encodings.aliases", "encodings.utf_8", "encodings.ascii", "encodings.latin_1"),
    *("encodings.idna", "encodings.utf_8_sig", "encodings.utf_16", "encodings.cp437"),
    *("encodings.utf_16_be", "encodings.utf_16_le", "encodings.unicode_escape"),
    *("codecs", "io", "os", "runpy", "zipimport", "importlib._bootstrap", "warnings", "site"),
    *("importlib._bootstrap_external", "_sysconfigdata__linux_"),
)
#: Modules of the standard library for development: only unused functions import them.
_UNWANTED = (
    *("distutils", "doctest", "ensurepip", "idlelib", "lib2to3", "pdb", "pydoc", "pydoc_data"),
    *("test", "tkinter", "turtle", "unittest", "venv", "_pyrepl", "multiprocessing", "ssl"),
    *("sqlite3", "curses", "asyncio", "xmlrpc", "IPython", "ipykernel"),
)
_EPOCH = (1980, 1, 1, 0, 0, 0)


def modules(folders: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the modules of ``folders``: path in the archive without suffix, and the file."""
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            yield str(path.relative_to(folder).with_suffix("")), path


def standard(stdlib: Path, folders: list[Path], found: list[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the modules of the standard library that ``found`` imports, directly or indirectly.

    Each has its path in the archive without suffix, and its file.
    """
    finder = ModuleFinder([*map(str, folders), str(stdlib)], excludes=_UNWANTED)
    for name in UNNAMED:
        try:
            finder.import_hook(name)
        except ImportError:
            pass  # built in, or not on this platform
    for path in found:
        place = next(path.relative_to(one) for one in folders if path.is_relative_to(one))
        name = ".".join(place.with_suffix("").parts).removesuffix(".__init__")
        try:
            finder.import_hook(name)
        except ImportError as error:
            print(f"{name}: {error}", file=sys.stderr)
    for module in finder.modules.values():
        path = Path(getattr(module, "__file__", None) or "built in")
        if path.is_relative_to(stdlib):
            yield str(path.relative_to(stdlib).with_suffix("")), path


def compiled(name: str, path: Path) -> bytes:
    """Return a .pyc that Python never compares with a source: its hash is not checked."""
    source = path.read_bytes()
    code = compile(source, f"{name}.py", "exec", dont_inherit=True, optimize=0)
    unchecked = (1).to_bytes(4, "little")
    head = importlib.util.MAGIC_NUMBER + unchecked + importlib.util.source_hash(source)
    return head + marshal.dumps(code)


def main(archive: str, stdlib: str, *given: str) -> None:
    """Write ``archive``, the same bytes for the same files."""
    folders = [Path(one) for one in given]
    ours = list(modules(folders))
    entries = {f"{name}.pyc": compiled(name, path) for name, path in ours}
    for name, path in standard(Path(stdlib), folders, [path for _, path in ours]):
        entries[f"{name}.pyc"] = compiled(name, path)
    for folder in folders:
        for path in folder.rglob("*"):
            if path.is_file() and path.suffix not in (".py", ".pyc"):
                entries[str(path.relative_to(folder))] = path.read_bytes()
    with zipfile.ZipFile(archive, "w") as made:
        for name in sorted(entries):
            # Not compressed: each start would have to decompress the modules.
            info = zipfile.ZipInfo(name, _EPOCH)
            info.external_attr = 0o644 << 16
            made.writestr(info, entries[name])


if __name__ == "__main__":
    main(*sys.argv[1:])
