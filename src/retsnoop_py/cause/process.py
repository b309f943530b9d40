# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that another process has, or a descriptor of the process itself."""

from __future__ import annotations

import re
import stat
from fnmatch import fnmatchcase
from pathlib import Path

from retsnoop_py.cause.files import user_name
from retsnoop_py.cause.operation import described, descriptor, show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.waiting import proc

__all__ = [
    "bad_descriptor",
    "capabilities",
    "no_process",
    "no_reader",
    "no_socket",
    "other_user",
    "traced",
]

#: Calls with a process id as first argument.
_OF_PROCESS = (
    *("kill", "tgkill", "tkill", "pidfd_open", "rt_sigqueueinfo", "prlimit64", "ptrace"),
    *("process_vm_readv", "process_vm_writev", "sched_setaffinity", "sched_setscheduler"),
    *("sched_setattr", "sched_setparam", "getpgid", "setpgid", "getsid"),
    *("setpriority", "getpriority", "ioprio_set"),
)
#: Calls with a descriptor as first argument and no other descriptor.
_OF_DESCRIPTOR = (
    *(
        "read",
        "readv",
        "write",
        "writev",
        "pread*",
        "pwrite*",
        "close",
        "fstat",
        "lseek",
        "dup*",
        "fcntl",
        "ioctl",
    ),
    *("fsync", "fdatasync", "ftruncate", "fallocate", "fchmod", "fchown", "fchdir", "getdents*"),
    *("bind", "connect", "listen", "accept*", "sendto", "sendm*", "recv*", "shutdown", "*sockopt"),
    *("getsockname", "getpeername"),
)


#: PTRACE_ATTACH and PTRACE_SEIZE.
_ATTACHES = (16, 0x4206)


def _pid(scene: Scene) -> int:
    """The process that the call is about; 0: its own, or none."""
    call = scene.call
    if call.name not in _OF_PROCESS:
        return 0
    if call.name in ("setpriority", "getpriority", "ioprio_set") and call.arguments[0] & 0xFF > 1:
        return 0  # of a group of processes, or of a user
    at = 1 if call.name in ("ptrace", "setpriority", "getpriority", "ioprio_set") else 0
    number = call.arguments[at] & 0xFFFFFFFF
    return number if number < 1 << 31 else -((1 << 32) - number)


def _pid_of_path(scene: Scene) -> int:
    """The process that a path below /proc is about; 0: none."""
    found = re.match(r"/proc/(\d+)/", scene.path or "")
    return int(found[1]) if found else 0


def capabilities(scene: Scene) -> Reason | None:
    """capset(2): a process takes capabilities that it does not have."""
    advice = "run it as root"
    if scene.call.uid == 0:
        advice = "give them to the process: docker run --cap-add NAME, or CapabilityBoundingSet="
    return Reason(
        "capability",
        "The process tried to give itself capabilities that it does not have. It runs as user "
        f"{user_name(scene.call.uid)}.",
        (advice,),
        is_seen_later=False,
    )


def no_process(scene: Scene) -> Reason | None:
    """The process does not exist."""
    pid = _pid(scene)
    if not pid or (pid > 0 and Path(f"/proc/{pid}").exists()):
        return None
    what = f"process with the id {pid}" if pid > 0 else f"process group {-pid}"
    return Reason(
        "not-found",
        f"There is no {what}.",
        ("it may have ended already: check the id (pgrep NAME)",),
    )


def other_user(scene: Scene) -> Reason | None:
    """The process belongs to another user."""
    pid = _pid(scene) or _pid_of_path(scene)
    if pid <= 0 or scene.call.uid == 0:
        return None
    try:
        owner, name = Path(f"/proc/{pid}").stat().st_uid, proc.comm(pid)
    except OSError:
        return None
    if owner == scene.call.uid:
        return None
    user = user_name(owner)
    return Reason(
        "owner",
        f"The process {show(name)} (PID {pid}) belongs to {user}; the command ran as "
        f"{user_name(scene.call.uid)}.",
        (f"run it as {'root' if user == 'root' else f'{user} or root'}",),
    )


def traced(scene: Scene) -> Reason | None:
    """ptrace(2) of a process that another process traces (EPERM)."""
    pid = scene.call.arguments[1] & 0xFFFFFFFF
    found = re.search(r"^TracerPid:\t(\d+)", proc.text(pid, "status"), re.M)
    tracer = int(found[1]) if found else 0
    if scene.call.arguments[0] not in _ATTACHES or tracer in (0, scene.call.pid):
        return None
    return Reason(
        "busy",
        f"{proc.who(tracer)} traces the process {proc.comm(pid)} (PID {pid}) already. A process "
        "has at most one tracer.",
        (f"end PID {tracer} first (a debugger or strace), or use its output",),
    )


def no_socket(scene: Scene) -> Reason | None:
    """A call for sockets on a descriptor of something else (ENOTSOCK)."""
    place = scene.call.place(0)
    if place is None or stat.S_ISSOCK(place.mode):
        return None
    text = f"{descriptor(scene.call)} is not a socket."
    advice = "check which descriptor the command gets: a service manager or inetd passes a socket"
    return Reason("descriptor", text, (advice,), is_seen_later=False)


def no_reader(scene: Scene) -> Reason | None:
    """write(2) to a pipe or a connection with a closed other end (EPIPE)."""
    place = scene.call.place(0)
    mode = place.mode if place is not None else 0
    if stat.S_ISFIFO(mode):
        text = "No process has the reading end of the pipe open any more: its reader ended first"
        advice = "find out why the reader ended, or let it read everything"
    elif stat.S_ISSOCK(mode):
        text = (
            "The connection is closed: the other side ended it, this process shut it down, or it "
            "was never made"
        )
        advice = "find out why the other side ended the connection (its log, for example)"
    else:
        return None
    return Reason("closed", f"{text}.", (advice,), is_seen_later=False)


def bad_descriptor(scene: Scene) -> Reason | None:
    """A descriptor is not open, or not open for reading or writing as the call requires."""
    if not any(fnmatchcase(scene.call.name, one) for one in _OF_DESCRIPTOR):
        return None
    number = scene.call.arguments[0] & 0xFFFFFFFF
    if number > 1 << 20:
        number -= 1 << 32 if number >> 31 else 0
    mode = {"read": "reading", "write": "writing"}.get(scene.call.name.removesuffix("v"))
    place = scene.call.place(0)
    if place is not None:
        file = described(place)
        if mode is None or not file:
            return None
        text = f"File descriptor {number} ({file}) is not open for {mode}"
    elif scene.call.state is not None:
        text = f"File descriptor {number} is not open"
    else:
        text = f"File descriptor {number} is not open" + (f", or not open for {mode}" * bool(mode))
    return Reason(
        "descriptor",
        f"{text}.",
        ("check which descriptors the command gets (a shell's < and > open them)",),
        is_seen_later=False,
    )
