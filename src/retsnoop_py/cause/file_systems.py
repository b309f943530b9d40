# SPDX-License-Identifier: BSD-2-Clause
"""Features that a file system does not support: owners, links, names, attributes, large files."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase

from retsnoop_py.cause import files
from retsnoop_py.cause.operation import operation, path_of, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.kernel.errno import errno_name

__all__ = [
    "bad_name",
    "directory_link",
    "missing_attribute",
    "no_name_space",
    "no_owners",
    "no_swap",
    "no_user_attribute",
    "server_gone",
    "too_large",
    "write_protected",
]

#: Types that store no owner, no mode and no links (FAT), or not as a mount without options.
_FAT = ("vfat", "msdos", "exfat")
_OF_WINDOWS = (*_FAT, "ntfs", "ntfs3", "fuseblk")
#: Characters that names on such file systems may not have.
_FORBIDDEN = '"*:<>?|\\'
#: struct stat of a file on FAT has 32 bits for its size.
_MOST_FAT = (4 << 30) - 1

#: The begins of names of extended attributes (xattr(7)).
_NAME_SPACES = ("user.", "trusted.", "security.", "system.", "btrfs.", "ceph.", "os2.", "osx.")


def no_owners(scene: Scene) -> Reason | None:
    """chown(2), chmod(2), link(2), symlink(2), mknod(2) on a file system of Windows (EPERM)."""
    path, name = scene.target, scene.call.name
    mount = files.mount_of(path) if path else None
    if mount is None or mount.kind not in _OF_WINDOWS:
        return None
    place = f"The {mount.kind} file system at {show(mount.point)}"
    if fnmatchcase(name, "*chown*") or fnmatchcase(name, "*chmod*"):
        quoted = shell_path(mount.point)
        source = shell_path(mount.source)
        return Reason(
            "unsupported",
            f"{place} stores no owner and no mode for each file. All files have those of the "
            "mount's options.",
            (f"umount {quoted}; mount -o uid=USER,gid=GROUP,umask=022 {source} {quoted}",),
        )
    if mount.kind not in _FAT:
        return None
    return Reason(
        "unsupported",
        f"{place} does not support this: {operation(scene.call)}.",
        ("copy the file instead, or use a file system such as ext4",),
    )


def bad_name(scene: Scene) -> Reason | None:
    """A name with characters that the file system does not allow (EINVAL)."""
    path = scene.target
    mount = files.mount_of(os.path.dirname(path)) if path else None
    if path is None or mount is None or mount.kind not in _OF_WINDOWS:
        return None
    name = os.path.basename(path)
    found = [one for one in dict.fromkeys(name) if one in _FORBIDDEN or ord(one) < ord(" ")]
    if not found:
        return None
    return Reason(
        "unsupported",
        f"The {mount.kind} file system at {show(mount.point)} allows no names with "
        f"{' '.join(map(show, found))}: {show(name)}.",
        ("choose a name without these characters",),
    )


def directory_link(scene: Scene) -> Reason | None:
    """link(2) of a directory (EPERM)."""
    path = path_of(scene.call, 0)
    if path is None or not os.path.isdir(path) or os.path.islink(path):
        return None
    return Reason(
        "is-a-directory",
        f"{show(path)} is a directory, and a directory cannot have a second hard link.",
        (f"make a symbolic link: ln -s {shell_path(path)} NAME", "or mount --bind"),
    )


def no_user_attribute(scene: Scene) -> Reason | None:
    """setxattr(2) of a user attribute: only files and directories have such (EPERM)."""
    path, attribute = scene.path, _attribute(scene)
    try:
        mode = os.lstat(path or "").st_mode
    except OSError:
        return None
    if not attribute.startswith("user.") or stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    kind = files.kind_of(os.lstat(path or ""))
    return Reason(
        "unsupported",
        f"{show(path or '')} is a {kind}. Only regular files and directories can have "
        f"attributes such as {show(attribute)}.",
        ("set the attribute of a regular file, or use one that begins with trusted.",),
    )


def no_name_space(scene: Scene) -> Reason | None:
    """An extended attribute whose name has none of the known prefixes (EOPNOTSUPP)."""
    attribute = _attribute(scene)
    if not attribute or attribute.startswith(_NAME_SPACES):
        return None
    return Reason(
        "out-of-range",
        f"{show(attribute)} is no name of an attribute: such a name begins with user., trusted., "
        "security. or system.",
        (
            f"name it user.{attribute}"
            if attribute.isalnum()
            else "use a name that begins with user.",
        ),
        is_seen_later=False,
    )


def missing_attribute(scene: Scene) -> Reason | None:
    """getxattr(2) and removexattr(2) of an attribute that the file does not have (ENODATA)."""
    path, attribute = scene.path, _attribute(scene)
    if path is None or not attribute:
        return None
    return Reason(
        "not-found",
        f"{show(path)} does not have the attribute {show(attribute)}.",
        (f"getfattr -d -m - {shell_path(path)} lists its attributes",),
        is_seen_later=False,
    )


def _attribute(scene: Scene) -> str:
    texts = [text for _, text in scene.call.texts if text]
    return texts[-1] if texts else ""


def too_large(scene: Scene) -> Reason | None:
    """A file beyond the largest size of its file system (EFBIG)."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None:
        return None
    is_fat = mount.kind in ("vfat", "msdos")
    most = f", which is {_MOST_FAT} bytes (4 GiB less one)" if is_fat else ""
    return Reason(
        "out-of-range",
        f"{show(path)} would become larger than the {mount.kind} file system at "
        f"{show(mount.point)} allows for a file{most}.",
        (
            "use a file system such as exfat or ext4, or split the file: split -b 4000M"
            if is_fat
            else "choose a smaller size, or a file system for larger files, such as XFS",
        ),
        is_seen_later=False,
    )


