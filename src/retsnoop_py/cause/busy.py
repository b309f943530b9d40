# SPDX-License-Identifier: BSD-2-Clause
"""The users of an object that a call would unmount, remove, write or use exclusively."""

from __future__ import annotations

import os
from pathlib import Path

from retsnoop_py.cause import holders
from retsnoop_py.cause.mounts import is_mounted
from retsnoop_py.cause.operation import path_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.search import SECONDS
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.foreign_path import read_of_kernel
from retsnoop_py.kernel.errno import errno_name

__all__ = ["busy", "module_in_use", "no_swap_space", "swap_file"]

_MODULES, _SWAPS = Path("/sys/module"), Path("/proc/swaps")


def busy(scene: Scene) -> Reason | None:
    """A process, a mount or a device uses it (EBUSY, ETXTBSY)."""
    path = scene.path
    if path is None:
        return None
    if errno_name(scene.call.error) == "ETXTBSY":
        return _text(scene, path)
    if scene.call.name == "umount2":
        users = holders.processes(path)
        return _mount(path, users) or _own_folder(scene, path) or _cut(path, users)
    device = _device(path)
    if device is not None:
        return device
    if scene.call.name == "mount":
        return _mounted_again(scene, path)
    if scene.call.name.startswith("rename"):
        return _renamed(scene)
    if is_mounted(path):
        return _busy(f"A file system is mounted at {show(path)}.", f"umount {shell_path(path)}")
    return _cgroup(path) or _processes(path, holders.processes(path))


def _renamed(scene: Scene) -> Reason | None:
    """rename(2) of a mount point, or to the name of one, such as a file of a container."""
    old, new = scene.path, scene.target
    if new is not None and is_mounted(new):
        quoted = shell_path(new)
        if os.path.isdir(new):
            text = f"A file system is mounted at {show(new)}. No rename replaces a mount point."
            return _busy(text, f"umount {quoted}")
        return _busy(
            f"{show(new)} is a mount point: another file is mounted over it, as Docker and "
            "Kubernetes do for single files. No rename replaces a mount point.",
            f"write into the file instead: cat NEW >{quoted} (sed -i, mv and most editors make a "
            f"new file and rename it: sed SCRIPT {quoted} >COPY; cat COPY >{quoted})",
            f"or umount {quoted}",
        )
    if old is not None and is_mounted(old):
        return _busy(
            f"{show(old)} is a mount point, and no program can rename one.",
            f"move the mount: mount --move {shell_path(old)} NEW (NEW must exist)",
            f"or umount {shell_path(old)}",
        )
    return None


def _busy(text: str, *advice: str) -> Reason:
    return Reason("busy", text, advice)


def _end(users: holders.Holders) -> str:
    return f"end these processes: kill {' '.join(str(one.pid) for one in users.found)}"


def _processes(path: str, users: holders.Holders) -> Reason | None:
    if users.found:
        return _busy(f"{show(path)} is in use: {users}.", _end(users))
    return _cut(path, users)


def _cut(path: str, users: holders.Holders) -> Reason | None:
    """Return the reason if the search for users ended before it found one, else None."""
    if users.is_whole:
        return None
    return _busy(
        f"{show(path)} is in use. retsnoop-py ended its search of the open files after "
        f"{SECONDS:.0f} s, and found no process that uses it until then.",
        f"fuser -v {shell_path(path)} lists the processes that use it",
    )


def _text(scene: Scene, path: str) -> Reason | None:
    """A program that runs may not be written, and one that is being written does not run."""
    quoted = shell_path(path)
    if scene.call.name.startswith("execve"):
        found = holders.processes(path, writing=True)
        if not found.found:
            return _cut(path, found)
        return _busy(
            f"{show(path)} cannot run while it is open for writing: {found}.",
            "close it there first, or run a copy",
            _end(found),
        )
    if path in _swaps():
        return _busy(f"{show(path)} is in use as swap space.", f"swapoff {quoted}")
    found = holders.processes(path, running=True)
    if not found.found:
        found = holders.processes(path)
    if not found.found:
        return _cut(path, found)
    return _busy(
        f"{show(path)} is a program that runs, so it cannot be written: {found}.",
        f"replace it by a new file, which works while it runs: cp NEW {quoted}.new; "
        f"mv {quoted}.new {quoted}",
        f"or {_end(found)}",
    )


def _mount(path: str, found: holders.Holders) -> Reason | None:
    """umount(2) of a mount that something uses."""
    quoted = shell_path(path)
    below = holders.mounts_below(path)
    if below:
        return _busy(
            f"Other mounts are below {show(path)}: {', '.join(map(show, below[:5]))}.",
            f"umount -R {quoted}",
        )
    if found.found:
        return _busy(
            f"{show(path)} is in use: {found}.",
            _end(found),
            f"or umount -l {quoted}, which removes the mount from the tree now and the file system "
            "as its last user ends",
        )
    inside = [one for one in _swaps() if one.startswith(path.rstrip("/") + "/")]
    if inside:
        return _busy(
            f"The swap file {show(inside[0])} is on it.", f"swapoff {shell_path(inside[0])}"
        )
    for device in Path("/sys/block").glob("loop*"):
        backing = _read(device / "loop/backing_file")
        if backing.startswith(path.rstrip("/") + "/"):
            return _busy(
                f"The loop device /dev/{device.name} uses the file {show(backing)} on it.",
                f"losetup -d /dev/{device.name}",
            )
    return None


