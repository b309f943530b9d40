# SPDX-License-Identifier: BSD-2-Clause
"""Names of a kernel's functions, files and tracepoints by their beginning, while a person waits.

The kernel takes a tenth of a second to write its 200,000 symbols. So what they come to is kept,
sorted, in the cache: functions for as long as this boot has these modules, source files for as
long as the kernel is this build. What cannot be kept is read each time.
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
    "object_symbols",
    "source_files_starting",
    "tracepoints_starting",
]

#: Characters below which half the kernel would match.
FEWEST = 2
#: With their module behind a blank or a tab, in brackets.
_TRACEABLE = "sys/kernel/tracing/available_filter_functions"
_SYMBOLS = "proc/kallsyms"
#: The padding before a function, and its type, are symbols of their own; so is its unlikely part,
#: which has ``.cold`` in its name.
_NO_FUNCTIONS = ("__pfx_", "__cfi_")
_EVENTS = "sys/kernel/tracing/available_events"
#: STB_GLOBAL and STT_FUNC of elf.h.
_GLOBAL, _FUNC = 1, 2


def functions_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Functions whose names start with ``prefix``, ``NAME`` or ``NAME[MODULE]``, sorted.

    Those that can be traced, where tracefs may be read (root); else all that /proc/kallsyms has.
    None where neither can be read, for fewer than FEWEST characters, and for globs.
    """
    if len(prefix) < FEWEST or not re.fullmatch(r"[\w.]+", prefix):
        return []
    return _starting(prefix, "functions", _boot(root), lambda: _functions(root))


def functions(root: Path = Path("/")) -> list[str]:
    """All functions that can be traced, by their names and modules, sorted.

    Raises UnavailableError where neither of the kernel's lists can be read.
    """
    found = _names("functions", _boot(root), lambda: _functions(root)).decode().split()
    if not found:
        from retsnoop_py.errors import UnavailableError

        raise UnavailableError(f"{root / _SYMBOLS} cannot be read", "mount -t proc proc /proc")
    return found


def can_tell_traceable(root: Path = Path("/")) -> bool:
    """Whether the kernel shows which of its functions can be traced."""
    return os.access(root / _TRACEABLE, os.R_OK)


def _functions(root: Path) -> Iterable[str]:
    """All of them; none where neither file can be read."""
    found = _listed(root / _TRACEABLE, rb"\n")
    if found is None:
        found = _listed(root / _SYMBOLS, rb" [tTwW] ")
    names = (name for name in found or () if not name.startswith(_NO_FUNCTIONS))
    return (name for name in names if ".cold" not in name)


def _listed(path: Path, before: bytes) -> set[str] | None:
    """What the file's lines name behind ``before``; None if it cannot be read."""
    try:
        text = path.read_bytes()
    except OSError:
        return None
    # it begins with a character and not with a line's start: eight times as fast
    line = re.compile(before + rb"([^\s]+)(?:\s\[(\w+)\])?(?=\n)")
    # BPF programs have their names in kallsyms as well
    return {
        name.decode(errors="replace") + (f"[{module.decode()}]" if module else "")
        for name, module in line.findall(b"\n" + text)
        if module != b"bpf"
    }


def source_files_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Source files of the running kernel whose paths start with ``prefix``, sorted.

    The first time the kernel's debug information is read, which takes about a second; none where
    it is not on this machine: no server is asked.
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
    except RetsnoopError:  # the command itself will tell
        return ()


def kernels() -> list[str]:
    """Names of the kernels that guests can have, sorted; kept while the files with them are these.

    Raises DataError if the user's file is unreadable or wrong.
    """
    return _names("kernels", _catalog(), _kernels).decode().split()


def _kernels() -> Iterable[str]:
    from retsnoop_py.vm.catalog import all_known

    return all_known()


def tracepoints_starting(prefix: str, root: Path = Path("/")) -> list[str]:
    """Tracepoints, ``CATEGORY:NAME``, that start with ``prefix``; none without tracefs."""
    try:
        events = (root / _EVENTS).read_text().split()
    except OSError:
        return []
    return sorted(event for event in events if event.startswith(prefix))


def files_named(prefix: str, suffix: str) -> list[str]:
    """Files that start with ``prefix``, which may have folders, and end with ``suffix``.

    A name that begins with ``-`` would be an option, and gets ``./`` before it.
    """
    from glob import escape

    home, slash, begun = prefix.rpartition("/")
    names = (path.name for path in Path(home + slash or ".").glob(f"{escape(begun)}*{suffix}"))
    return sorted(
        home + slash + ("./" if not slash and name[0] == "-" else "") + name for name in names
    )


def object_symbols(paths: Iterable[str], section: str | None = None) -> list[str]:
    """The programs of the BPF objects among ``paths``, or what is in ``section``; sorted."""
    from retsnoop_py.errors import RetsnoopError
    from retsnoop_py.load.object_file import ObjectFile

    found: set[str] = set()
    for path in paths:
        try:
            told = ObjectFile(Path(path))
        except (OSError, RetsnoopError):
            continue  # another word, or what the command itself will tell
        names = dict(enumerate(told.section_names))
        for symbol in told.symbols:
            place = names.get(symbol.section)
            is_program = symbol.kind == _FUNC and place != ".text" and symbol.section
            if symbol.bind == _GLOBAL and (place == section if section else is_program):
                found.add(symbol.name)
    return sorted(found)


# --- what is kept ------------------------------------------------------------------------------


def _starting(
    prefix: str, kind: str, state: str | None, read: Callable[[], Iterable[str]]
) -> list[str]:
    """The names that start with ``prefix``."""
    text = _names(kind, state, read)
    start = text.find(b"\n" + prefix.encode()) + 1
    if not start:
        return []
    # sorted, so they stand together, and the last of them is before what follows them all
    end, step = start, b"\n" + prefix.encode()
    while end < len(text) and text.startswith(step, end - 1):
        end = text.index(b"\n", end) + 1
    return text[start:end].decode().split()


def _names(kind: str, state: str | None, read: Callable[[], Iterable[str]]) -> bytes:
    """The names kept for ``state``, or else those ``read`` gives, a line each behind a newline.

    Without a state nothing is kept.
    """
    text = _kept(kind, state) if state else None
    if text is None:
        text = b"\n" + "".join(f"{name}\n" for name in sorted(read())).encode()
        if state and len(text) > 1:
            _keep(kind, state, text)
    return text


def _boot(root: Path) -> str | None:
    """What this boot with these modules is called, for this user; None where it has no name."""
    import zlib

    listed = root / "proc/modules"
    try:
        boot = (root / "proc/sys/kernel/random/boot_id").read_text().strip()
        # a kernel without modules has no such file
        lines = listed.read_text().splitlines() if listed.exists() else []
    except OSError:
        return None
    modules = " ".join(sorted(line.partition(" ")[0] for line in lines))
    # with fewer rights other functions are seen
    return f"{boot}-{zlib.crc32(modules.encode()):08x}-{os.geteuid()}"


def _catalog() -> str | None:
    """What the files that name kernels hold; to parse them takes as long as all else."""
    import zlib

    from retsnoop_py import package

    text = package.read(Path(__file__).parents[1] / "vm/kernels.toml")
    own = package.user_file("kernels.toml")
    try:
        text += own.read_bytes() if own.exists() else b""
    except OSError:
        return None
    # a host's own kernels have no architecture in their names
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
    """Keep it in place of what was kept of its kind; a cache that cannot be written is none."""
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
