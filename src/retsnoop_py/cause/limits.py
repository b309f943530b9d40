# SPDX-License-Identifier: BSD-2-Clause
"""Limits that a call exceeded: limits of the process (ulimit) and of its cgroup."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.denied import has_capability
from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.foreign_path import read_of_kernel
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.value import Value, replace

__all__ = [
    "arguments",
    "cgroup_device",
    "cgroup_folder",
    "file_size",
    "frozen_cgroup",
    "in_flight",
    "locked_memory",
    "memory",
    "memory_limit",
    "message_queues",
    "nice",
    "open_files",
    "pids",
    "processes",
    "raised",
    "real_time",
    "signals",
    "size",
    "terminals",
]

_INFINITY = (1 << 64) - 1
_MAP_PRIVATE, _PROT_WRITE = 0x02, 0x2
#: execve(2): the maximum size of an argument, and the fixed maximum of all (binfmts.h).
_ARGUMENT, _ARGUMENTS_AT_MOST = 128 << 10, 6 << 20
#: The maximum number of folders of a hierarchy that are read.
_MOST_CGROUPS = 100_000


class _Limit(Value):
    """A limit. ``letter``: its option of ulimit; ``unit``: bytes per unit there, 0: not a size."""

    name: str
    letter: str
    unit: int = 0


_LIMITS = {
    resource.RLIMIT_FSIZE: _Limit("RLIMIT_FSIZE", "f", 1024),
    resource.RLIMIT_DATA: _Limit("RLIMIT_DATA", "d", 1024),
    resource.RLIMIT_STACK: _Limit("RLIMIT_STACK", "s", 1024),
    resource.RLIMIT_NPROC: _Limit("RLIMIT_NPROC", "u"),
    resource.RLIMIT_NOFILE: _Limit("RLIMIT_NOFILE", "n"),
    resource.RLIMIT_MEMLOCK: _Limit("RLIMIT_MEMLOCK", "l", 1024),
    resource.RLIMIT_AS: _Limit("RLIMIT_AS", "v", 1024),
    resource.RLIMIT_SIGPENDING: _Limit("RLIMIT_SIGPENDING", "i"),
    resource.RLIMIT_MSGQUEUE: _Limit("RLIMIT_MSGQUEUE", "q", 1),
    resource.RLIMIT_NICE: _Limit("RLIMIT_NICE", "e"),
    resource.RLIMIT_RTPRIO: _Limit("RLIMIT_RTPRIO", "r"),
}


#: Kernel functions that search a free descriptor.
_SEARCHES = ("alloc_fd", "__alloc_fd", "get_unused_fd_flags", "__get_unused_fd_flags")


#: Calls that create a descriptor: EMFILE has no other meaning there.
_OPENS = (
    "open",
    "openat*",
    "creat",
    "dup*",
    "pipe*",
    "socket",
    "socketpair",
    "accept*",
    "eventfd*",
)


def size(number: int) -> str:
    """Return a number of bytes for people: ``64 KiB``, ``1.5 GiB``."""
    for shift, unit in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if number >> shift:
            scaled = number / (1 << shift)
            return f"{scaled:.0f} {unit}" if scaled == int(scaled) else f"{scaled:.1f} {unit}"
    return f"{number} bytes"


def _soft(scene: Scene, number: int) -> int | None:
    """Return the soft limit; None if it is unlimited or unknown."""
    state = scene.call.state
    if state is None or not state.limits or state.limits[number][0] == _INFINITY:
        return None
    return state.limits[number][0]


def _is(scene: Scene, number: int) -> str:
    """Return a text such as ``RLIMIT_NOFILE (ulimit -n) is 16``."""
    limit, value = _LIMITS[number], _soft(scene, number) or 0
    text = size(value) if limit.unit else str(value)
    return f"{limit.name} (ulimit -{limit.letter}) is {text}"


def limit_title(name: str) -> str:
    """Return a limit with the option of ulimit that shows it: ``RLIMIT_NOFILE (ulimit -n)``."""
    letter = next((one.letter for one in _LIMITS.values() if one.name == name), None)
    return f"{name} (ulimit -{letter})" if letter is not None else name


def _raise(scene: Scene, number: int) -> tuple[str, ...]:
    """Return the advice to raise the limit."""
    limit = _LIMITS[number]
    state = scene.call.state
    soft, hard = state.limits[number] if state is not None and state.limits else (0, 0)
    systemd = f"Limit{limit.name.removeprefix('RLIMIT_')}= of its systemd unit"
    if soft < hard:
        most = "any value" if hard == _INFINITY else f"at most {hard // (limit.unit or 1)}"
        return (f"ulimit -{limit.letter} N in the shell that starts it ({most})", f"or {systemd}")
    return (f"raise the hard limit as root: /etc/security/limits.conf, or {systemd}",)


def _reached(scene: Scene, number: int, before: str, *, kind: str = "rlimit") -> Reason | None:
    if _soft(scene, number) is None:
        return None
    text = f"{before}: {_is(scene, number)}."
    return Reason(kind, text, _raise(scene, number), is_seen_later=False)


def open_files(scene: Scene) -> Reason | None:
    """All descriptors are in use, by their number or by the kernel's search for a free one."""
    state, most = scene.call.state, _soft(scene, resource.RLIMIT_NOFILE)
    is_used_up = state is not None and most is not None and (state.used or 0) >= most
    is_certain = is_used_up or any(one in scene.chain for one in _SEARCHES)
    # next_fd of the kernel is a lower bound: the process may have more descriptors than it shows
    if not is_certain and not any(fnmatchcase(scene.call.name, one) for one in _OPENS):
        return None
    found = _reached(
        scene, resource.RLIMIT_NOFILE, "The process has as many open files as it is allowed"
    )
    return found if found is None or is_certain else replace(found, is_inferred=True)


