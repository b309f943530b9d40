# SPDX-License-Identifier: BSD-2-Clause
"""Why a fault or the kernel killed a process: the address, the mapping, the limit, the pipe."""

from __future__ import annotations

import signal
import stat
from collections.abc import Callable

from retsnoop_py.cause.events import Fault, Mapping, Signalled, Witnessed
from retsnoop_py.cause.limits import size
from retsnoop_py.cause.operation import show
from retsnoop_py.value import Value

__all__ = ["SI_KERNEL", "Crash", "crash"]

#: si_code: the kernel sent it.
SI_KERNEL = 0x80
#: vm_flags.
_READ, _WRITE, _EXEC, _GROWSDOWN = 1, 2, 4, 0x100
#: A null pointer with the offset of a member is below this address (vm.mmap_min_addr, usually).
_NULL = 0x10000
_PAGE = 4096
#: How far from the end of its limit a stack may overflow: the environment and one large frame.
_STACK_SLACK = 1 << 20
_INFINITE = (1 << 64) - 1
_VERBS = {1: "read", 2: "write", 3: "execute"}
_DEBUGGER = "run it in a debugger for the line: gdb --args COMMAND, then run and bt"


class Crash(Value):
    """The reason for a signal: the text after a colon, and the advice."""

    text: str
    advice: tuple[str, ...] = ()


def crash(one: Signalled, witnessed: Witnessed) -> Crash | None:
    """Why the kernel, or the process itself, sent the signal; None where another process did."""
    find = _TABLE.get(one.number)
    return find(one, witnessed) if find is not None else None


# -- memory ------------------------------------------------------------------------------------


