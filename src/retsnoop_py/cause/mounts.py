# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that mounts and file systems have: options, types, places, room."""

from __future__ import annotations

import os
import re
import stat

from retsnoop_py.cause import files
from retsnoop_py.cause.operation import (
    MOUNT_CHANGES,
    opens_to_create,
    operation,
    path_of,
    show,
)
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.kernel.errno import errno_name

__all__ = [
    "covered",
    "encrypted",
    "is_mounted",
    "is_shared",
    "missing_layer",
    "no_device",
    "no_exec",
    "no_mount_point",
    "no_pivot",
    "not_movable",
    "not_removable",
    "not_supported",
    "not_writable",
    "of_kernel",
    "read_only",
    "two_file_systems",
    "unlike_kinds",
]


#: File systems in which users cannot create files or directories.
_FIXED = ("proc", "sysfs")
_OF_CGROUPS = ("cgroup", "cgroup2")
#: Mounts that are named, at most.
_MOST_COVERED = 4
#: File systems for which proc and sysfs have directories that stay empty: these hide no file.
_ON_EMPTY = (
    *("cgroup", "cgroup2", "debugfs", "tracefs", "securityfs", "bpf", "pstore", "configfs"),
    *("fusectl", "efivarfs", "selinuxfs", "binfmt_misc", "nfsd", "autofs"),
)
#: mmap(2): the argument with the descriptor, and PROT_EXEC.
_MAPPED, _PROT_EXEC = 4, 4
#: mount(2): flags of linux/mount.h.
_MS_BIND, _MS_MOVE = 1 << 12, 1 << 13


def no_exec(scene: Scene) -> Reason | None:
    """Programs do not run from a mount with noexec."""
    path = scene.path
    if scene.call.name == "mmap":
        place = scene.call.place(_MAPPED)
        path = place.path if place is not None and scene.call.arguments[2] & _PROT_EXEC else None
    mount = files.mount_of(path) if path and os.path.exists(path) else None
    if path is None or mount is None or "noexec" not in mount.options:
        return None
    if scene.call.name == "mmap":
        return Reason(
            "mount-option",
            f"{show(mount.point)} is mounted with noexec: the kernel runs no code from it, neither "
            f"programs nor shared libraries such as {show(path)}.",
            (
                "let the program use another folder: TMPDIR=FOLDER, java -Djava.io.tmpdir=FOLDER",
                f"or mount -o remount,exec {shell_path(mount.point)}",
            ),
        )
    return Reason(
        "mount-option",
        f"{show(mount.point)} is mounted with noexec: the kernel runs no program from it.",
        (
            "copy the program to another file system",
            f"or mount -o remount,exec {shell_path(mount.point)}",
        ),
    )