def _own_folder(scene: Scene, path: str) -> Reason | None:
    """The command itself stood in the mount: it has ended by now, so that no process holds it."""
    folder = scene.call.cwd
    if folder is None or not f"{folder}/".startswith(f"{os.path.realpath(path).rstrip('/')}/"):
        return None
    return Reason(
        "busy",
        f"{show(path)} is in use by the command itself: its current directory is {show(folder)}.",
        ("change to another directory first: cd /",),
        is_seen_later=False,
    )


def _device(path: str) -> Reason | None:
    """A block device that is mounted, swap space, or a part of another device."""
    users = holders.device_users(path)
    if not users:
        return None
    return _busy(
        f"The device {show(path)} is in use: {'; '.join(text for text, _ in users)}.",
        *dict.fromkeys(command for _, command in users),
    )


def _mounted_again(scene: Scene, source: str) -> Reason | None:
    target = path_of(scene.call, 1)
    if target is None or not is_mounted(target):
        return None
    return _busy(
        f"{show(source)} is mounted at {show(target)} already.",
        f"umount {shell_path(target)} first, or change the mount: mount -o remount,OPTIONS "
        f"{shell_path(target)}",
    )


def _cgroup(path: str) -> Reason | None:
    """rmdir(2) of a cgroup that has processes or cgroups below it."""
    folder = Path(path)
    if not (folder / "cgroup.procs").is_file():
        return None
    below = sorted(one.name for one in folder.iterdir() if one.is_dir())
    if below:
        return _busy(
            f"The cgroup {show(path)} has cgroups below it: {', '.join(below[:5])}.",
            f"remove these first: rmdir {shell_path(f'{path}/{below[0]}')}",
        )
    pids = read_of_kernel(folder / "cgroup.procs").split()
    if not pids:
        return None
    return _busy(
        f"The cgroup {show(path)} has processes: {', '.join(map(_named, pids[:5]))}.",
        "end these processes, or move each: echo PID "
        f">{shell_path(folder.parent / 'cgroup.procs')}",
    )


def _named(pid: str) -> str:
    name = _read(Path("/proc") / pid / "comm")
    return f"{name} (PID {pid})" if name else f"PID {pid}"


def module_in_use(scene: Scene) -> Reason | None:
    """delete_module(2) of a module that other modules or open files use, or that is not loaded."""
    name = next((text for _, text in scene.call.texts if text), "")
    folder = _MODULES / name
    if not name or "/" in name:
        return None
    if not folder.exists():
        text = f"The module {name} is not loaded."
        return Reason("module", text, ("lsmod lists the modules that are loaded",))
    if not (folder / "refcnt").exists():
        text = f"The module {name} cannot be removed: it is built in, or cannot be unloaded."
        return Reason("module", text)
    users = sorted(os.listdir(folder / "holders")) if (folder / "holders").is_dir() else []
    if users:
        text = f"The module {name} is in use by the modules {', '.join(users)}."
        quoted = " ".join(map(shell_word, users))
        return Reason("busy", text, (f"remove them first: modprobe -r {quoted}",))
    count = _read(folder / "refcnt")
    if not count.isdigit() or int(count) < 1:
        return None
    return Reason(
        "busy",
        f"The module {name} is in use {count} {'time' if count == '1' else 'times'}: a device, a "
        "mount, a socket or a network interface needs it.",
        _module_advice(name),
    )


def _module_advice(name: str) -> tuple[str, ...]:
    """Return the advice for a module: for block devices, the devices in use."""
    if name == "loop":
        return ("losetup -a lists the loop devices, and losetup -D detaches all of them",)
    kinds = _read(Path("/proc/filesystems")).split()
    if name in kinds:
        return (f"unmount these: findmnt -t {name}",)
    return ("stop what uses it (lsof, ip link, findmnt), and try again",)


def no_swap_space(scene: Scene) -> Reason | None:
    """swapoff(2) of a file that is not swap space."""
    path = scene.path
    if path is None or os.path.realpath(path) in _swaps():
        return None
    return Reason(
        "not-found",
        f"{show(path)} is not in use as swap space.",
        ("swapon --show lists the swap space that is in use",),
    )


def swap_file(scene: Scene) -> Reason | None:
    """A swap file in use: a second swapon(2), or a call that removes, renames or links it."""
    for path in (scene.path, scene.target):
        if path is None or os.path.realpath(path) not in _swaps():
            continue
        if scene.call.name == "swapon":
            return _busy(
                f"{show(path)} is in use as swap space already.",
                "swapon --show lists the swap space",
            )
        return _busy(
            f"{show(path)} is in use as swap space: no user can remove or rename it, not even "
            "root.",
            f"swapoff {shell_path(path)}",
        )
    return None


def _swaps() -> list[str]:
    return [line.split()[0] for line in _read(_SWAPS).splitlines()[1:]]


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""
