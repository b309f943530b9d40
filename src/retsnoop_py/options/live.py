# SPDX-License-Identifier: BSD-2-Clause
"""Complete names of kernel functions, source files and tracepoints while a person waits.

The kernel takes a tenth of a second to write its 200,000 symbols. So the sorted names are cached:
functions as long as the boot and the modules stay the same, source files as long as the kernel's
build stays the same. Names that cannot be cached are read each time.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = [
    "FEWEST",
    "can_tell_traceable",
    "files_named",
    "functions",
    "functions_starting",
    "kernels",
    "source_files_starting",
    "tracepoints_starting",
]

#: Minimum number of characters. With fewer, half of the kernel's names would match.
FEWEST = 2
#: Names, followed by a blank or a tab and the module in brackets.
_TRACEABLE = "sys/kernel/tracing/available_filter_functions"
_SYMBOLS = "proc/kallsyms"
#: Symbols that are not functions: the padding before a function, and its type. A function's
#: unlikely part has ``.cold`` in its name.
_NO_FUNCTIONS = ("__pfx_", "__cfi_")
_EVENTS = "sys/kernel/tracing/available_events"


def functions_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Return functions with names that start with ``prefix``, sorted: ``NAME`` or ``NAME[MODULE]``.

    These are traceable functions if tracefs can be read (root), else all functions of
    /proc/kallsyms. Empty if neither can be read, for fewer than FEWEST characters, and for globs.
    """
    if len(prefix) < FEWEST or not re.fullmatch(r"[\w.]+", prefix):
        return []
    return _starting(prefix, "functions", _boot(root), lambda: _functions(root))


def functions(root: Path = Path("/")) -> list[str]:
    """Return all traceable functions, by name and module, sorted.

    Raise UnavailableError if neither of the kernel's lists can be read.
    """
    found = _names("functions", _boot(root), lambda: _functions(root)).decode().split()
    if not found:
        from retsnoop_py.errors import UnavailableError

        raise UnavailableError(f"{root / _SYMBOLS} cannot be read", "mount -t proc proc /proc")
    return found


def can_tell_traceable(root: Path = Path("/")) -> bool:
    """Return True if the kernel shows which functions can be traced."""
    return os.access(root / _TRACEABLE, os.R_OK)


def _functions(root: Path) -> Iterable[str]:
    """Return all functions; empty if neither file can be read."""
    found = _listed(root / _TRACEABLE, rb"\n")
    if found is None:
        found = _listed(root / _SYMBOLS, rb" [tTwW] ")
    names = (name for name in found or () if not name.startswith(_NO_FUNCTIONS))
    return (name for name in names if ".cold" not in name)


def _listed(path: Path, before: bytes) -> set[str] | None:
    """Return the names that follow ``before`` in the file; None if it cannot be read."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    # Starting with a character instead of a line's start is eight times as fast.
    line = re.compile(before + rb"([^\s]+)(?:\s\[(\w+)\])?(?=\n)")
    # kallsyms also has the names of BPF programs.
    return {
        name.decode(errors="replace") + (f"[{module.decode()}]" if module else "")
        for name, module in line.findall(b"\n" + text)
        if module != b"bpf"
    }


def source_files_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Return source files of the running kernel with paths that start with ``prefix``, sorted.

    The first call reads the kernel's debug information, in about a second. Empty if this machine
    does not have it: no server is used.
    """
    if not re.fullmatch(r"[\w./+-]*", prefix):
        return []
    return _starting(prefix, "sources", _build(root), lambda: _source_files(root))


def _source_files(root: Path) -> Iterable[str]:
    from retsnoop_py.errors import RetsnoopError
    from retsnoop_py.kernel.debuginfod import Debuginfod
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.symbolize.sources import KernelImages

    try:
        with KernelImages(KernelFacts(root), debuginfod=Debuginfod({})) as images:
            vmlinux = images.vmlinux()
            units = vmlinux.dwarf.units() if vmlinux else ()
            return {images.paths.relative(one.name, one.comp_dir) for one in units if one.ranges}
    except RetsnoopError:  # the command itself will report the error
        return ()


