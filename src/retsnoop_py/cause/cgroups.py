# SPDX-License-Identifier: BSD-2-Clause
"""Why a file of a cgroup rejects a written value, and which CPUs a cgroup may use."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause import files
from retsnoop_py.cause.limits import cgroup_folder
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.foreign_path import read_of_kernel
from retsnoop_py.kernel.errno import errno_name

__all__ = ["cpus", "no_file", "no_more", "rejected_write"]

_ONLINE, _POSSIBLE = (
    Path("/sys/devices/system/cpu/online"),
    Path("/sys/devices/system/cpu/possible"),
)
#: The accepted values of a file (Documentation/admin-guide/cgroup-v2.rst).
_RANGES = {
    "cpu.weight": "a number from 1 to 10000",
    "cpu.weight.nice": "a number from -20 to 19",
    "cpu.idle": "0 or 1",
    "cpu.max": "a quota in us (1000 or more, or max) and a period from 1000 to 1000000",
    "io.weight": "a number from 1 to 10000, or DEVICE and such a number",
    "io.max": "the MAJOR:MINOR of a whole device, and rbps=, wbps=, riops= or wiops= with a number",
    "pids.max": "a number of processes, or max",
    "memory.max": "a number of bytes, or max",
    "memory.high": "a number of bytes, or max",
    "memory.swap.max": "a number of bytes, or max",
    "cgroup.freeze": "0 or 1",
    "cgroup.type": "threaded",
    "cgroup.max.depth": "a number, or max",
    "cgroup.max.descendants": "a number, or max",
}
#: By pattern of a file of version 1: what version 2 has instead.
_SUCCESSORS = (
    ("cpu.shares", "cpu.weight"),
    ("cpu.cfs_*_us", "cpu.max"),
    ("cpuacct.*", "cpu.stat"),
    ("memory.limit_in_bytes", "memory.max"),
    ("memory.soft_limit_in_bytes", "memory.high"),
    ("memory.usage_in_bytes", "memory.current"),
    ("memory.max_usage_in_bytes", "memory.peak"),
    ("memory.memsw.*", "memory.swap.max"),
    ("blkio.*", "io.max"),
    ("freezer.state", "cgroup.freeze"),
    ("tasks", "cgroup.procs"),
)
_REJECTED = ("EINVAL", "ERANGE")


def rejected_write(scene: Scene) -> Reason | None:
    """write(2) to a file of a cgroup of version 2 failed."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or mount.kind != "cgroup2":
        return None
    folder, name = Path(path).parent, Path(path).name
    shown = show(f"/{os.path.relpath(folder, mount.point)}".replace("/.", "/"))
    error = errno_name(scene.call.error)
    if name == "cgroup.subtree_control":
        return _controllers(folder, shown, error)
    if name in ("cgroup.procs", "cgroup.threads"):
        return _members(folder, shown, error)
    if name == "cpuset.cpus" and error in _REJECTED:
        return _reason(
            f"{name} of the cgroup {shown} takes a list of CPUs such as 0-1,3. This machine has "
            f"the CPUs {read_of_kernel(_POSSIBLE)}.",
            f"write CPUs of {read_of_kernel(_POSSIBLE)}",
        )
    if name in _RANGES and error in _REJECTED:
        text = f"{name} of the cgroup {shown} takes {_RANGES[name]}."
        return _reason(text, f"write such a value; the file has {read_of_kernel(Path(path))} now")
    return None


def no_more(scene: Scene) -> Reason | None:
    """mkdir(2) of a cgroup that a cgroup above limits by depth or number (EAGAIN)."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or mount.kind != "cgroup2":
        return None
    for depth, folder in enumerate(Path(path).parents):
        words = read_of_kernel(folder / "cgroup.stat").split()
        there = dict(zip(words[::2], words[1::2], strict=False))
        shown = show(f"/{os.path.relpath(folder, mount.point)}".replace("/.", "/"))
        limits = (
            ("cgroup.max.descendants", int(there.get("nr_descendants", 0)), "cgroups below it"),
            ("cgroup.max.depth", depth, "levels of cgroups below it"),
        )
        for name, used, what in limits:
            most = read_of_kernel(folder / name)
            if most.isdecimal() and used >= int(most):
                return _reason(
                    f"{name} of the cgroup {shown} allows {most} {what}.",
                    f"echo {used + 1} >{shell_path(str(folder / name))} (or more, or max)",
                )
        if folder == Path(mount.point):
            break
    return None


def no_file(scene: Scene) -> Reason | None:
    """A file that a cgroup of version 2 does not have."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or mount.kind != "cgroup2" or os.path.lexists(path):
        return None
    folder, name = Path(path).parent, Path(path).name
    if not (folder / "cgroup.controllers").exists():
        return None
    shown = show(f"/{os.path.relpath(folder, mount.point)}".replace("/.", "/"))
    text = f"The cgroup {shown} has no file {show(name)}."
    successor = next((new for old, new in _SUCCESSORS if fnmatchcase(name, old)), None)
    if successor is not None:
        return Reason(
            "not-found",
            f"{text} This file is of version 1 of cgroups, and the hierarchy has version 2.",
            (f"use {successor} instead (its values differ)",),
        )
    controller = name.partition(".")[0]
    if shown == "/" and controller in read_of_kernel(folder / "cgroup.controllers").split():
        advice = "the root cgroup has no limits: create a cgroup below it, and set them there"
    elif commands := _enables(controller, Path(mount.point), folder):
        text += f" The controller {controller} is not enabled for it."
        advice = commands
    else:
        advice = f"ls {shell_path(str(folder))} lists the files that it has"
    return Reason("not-found", text, (advice,))


