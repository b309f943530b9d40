# SPDX-License-Identifier: BSD-2-Clause
"""mount(2) of a file system type that the kernel, the device or mount(8) does not have."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from retsnoop_py.cause.modules import file_system_module
from retsnoop_py.cause.operation import path_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.text import close_names

__all__ = ["file_system_type", "no_helper", "no_known_type"]

#: mount(8) tries one type after the other if it does not recognize the file system.
_GUESSES = 2
#: By type of a file system that mount(8) mounts by a helper program: the packages with the helper.
_HELPERS = {
    "nfs": "nfs-common or nfs-utils",
    "nfs4": "nfs-common or nfs-utils",
    "cifs": "cifs-utils",
    "smb3": "cifs-utils",
    "ceph": "ceph-common",
    "glusterfs": "glusterfs-client",
}


def file_system_type(scene: Scene) -> Reason | None:
    """mount(2) of a type that this kernel does not have."""
    kind = scene.call.text(2 if scene.call.name == "mount" else 0)
    try:
        known = {line.split()[-1] for line in Path("/proc/filesystems").read_text().splitlines()}
    except OSError:
        return None
    if not kind or kind in known:
        return None
    advice = file_system_module(kind)
    if advice is not None:
        text = f"The module of the file system type {show(kind)} is not loaded."
        return Reason("module", text, advice)
    alike = close_names(kind, sorted(known), 1)
    return Reason(
        "unsupported",
        f"This kernel does not support the file system type {show(kind)}: it is not built in, and "
        f"/lib/modules/{os.uname().release} has no module for it.",
        (
            f"check the spelling: {alike[0]} exists"
            if alike
            else "check the spelling, or install the package that has the module",
        ),
    )


def no_known_type(scene: Scene) -> Reason | None:
    """mount(8) tried several types for a device, and the device has none of them."""
    call = scene.call
    device = path_of(call, 0)
    if device is None or not stat.S_ISBLK(os.stat(device).st_mode):
        return None
    tried = dict.fromkeys(
        kind
        for one in scene.witnessed.calls
        if (one.name, one.pid, one.text(0)) == ("mount", call.pid, call.text(0))
        and (kind := one.text(2)) is not None
    )
    if len(tried) < _GUESSES:
        return None
    quoted = shell_path(device)
    return Reason(
        "format",
        f"mount found no file system on {show(device)}. It tried the types that the kernel has: "
        f"{', '.join(map(show, tried))}.",
        (
            (
                f"lsblk -f {quoted} shows the partitions and what is on them; mount a partition, "
                "not the disk"
            ),
            f"if the device is empty, create a file system: mkfs.ext4 {quoted} (erases the device)",
        ),
    )


def no_helper(scene: Scene) -> Reason | None:
    """mount(2) of a type whose helper program is not installed, so that mount(8) passed options."""
    kind = scene.call.text(2)
    if kind not in _HELPERS or scene.call.process.startswith("mount."):
        return None
    if any(os.path.exists(f"{folder}/mount.{kind}") for folder in ("/sbin", "/usr/sbin")):
        return None
    return Reason(
        "not-found",
        f"There is no program /sbin/mount.{kind}, which mount needs for the type {kind}.",
        (f"install the package {_HELPERS[kind]}",),
    )
