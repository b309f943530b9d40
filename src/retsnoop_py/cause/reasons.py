# SPDX-License-Identifier: BSD-2-Clause
"""Reasons why a call failed, in the user's terms: a sentence and advice.

One table lists the errors and calls of each reason, and the function that checks the reason (its
finder). Each kind of reason has a module with its finders. Most finders read the file system or
/proc after the command ended; others use data captured in the kernel when the call failed. A reason
is reported only if the findings agree with the error.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from contextlib import suppress
from fnmatch import fnmatchcase

from retsnoop_py.cause import (
    accepted,
    busy,
    cgroups,
    conditions,
    decisions,
    denied,
    file_systems,
    ipc,
    limits,
    modules,
    mount_types,
    mounts,
    namespaces,
    netfilter,
    netlink,
    network,
    not_found,
    open_file,
    own_words,
    permission,
    present,
    process,
    room,
    security_modules,
    sockets,
    sysctl,
)
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.operation import object_of, show
from retsnoop_py.cause.reason import Finder, Reason, Scene
from retsnoop_py.kernel.errno import errno_name

__all__ = [
    "load_tables",
    "reason_of",
    "reason_of_start",
]


def load_tables() -> None:
    """Read the tables of this package, for a process that cannot read its files later."""
    import difflib  # noqa: F401 - similar names need this module later

    sysctl.settings()
    decisions.decisions()
    decisions.usual_meanings()
    not_found.places()
    own_words.own_words()
    own_words.statuses()


def reason_of_start(path: str, error: int, uid: int, gid: int) -> Reason | None:
    """Return why execve(2) of the program at ``path`` returns ``error`` to a user."""
    call = SystemCall(
        *(0, 0, 0, path, "execve", error, (0,) * 6, ((0, path),)),
        *(None, uid, gid, os.getcwd(), False),
    )
    return reason_of(Scene(call, Witnessed(), Identity(uid, gid)))


def reason_of(scene: Scene) -> Reason | None:
    """Return the first reason of the table that applies.

    Values of the command that the kernel rejected count more than what was found out afterwards.
    """
    found = _first(scene)
    if found is None or not (found.is_seen_later or found.is_inferred):
        return found
    rejected = conditions.rejected_value(scene) if conditions.is_of_caller_alone(scene) else None
    return found if rejected is None or rejected.is_inferred else rejected


def _first(scene: Scene) -> Reason | None:
    error = errno_name(scene.call.error)
    for errors, calls, find in _TABLE:
        if (error in errors or errors == ("*",)) and any(
            fnmatchcase(scene.call.name, one) for one in calls
        ):
            found = None
            # A file may vanish meanwhile, or be inaccessible even to root.
            with suppress(OSError):
                found = find(scene)
            if found is not None:
                return found
    return elsewhere(scene)


def elsewhere(scene: Scene) -> Reason | None:
    """Return a reason for a path of another mount namespace: here it is another file."""
    call = scene.call
    is_of_path = call.is_elsewhere and any(text for _, text in call.texts)
    if not is_of_path or errno_name(call.error) not in _OF_PATHS:
        return None
    return Reason(
        "elsewhere",
        "The process had a mount namespace of its own, so retsnoop-py could not look up "
        f"{show(object_of(call))} after the command ended.",
        ("start retsnoop-py inside that namespace: unshare -m retsnoop-py why -- CMD",),
        is_seen_later=False,
    )


def kernel_message(scene: Scene) -> Reason | None:
    if not scene.said:
        return None
    # Messages after the message about the cause often only report that the operation failed.
    for one in scene.said:
        for pattern, advice in _ABOUT_MESSAGES:
            match = re.search(pattern, one)
            if match is not None:
                text = f'The kernel reported: "{one}"'
                names = [name for name in match.groups() if name is not None]
                return Reason("kernel-message", text, (advice.format(*names),), is_seen_later=False)
    words = " ".join(f'"{one}"' for one in scene.said[-2:])
    return Reason("kernel-message", f"The kernel reported: {words}", (), is_seen_later=False)


#: Advice about kernel messages, by their text.
_ABOUT_MESSAGES = (
    (r"[Bb]ad value for '([^']+)'", "correct the value of the option {0}"),
    (
        r"[Uu]nknown (?:parameter|mount option|option) '?([^'\s]+)",
        "remove the option {0}, or check its spelling",
    ),
    (
        (
            r"\((\w+)\):.*(?:[Cc]an't find .*file ?system|[Bb]ad magic number)"
            r"|\((\w+)\): Invalid superblock magic number"
            r"|FAT-fs \((\w+)\): (?:bogus|invalid|bread failed|Can't find a valid)"
        ),
        "blkid /dev/{0} shows what is on the device; mount it as that type (empty: mkfs)",
    ),
    (
        r"swapfile must not be copy-on-write",
        "create the swap file with btrfs filesystem mkswapfile, which turns copy-on-write off",
    ),
    (
        r"(\w+) too small for target: start=\d+, len=\d+, dev_size=(\d+)",
        "shorten the table: {0} has {1} sectors of 512 bytes; or use a larger device",
    ),
    (
        r"device-mapper: table: \S+ \S+: unknown target type",
        (
            "dmsetup targets lists the loaded types: check the spelling, or load the module of the "
            "type: modprobe dm-TYPE"
        ),
    ),
    (
        r"EXT[234]-fs error \(device (\w+)",
        "the file system is damaged: unmount it and check it: fsck /dev/{0}",
    ),
    (
        r"XFS \((\w+)\): .*(?:[Cc]orrupt|[Uu]nmount and run xfs_repair)",
        "the file system is damaged: unmount it and repair it: xfs_repair /dev/{0}",
    ),
    (
        r"BTRFS (?:error|critical) \(device (\w+)",
        "unmount the file system and check it: btrfs check --readonly /dev/{0}",
    ),
    (
        r"I/O error, dev (\w+)",
        "the device /dev/{0} reports an error: smartctl -a /dev/{0} shows its state; copy the data",
    ),
    (
        r"[Ss]wapfile has holes",
        "create the file without holes: dd if=/dev/zero of=FILE bs=1M count=N; mkswap FILE",
    ),
    (
        r"[Uu]nable to find swap-space signature",
        "make it swap space first, which erases it: mkswap FILE",
    ),
    (
        r"NFS: mount program didn't pass remote address",
        "install the program mount.nfs: the package nfs-common or nfs-utils",
    ),
    (
        r"(?:CIFS|cifs).*(?:Invalid (?:UNC|IP)|Device name not specified|No username)",
        "install the program mount.cifs: the package cifs-utils",
    ),
    (
        r"failed to resolve '([^']+)': -2",
        "create the directory {0}, or correct its path",
    ),
    (
        r"workdir and upperdir must (?:reside under the same mount|be separate subtrees)",
        "choose an empty workdir beside upperdir, in the same file system",
    ),
    (
        r"filesystem on \S+ not supported as (\w+)",
        (
            "put {0} on another file system, such as ext4, XFS or tmpfs (of a container: a "
            "volume); findmnt -T DIRECTORY shows the file system"
        ),
    ),
    (
        r"Can't lookup blockdev",
        (
            "give a block device: lsblk lists them (of an image in a file: mount -o loop FILE "
            "DIRECTORY; of a directory: mount --bind)"
        ),
    ),
    (
        r"is in-use as upperdir/workdir",
        "unmount the other overlay (findmnt -t overlay), or use directories of their own",
    ),
    (
        r"XFS \((\w+)\): Filesystem has duplicate UUID",
        "mount the copy with -o nouuid, or give it another UUID: xfs_admin -U generate /dev/{0}",
    ),
    (
        r"\((\w+)\): .*bad geometry: block count (\d+) exceeds size of device \((\d+)",
        (
            "the file system has {1} blocks and /dev/{0} only {2}: enlarge the device, or copy it "
            "again, completely"
        ),
    ),
    (
        r"\((\w+)\): [Cc]ouldn't mount.*unsupported (?:optional|incompatible) features",
        "mount it with a newer kernel; for reading, mount -o ro may work",
    ),
    (
        r"(\w+)\)?: volume is dirty",
        "check the volume on Windows (chkdsk), or clear the mark: ntfsfix --clear-dirty /dev/{0}",
    ),
    (
        r"missing 'workdir'|missing 'lowerdir'",
        "give all of lowerdir, upperdir and workdir",
    ),
)


_PATHS = ("*",)
#: Errors that depend on a path or its file.
_OF_PATHS = (
    *("ENOENT", "ENOTDIR", "EACCES", "EEXIST", "ELOOP", "EISDIR", "ENOTEMPTY", "EROFS", "ENOSPC"),
    *("EBUSY", "ETXTBSY", "EXDEV", "EDQUOT"),
)
_FORKS = ("clone*", "fork", "vfork")
_DENIALS = ("EPERM", "EACCES")
#: Calls that create a file; open(2) may, and touch(1) sets the times of a file that it created.
_CREATES = ("mkdir*", "mknod*", "symlink*", "link*", "creat", "open", "openat")
_SCHEDULES = ("sched_setscheduler", "sched_setattr", "sched_setparam")
_OF_KEYS = ("ENOKEY", "EKEYEXPIRED", "EKEYREVOKED", "EKEYREJECTED")
_REQUESTS = ("RTM_*", "NFT_MSG_*", "*netlink*", "xfrm", "uevent")
_REJECTIONS = ("EINVAL", "ERANGE", "E2BIG", "EOPNOTSUPP", "ENOPROTOOPT", "EDOM", "EOVERFLOW")
#: Errors that drivers and file systems explain in the kernel log.
_WITH_MESSAGES = (
    *("EINVAL", "ENODEV", "EPERM", "EBUSY", "EOPNOTSUPP", "ENOTBLK", "EIO", "EUCLEAN"),
)
_OF_SOCKETS = ("connect", "send*", "recv*", "shutdown", "getpeername", "getsockopt", "setsockopt")
_DESTINATIONS = ("connect", "sendto")
_SENDS = ("send*", "connect", "write*")
#: Operations that some file systems do not support.
_OF_FILE_SYSTEM = ("fallocate", "*setxattr*", "*getxattr*", "copy_file_range", "symlink*", "link*")

#: First observed causes of the result, then the usual meanings of an error for a call, from the
#: special to the general.
_TABLE: Sequence[tuple[tuple[str, ...], tuple[str, ...], Finder]] = (
    (("*",), _PATHS, denied.seccomp),
    (("ENOSYS",), _PATHS, denied.missing_call),
    (_DENIALS, _PATHS, security_modules.security_module),
    (("EPERM",), _REQUESTS, denied.capability),
    (("*",), _REQUESTS, netlink.reason),
    (("EINVAL",), ("mount", "umount*"), mounts.no_mount_point),
    (("EINVAL",), ("mount",), mounts.not_movable),
    (("EINVAL", "ENODEV"), ("mount",), mount_types.no_helper),
    (("EINVAL",), ("mount",), mount_types.no_known_type),
    (("EAGAIN", "EBUSY", "ENOENT"), ("delete_module",), busy.module_in_use),
    (("*",), ("init_module", "finit_module"), modules.not_loaded),
    (("EINVAL",), ("swapoff",), busy.no_swap_space),
    (_WITH_MESSAGES, _PATHS, kernel_message),
    (("*",), _PATHS, decisions.decision),
    (("EPERM",), ("mount",), mounts.covered),
    (("ENODEV",), ("mount", "fsopen"), mount_types.file_system_type),
    (("EPERM",), _SENDS, netfilter.netfilter),
    # paths
    (("*",), ("write*", "pwrite*"), cgroups.rejected_write),
    (("ENOENT",), ("execve*",), not_found.interpreter),
    (("ENOENT", "EACCES", "EPERM"), ("open*", "creat", "stat*", "newfstatat"), cgroups.no_file),
    (("ENOENT",), _PATHS, not_found.no_current_folder),
    (("ENOENT",), _PATHS, not_found.special),
    (("ENOENT",), ("mount",), mounts.missing_layer),
    (("ENOENT",), (*_CREATES, "utimensat"), mounts.of_kernel),
    (("ENOENT",), _PATHS, not_found.searched),
    (("ENOENT",), _PATHS, not_found.missing),
    (("ENOTDIR",), ("mount",), mounts.unlike_kinds),
    (("ENOTDIR",), _PATHS, not_found.is_no_directory),
    (("ELOOP",), _PATHS, not_found.loop),
    (("EINVAL",), ("readlink*",), not_found.is_no_link),
    (("ENAMETOOLONG",), _PATHS, not_found.too_long),
    (("EINVAL",), ("sethostname", "setdomainname"), not_found.long_host_name),
    # namespaces
    (("EINVAL",), ("*chown*", "setuid", "setgid", "setre*", "setgroups"), namespaces.unmapped),
    (("ENOMEM",), _FORKS, namespaces.ended),
    (("ENOSPC", "EUSERS"), ("unshare", "clone"), namespaces.nested_too_deep),
    (("EPERM",), ("unshare", "clone"), namespaces.chrooted),
    # cgroups
    (("EINVAL",), ("sched_setaffinity",), cgroups.cpus),
    (("EAGAIN",), ("mkdir*",), cgroups.no_more),
    # limits and settings
    (("EPERM",), ("ptrace",), process.traced),
    (("EAGAIN",), _FORKS, limits.pids),
    (("*",), _PATHS, sysctl.sysctl),
    (("*",), ("shm*", "sem*", "msg*"), ipc.system_v),
    (("EMFILE",), ("mq_open",), limits.message_queues),
    (("ENOSPC",), ("open", "openat"), limits.terminals),
    (("EMFILE",), _PATHS, limits.open_files),
    (("ETOOMANYREFS",), ("sendmsg", "sendmmsg", "io_uring_register"), limits.in_flight),
    (("EAGAIN",), (*_FORKS, "execve*"), limits.processes),
    (("EFBIG",), _PATHS, limits.file_size),
    (("EFBIG",), _PATHS, file_systems.too_large),
    (("E2BIG",), ("execve*",), limits.arguments),
    (("ENOMEM", "EAGAIN", "EPERM"), ("mlock*", "io_uring_*", "shmctl"), limits.locked_memory),
    (("EAGAIN",), ("mmap", "mremap"), limits.locked_memory),
    (("EAGAIN",), ("timer_create", "rt_sigqueueinfo", "rt_tgsigqueueinfo"), limits.signals),
    (("ENOMEM",), ("mmap", "mremap", "mprotect", "brk"), limits.memory),
    (("EACCES",), ("setpriority",), limits.nice),
    (("EPERM",), (*_SCHEDULES, "sched_setaffinity", "setpriority"), process.other_user),
    (("EPERM",), _SCHEDULES, limits.real_time),
    (("EPERM", "EINVAL"), ("setrlimit", "prlimit64"), limits.raised),
    (("EIO", "EINVAL", "EACCES", "EPERM"), ("write*", "pwrite*"), mounts.not_writable),
    (("EINVAL", "ERANGE", "ENOENT"), ("write*", "pwrite*"), accepted.bad_value),
    (_DENIALS, _CREATES, not_found.special),
    (_DENIALS, _CREATES, mounts.of_kernel),
    (_DENIALS, ("unlink*", "rename*", "rmdir"), mounts.not_removable),
    # permission
    (("EACCES",), ("execve*", "open*", "*access*"), mounts.no_exec),
    (("EPERM", "EACCES"), ("mmap",), mounts.no_exec),
    (("EACCES", "EINVAL", "ENODEV"), ("mmap",), open_file.not_mappable),
    (("EACCES",), ("open*",), mounts.no_device),
    (("EACCES",), ("execve*",), present.is_directory),
    (("EACCES",), ("open", "openat"), mounts.not_writable),
    (("EACCES",), _PATHS, permission.file_mode),
    (("EROFS", "EACCES", "EPERM"), _PATHS, file_systems.write_protected),
    (("EROFS",), _PATHS, mounts.read_only),
    (_DENIALS, _PATHS, limits.cgroup_device),
    (("EPERM",), ("unlink*", "rename*", "link*"), busy.swap_file),
    (("EBUSY",), ("swapon",), busy.swap_file),
    (_DENIALS, _PATHS, permission.attributes),
    (_DENIALS, ("unlink*", "rename*", "rmdir"), permission.sticky),
    (("EPERM",), ("*chmod*", "*chown*", "*link*", "mknod*"), file_systems.no_owners),
    (("EPERM",), ("link*",), file_systems.directory_link),
    (("EPERM",), ("*setxattr*", "*removexattr*"), file_systems.no_user_attribute),
    (("EPERM",), ("open", "openat"), permission.no_access_time),
    (("EPERM",), ("*chmod*", "*chown*", "utime*"), permission.not_owner),
    (("EPERM",), ("*setxattr*", "*removexattr*"), permission.not_owner_of_list),
    (("EPERM",), ("*chown*",), permission.given_away),
    (_DENIALS, _PATHS, process.other_user),
    (("EPERM",), ("capset",), process.capabilities),
    (("EPERM",), ("setns",), namespaces.no_setns),
    (_DENIALS, _PATHS, denied.capability),
    # existing and missing objects
    (("EEXIST",), _PATHS, present.exists),
    (("ENOTEMPTY", "EEXIST"), ("rmdir", "rename*", "unlink*"), present.not_empty),
    (("EISDIR",), _PATHS, present.is_directory),
    (("EBUSY", "ETXTBSY"), _PATHS, busy.busy),
    (("ENOSPC",), _PATHS, room.no_space),
    (("EDQUOT",), _PATHS, room.quota),
    (("EINVAL",), ("rename*",), present.into_itself),
    (("EINVAL",), ("swapon",), file_systems.no_swap),
    (("EINVAL",), (*_CREATES, "rename*"), file_systems.bad_name),
    (("EINVAL", "EBUSY"), ("pivot_root",), mounts.no_pivot),
    (("ENODATA",), ("*getxattr*", "*removexattr*"), file_systems.missing_attribute),
    (("EXDEV",), ("rename*", "link*", "copy_file_range"), mounts.two_file_systems),
    (_OF_KEYS, ("request_key", "keyctl", "add_key"), ipc.no_key),
    (("ENOKEY",), ("open*", *_CREATES, "rename*", "unlink*", "truncate"), mounts.encrypted),
    (("ENOEXEC", "EIO"), ("execve*",), present.program_format),
    (("ENXIO", "ENODEV"), ("open*", "creat"), network.special_file),
    (("EOPNOTSUPP",), ("*xattr*",), file_systems.no_name_space),
    (("EOPNOTSUPP",), _OF_FILE_SYSTEM, mounts.not_supported),
    (("ESRCH",), _PATHS, process.no_process),
    (("EINVAL", "EBADF", "EBADFD"), _PATHS, conditions.other_file),
    (("EBADF",), _PATHS, process.bad_descriptor),
    (("ENOTSOCK",), _PATHS, process.no_socket),
    (("ENOTTY", "EOPNOTSUPP"), ("ioctl",), open_file.wrong_kind),
    (("EINVAL",), ("open", "openat"), open_file.no_direct),
    (("ESPIPE",), _PATHS, open_file.not_seekable),
    (("EAGAIN", "EACCES"), ("flock", "fcntl"), open_file.locked),
    (("EINVAL",), ("read*", "write*", "pread*", "pwrite*"), open_file.not_aligned),
    (("EPIPE",), ("write*", "send*", "splice", "tee"), process.no_reader),
    # the network
    (("EADDRINUSE",), ("bind", "listen"), network.address_in_use),
    (("EADDRNOTAVAIL", "EINVAL", "ENETUNREACH"), ("bind", *_DESTINATIONS), sockets.no_ipv6),
    (("EACCES", "EINVAL", "EHOSTUNREACH"), _DESTINATIONS, sockets.route_type),
    (("EADDRNOTAVAIL",), ("bind",), network.not_a_local_address),
    (("ECONNREFUSED",), ("connect", "sendto"), network.no_listener),
    (("ENETUNREACH", "EHOSTUNREACH"), ("connect", "sendto"), network.no_route),
    (("ETIMEDOUT", "EINPROGRESS", "EAGAIN"), ("connect", "recv*", "read"), netfilter.dropped),
    (("ETIMEDOUT",), ("connect",), network.no_answer),
    (("EMSGSIZE",), ("send*",), network.too_long_message),
    (("EAFNOSUPPORT",), ("socket",), network.no_family),
    (("EPROTONOSUPPORT", "ESOCKTNOSUPPORT"), ("socket",), sockets.no_protocol),
    (("ENODEV",), ("setsockopt",), sockets.missing_interface),
    (("ENOPROTOOPT", "ENOENT"), ("setsockopt", "getsockopt"), sockets.no_option),
    (("ENOTCONN", "EDESTADDRREQ", "EISCONN", "ECONNRESET"), _OF_SOCKETS, sockets.connection),
    (("ENOTCONN", "ECONNABORTED", "ESTALE"), _PATHS, file_systems.server_gone),
    # arguments of the caller
    (_REJECTIONS, _PATHS, conditions.rejected_value),
    (("*",), _PATHS, decisions.usual),
)
