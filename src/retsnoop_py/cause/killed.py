# SPDX-License-Identifier: BSD-2-Clause
"""Why a command was killed: the sender of the signal, or the fault."""

from __future__ import annotations

import signal

from retsnoop_py.cause.crash import SI_KERNEL, Crash, crash
from retsnoop_py.cause.events import Ended, Signalled, Witnessed
from retsnoop_py.cause.limits import memory_limit, size
from retsnoop_py.cause.reason import Reason
from retsnoop_py.cause.shell import shell_path

__all__ = ["killed"]


def killed(witnessed: Witnessed, end: Ended) -> Reason | None:
    """Return why the process of ``end`` was killed, or None if no signal killed it.

    All facts were observed while the process ran.
    """
    if not end.signal:
        return None
    name = _name(end.signal)
    whose = [one for one in witnessed.signals if one.pid == end.pid and one.number == end.signal]
    if end.pid in witnessed.victims:
        limited = memory_limit(witnessed.victims[end.pid])
        if limited is not None:
            cgroup, most, folder = limited
            return Reason(
                "killed",
                f"The kernel killed {end.process} (PID {end.pid}) because its cgroup {cgroup} "
                f"reached memory.max, which is {size(most)}.",
                (
                    f"echo BYTES > {shell_path(folder / 'memory.max')}",
                    "of a systemd service: MemoryMax=; of a container: docker run --memory",
                    "or let the program need less memory",
                ),
            )
        return Reason(
            "killed",
            f"The kernel killed {end.process} (PID {end.pid}) because memory ran out.",
            (
                "give it more memory: add memory, or raise memory.max of its cgroup",
                "dmesg lists the processes and their memory",
            ),
            is_seen_later=False,
        )
    if not whose:
        text = f"Signal {name} killed {end.process} (PID {end.pid}). The sender is not known."
        return Reason("killed", text, (), is_seen_later=False)
    one = whose[-1]
    found = crash(one, witnessed) or _sender(one)
    return Reason(
        "killed",
        f"Signal {name} killed {end.process} (PID {end.pid}): {found.text}.",
        found.advice,
        is_seen_later=False,
    )


def _sender(one: Signalled) -> Crash:
    if one.code >= SI_KERNEL:
        return Crash("the kernel sent the signal")
    if one.sender == one.pid:
        return Crash("it sent the signal to itself")
    return Crash(f"{one.sender_name} (PID {one.sender}) sent the signal")


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