def terminals(scene: Scene) -> Reason | None:
    """As many pseudo-terminals are open as a setting or an option of devpts allows (ENOSPC)."""
    path = scene.path
    if path is None or Path(path).name != "ptmx":
        return None
    most, used, kept = (_setting(f"kernel/pty/{one}") for one in ("max", "nr", "reserve"))
    mount = files.mount_of("/dev/pts")
    option = next((one for one in mount.options if one.startswith("max=")), "") if mount else ""
    if most is None or used is None:
        return None
    text = f"{used} pseudo-terminals are open, and kernel.pty.max allows {most}"
    if kept:
        text += f", of which kernel.pty.reserve keeps {kept} for the first mount of devpts"
    if option:
        text += f". The mount /dev/pts has the option {option}"
    return Reason(
        "sysctl",
        f"{text}.",
        (
            f"sysctl kernel.pty.max={max(2 * most, used + (kept or 0) + 1024)}",
            "end programs that have many of them open: fuser -v /dev/ptmx",
            *(("or mount -o remount,max=N /dev/pts",) if option else ()),
        ),
    )


def _setting(path: str) -> int | None:
    text = read_of_kernel(f"/proc/sys/{path}")
    return int(text) if text.isdecimal() else None


def in_flight(scene: Scene) -> Reason | None:
    """Too many descriptors were sent over sockets and not received yet."""
    return _reached(
        scene,
        resource.RLIMIT_NOFILE,
        f"User {user_name(scene.call.uid)} has sent descriptors over sockets, and more of them "
        "wait for their receivers than are allowed",
    )


def processes(scene: Scene) -> Reason | None:
    """The user has as many processes as the limit allows."""
    if has_capability(scene, "SYS_RESOURCE") or has_capability(scene, "SYS_ADMIN"):
        return None
    user = user_name(scene.call.uid)
    return _reached(
        scene,
        resource.RLIMIT_NPROC,
        f"User {user} has as many processes and threads as are allowed",
    )


def file_size(scene: Scene) -> Reason | None:
    """A file would become too large."""
    return _reached(scene, resource.RLIMIT_FSIZE, "The file would become larger than allowed")


def signals(scene: Scene) -> Reason | None:
    """Too many signals and timers are pending."""
    before = (
        f"User {user_name(scene.call.uid)} has as many pending signals and timers as are allowed"
    )
    return _reached(scene, resource.RLIMIT_SIGPENDING, before)


def message_queues(scene: Scene) -> Reason | None:
    """POSIX message queues: their bytes, or descriptors."""
    if not any("mqueue" in name for name in scene.chain):
        return None
    return _reached(
        scene,
        resource.RLIMIT_MSGQUEUE,
        f"The message queues of {user_name(scene.call.uid)} would need more memory than allowed",
    )


def nice(scene: Scene) -> Reason | None:
    """The requested nice value is below the limit."""
    value = scene.call.arguments[2] & 0xFFFFFFFF
    value -= (1 << 32) * (value >> 31)
    if has_capability(scene, "SYS_NICE"):
        return None
    soft = _soft(scene, resource.RLIMIT_NICE) or 0
    return Reason(
        "rlimit",
        f"The nice value {value} requires CAP_SYS_NICE, or RLIMIT_NICE (ulimit -e) of at least "
        f"{20 - value}. The limit is {soft}.",
        ("run it as root", "or LimitNICE= of its systemd unit"),
        is_seen_later=False,
    )


