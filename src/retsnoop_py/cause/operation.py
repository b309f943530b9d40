# SPDX-License-Identifier: BSD-2-Clause
"""The operation of a system call as text, and the path or address of the call."""

from __future__ import annotations

import os
import stat
from fnmatch import fnmatchcase
from signal import Signals
from socket import AF_UNIX

from retsnoop_py.cause.events import Place, SystemCall
from retsnoop_py.cause.shell import shell_word

__all__ = [
    "MOUNT_CHANGES",
    "described",
    "object_of",
    "opens_to_create",
    "operation",
    "path_of",
    "show",
]

#: The operation by a pattern of the call's name. {0}, {1}: its texts, {a}: its address, {f}: the
#: file of its first descriptor, {s}: the signal and its receiver, {r}: what fallocate(2) does.
_OPERATIONS = (
    ("write*", "writing to {f}"),
    ("pwrite*", "writing to {f}"),
    ("read", "reading {f}"),
    ("readv", "reading {f}"),
    ("pread*", "reading {f}"),
    ("getdents*", "listing {f}"),
    ("fallocate", "{r} {f}"),
    ("ftruncate", "changing the size of {f}"),
    ("fsync", "writing {f} to its device"),
    ("fdatasync", "writing {f} to its device"),
    ("fchmod", "changing the mode of {f}"),
    ("fchown", "changing the owner of {f}"),
    ("fchdir", "entering the directory {f}"),
    ("fstatfs", "reading the file system status of {f}"),
    ("fsetxattr", "setting the attribute {0} of {f}"),
    ("fgetxattr", "reading the attribute {0} of {f}"),
    ("fremovexattr", "removing the attribute {0} of {f}"),
    ("inotify_add_watch", "watching {0}"),
    ("flock", "locking {f}"),
    ("fcntl", "fcntl() on {f}"),
    ("ioctl", "ioctl() on {f}"),
    ("close", "closing {f}"),
    ("copy_file_range", "copying from {f}"),
    ("sendfile", "copying to {f}"),
    ("finit_module", "loading the module {f}"),
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
    ("utimensat", "setting the times of {f}"),
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
    ("delete_module", "removing the module {0}"),
    ("bind", "binding to {a}"),
    ("connect", "connecting to {a}"),
    ("sendto", "sending to {a}"),
    ("clone*", "creating a process or thread"),
    ("fork", "creating a process"),
    ("vfork", "creating a process"),
    ("set*uid", "changing the user"),
    ("setpgid", "changing the process group"),
    ("setsid", "creating a session"),
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
    ("sched_setaffinity", "choosing the CPUs of a process"),
    ("sched_set*", "changing the scheduling"),
    ("sethostname", "changing the host name"),
    ("settimeofday", "setting the clock"),
    ("clock_settime", "setting the clock"),
    ("setrlimit", "changing a resource limit"),
    ("prlimit64", "changing a resource limit"),
    ("ioprio_set", "changing the priority of input and output"),
    ("capset", "changing its capabilities"),
    ("mprotect", "changing the protection of memory"),
    ("pkey_mprotect", "changing the protection of memory"),
    ("process_vm_readv", "reading the memory of a process"),
    ("process_vm_writev", "writing the memory of a process"),
    ("listen", "listening on a socket"),
    ("accept*", "accepting a connection"),
    ("setsockopt", "setting an option of a socket"),
    ("getsockopt", "reading an option of a socket"),
    ("send*", "sending to a socket"),
    ("recv*", "receiving from a socket"),
    ("add_key", "adding a key"),
    ("keyctl", "using a key"),
    ("request_key", "looking for a key"),
    ("userfaultfd", "creating a userfaultfd"),
    ("memfd_create", "creating a file in memory"),
    ("shmget", "creating shared memory"),
    ("shmat", "attaching shared memory"),
    ("msgget", "creating a message queue"),
    ("msgsnd", "sending to a message queue"),
    ("semget", "creating semaphores"),
    ("epoll_ctl", "watching a file by epoll"),
    ("pipe*", "creating a pipe"),
    ("shutdown", "closing a connection"),
    ("getpeername", "looking up the other side of a connection"),
    ("mq_open", "opening the message queue {0}"),
    ("reboot", "rebooting"),
    ("kexec_*load", "loading another kernel"),
    ("inotify_init*", "creating an inotify instance"),
    ("fanotify_init", "creating a fanotify group"),
    ("perf_event_open", "opening a performance event"),
    ("io_uring_setup", "setting up io_uring"),
    ("syslog", "reading the kernel log"),
    ("ptrace", "tracing a process"),
    ("init_module", "loading a module"),
    ("finit_module", "loading a module"),
    ("*kill", "sending {s}"),
)
_AT_FDCWD = -100
#: mount(2): flags that change an existing mount (linux/mount.h), and the text of the change.
MOUNT_CHANGES = {
    1 << 5: "remounted",
    1 << 17: "unbindable",
    1 << 18: "private",
    1 << 19: "a slave",
    1 << 20: "shared",
}
#: Calls with a path relative to the directory in the argument before it, like the calls *at.
_AT_CALLS = (
    *("*at", "*at2", "statx", "open_tree*", "move_mount", "fspick", "mount_setattr"),
    *("name_to_handle_at", "fanotify_mark", "file_*etattr"),
)