def kernels() -> list[str]:
    """Return names of kernels for guests, sorted; cached until the kernel files change.

    Raise DataError if the user's file is unreadable or invalid.
    """
    return _names("kernels", _catalog(), _kernels).decode().split()


def _kernels() -> Iterable[str]:
    from retsnoop_py.vm.catalog import all_known

    return all_known()


def tracepoints_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Return tracepoints, ``CATEGORY:NAME``, that start with ``prefix``; empty without tracefs."""
    try:
        events = (root / _EVENTS).read_text().split()
    except OSError:
        return []
    return sorted(event for event in events if event.startswith(prefix))


def files_named(prefix: str, suffix: str) -> list[str]:
    """Return files that start with ``prefix``, including folders, and end with ``suffix``.

    A name that begins with ``-`` gets the prefix ``./``, because it would be an option.
    """
    from glob import escape

    home, slash, begun = prefix.rpartition("/")
    names = (path.name for path in Path(home + slash or ".").glob(f"{escape(begun)}*{suffix}"))
    return sorted(
        home + slash + ("./" if not slash and name[0] == "-" else "") + name for name in names
    )


# --- cached names ------------------------------------------------------------------------------


def _starting(
    prefix: str, kind: str, state: str | None, read: Callable[[], Iterable[str]]
) -> list[str]:
    """Return the names that start with ``prefix``."""
    text = _names(kind, state, read)
    start = text.find(b"\n" + prefix.encode(errors="surrogateescape")) + 1
    if not start:
        return []
    # The names are sorted, so matching names are consecutive lines.
    end, step = start, b"\n" + prefix.encode(errors="surrogateescape")
    while end < len(text) and text.startswith(step, end - 1):
        end = text.index(b"\n", end) + 1
    return text[start:end].decode().split()


def _names(kind: str, state: str | None, read: Callable[[], Iterable[str]]) -> bytes:
    """Return the names cached for ``state``, else the names from ``read``; a newline before each.

    Without a state no names are cached.
    """
    text = _kept(kind, state) if state else None
    if text is None:
        text = b"\n" + "".join(f"{name}\n" for name in sorted(read())).encode()
        if state and len(text) > 1:
            _keep(kind, state, text)
    return text


def _boot(root: Path) -> str | None:
    """Return a key for this boot, its modules and this user; None if /proc cannot be read."""
    import zlib

    listed = root / "proc/modules"
    try:
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        # A kernel without modules lacks this file.
        lines = listed.read_text().splitlines() if listed.exists() else []
    except OSError:
        return None
    modules = " ".join(sorted(line.partition(" ")[0] for line in lines))
    # Users with fewer privileges see other functions.
    return f"{boot}-{zlib.crc32(modules.encode()):08x}-{os.geteuid()}"


def _catalog() -> str | None:
    """Return a key for the files with names of kernels; parsing them takes as long as the rest."""
    import zlib

    from retsnoop_py import package
    from retsnoop_py.errors import DataError
    from retsnoop_py.settings_file import read_user_file

    text = package.read(Path(__file__).parents[1] / "vm/kernels.toml")
    try:
        text += read_user_file("kernels.toml") or b""
    except (OSError, DataError):
        return None
    # A host's own kernels have no architecture in their names.
    return f"{os.uname().machine}-{zlib.crc32(text):08x}"


def _build(root: Path) -> str | None:
    from retsnoop_py.kernel.elf_file import build_id

    try:
        return build_id((root / "sys/kernel/notes").read_bytes())
    except OSError:
        return None


def _folder() -> Path:
    from retsnoop_py.own_file import cache_folder

    return cache_folder() / "names"


def _kept(kind: str, state: str) -> bytes | None:
    try:
        text = (_folder() / f"{kind}-{state}").read_bytes()
    except OSError:
        return None
    return text if text.startswith(b"\n") and text.endswith(b"\n") else None


def _keep(kind: str, state: str, text: bytes) -> None:
    """Cache the names in place of the old ones; errors are ignored."""
    from retsnoop_py.own_file import keep

    folder = _folder()
    path = folder / f"{kind}-{state}"
    try:
        keep(path, text)
        for old in folder.glob(f"{kind}-*"):
            if old != path:
                old.unlink(missing_ok=True)
    except OSError:
        return