def real_time(scene: Scene) -> Reason | None:
    """The requested real-time priority is above the limit."""
    if has_capability(scene, "SYS_NICE"):
        return None
    soft = _soft(scene, resource.RLIMIT_RTPRIO)
    if soft is None:
        return None
    return Reason(
        "rlimit",
        "This scheduling policy or priority requires CAP_SYS_NICE, or a higher RLIMIT_RTPRIO "
        f"(ulimit -r). The limit is {soft}.",
        ("run it as root", "or LimitRTPRIO= of its systemd unit"),
        is_seen_later=False,
    )


def raised(scene: Scene) -> Reason | None:
    """setrlimit(2) and prlimit(2): the hard limit would rise, or is below the soft limit."""
    call, state = scene.call, scene.call.state
    number = call.arguments[1 if call.name == "prlimit64" else 0] & 0xFFFFFFFF
    limit = _LIMITS.get(number)
    is_other = call.name == "prlimit64" and call.arguments[0] not in (0, call.pid)
    if limit is None or is_other or state is None or not state.limits:
        return None
    hard = state.limits[number][1]
    if hard == _INFINITY:
        return None
    name = f"{limit.name} (ulimit -{limit.letter})"
    shown = size(hard) if limit.unit else str(hard)
    if errno_name(call.error) == "EINVAL":
        rule = "A soft limit may not be higher than its hard limit."
    elif number == resource.RLIMIT_NOFILE and has_capability(scene, "SYS_RESOURCE"):
        return _above_nr_open()
    elif not has_capability(scene, "SYS_RESOURCE"):
        rule = "Only root, or a process with CAP_SYS_RESOURCE, may raise a hard limit."
    else:
        return None
    return Reason(
        "rlimit",
        f"{rule} The hard limit of {name} is {shown}.",
        (f"choose at most {hard // (limit.unit or 1)}", *_raise_hard(limit)),
        is_seen_later=False,
    )


def _above_nr_open() -> Reason | None:
    """No process, even of root, may have more open files than fs.nr_open."""
    most = _number(Path("/proc/sys/fs/nr_open"))
    if most is None:
        return None
    return Reason(
        "sysctl",
        f"RLIMIT_NOFILE (ulimit -n) may be at most fs.nr_open, which is {most}, even for root.",
        (f"choose at most {most}", "or sysctl fs.nr_open=N"),
    )


def _raise_hard(limit: _Limit) -> tuple[str, ...]:
    systemd = f"Limit{limit.name.removeprefix('RLIMIT_')}= of its systemd unit"
    return (f"or raise the hard limit as root: /etc/security/limits.conf, or {systemd}",)