def no_device(scene: Scene) -> Reason | None:
    """Devices cannot be opened in a mount with nodev."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or "nodev" not in mount.options:
        return None
    mode = os.stat(path).st_mode
    if not stat.S_ISCHR(mode) and not stat.S_ISBLK(mode):
        return None
    return Reason(
        "mount-option",
        f"{show(path)} is a device, and {show(mount.point)} is mounted with nodev: the kernel "
        "opens no device there.",
        (
            "use the device below /dev, or create it there",
            f"or mount -o remount,dev {shell_path(mount.point)}",
        ),
    )


def covered(scene: Scene) -> Reason | None:
    """proc or sysfs in a user namespace, while something is mounted over files of the one there."""
    kind = scene.call.text(2) if scene.call.name == "mount" else None
    if kind not in _FIXED or "mount_too_revealing" not in scene.chain:
        return None
    folder = {"proc": "/proc", "sysfs": "/sys"}[kind]
    hidden = [
        show(one.point)
        for one in files.mounts()
        if one.point.startswith(f"{folder}/") and one.kind not in _ON_EMPTY
    ]
    what = f" Mounts cover {', '.join(hidden[:_MOST_COVERED])}." if hidden else ""
    return Reason(
        "namespace",
        f"In a user namespace, the kernel mounts {kind} only where all files of a mounted {kind} "
        f"are visible.{what}",
        (
            f"unmount what covers files below {folder} (umount PATH, as root of the host)",
            "of a container: docker run --security-opt systempaths=unconfined",
            f"or bind the existing one: mount --rbind {shell_path(folder)} TARGET",
        ),
    )


def read_only(scene: Scene) -> Reason | None:
    """The mount is read-only."""
    path = scene.target
    mount = files.mount_of(path) if path else None
    if mount is None or "ro" not in mount.options:
        return None
    # a bind mount may be read-only while its file system is not
    bind = "bind," if mount.options.count("ro") == 1 and "ro" in mount.own else ""
    advice = (f"mount -o remount,{bind}rw {shell_path(mount.point)}",)
    if mount.kind in ("iso9660", "squashfs", "erofs"):
        advice = (f"choose another place: {mount.kind} file systems are always read-only",)
    return Reason(
        "mount-option",
        f"{show(path or '')} is in the {mount.kind} file system at {show(mount.point)}, which is "
        "mounted read-only.",
        (*advice, *(("or choose another place",) if len(advice) == 1 else ())),
    )


def of_kernel(scene: Scene) -> Reason | None:
    """A call creates or writes a file in a file system that only shows kernel objects."""
    path = scene.target
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or mount.kind not in _FIXED:
        return None
    is_open = scene.call.name in ("open", "openat")
    if os.path.lexists(path) or (is_open and not opens_to_create(scene.call)):
        return None
    alike = files.near(path)
    return Reason(
        "unsupported",
        f"{show(path)} does not exist, and no program can create it: only the kernel makes the "
        f"files in the {mount.kind} file system at {show(mount.point)}.",
        (
            *((f"check the spelling: {show(alike)} exists",) if alike else ()),
            (
                f"ls {shell_path(os.path.dirname(path))} lists the files: a missing one "
                "needs a driver, a module or another kernel"
            ),
        )
        if is_open
        else ("choose another place",),
    )


def not_removable(scene: Scene) -> Reason | None:
    """unlink(2) or rename(2) of a file that the kernel made."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or mount.kind not in (*_FIXED, *_OF_CGROUPS):
        return None
    is_of_cgroup = mount.kind in _OF_CGROUPS
    if not os.path.lexists(path) or (is_of_cgroup and os.path.isdir(path)):
        return None
    advice = "leave the file there"
    if is_of_cgroup:
        advice = (
            f"remove the cgroup with its files: rmdir {shell_path(os.path.dirname(path))} (after "
            "its processes ended, and after the cgroups below it)"
        )
    return Reason(
        "unsupported",
        f"{show(path)} is in the {mount.kind} file system at {show(mount.point)}. The kernel makes "
        "the files there, and no program can remove or rename them.",
        (advice,),
    )


def not_writable(scene: Scene) -> Reason | None:
    """A file of the kernel is read-only for all users."""
    path, call = scene.path, scene.call
    if path is None or not files.is_of_kernel(path):
        return None
    if call.name in ("open", "openat"):
        flags = call.arguments[1 if call.name == "open" else 2]
        if not flags & (os.O_ACCMODE | os.O_TRUNC):
            return None
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_mode & 0o222:
        return None
    return Reason(
        "unsupported",
        f"{show(path)} can only be read ({files.described(status)}): the kernel accepts no value "
        "there.",
    )


def is_mounted(path: str) -> bool:
    """Return whether ``path`` is a mount point."""
    mount = files.mount_of(path)
    return mount is not None and mount.point == os.path.realpath(path)


def two_file_systems(scene: Scene) -> Reason | None:
    """Two files of a call are in different file systems."""
    is_copy = scene.call.name == "copy_file_range"
    one, two = _copied(scene) if is_copy else [path_of(scene.call, number) for number in (0, 1)]
    if one is None or two is None:
        return None
    if scene.call.name.startswith("link") and _OF_PROCESS.fullmatch(one):
        return _link_of_process(scene, one, two)
    mounts = files.mount_of(one), files.mount_of(two if is_copy else os.path.dirname(two))
    if mounts[0] is None or mounts[1] is None or mounts[0].point == mounts[1].point:
        return None
    if is_copy:
        return Reason(
            "two-file-systems",
            f"{show(one)} is in the {mounts[0].kind} file system at {show(mounts[0].point)}, and "
            f"{show(two)} is in the {mounts[1].kind} file system at {show(mounts[1].point)}. "
            "copy_file_range() does not copy between these two.",
            ("copy with read() and write(), as cp(1) does if copy_file_range() fails",),
        )
    return Reason(
        "two-file-systems",
        f"{show(one)} is in the file system at {show(mounts[0].point)}, and {show(two)} would be "
        f"in the file system at {show(mounts[1].point)}.",
        ("copy the file and remove the old one, as mv(1) does",)
        if scene.call.name.startswith("rename")
        else (
            f"make a symbolic link: ln -s {shell_path(one)} {shell_path(two)}",
            f"or copy the file: cp {shell_path(one)} {shell_path(two)}",
        ),
    )