def operation(call: SystemCall) -> str:
    """Return the operation of a call: ``opening /etc/shadow``; by default the call's name."""
    texts = [show(named(call, number)) for number in range(len(call.texts))]
    if call.name == "mount" and any(call.arguments[3] & flag for flag in MOUNT_CHANGES):
        return f"changing the mount {texts[1]}"
    place = call.place(0)
    file = described(place) if place is not None else ""
    for pattern, words in _OPERATIONS:
        if not fnmatchcase(call.name, pattern):
            continue
        if ("{a}" in words and call.address is None) or ("{f}" in words and not file):
            continue
        if ("{0}" in words and not object_of(call)) or ("{1}" in words and len(texts) < 2):
            continue
        address = call.address and show(str(call.address))
        made = words.format(*texts, a=address, f=file, s=_signal(call), r=_reserving(call))
        return made.replace("owner", "group", 1) if _keeps_owner(call) else made
    return call.name if " " in call.name else f"{call.name}()"


def _keeps_owner(call: SystemCall) -> bool:
    """Return whether chown(2) only changes the group: the new owner is -1."""
    new = call.arguments[2 if call.name == "fchownat" else 1]
    return "chown" in call.name and new & 0xFFFFFFFF == 0xFFFFFFFF


#: Flags of fallocate(2) (linux/falloc.h), and what they do to the file.
_RANGES = {
    0x02: "punching a hole in",
    0x08: "removing a range of",
    0x10: "zeroing a range of",
    0x20: "inserting a range into",
    0x40: "unsharing a range of",
}


def _reserving(call: SystemCall) -> str:
    flags = call.arguments[1] if call.name == "fallocate" else 0
    return next((words for flag, words in _RANGES.items() if flags & flag), "reserving space for")


def _signal(call: SystemCall) -> str:
    """Return the signal of kill(2) and similar calls, and the receiver."""
    *pids, number = [_signed(one) for one in call.arguments[: 3 if call.name == "tgkill" else 2]]
    pid = pids[-1]
    what = next((one.name for one in Signals if one == number), f"signal {number}")
    if number == 0:
        what = "no signal (which tests whether it may)"
    if call.name != "kill":
        return f"{what} to thread {pid}"
    if pid == 0:
        return f"{what} to its process group"
    return f"{what} to " + (f"process {pid}" if pid > 0 else f"process group {-pid}")


def _signed(argument: int) -> int:
    """Return the value of a register as a signed int."""
    return (argument & 0xFFFFFFFF ^ 1 << 31) - (1 << 31)


