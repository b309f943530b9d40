# SPDX-License-Identifier: BSD-2-Clause
"""Read tracefs and related files: functions that can be traced or probed, and tracepoints."""

from __future__ import annotations

import errno
import os
import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from retsnoop_py.errors import PrivilegeError, UnavailableError
from retsnoop_py.kernel.namespaces import in_first
from retsnoop_py.libbpf.facts import ListFormat, SymbolTable

#: Mount points of tracefs below a root: its own, and the one in debugfs.
TRACEFS = ("sys/kernel/tracing", "sys/kernel/debug/tracing")
#: Folder, below a root, of the event sources of perf_event_open(2), which include kprobes.
_EVENT_SOURCES = Path("sys/bus/event_source/devices")

_NAMES = "available_filter_functions"
_ADDRS = "available_filter_functions_addrs"
#: Trace points in functions that the linker dropped. The functions have no symbol.
_INVALID = "__ftrace_invalid_address___"


#: Message and advice if nothing is mounted on /sys.
NO_SYSFS, MOUNT_SYSFS = "nothing is mounted on /sys", "mount -t sysfs sysfs /sys"


#: Message and advice if nothing is mounted on /proc.
NO_PROC, MOUNT_PROC = "nothing is mounted on /proc", "mount -t proc proc /proc"


def has_proc(root: Path) -> bool:
    """Return True if procfs is mounted below ``root``."""
    return (root / "proc/sys").is_dir()


def require_proc(root: Path, user: str) -> None:
    """Raise UnavailableError if procfs is not mounted; ``user`` is what reads it."""
    if not has_proc(root):
        raise UnavailableError(f"{user} needs /proc: {NO_PROC}", MOUNT_PROC)


def has_sysfs(root: Path) -> bool:
    """Return True if sysfs is mounted below ``root``."""
    return (root / "sys/kernel").is_dir()


def mount_command(root: Path, kind: str, place: str) -> str:
    """Return the command that mounts file system ``kind`` on ``place``, which may be below /sys."""
    command = f"mount -t {kind} {kind} {place}"
    return command if has_sysfs(root) else f"{MOUNT_SYSFS} && {command}"


def folder_with(root: Path, name: str) -> Path | None:
    """Return the tracefs folder below ``root`` that contains ``name``, or None."""
    folders = (root / place for place in TRACEFS)
    return next((folder for folder in folders if (folder / name).exists()), None)


def lacks_kprobes(root: Path) -> bool:
    """Return True if /sys below ``root`` shows that the kernel has no kprobes."""
    sources = root / _EVENT_SOURCES
    return sources.is_dir() and not (sources / "kprobe").exists()


def no_kprobes() -> UnavailableError:
    """Return the error for a kernel without kprobes."""
    return UnavailableError(
        "this kernel has no kprobes (CONFIG_KPROBES or CONFIG_KPROBE_EVENTS is off)",
        "run on a kernel that has them, or boot one: retsnoop-py vm run --on 6.12 -- ...",
    )