#: Links of /proc to the files and directories of a process.
_OF_PROCESS = re.compile(
    r"/proc/(?:self|thread-self|\d+)(?:/task/\d+)?/(?:fd/\d+|exe|cwd|root|map_files/\S+)"
)
_AT_SYMLINK_FOLLOW = 0x400


def _link_of_process(scene: Scene, one: str, two: str) -> Reason:
    """link(2) or linkat(2) of such a link: without AT_SYMLINK_FOLLOW of the link itself."""
    copy = f"copy the file while the process runs: cp {shell_path(one)} {shell_path(two)}"
    if scene.call.name == "linkat" and scene.call.arguments[4] & _AT_SYMLINK_FOLLOW:
        return Reason(
            "two-file-systems",
            f"The file behind {show(one)} is in another file system than {show(two)}, or in "
            "another mount of the same file system.",
            (copy,),
            is_seen_later=False,
            is_inferred=True,
        )
    return Reason(
        "two-file-systems",
        f"{show(one)} is a symbolic link in /proc. The program asked for a second name of this "
        f"link, not of the file behind it, and {show(two)} is not in /proc.",
        (
            (
                f"link the file behind it: ln -L {shell_path(one)} {shell_path(two)} (in a "
                "program: linkat() with AT_SYMLINK_FOLLOW). It must be in the file system of the "
                "new name, and not removed"
            ),
            f"or {copy}",
        ),
        is_seen_later=False,
    )


def _copied(scene: Scene) -> list[str | None]:
    """The paths of the two descriptors of copy_file_range(2)."""
    places = [scene.call.place(number) for number in (0, 2)]
    return [one.path if one is not None else None for one in places]


def no_mount_point(scene: Scene) -> Reason | None:
    """A mount is to be changed or removed, and nothing is mounted there."""
    call = scene.call
    is_mount = call.name == "mount"
    path = path_of(call, 1) if is_mount else scene.path
    if path is None or not os.path.exists(path) or is_mounted(path):
        return None
    if not is_mount:
        text = f"Nothing is mounted at {show(path)}."
        return Reason("no-mount-point", text, ("findmnt lists the mounts",))
    made = next((word for flag, word in MOUNT_CHANGES.items() if call.arguments[3] & flag), None)
    if made is None:
        return None
    quoted = shell_path(path)
    return Reason(
        "no-mount-point",
        f"{show(path)} is not a mount point. Only a mount can become {made}."
        if made != "remounted"
        else f"{show(path)} is not a mount point, so there is nothing to remount.",
        (
            f"make it a mount point: mount --bind {quoted} {quoted}",
            "or give the mount point itself",
        ),
    )


def not_movable(scene: Scene) -> Reason | None:
    """mount(2) with MS_MOVE of no mount point, or out of a shared mount (EINVAL)."""
    old = path_of(scene.call, 0)
    if not scene.call.arguments[3] & _MS_MOVE or old is None or not os.path.exists(old):
        return None
    if not is_mounted(old):
        text = f"{show(old)} is not a mount point. Only a mount can be moved."
        return Reason("no-mount-point", text, ("findmnt lists the mounts",))
    above = files.mount_of(os.path.dirname(os.path.realpath(old)))
    if above is None or not above.is_shared:
        return None
    point = shell_path(above.point)
    return Reason(
        "mount-option",
        f"{show(old)} is mounted below {show(above.point)}, which is a shared mount. The kernel "
        "moves no mount that is directly below a shared one.",
        (
            (
                f"mount --make-private {point} (new mounts below it then stay in this namespace), "
                "and move the mount"
            ),
            "or mount the file system at the new place, and unmount it at the old one",
        ),
    )


def unlike_kinds(scene: Scene) -> Reason | None:
    """mount(2) on a file, or of a file on a directory (ENOTDIR)."""
    target = path_of(scene.call, 1)
    is_bind = bool(scene.call.arguments[3] & (_MS_BIND | _MS_MOVE))
    source = path_of(scene.call, 0) if is_bind else None
    if target is None or not os.path.exists(target) or (source and not os.path.exists(source)):
        return None
    is_folder = os.path.isdir(target)
    if source is None:
        if is_folder:
            return None
        text = f"{show(target)} is a file. A file system can only be mounted on a directory."
        return Reason("not-a-directory", text, ("give a directory, or create one: mkdir",))
    if is_folder == os.path.isdir(source):
        return None
    kinds = ("a file", "a directory") if is_folder else ("a directory", "a file")
    make = f"touch {shell_path(target)}/FILE" if is_folder else "mkdir DIRECTORY"
    return Reason(
        "not-a-directory",
        f"{show(source)} is {kinds[0]}, and {show(target)} is {kinds[1]}. A bind mount needs two "
        "files or two directories.",
        (
            f"correct the path, or create a target of the same kind and mount there: {make}",
            "of docker -v: the engine creates a missing source as a directory",
        ),
    )