def _enables(controller: str, top: Path, folder: Path) -> str:
    """The commands that enable a controller for a cgroup, from the root on; "" without any."""
    above = [one for one in reversed(folder.parents) if one == top or top in one.parents]
    if not above or controller not in read_of_kernel(above[0] / "cgroup.controllers").split():
        return ""
    files_of_it = [one / "cgroup.subtree_control" for one in above]
    return "; ".join(
        f"echo +{shell_word(controller)} >{shell_path(str(one))}"
        for one in files_of_it
        if controller not in read_of_kernel(one).split()
    )


def _controllers(folder: Path, shown: str, error: str) -> Reason | None:
    if error == "EBUSY" and read_of_kernel(folder / "cgroup.procs"):
        count = len(read_of_kernel(folder / "cgroup.procs").split())
        leaf = shell_path(str(folder / "leaf"))
        return _reason(
            f"The cgroup {shown} has processes of its own ({count}). Controllers can only be "
            "enabled for the cgroups below a cgroup that has none.",
            f"move its processes to a cgroup below: mkdir {leaf}; echo PID >{leaf}/cgroup.procs",
        )
    if error in ("ENOENT", "EINVAL"):
        there = read_of_kernel(folder / "cgroup.controllers")
        if shown == "/":
            return _reason(
                f"The root cgroup has only these controllers: {there or 'none'}.",
                "choose one of these. Others are switched off, or a hierarchy of version 1 uses "
                "them: grep cgroup /proc/mounts",
            )
        above = shell_path(str(folder.parent / "cgroup.subtree_control"))
        return _reason(
            f"The cgroup {shown} has only these controllers: {there or 'none'}.",
            f"enable the controller in the cgroup above first: echo +CONTROLLER >{above}",
        )
    if error == "EBUSY":
        return _reason(f"A cgroup below {shown} still uses the controller.")
    return None


def _members(folder: Path, shown: str, error: str) -> Reason | None:
    enabled = read_of_kernel(folder / "cgroup.subtree_control")
    if error == "EBUSY" and enabled:
        return _reason(
            f"The cgroup {shown} has controllers enabled for the cgroups below it ({enabled}), so "
            "it cannot have processes of its own.",
            "move the process into a cgroup below it",
        )
    if error == "EOPNOTSUPP":
        kind = read_of_kernel(folder / "cgroup.type")
        return _reason(
            f"The cgroup {shown} has the type '{kind}', which takes no processes.",
            f"echo threaded >{shell_path(str(folder / 'cgroup.type'))}, or use another cgroup",
        )
    if error == "ESRCH":
        text = "There is no process with the id that was written."
        return Reason("not-found", text, ("it may have ended already: check the id (pgrep NAME)",))
    return None


def cpus(scene: Scene) -> Reason | None:
    """sched_setaffinity(2) to CPUs none of which the process may use."""
    state = scene.call.state
    folder = cgroup_folder(state.cgroup) if state is not None else None
    while folder is not None and not (folder / "cpuset.cpus.effective").exists():
        if folder.parent == folder:
            folder = None
            break
        folder = folder.parent
    allowed = read_of_kernel(folder / "cpuset.cpus.effective") if folder is not None else ""
    if not allowed or allowed == read_of_kernel(_ONLINE):
        return _reason(
            "None of the CPUs in the mask is online and allowed for this process. The machine has "
            f"the CPUs {read_of_kernel(_ONLINE)}.",
            f"choose CPUs of {read_of_kernel(_ONLINE)}",
        )
    return _reason(
        f"None of the CPUs in the mask is one that the cgroup {show(str(folder))} may use: its "
        f"cpuset.cpus.effective is {allowed}.",
        f"choose CPUs of {allowed}, or write more CPUs to cpuset.cpus of the cgroup",
    )


def _reason(text: str, *advice: str) -> Reason:
    return Reason("cgroup", text, advice)