#: File systems without blocks on a disk, which swap files need.
_WITHOUT_SWAP = ("tmpfs", "ramfs", "overlay", "fuse*", "9p", "virtiofs", "squashfs")


def no_swap(scene: Scene) -> Reason | None:
    """swapon(2) of a file in a file system that cannot have swap files (EINVAL)."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if path is None or mount is None or not os.path.isfile(path):
        return None
    if not any(fnmatchcase(mount.kind, one) for one in _WITHOUT_SWAP):
        return None
    return Reason(
        "unsupported",
        f"{show(path)} is in the {mount.kind} file system at {show(mount.point)}. Files there "
        "cannot be swap space.",
        (
            "put the swap file on a disk: findmnt -t ext4,xfs,btrfs lists such places",
            "or use compressed memory as swap space: modprobe zram; zramctl --find --size 1G",
        ),
    )


def server_gone(scene: Scene) -> Reason | None:
    """The program or server of a file system does not serve it any more."""
    path = scene.path
    mount = files.mount_of(path) if path else None
    if mount is None:
        return None
    quoted, place = shell_path(mount.point), f"the {mount.kind} file system at {show(mount.point)}"
    if mount.kind.startswith("fuse"):
        return Reason(
            "closed",
            f"The program that serves {place} has ended, so nothing there can be used.",
            (f"umount -l {quoted} (or fusermount -uz), and mount it again",),
        )
    if errno_name(scene.call.error) != "ESTALE" or not mount.kind.startswith(("nfs", "cifs")):
        return None
    return Reason(
        "not-found",
        f"The server of {place} does not have this file or directory any more: it was removed or "
        "replaced there.",
        (f"leave the directory and enter it again, or umount {quoted} and mount it again",),
    )


def write_protected(scene: Scene) -> Reason | None:
    """A block device that is set read-only is to be written, or mounted for writing."""
    path = scene.path
    try:
        status = os.stat(path or "")
    except OSError:
        return None
    if path is None or not stat.S_ISBLK(status.st_mode):
        return None
    number = f"{os.major(status.st_rdev)}:{os.minor(status.st_rdev)}"
    try:
        with open(f"/sys/dev/block/{number}/ro") as file:
            is_protected = file.read().strip() == "1"
    except OSError:
        return None
    if not is_protected:
        return None
    mount = ("or mount it read-only: mount -o ro",) if scene.call.name == "mount" else ()
    return Reason(
        "unsupported",
        f"The block device {show(path)} is read-only.",
        (f"blockdev --setrw {shell_path(path)}, unless the medium itself is read-only", *mount),
    )