def missing_layer(scene: Scene) -> Reason | None:
    """A directory in the options of an overlay that does not exist."""
    if scene.call.text(2) != "overlay" or scene.call.is_elsewhere:
        return None
    for option in (scene.call.text(4) or "").split(","):
        name, _, value = option.partition("=")
        if name not in ("lowerdir", "upperdir", "workdir"):
            continue
        for path in value.split(":") if name == "lowerdir" else [value]:
            if path.startswith("/") and not os.path.exists((scene.call.root or "") + path):
                return Reason(
                    "not-found",
                    f"The directory {show(path)} of the option {name} does not exist.",
                    (f"mkdir -p {shell_path(path)}, or correct the option",),
                )
    return None


def no_pivot(scene: Scene) -> Reason | None:
    """pivot_root(2) that the mounts do not allow (EINVAL, EBUSY)."""
    if errno_name(scene.call.error) == "EBUSY":
        return _same_mount_as_root(scene)
    new, old = (path_of(scene.call, number) for number in (0, 1))
    root = files.mount_of("/")
    if new is None or old is None or not os.path.isdir(new):
        return None
    quoted = shell_path(new)
    if root is not None and root.kind == "rootfs":
        text = "The root directory is the initial RAM file system, which pivot_root cannot replace."
        return Reason("mount-option", text, (f"switch_root {quoted} /sbin/init",))
    if not is_mounted(new):
        return Reason(
            "no-mount-point",
            f"{show(new)} is not a mount point. Only a mount can become the root directory.",
            (f"make it a mount point first: mount --bind {quoted} {quoted}",),
        )
    if not f"{os.path.realpath(old)}/".startswith(f"{os.path.realpath(new)}/"):
        return Reason(
            "mount-option",
            f"The second path, {show(old)}, must be at or below the new root {show(new)}.",
            (f"mkdir {quoted}/old; pivot_root {quoted} {quoted}/old",),
        )
    if is_shared(os.path.dirname(os.path.realpath(new))) or is_shared(new):
        return Reason(
            "mount-option",
            f"The mount {show(new)}, or the mount that it is in, is shared with other mount "
            "namespaces. pivot_root needs private mounts.",
            ("unshare -m COMMAND makes the mounts private; or mount --make-rprivate /",),
        )
    return None


def _same_mount_as_root(scene: Scene) -> Reason | None:
    """pivot_root(2) with EBUSY: only the mount of one of the paths decides."""
    new, old = (scene.call.text(number) for number in (0, 1))
    if new is None or old is None:
        return None
    quoted = shell_path(new)
    return Reason(
        "no-mount-point",
        f"{show(new)} or {show(old)} is in the mount of the current root directory. The new root "
        "directory must be a mount of its own, and the second path must be inside of it.",
        (f"make it a mount point first: mount --bind {quoted} {quoted}",),
        is_seen_later=False,
    )


def is_shared(path: str) -> bool:
    """Return whether the mount of a path is shared with other mounts (mount_namespaces(7))."""
    mount = files.mount_of(path)
    return mount is not None and mount.is_shared


def not_supported(scene: Scene) -> Reason | None:
    """The file system does not have the operation."""
    path = scene.target
    mount = files.mount_of(path) if path else None
    if mount is None:
        return None
    return Reason(
        "unsupported",
        f"The {mount.kind} file system at {show(mount.point)} does not support this: "
        f"{operation(scene.call)}.",
        ("use a file system of another type there, or do without this feature",),
    )


def encrypted(scene: Scene) -> Reason | None:
    """A directory is encrypted (fscrypt), and its key was not added."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None:
        return None
    return Reason(
        "encrypted",
        f"{show(os.path.dirname(path))} is an encrypted directory of the {mount.kind} file system "
        f"at {show(mount.point)}, and its key is not loaded.",
        ("unlock the directory first: fscrypt unlock DIRECTORY",),
    )