def arguments(scene: Scene) -> Reason | None:
    """execve(2): arguments and environment do not fit."""
    soft = _soft(scene, resource.RLIMIT_STACK)
    most = _ARGUMENTS_AT_MOST if soft is None else min(soft // 4, _ARGUMENTS_AT_MOST)
    most = max(most, _ARGUMENT)
    return Reason(
        "rlimit",
        "The arguments and the environment of the new program are too long: at most "
        f"{size(most)} together (a quarter of RLIMIT_STACK), and {size(_ARGUMENT)} each.",
        ("pass fewer at a time, as xargs(1) does, or pass them in a file",),
        is_seen_later=False,
    )


def memory(scene: Scene) -> Reason | None:
    """Address space, data, or the number of mappings."""
    call, state = scene.call, scene.call.state
    if state is None:
        return None
    length = {"mmap": call.arguments[1], "mremap": call.arguments[2]}.get(call.name, 0)
    asked = f" and asked for {size(length)} more" if length else ""
    limit = _soft(scene, resource.RLIMIT_AS)
    if limit is not None and state.mapped + length > limit:
        text = f"The process has {size(state.mapped)} of address space{asked}"
        return _reached(scene, resource.RLIMIT_AS, text)
    is_data = call.name != "mmap" or (
        call.arguments[2] & _PROT_WRITE and call.arguments[3] & _MAP_PRIVATE
    )
    limit = _soft(scene, resource.RLIMIT_DATA)
    if limit is not None and is_data and state.data + length > limit:
        text = f"The process has {size(state.data)} of private memory{asked}"
        return _reached(scene, resource.RLIMIT_DATA, text)
    return None


def locked_memory(scene: Scene) -> Reason | None:
    """The process may not lock more memory in RAM."""
    call, state = scene.call, scene.call.state
    limit = _soft(scene, resource.RLIMIT_MEMLOCK)
    if state is None or limit is None or has_capability(scene, "IPC_LOCK"):
        return None
    length = call.arguments[1] if call.name in ("mlock", "mlock2", "mmap") else 0
    if call.name == "mlockall":
        length = state.mapped
    if length and state.locked + length <= limit:
        return None
    asked = f" and asked for {size(length)} more" if length else ""
    text = f"The process has {size(state.locked)} of locked memory{asked}"
    return _reached(scene, resource.RLIMIT_MEMLOCK, text)


# -- cgroups -----------------------------------------------------------------------------------


def cgroup_folder(inode: int) -> Path | None:
    """Return the folder of a cgroup of version 2, by its inode number; None if not found."""
    root = _mount_point()
    if root is None or not inode:
        return None
    left = _MOST_CGROUPS
    waiting = [str(root)]
    while waiting and left:
        left -= 1
        folder = waiting.pop()
        try:
            if os.stat(folder).st_ino == inode:
                return Path(folder)
            with os.scandir(folder) as entries:
                waiting += [one.path for one in entries if one.is_dir(follow_symlinks=False)]
        except OSError:
            continue
    return None


def _mount_point() -> Path | None:
    try:
        lines = Path("/proc/self/mounts").read_text(errors="replace").splitlines()
    except OSError:
        return None
    points = [line.split()[1] for line in lines if line.split()[2:3] == ["cgroup2"]]
    return Path(points[0]) if points else None


def _above(folder: Path) -> Iterator[Path]:
    """Yield the folder and its parents, up to the hierarchy's root."""
    root = _mount_point()
    while root is not None and folder != root and root in folder.parents:
        yield folder
        folder = folder.parent


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


def _events(path: Path, name: str) -> int:
    try:
        words = path.read_text().split()
    except OSError:
        return 0
    return int(words[words.index(name) + 1]) if name in words else 0


def _shown(folder: Path) -> str:
    """Return a cgroup's path in the hierarchy: ``/system.slice/a.service``."""
    root = _mount_point()
    inside = folder.relative_to(root) if root is not None else folder
    return show(f"/{inside}")


def pids(scene: Scene) -> Reason | None:
    """The cgroup has the maximum number of processes."""
    state = scene.call.state
    is_seen = "pids_can_fork" in scene.chain or "cgroup_can_fork" in scene.chain
    folder = cgroup_folder(state.cgroup) if state is not None else None
    for one in _above(folder) if folder is not None else ():
        most = _number(one / "pids.max")
        if most is not None and (is_seen or _events(one / "pids.events", "max")):
            return Reason(
                "cgroup",
                f"The cgroup {_shown(one)} has as many processes and threads as its pids.max "
                f"allows: {most}.",
                (
                    f"echo N > {shell_path(one / 'pids.max')}",
                    "of a systemd service: TasksMax=; of a container: docker run --pids-limit N",
                ),
                is_seen_later=not is_seen,
            )
    if not is_seen:
        return None
    return Reason(
        "cgroup",
        "The cgroup of the process has as many processes and threads as its pids.max allows.",
        (
            "raise pids.max",
            "of a systemd service: TasksMax=; of a container: docker run --pids-limit N",
        ),
        is_seen_later=False,
    )


def memory_limit(inode: int) -> tuple[str, int, Path] | None:
    """Return the cgroup with the memory.max that caused the kernel to kill a process.

    The result has its path in the hierarchy, the limit in bytes, and its folder.
    """
    folder = cgroup_folder(inode)
    for one in _above(folder) if folder is not None else ():
        most = _number(one / "memory.max")
        if most is not None and _events(one / "memory.events", "oom_kill"):
            return _shown(one), most, one
    return None


def frozen_cgroup(path: str) -> Path | None:
    """Return the folder of the outermost frozen cgroup at or above the process's ``path``."""
    root = _mount_point()
    if root is None or ".." in path.split("/"):
        return None
    frozen = [one for one in _above(root / path.lstrip("/")) if _number(one / "cgroup.freeze") == 1]
    return frozen[-1] if frozen else None


def cgroup_device(scene: Scene) -> Reason | None:
    """A cgroup's program or list forbids the device."""
    names = ("devcgroup_*", "__cgroup_bpf_check_dev_permission")
    if not any(fnmatchcase(one, name) for one in scene.chain for name in names):
        return None
    path = scene.path
    device = show(path) if path else "the device"
    return Reason(
        "cgroup",
        f"The cgroup of the process does not allow access to {device}.",
        (
            f"of a container: docker run --device {shell_path(path or 'DEVICE')}",
            "of a systemd service: DeviceAllow=",
        ),
        is_seen_later=False,
    )