def can_list(root: Path) -> bool:
    """Return True if ftrace works and its list of functions can be opened."""
    for place in TRACEFS:
        try:
            os.close(os.open(root / place / _NAMES, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            continue
        return True
    return False


class Traceable:
    """ftrace's list of functions, below ``root``.

    The list with addresses (Linux 6.5, commit 83f74441bcb1) distinguishes functions of the same
    name; the list without addresses is read in two thirds of the time. Only one list is read:
    ``addresses`` selects the preferred one. Raise :class:`UnavailableError` or
    :class:`PrivilegeError` if no list can be read.
    """

    def __init__(self, root: Path, *, addresses: bool = True) -> None:
        self.path, self.table = _read_list(root, addresses)
        self.has_addresses = self.path.name == _ADDRS
        self._invalid = self.table.count(_INVALID)

    def __len__(self) -> int:
        return len(self.table) - self._invalid

    def contains(self, name: str, module: str | None = None) -> bool:
        """Return True if a function ``name``, of ``module`` if given, is listed."""
        wanted = None if module is None else module.encode()
        return any(wanted in (None, self.table.line(i).module) for i in self.table.find(name))


def _read_list(root: Path, addresses: bool) -> tuple[Path, SymbolTable]:
    folders = [root / place for place in TRACEFS]
    denied = None
    forms = [(_ADDRS, ListFormat.ADDRS), (_NAMES, ListFormat.NAMES)]
    if not addresses:
        forms.reverse()
    for path, form in [(folder / name, form) for folder in folders for name, form in forms]:
        try:
            table = SymbolTable(path, form)
        except PermissionError:
            denied = denied or path
        except OSError as error:
            if error.errno == errno.ENODEV:
                raise _given_up() from None
            continue
        else:
            if len(table):
                return path, table
    if lacks_kprobes(root):
        raise no_kprobes()
    if denied:
        raise PrivilegeError(
            f"cannot read {denied}: permission denied",
            "run as root; if root has no permission, `dmesg` may report a lockdown",
        )
    raise _no_list(root)


def _given_up() -> UnavailableError:
    return UnavailableError(
        "this kernel has disabled function tracing after an internal error",
        "`dmesg` shows a warning in kernel/trace/ftrace.c; reboot the machine",
    )


def _no_list(root: Path) -> UnavailableError:
    tracefs = root / TRACEFS[0]
    if (tracefs / "trace").exists():
        return UnavailableError(
            f"{tracefs} has no {_NAMES}: this kernel cannot trace functions",
            "use a kernel with CONFIG_FUNCTION_TRACER and CONFIG_DYNAMIC_FTRACE",
        )
    filesystems = root / "proc/filesystems"
    if filesystems.exists() and "tracefs" not in filesystems.read_text().split():
        return UnavailableError(
            "this kernel has no tracefs, so it cannot trace functions",
            "use a kernel with CONFIG_FTRACE",
        )
    hint = f"run `{mount_command(root, 'tracefs', str(tracefs))}`"
    if not in_first("pid", root / "proc/self"):
        hint += f", or start the container with -v {tracefs}:{tracefs}"
    return UnavailableError(f"tracefs is not mounted on {tracefs}", hint)


def _read_range(line: bytes) -> tuple[int, int]:
    """Return the addresses of a line: 0xffffffff81000000-0xffffffff81000010, a tab, the name."""
    start, _, end = line.partition(b"\t")[0].partition(b"-")
    return int(start, 16), int(end, 16)


class KprobeBlacklist:
    """Address ranges where kprobes are forbidden; empty if debugfs does not show the ranges."""

    def __init__(self, path: Path) -> None:
        try:
            text = path.read_bytes()
        except OSError:
            text = b""
        self._starts = array("Q")
        self._ends = array("Q")
        for start, end in sorted(map(_read_range, text.splitlines())):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    @property
    def ranges(self) -> Iterator[tuple[int, int]]:
        """Return the ranges in ascending order: start address, and end address (exclusive)."""
        return zip(self._starts, self._ends, strict=True)

    def covers(self, address: int) -> bool:
        """Return True if a kprobe at ``address`` is forbidden."""
        index = bisect_right(self._starts, address) - 1
        return index >= 0 and address < self._ends[index]


class Tracepoint(NamedTuple):
    """A tracepoint by its category and name."""

    category: str
    name: str


class TraceField(NamedTuple):
    """A field of a tracepoint's record: its C type, and its offset and size in bytes.

    ``is_array`` marks an array. A dynamic array (``is_dynamic``) has 4 bytes in the record: the
    upper half is its size, the lower half its offset from the start of the record or, with
    ``is_relative``, from the end of the 4 bytes.
    """

    name: str
    type: str
    offset: int
    size: int
    is_signed: bool = False
    is_array: bool = False
    is_dynamic: bool = False
    is_relative: bool = False


_FIELD = re.compile(r"\tfield:(.+);\toffset:(\d+);\tsize:(\d+);(?:\tsigned:(\d);)?")
_DECLARATION = re.compile(
    r"^(?:(?P<how>__data_loc|__rel_loc)\s+)?(?P<type>.*?[\w*])??(?P<of>\[\])?\s*"
    r"\b(?P<name>\w+)(?P<array>(?:\[[^]]*+\])++)?"
)
_COMMON = "common_"


def parse_format(text: str) -> tuple[TraceField, ...]:
    """Return the fields that a ``format`` file describes, without the common fields.

    The format comes from ``kernel/trace/trace_events.c``. Other lines are skipped.
    """
    found = []
    for line in text.splitlines():
        match = _FIELD.fullmatch(line)
        if match and not (field := _field(*match.groups())).name.startswith(_COMMON):
            found.append(field)
    return tuple(found)


def _field(text: str, offset: str, size: str, signed: str | None) -> TraceField:
    match = _DECLARATION.fullmatch(text.strip())
    if match is None:  # a function pointer, for example: its name is inside
        return TraceField(text.strip(), "", int(offset), int(size))
    return TraceField(
        name=match["name"],
        type=(match["type"] or "").strip(),
        offset=int(offset),
        size=int(size),
        is_signed=signed == "1",
        is_array=bool(match["array"] or match["of"]),
        is_dynamic=bool(match["how"]),
        is_relative=match["how"] == "__rel_loc",
    )


class Tracepoints:
    """The tracepoints of the kernel with /sys below ``root``."""

    def __init__(self, root: Path = Path("/")) -> None:
        self._root = root

    @cached_property
    def _folder(self) -> Path:
        denied = None
        for folder in (self._root / place / "events" for place in TRACEFS):
            try:
                if next(folder.iterdir(), None):
                    return folder
            except PermissionError:
                denied = folder
            except OSError:
                continue
        if denied:
            raise PrivilegeError(f"cannot read {denied}: permission denied", "run as root")
        tracefs = self._root / TRACEFS[0]
        raise UnavailableError(
            f"{tracefs} has no events, so tracepoints cannot be found",
            f"run `mount -t tracefs tracefs {tracefs}`; the kernel needs CONFIG_EVENT_TRACING",
        )

    def categories(self) -> list[str]:
        """Return all categories, sorted."""
        return sorted(path.name for path in self._folder.iterdir() if path.is_dir())

    def names(self, category: str) -> list[str]:
        """Return the tracepoints of ``category``, sorted; empty if the category does not exist."""
        try:
            paths = list((self._folder / category).iterdir())
        except OSError:
            return []
        # Tracepoints of "ftrace" have no id to attach to, or are never hit.
        return sorted(path.name for path in paths if (path / "enable").exists())

    def matching(
        self, category: str, name: str, match: Callable[[str, str], bool]
    ) -> list[Tracepoint]:
        """Return the tracepoints for which ``match(glob, text)`` accepts category and name."""
        found = [one for one in self.categories() if match(category, one)]
        return [
            Tracepoint(one, each) for one in found for each in self.names(one) if match(name, each)
        ]

    def number(self, tracepoint: Tracepoint) -> int:
        """Return the tracepoint's id for perf_event_open(2).

        Raise :class:`UnavailableError` if the tracepoint no longer exists.
        """
        return int(self._read(tracepoint, "id"))

    def format_of(self, tracepoint: Tracepoint) -> str:
        """Return the description of the tracepoint's fields.

        Raise :class:`UnavailableError` if the tracepoint no longer exists.
        """
        return self._read(tracepoint, "format")

    def _read(self, tracepoint: Tracepoint, file: str) -> str:
        path = self._folder / tracepoint.category / tracepoint.name / file
        try:
            return path.read_text()
        except OSError as error:
            raise UnavailableError(
                f"cannot read {path}: {error.strerror}", "its module may have been unloaded"
            ) from error
