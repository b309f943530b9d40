# SPDX-License-Identifier: BSD-2-Clause
"""Waits for a child, a signal or a timer; and threads that are stopped or do not wait."""

from __future__ import annotations

import os
import signal
import time

from retsnoop_py.cause.limits import frozen_cgroup
from retsnoop_py.cause.shell import shell_path
from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.descriptors import is_terminal, seconds_at
from retsnoop_py.cause.waiting.model import (
    INFERRED,
    OBSERVED,
    UNKNOWN,
    Blocked,
    Certainty,
    Finding,
    duration,
)

__all__ = [
    "busy",
    "child",
    "frozen",
    "outside",
    "running",
    "signals",
    "sleeping",
    "stopped",
    "vfork",
]

_TIMER_ABSTIME = 1
#: /proc/PID/task/TID/stat: the exit code, or the signal that stopped the process.
_EXIT_CODE = 49
_STOPS = (signal.SIGSTOP, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


def child(thread: Blocked) -> Finding | None:
    """Return the children that wait4(2) or waitid(2) waits for."""
    if not thread.arguments:
        return None
    number = _signed(thread.arguments[1 if thread.call == "waitid" else 0])
    kind = thread.arguments[0] if thread.call == "waitid" else 1
    own = proc.children(thread.pid)
    meant = [number] if number > 0 and kind == 1 else own
    facts: tuple[tuple[str, int | str], ...] = (("children", " ".join(map(str, meant))),)
    if not meant:
        return Finding("child", "{waits} for a child", "It has none that /proc shows.", (), UNKNOWN)
    names = " or ".join(proc.who(one) for one in meant[:4])
    which = "its child" if len(meant) == 1 else f"the first of its {len(meant)} children to end:"
    more = ""
    stuck = [one for one in meant if proc.stat_words(one, one)[1][:1] in (["T"], ["t"])]
    if stuck:
        more = f"PID {stuck[0]} is stopped."
    return Finding("child", f"{{waits}} for {which} {names}", more, facts=facts, on=tuple(meant))


def _signed(value: int) -> int:
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def vfork(thread: Blocked) -> Finding | None:
    """Return the wait for a child of vfork to run a program or end: it shares the memory."""
    if not thread.is_in("*wait_for_vfork*", "wait_for_completion*", "kernel_clone"):
        return None
    own = proc.children(thread.pid)
    names = " or ".join(proc.who(one) for one in own[:4])
    return Finding(
        "vfork",
        f"{{waits}} until its new child {names} runs a program or ends (vfork)",
        "",
        ("look at what the child waits for",),
        facts=(("children", " ".join(map(str, own))),),
        on=tuple(own),
    )


def sleeping(thread: Blocked) -> Finding | None:
    """Return the duration or end of nanosleep(2) and clock_nanosleep(2)."""
    is_absolute = False
    if thread.call == "clock_nanosleep" and len(thread.arguments) > 2:
        wanted = seconds_at(thread, 2, 1e9)
        is_absolute = bool(thread.arguments[1] & _TIMER_ABSTIME)
    else:
        wanted = seconds_at(thread, 0, 1e9)
    if wanted is None:
        return Finding("timer", "{waits} for a timer (sleep)")
    if is_absolute:
        clock = thread.arguments[0]
        if clock not in (time.CLOCK_REALTIME, time.CLOCK_MONOTONIC, time.CLOCK_BOOTTIME):
            return Finding("timer", "{waits} until a set time")
        end = time.time() + wanted - time.clock_gettime(clock)
        shown = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(end))
        return Finding("timer", f"{{waits}} until {shown} (a timer)")
    return Finding(
        "timer",
        f"{{waits}} for a timer: it sleeps for {duration(wanted)}",
        facts=(("seconds", f"{wanted:g}"),),
    )


def signals(thread: Blocked) -> Finding | None:
    """Return the wait of pause(2), sigsuspend(2) or sigtimedwait(2) for a signal."""
    return Finding(
        "signal",
        "{waits} for a signal",
        "Another process, a timer or the end of a child has to send it.",
        facts=(("blocked", _mask(thread, "SigBlk")),),
    )


def _mask(thread: Blocked, name: str) -> str:
    """Return the names of a set of signals in the thread's status."""
    for line in proc.text(thread.pid, f"task/{thread.tid}/status").splitlines():
        if line.startswith(f"{name}:"):
            bits = int(line.split()[1], 16)
            return " ".join(one.name for one in signal.Signals if bits >> (one - 1) & 1)
    return ""


