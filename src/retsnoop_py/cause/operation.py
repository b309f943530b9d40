# SPDX-License-Identifier: BSD-2-Clause
"""What a system call was to do, in words, and which path or address it is about."""

from __future__ import annotations

import os
from fnmatch import fnmatchcase

from retsnoop_py.cause.events import SystemCall

__all__ = ["MOUNT_CHANGES", "object_of", "operation", "path_of"]

#: By pattern of the call's name: what it does. {0}, {1}: its paths, {a}: its address.
_OPERATIONS = (
    ("execve*", "running {0}"),
    ("creat", "creating {0}"),
    ("open", "opening {0}"),
    ("openat*", "opening {0}"),
    ("statfs*", "reading the file system status of {0}"),
    ("*stat", "looking up {0}"),
    ("*statat", "looking up {0}"),
    ("statx", "looking up {0}"),
    ("*access*", "checking access to {0}"),
    ("mkdir*", "creating the directory {0}"),
    ("rmdir", "removing the directory {0}"),
    ("unlink*", "removing {0}"),
    ("rename*", "renaming {0} to {1}"),
    ("link*", "linking {1} to {0}"),
    ("symlink*", "creating the symbolic link {1}"),
    ("readlink*", "reading the symbolic link {0}"),
    ("mknod*", "creating {0}"),
    ("chdir", "entering the directory {0}"),
    ("chroot", "changing the root to {0}"),
    ("chmod", "changing the mode of {0}"),
    ("fchmodat*", "changing the mode of {0}"),
    ("*chown*", "changing the owner of {0}"),
    ("truncate", "truncating {0}"),
    ("utime*", "setting the times of {0}"),
    ("futimesat", "setting the times of {0}"),
    ("mount", "mounting {0} on {1}"),
    ("umount2", "unmounting {0}"),
    ("move_mount", "mounting on {1}"),
    ("open_tree*", "opening the mount {0}"),
    ("pivot_root", "changing the root to {0}"),
    ("swapon", "using {0} as swap space"),
    ("swapoff", "releasing the swap space {0}"),
    ("*setxattr*", "setting the attribute {1} of {0}"),
    ("*getxattr*", "reading the attribute {1} of {0}"),
    ("*removexattr*", "removing the attribute {1} of {0}"),
    ("inotify_add_watch", "watching {0}"),
    ("delete_module", "removing the module {0}"),
    ("bind", "binding to {a}"),
    ("connect", "connecting to {a}"),
    ("sendto", "sending to {a}"),
    ("clone*", "creating a process or thread"),
    ("fork", "creating a process"),
    ("vfork", "creating a process"),
    ("set*uid", "changing the user"),
    ("set*gid", "changing the group"),
    ("setgroups", "changing the groups"),
    ("unshare", "creating namespaces"),
    ("setns", "entering a namespace"),
    ("socket", "creating a socket"),
    ("dup*", "duplicating a file descriptor"),
    ("mmap", "mapping memory"),
    ("mremap", "mapping memory"),
    ("mlock*", "locking memory"),
    ("setpriority", "changing the nice value"),
    ("sched_set*", "changing the scheduling"),
    ("sethostname", "changing the host name"),
    ("settimeofday", "setting the clock"),
    ("clock_settime", "setting the clock"),
    ("setrlimit", "changing a resource limit"),
    ("inotify_init*", "creating an inotify instance"),
    ("fanotify_init", "creating a fanotify group"),
    ("perf_event_open", "opening a performance event"),
    ("io_uring_setup", "setting up io_uring"),
    ("syslog", "reading the kernel log"),
    ("ptrace", "tracing a process"),
    ("init_module", "loading a module"),
    ("finit_module", "loading a module"),
    ("*kill", "sending a signal"),
)
_AT_FDCWD = -100
#: mount(2): flags that change a mount which is there (linux/mount.h), by what they make of it.
MOUNT_CHANGES = {
    1 << 5: "remounted",
    1 << 17: "unbindable",
    1 << 18: "private",
    1 << 19: "a slave",
    1 << 20: "shared",
}
#: Of calls with a directory before the path: the numbers of such arguments, by that of the path.
_RELATIVE_TO = {1: 0, 3: 2}


def operation(call: SystemCall) -> str:
    """What the call was to do: ``opening /etc/shadow``; its name where that cannot be said."""
    texts = [show(text) for _, text in call.texts]
    if call.name == "mount" and any(call.arguments[3] & flag for flag in MOUNT_CHANGES):
        return f"changing the mount {texts[1]}"
    for pattern, words in _OPERATIONS:
        if not fnmatchcase(call.name, pattern):
            continue
        if "{a}" in words and call.address is None:
            continue
        if ("{0}" in words and not object_of(call)) or ("{1}" in words and len(texts) < 2):
            continue
        return words.format(*texts, a=call.address)
    return f"{call.name}()"


def show(text: str) -> str:
    """A text as it stands in a sentence: quoted where it has blanks or is empty."""
    return repr(text) if not text or any(one.isspace() for one in text) else text


def object_of(call: SystemCall) -> str:
    """The path or address that the call is about; "" where it has none."""
    if call.address is not None:
        return str(call.address)
    return next((text for _, text in call.texts if text), "")


def path_of(call: SystemCall, number: int = 0) -> str | None:
    """The absolute path that the call's text ``number`` means; None where that is not known.

    A path that a descriptor is the beginning of is not known.
    """
    if number >= len(call.texts):
        return None
    at, text = call.texts[number]
    if not text:
        return None
    if text.startswith("/"):
        return os.path.normpath(text) if ".." not in text.split("/") else text
    before = _RELATIVE_TO.get(at)
    if before is not None and _is_at(call.name):
        descriptor = call.arguments[before] & 0xFFFFFFFF
        if descriptor != _AT_FDCWD & 0xFFFFFFFF:
            return None
    if call.cwd is None:
        return None
    joined = f"{call.cwd.rstrip('/')}/{text}"
    return os.path.normpath(joined) if ".." not in text.split("/") else joined


def _is_at(name: str) -> bool:
    """Whether a call's path begins at a descriptor: openat, statx, open_tree ..."""
    return "at" in name.removeprefix("f") or name.startswith(("open_tree", "move_mount", "fspick"))
