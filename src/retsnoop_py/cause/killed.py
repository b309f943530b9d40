# SPDX-License-Identifier: BSD-2-Clause
"""Why a command was killed: by whom, or by which fault."""

from __future__ import annotations

import signal

from retsnoop_py.cause.events import Ended, Signalled, Witnessed
from retsnoop_py.cause.limits import memory_limit, size
from retsnoop_py.cause.reason import Reason

__all__ = ["killed"]

#: si_code: the kernel sent it.
_SI_KERNEL = 0x80
_FAULTS = (signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGTRAP)
#: si_code of faults (asm-generic/siginfo.h), in words.
_CODES = {
    (signal.SIGSEGV, 1): "nothing is mapped at {address}",
    (signal.SIGSEGV, 2): "the protection of the memory at {address} forbids this access",
    (signal.SIGBUS, 1): "the address {address} is not aligned",
    (signal.SIGBUS, 2): "the mapped file ends before {address}",
    (signal.SIGBUS, 3): "the kernel could not read the file that is mapped at {address}",
    (signal.SIGFPE, 1): "it divided an integer by zero (at {address})",
    (signal.SIGILL, 1): "the CPU does not support the instruction at {address}",
    (signal.SIGILL, 2): "the CPU does not support the instruction at {address}",
}
#: Signals that the kernel sends for a limit or a closed pipe.
_KERNEL = {
    signal.SIGXCPU: "it used more processor time than its limit allows (ulimit -t)",
    signal.SIGXFSZ: "it wrote more to a file than its limit allows (ulimit -f)",
    signal.SIGPIPE: "it wrote to a pipe or socket without a reader",
    signal.SIGHUP: "its terminal was closed",
    signal.SIGSYS: "a seccomp filter forbids one of its system calls",
}


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
                    f"echo BYTES > {folder}/memory.max",
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
    why = _why(whose[-1])
    return Reason(
        "killed",
        f"Signal {name} killed {end.process} (PID {end.pid}): {why}.",
        (),
        is_seen_later=False,
    )


def _why(one: Signalled) -> str:
    if one.number in _FAULTS and 0 < one.code < _SI_KERNEL:
        words = _CODES.get((signal.Signals(one.number), one.code))
        address = f"{one.address:#x}"
        return words.format(address=address) if words else f"a fault at {address}"
    if one.sender == one.pid and one.number == signal.SIGABRT:
        return "it called abort(); most programs do so after an internal error"
    if one.number in _KERNEL and (one.code > 0 or one.sender == one.pid):
        return _KERNEL[signal.Signals(one.number)]
    if one.code >= _SI_KERNEL:
        return "the kernel sent the signal"
    if one.sender == one.pid:
        return "it sent the signal to itself"
    return f"{one.sender_name} (PID {one.sender}) sent the signal"


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)