def stopped(thread: Blocked) -> Finding | None:
    """Report that a signal or a tracer stopped the process."""
    if thread.state == "t":
        tracer = _tracer(thread)
        return Finding(
            "traced",
            f"is stopped by its tracer {proc.who(tracer)}" if tracer else "is stopped by a tracer",
            "",
            (f"continue it there, or end PID {tracer}",) if tracer else (),
            facts=(("tracer", tracer),),
            on=(tracer,) if tracer else (),
        )
    if thread.state != "T":
        return None
    name, sender, certainty = _stop_signal(thread)
    why = {
        "SIGTTIN": "It read from its terminal, and it is a background process.",
        "SIGTTOU": "It wrote to its terminal or changed it, and it is a background process.",
        "SIGTSTP": "This is Ctrl-Z at its terminal, or a process that sent the signal.",
    }.get(name, "")
    advice = [f"kill -CONT {thread.pid} lets it go on"]
    if name in ("SIGTTIN", "SIGTTOU"):
        advice = ["bring it to the foreground (fg), or give it other input: < /dev/null"]
    if sender and sender != thread.pid and not why.startswith("It "):
        why = f"{proc.who(sender)} sent the signal."
    return Finding(
        "stopped",
        f"is stopped by the signal {name}" if name else "is stopped by a signal",
        why,
        tuple(advice),
        certainty if name else UNKNOWN,
        facts=(("signal", name), ("sender", sender)),
    )


def _stop_signal(thread: Blocked) -> tuple[str, int, Certainty]:
    """Return the stop signal ("": unknown), its sender (0: unknown) and the certainty.

    After the parent's wait(2), /proc no longer shows the signal number.
    """
    if thread.stop is not None:
        return signal.Signals(thread.stop[0]).name, thread.stop[1], OBSERVED
    words = proc.stat_words(thread.pid, thread.tid)[1]
    number = int(words[_EXIT_CODE]) & 0x7F if len(words) > _EXIT_CODE else 0
    if number in _STOPS:
        return signal.Signals(number).name, 0, OBSERVED
    is_background = len(words) > 5 and words[4] != "0" and words[2] != words[5]
    if thread.call == "read" and is_background and is_terminal(thread):
        return "SIGTTIN", 0, INFERRED
    return "", 0, UNKNOWN


def _tracer(thread: Blocked) -> int:
    for line in proc.text(thread.pid, f"task/{thread.tid}/status").splitlines():
        if line.startswith("TracerPid:"):
            return int(line.split()[1])
    return 0


def frozen(thread: Blocked) -> Finding | None:
    """Report that the cgroup of the process is frozen."""
    if not thread.is_in("do_freezer_trap", "cgroup_enter_frozen", "__refrigerator"):
        return None
    path = next(
        (line[3:] for line in proc.text(thread.pid, "cgroup").splitlines() if line[:3] == "0::"), ""
    )
    place = frozen_cgroup(path)
    advice = (f"echo 0 > {shell_path(place / 'cgroup.freeze')}",) if place else ()
    return Finding(
        "frozen",
        f"is frozen: its cgroup {path} is stopped by the freezer",
        "",
        advice,
        facts=(("cgroup", path),),
    )


def running(thread: Blocked) -> Finding | None:
    """Report a thread that runs instead of waiting."""
    if thread.state != "R":
        return None
    used = _processor_seconds(thread)
    more = "" if used is None else f"It has used {duration(used)} of processor time."
    place = f"in the system call {thread.call}" if thread.call else "in the program's own code"
    return Finding(
        "running",
        f"does not wait. It runs, {place}",
        more,
        (f"perf top -p {thread.pid} shows in which functions",),
    )


def busy(thread: Blocked) -> Finding:
    """Report a thread that makes one system call after another."""
    return Finding(
        "running",
        "does not wait long. It makes one system call after the other",
        f"One of them was {thread.call}." if thread.call else "",
        (f"strace -f -p {thread.pid} lists the calls",),
    )


def _processor_seconds(thread: Blocked) -> float | None:
    words = proc.stat_words(thread.pid, thread.tid)[1]
    if len(words) < 13:
        return None
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def outside(thread: Blocked) -> Finding | None:
    """Return the wait for memory, outside of system calls."""
    if thread.call or thread.state in "ZX":
        return None
    if thread.is_in("*fault*"):
        return Finding(
            "memory", "{waits} for memory: a page of it has to be read", "", (), INFERRED
        )
    return None
