# SPDX-License-Identifier: BSD-2-Clause
"""The users of a file, a mount, a device or a module: processes, mounts, swap, other devices.

They are looked up after the failure, in /proc and /sys. Users that are gone by then are not found.
Processes of other namespaces are found as far as /proc shows them.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

from retsnoop_py.cause.files import unescaped
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.search import SECONDS, Search
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.value import Value

__all__ = ["Holder", "Holders", "device_of", "device_users", "mounts_below", "processes"]

_PROC, _SYS = Path("/proc"), Path("/sys")
#: The maximum number of processes in the result.
_MOST = 5


class Holder(Value):
    """A process that uses something: ``sleep (PID 7)``, ``its current directory is``, the path."""

    process: str
    pid: int
    use: str
    path: str

    def __str__(self) -> str:
        return f"{self.process} (PID {self.pid}): {self.use} {show(self.path)}"


class Holders(Value):
    """The processes that were found; ``is_whole``: False if the search took too long and ended."""

    found: tuple[Holder, ...] = ()
    is_whole: bool = True

    def __str__(self) -> str:
        remark = () if self.is_whole else (f"the search for more ended after {SECONDS:.0f} s",)
        return "; ".join((*map(str, self.found), *remark))


def processes(path: str, *, writing: bool = False, running: bool = False) -> Holders:
    """Return the processes that use ``path`` or a file below it, at most five.

    The search ends after 3 s: a process may have a million open files and mappings. ``writing``:
    only those that have it open for writing; ``running``: only those that run it.
    """
    real = os.path.realpath(path)
    found: list[Holder] = []
    search = Search()
    for pid in search.processes():
        for use, target in _uses(pid, search, writing=writing, running=running):
            if target == real or target.startswith(real.rstrip("/") + "/"):
                found.append(Holder(_comm(_PROC / str(pid)), pid, use, target))
                break
        if len(found) == _MOST:
            break
    return Holders(tuple(found), search.is_whole)


def _comm(folder: Path) -> str:
    try:
        return (folder / "comm").read_text(errors="replace").strip()
    except OSError:
        return "a process"


def _uses(pid: int, search: Search, *, writing: bool, running: bool) -> Iterator[tuple[str, str]]:
    """Yield the kind of use and the path for a process; nothing if the process ends meanwhile."""
    folder = _PROC / str(pid)
    if running:
        links = [("it runs", "exe")]
    else:
        links = [("its current directory is", "cwd"), ("its root is", "root"), ("it runs", "exe")]
    for use, link in links if not writing else ():
        target = _link(folder / link)
        if target is not None:
            yield use, target
    if not running:
        yield from _open_files(pid, search, writing=writing)
    if not writing:
        yield from _mapped_files(folder)


def _link(path: Path) -> str | None:
    try:
        return os.readlink(path)
    except OSError:
        return None


def _open_files(pid: int, search: Search, *, writing: bool) -> Iterator[tuple[str, str]]:
    for descriptor, target in search.descriptors(pid):
        if not target.startswith("/"):
            continue
        is_written = _is_written(_PROC / str(pid) / "fdinfo" / str(descriptor))
        if is_written or not writing:
            yield "it has open for writing" if is_written else "it has open", target


def _is_written(info: Path) -> bool:
    try:
        words = info.read_text().split()
        return bool(int(words[words.index("flags:") + 1], 8) & os.O_ACCMODE)
    except (OSError, ValueError, IndexError):
        return False


def _mapped_files(folder: Path) -> Iterator[tuple[str, str]]:
    try:
        text = (folder / "maps").read_text(errors="surrogateescape")
    except OSError:
        return
    for line in text.split("\n"):
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith("/"):
            yield "it has mapped", words[5]


def mounts_below(path: str) -> list[str]:
    """Return the mount points below the mount point ``path``."""
    real = os.path.realpath(path).rstrip("/") + "/"
    return sorted({point for _, _, point in _mounts() if point.startswith(real)})


def _mounts() -> Iterator[tuple[str, str, str]]:
    """Yield the device ("8:1"), the source and the mount point of each mount."""
    try:
        text = (_PROC / "self/mountinfo").read_text(errors="replace")
    except OSError:
        return
    for line in text.splitlines():
        before, _, behind = line.partition(" - ")
        words, more = before.split(), behind.split()
        if len(words) > 4 and len(more) > 1:
            yield words[2], more[1], unescaped(words[4])


def device_of(path: str) -> str | None:
    """Return ``8:1`` for the file of a block device; None for any other file."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    if not stat.S_ISBLK(status.st_mode):
        return None
    return f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"


def device_users(path: str) -> Sequence[tuple[str, str]]:
    """Return who uses a block device: a sentence's end, and the command that ends that use."""
    device = device_of(path)
    if device is None:
        return ()
    found = [
        (f"it is mounted at {show(point)}", f"umount {shell_path(point)}")
        for number, _, point in _mounts()
        if number == device
    ]
    found += [
        ("it is used as swap space", f"swapoff {shell_path(path)}")
        for name in _swaps()
        if device_of(name) == device
    ]
    folder = _SYS / "dev/block" / device
    found += [_of_device(name) for name in _names(folder / "holders")]
    backing = _text(folder / "loop/backing_file")
    if backing and not found:
        found.append(
            (f"it is a loop device for the file {show(backing)}", f"losetup -d {shell_path(path)}")
        )
    # A partition in use makes the whole device busy.
    for part in _names(folder):
        if (folder / part / "partition").exists():
            number = _text(folder / part / "dev")
            found += [
                (f"its partition {part} is mounted at {show(point)}", f"umount {shell_path(point)}")
                for one, _, point in _mounts()
                if one == number
            ]
    return found[:_MOST]


def _of_device(name: str) -> tuple[str, str]:
    """Return the use by a device that is built on another device: device-mapper or RAID."""
    label = _text(_SYS / "block" / name / "dm/name")
    if label:
        return f"the device-mapper device {label} uses it", f"dmsetup remove {shell_word(label)}"
    if name.startswith("md"):
        return f"the RAID device {name} uses it", f"mdadm --stop /dev/{name}"
    return f"the device {name} uses it", f"stop using /dev/{name}"


def _swaps() -> list[str]:
    return [line.split()[0] for line in (_text(_PROC / "swaps") or "").splitlines()[1:]]


def _names(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _text(path: Path) -> str | None:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return None
