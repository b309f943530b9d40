# SPDX-License-Identifier: BSD-2-Clause
"""Waits inside the kernel, recognized by stack functions: a device, a server, a kernel lock."""

from __future__ import annotations

from retsnoop_py.cause.operation import show
from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.model import INFERRED, OBSERVED, UNKNOWN, Blocked, Finding

__all__ = ["in_kernel", "unexamined", "unknown"]

#: Kind, stack functions, object of the wait, and advice. The first matching row is used.
#: {file} is the file of the call.
_ROWS: tuple[tuple[str, tuple[str, ...], str, tuple[str, ...]], ...] = (
    (
        "fuse",
        ("request_wait_answer", "fuse_*", "__fuse_*"),
        "for the FUSE daemon of {file}",
        ("look at the daemon: mount(8) lists the file system",),
    ),
    (
        "nfs",
        ("rpc_wait_bit_killable", "nfs*_*", "rpc_*"),
        "for the NFS server of {file}",
        ("check the server and the network; nfsstat -m lists the servers",),
    ),
    (
        "smb",
        ("cifs_*", "smb2_*", "SMB2_*", "wait_for_response"),
        "for the SMB server of {file}",
        ("check the server and the network",),
    ),
    ("automount", ("autofs_wait*",), "for the automounter to mount {file}", ()),
    (
        "frozen-file-system",
        ("sb_start_write", "mnt_want_write*", "__sb_start_write", "percpu_rwsem_wait*"),
        "until the file system of {file} is thawed",
        ("fsfreeze -u MOUNTPOINT thaws it; a backup may have frozen it",),
    ),
    (
        "journal",
        ("jbd2_*", "xfs_log_*", "btrfs_commit_*", "wait_current_trans*"),
        "for the journal of the file system of {file}",
        ("iostat -x shows whether the disk is busy; dmesg shows disk errors",),
    ),
    (
        "disk",
        ("io_schedule*", "folio_wait_*", "wait_on_page_*", "blk_*", "submit_bio_wait", "bio_wait*"),
        "for the disk of {file}",
        ("iostat -x shows whether the disk is busy; dmesg shows disk errors",),
    ),
    (
        "kernel-lock",
        ("rwsem_down_*", "__mutex_lock*", "mutex_lock*", "__down*", "rt_mutex_*", "*_slowlock"),
        "for a lock inside the kernel, which another thread holds",
        ("echo w > /proc/sysrq-trigger writes the stacks of all such threads to the kernel log",),
    ),
    ("rcu", ("synchronize_*", "wait_rcu_gp", "rcu_barrier*"), "for an RCU grace period", ()),
    ("semaphore", ("do_semtimedop", "*semtimedop"), "for a System V semaphore", ("ipcs -s -i ID",)),
    (
        "message-queue",
        ("do_msgrcv", "do_msgsnd", "wq_sleep", "do_mq_timed*"),
        "at a message queue",
        ("ipcs -q lists the System V queues",),
    ),
    ("module", ("*request_module*", "call_usermodehelper*"), "for modprobe to load a module", ()),
    ("memory", ("*try_charge*", "mem_cgroup_*", "*throttle*"), "for memory of its cgroup", ()),
    ("io", ("io_cqring_wait*",), "for a completion of io_uring", ()),
    ("ptrace", ("ptrace_stop",), "for its tracer", ()),
)


def in_kernel(thread: Blocked) -> Finding | None:
    """Return the reason of the wait according to the functions in the kernel stack."""
    for kind, functions, what, advice in _ROWS:
        if not thread.is_in(*functions):
            continue
        text = what.format(file=_file(thread) or "a file")
        return Finding(
            kind,
            f"{{waits}} {text}",
            _uninterruptible(thread),
            advice,
            OBSERVED if kind in ("io", "rcu", "semaphore") else INFERRED,
            (("file", _file(thread)),),
        )
    return None


def unknown(thread: Blocked) -> Finding:
    """Report only the system call and the kernel function, because the reason is unknown."""
    place = f"in the system call {thread.call}" if thread.call else "in the kernel"
    inner = _innermost(thread)
    more = f"The kernel function {inner} waits." if inner else ""
    return Finding(
        "unknown",
        f"{{waits}} {place}. What it waits for is not known",
        " ".join(filter(None, [more, _uninterruptible(thread)])),
        (),
        UNKNOWN,
    )


def unexamined(thread: Blocked) -> Finding:
    """Report only the system call, because there was no time to examine the thread."""
    place = f"in the system call {thread.call}" if thread.call else "in the kernel"
    return Finding(
        "unknown",
        f"{{waits}} {place}. What it waits for is not known",
        "There are so many threads, sockets or open files that the time was not enough for this "
        "thread.",
        (),
        UNKNOWN,
    )


def _uninterruptible(thread: Blocked) -> str:
    return "No signal ends this wait, not even SIGKILL (state D)." if thread.state == "D" else ""


def _innermost(thread: Blocked) -> str:
    """Return the innermost function of the stack that is not part of the scheduler."""
    for line in thread.stack:
        name = line.partition("+")[0]
        if not name.startswith(("schedule", "__schedule", "io_schedule")):
            return name
    return ""


def _file(thread: Blocked) -> str:
    """Return the path argument or the file of the descriptor argument, "" without either."""
    at = next(iter(thread.texts), 6)
    if at < len(thread.arguments):
        return show(proc.string(thread.pid, thread.arguments[at]))
    target = proc.link(thread.pid, f"fd/{thread.descriptor}") if thread.arguments else ""
    return show(target) if target.startswith("/") else ""