def _segv(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code == SI_KERNEL:
        return Crash(
            "it used an address that no process can have, or a privileged instruction (the CPU "
            f"does not report the address){_place(one)}",
            (_DEBUGGER,),
        )
    if one.code == 1:
        return Crash(
            f"{_access(one)}, and nothing is mapped there{_place(one)}{_guess(one)}", (_DEBUGGER,)
        )
    if one.code == 2:
        return Crash(
            f"{_access(one)}, and the protection of the memory there forbids it{_protection(one)}"
            f"{_place(one)}{_guess(one)}",
            (_DEBUGGER,),
        )
    return (
        Crash(f"a fault at {one.address:#x}{_place(one)}", (_DEBUGGER,)) if one.code > 0 else None
    )


def _bus(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    at = one.fault.at if one.fault is not None else None
    if one.code == 1:
        return Crash(f"the address {one.address:#x} is not aligned{_place(one)}", (_DEBUGGER,))
    if one.code == 2 and at is not None and at.file:
        offset = one.address - at.start + at.offset
        if offset // _PAGE * _PAGE < at.bytes:
            return Crash(
                f"{_access(one)}, which is byte {offset} of the mapped file {show(at.file)}, and "
                "the kernel had no memory or no space for this page",
                ("check the free space (df) of the file system, and of /dev/shm",),
            )
        return Crash(
            f"{_access(one)}, which is byte {offset} of the mapped file {show(at.file)}. The file "
            f"has only {at.bytes} bytes{_place(one)}",
            ("the file was shortened after it was mapped, or the mapping is longer than the file",),
        )
    if one.code == 2:
        return Crash(f"the mapped file ends before {one.address:#x}{_place(one)}", (_DEBUGGER,))
    if one.code in (4, 5):
        return Crash(f"the memory at {one.address:#x} is broken (machine check)", ("check dmesg",))
    if one.code == 3:
        return Crash(f"the kernel could not read the file that is mapped at {one.address:#x}")
    return None


def _access(one: Signalled) -> str:
    verb = _VERBS.get(one.fault.access if one.fault is not None else 0, "used")
    past = {"read": "read", "write": "wrote to", "execute": "tried to execute code at"}
    return f"it {past.get(verb, 'used')} the address {one.address:#x}".replace(
        "code at the address", "code at"
    )


def _place(one: Signalled) -> str:
    """Return the place of the instruction: the program or library and the offset in its file."""
    fault = one.fault
    if fault is None or not fault.instruction or not fault.code.file:
        return ""
    offset = fault.instruction - fault.code.start + fault.code.offset
    return f" (the instruction is at {offset:#x} in {show(fault.code.file)})"


def _where(one: Signalled) -> str:
    """Return the place of the instruction for a fault at the instruction's own address."""
    return _place(one) or f" at {one.address:#x}"


def _protection(one: Signalled) -> str:
    at = one.fault.at if one.fault is not None else Mapping()
    if not at.start:
        return ""
    letters = "".join(
        letter if at.flags & bit else "-"
        for letter, bit in (("r", _READ), ("w", _WRITE), ("x", _EXEC))
    )
    name = f"the file {show(at.file)}" if at.file else "memory without a file"
    return f": {name}, {letters}"


def _guess(one: Signalled) -> str:
    """Return a sentence about the probable cause, guessed from the address."""
    fault = one.fault or Fault()
    if one.address < _NULL:
        return ". This is probably a null pointer"
    at = fault.at
    if at.start and not at.file and not at.flags & (_READ | _WRITE | _EXEC):
        return ". This is probably the end of a thread's stack (a guard page)"
    used, limit = fault.stack - one.address, fault.limit_stack
    if 0 < limit < _INFINITE and limit - _STACK_SLACK < used < limit + _STACK_SLACK:
        return f". The stack is probably full: its limit is {size(limit)} (ulimit -s)"
    return ""


# -- instructions ------------------------------------------------------------------------------


def _ill(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code <= 0:
        return None
    return Crash(
        f"the CPU rejects an instruction{_where(one)}",
        (
            "the program may be built for a newer CPU: compare its -march with /proc/cpuinfo",
            "compilers also put such an instruction where the code may not go (__builtin_trap)",
        ),
    )


def _fpe(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    words = {1: "it divided an integer by zero", 2: "an integer overflowed in a division",
             3: "it divided a number by zero", 4: "a number overflowed", 5: "a number underflowed",
             6: "a result was not exact", 7: "an operation on numbers was invalid"}  # fmt: skip
    if one.code <= 0:
        return None
    return Crash(f"{words.get(one.code, 'an arithmetic fault')}{_where(one)}")


def _trap(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code <= 0:
        return None
    return Crash(
        f"it ran a breakpoint instruction, and no debugger traces it{_place(one)}",
        ("compilers put it where the code may not go (__builtin_debugtrap, int3)",),
    )


# -- what the kernel forbids or limits ---------------------------------------------------------


def _sys(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code != 1:  # SYS_SECCOMP
        return None
    call = one.fault.call if one.fault is not None else ""
    return Crash(
        f"a seccomp filter forbids {f'the system call {call}' if call else 'one of its calls'}",
        (
            "allow the call in the filter",
            "of a systemd service: SystemCallFilter=; of a container: docker run --security-opt",
        ),
    )


def _xcpu(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code != SI_KERNEL:
        return None
    limit = one.fault.limit_cpu if one.fault is not None else 0
    value = f", which is {limit} s" if 0 < limit < _INFINITE else ""
    return Crash(
        f"it used more processor time than its limit RLIMIT_CPU (ulimit -t) allows{value}",
        ("ulimit -t SECONDS, or LimitCPU= of a systemd service",),
    )


def _xfsz(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.sender != one.pid:
        return None
    fault = one.fault or Fault()
    file = "a file"
    if fault.file:
        file = f"the file {show(fault.file)} (descriptor {fault.descriptor})"
    value = f", which is {size(fault.limit_file)}" if 0 < fault.limit_file < _INFINITE else ""
    return Crash(
        f"it wrote more to {file} than its limit RLIMIT_FSIZE (ulimit -f) allows{value}",
        ("ulimit -f BLOCKS, or LimitFSIZE= of a systemd service",),
    )


def _pipe(one: Signalled, witnessed: Witnessed) -> Crash | None:
    if one.sender != one.pid:
        return None
    fault = one.fault or Fault()
    name = "a socket" if stat.S_ISSOCK(fault.mode) else "a pipe"
    if not fault.mode:
        name = "a pipe or socket"
    number = f" (descriptor {fault.descriptor})" if fault.is_in_call else ""
    text = f"it wrote to {name}{number} that no process reads"
    ended = [end for end in witnessed.ends if end.time <= one.time and end.pid != one.pid]
    if ended and not stat.S_ISSOCK(fault.mode):
        last = ended[-1]
        text += f". {last.process} (PID {last.pid}) had ended before"
    return Crash(
        text,
        (
            "look at why the reader ended",
            "a program that ignores SIGPIPE gets the error EPIPE instead",
        ),
    )


def _abort(one: Signalled, witnessed: Witnessed) -> Crash | None:
    if one.sender != one.pid:
        return None
    own = [text for text in witnessed.written if text.pid == one.pid and text.time <= one.time]
    lines = "".join(text.text for text in own if text.stream == 2).splitlines()
    lines = [line.strip() for line in lines if line.strip()]
    known = [line for line in lines if any(word in line for word in _ABORTS)]
    is_recent = own and own[-1].time > one.time - _RECENT_NS
    message = known[-1] if known else lines[-1] if lines and is_recent else ""
    text = "it called abort()"
    if message:
        return Crash(f'{text}. Before that it wrote "{message}"', (_DEBUGGER,))
    return Crash(f"{text}; most programs do so after an internal error", (_DEBUGGER,))


#: Text that a process writes in this time before it aborts counts as its message.
_RECENT_NS = 1_000_000_000
#: Texts of the C and C++ libraries and of runtimes before they abort.
_ABORTS = (
    *("Assertion", "assert", "terminate called", "what():", "free()", "malloc", "corrupted"),
    *("double free", "stack smashing", "buffer overflow", "panicked", "panic:", "Fatal"),
)


def _timer(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code not in (SI_KERNEL, -2):
        return None
    return Crash("a timer that it had set ran out, and it does not handle the signal (alarm(2))")


def _kill(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    hard = one.fault.hard_limit_cpu if one.fault is not None else 0
    if one.code != SI_KERNEL:
        return None
    if 0 < hard < _INFINITE:
        return Crash(
            "the kernel sent the signal. Its hard limit of processor time is "
            f"{hard} s (ulimit -Ht), which it has probably reached",
            ("ulimit -Ht SECONDS as root",),
        )
    return Crash("the kernel sent the signal", ("check dmesg",))


def _hup(one: Signalled, _witnessed: Witnessed) -> Crash | None:
    if one.code != SI_KERNEL:
        return None
    return Crash("its terminal was closed", ("nohup, setsid or tmux keeps a program running",))


_TABLE: dict[int, Callable[[Signalled, Witnessed], Crash | None]] = {
    signal.SIGSEGV: _segv,
    signal.SIGBUS: _bus,
    signal.SIGILL: _ill,
    signal.SIGFPE: _fpe,
    signal.SIGTRAP: _trap,
    signal.SIGSYS: _sys,
    signal.SIGXCPU: _xcpu,
    signal.SIGXFSZ: _xfsz,
    signal.SIGPIPE: _pipe,
    signal.SIGABRT: _abort,
    signal.SIGALRM: _timer,
    signal.SIGVTALRM: _timer,
    signal.SIGPROF: _timer,
    signal.SIGKILL: _kill,
    signal.SIGHUP: _hup,
}