#: The descriptors that have a name.
_STREAMS = {0: "Standard input", 1: "Standard output", 2: "Standard error"}


def described(place: Place) -> str:
    """Return the file of a descriptor: its path, or its kind without a path."""
    if place.path is not None and not place.is_detached:
        return show(place.path) + (" (deleted)" if place.is_deleted else "")
    kinds = ((stat.S_ISSOCK, "a socket"), (stat.S_ISFIFO, "a pipe"))
    return next((word for test, word in kinds if test(place.mode)), "")


def descriptor(call: SystemCall) -> str:
    """Return the call's descriptor as the begin of a sentence: ``File descriptor 3 (a pipe)``."""
    number, place = call.arguments[0] & 0xFFFFFFFF, call.place(0)
    name = _STREAMS.get(number, f"File descriptor {number}")
    file = described(place) if place is not None else ""
    return f"{name} ({file})" if file else name


def show(text: str) -> str:
    """Return a text for a sentence: quoted if it has blanks or is empty.

    Control characters and bytes that are not UTF-8 are escaped in the syntax of a shell.
    """
    if text and text.isprintable() and not any(one.isspace() for one in text):
        return text
    return repr(text) if text.isprintable() else shell_word(text)


def opens_to_create(call: SystemCall) -> bool:
    """Return whether the call is an open(2) that creates the file if it does not exist."""
    at = {"open": 1, "openat": 2}.get(call.name)
    return call.name == "creat" or (at is not None and bool(call.arguments[at] & os.O_CREAT))


def object_of(call: SystemCall) -> str:
    """Return the path or address of the call; "" without one."""
    if call.address is not None:
        return str(call.address)
    return next((text for _, text in call.texts if text), "")


def named(call: SystemCall, number: int = 0) -> str:
    """Return the text ``number`` of the program, after the directory that it is relative to."""
    at, text = call.texts[number]
    folder = call.place(at - 1) if _is_at(call, at) else None
    if text.startswith("/") or folder is None or folder.path is None:
        return text
    return os.path.join(folder.path, text) if text else folder.path


def path_of(call: SystemCall, number: int = 0) -> str | None:
    """Return the absolute path of the call's text ``number``; None if it is unknown.

    For a call without a text, return the path of its descriptor. Paths of other mount namespaces
    are unknown: here they lead to other files.
    """
    if call.is_elsewhere:
        return None
    if number >= len(call.texts):
        return _path_without_text(call) if not call.texts else None
    at, text = call.texts[number]
    if text.startswith("/"):
        return None if call.root is None else _joined(call.root, text)
    is_at = _is_at(call, at)
    folder = call.place(at - 1) if is_at else None
    if folder is not None:
        before = None if folder.is_deleted else folder.path
    else:
        before = None if is_at else call.cwd
    if before is None:
        return None
    return _joined(before, text) if text else (before if folder is not None else None)


def _path_without_text(call: SystemCall) -> str | None:
    address = call.address
    if address is not None:
        if address.family != AF_UNIX or not address.path or address.path.startswith("@"):
            return None
        before = call.root if address.path.startswith("/") else call.cwd
        return None if before is None else _joined(before, address.path)
    place = call.place(0)
    return None if place is None or place.is_deleted else place.path


def _joined(before: str, text: str) -> str:
    joined = f"{before.rstrip('/')}/{text.lstrip('/')}"
    # A path without "link/.." can lead to another directory than the path with it.
    return joined if ".." in text.split("/") else os.path.normpath(joined)


def _is_at(call: SystemCall, at: int) -> bool:
    """Return whether the path in argument ``at`` is relative to a descriptor's directory."""
    if at == 0 or not any(fnmatchcase(call.name, one) for one in _AT_CALLS):
        return False
    return call.arguments[at - 1] & 0xFFFFFFFF != _AT_FDCWD & 0xFFFFFFFF
