# SPDX-License-Identifier: BSD-2-Clause
"""What is said of a signal that killed a process."""

from __future__ import annotations

import signal
import stat

import pytest

from retsnoop_py.cause.events import Ended, Fault, Mapping, Signalled, Witnessed, Written
from retsnoop_py.cause.killed import killed

PID, OTHER = 7, 99
MIB = 1 << 20
STACK = 0x7FFD_0000_0000
CODE = Mapping(0x1000, 0x2000, 5, 0x3000, 9000, "tool")
FILE = Mapping(0x5000, 0x7000, 3, 0, 100, "data")
GUARD = Mapping(0x90000, 0xA0000, 0)


def text(
    number: int,
    code: int,
    address: int = 0,
    fault: Fault | None = None,
    *,
    sender: int = PID,
    written: str = "",
) -> str:
    one = Signalled(5_000, PID, number, code, address, sender, "other", fault)
    ends = [Ended(4_000, 8, "head", 0, 0), Ended(9_000, PID, "tool", 0, number)]
    texts = [Written(4_500, PID, PID, 2, written)] if written else []
    found = killed(Witnessed(ends=ends, signals=[one], written=texts), ends[-1])
    assert found is not None
    return found.text


CASES: dict[str, tuple[str, str]] = {
    "a null pointer": (
        text(signal.SIGSEGV, 1, 0x10, Fault(0x1234, access=1, code=CODE)),
        (
            "it read the address 0x10, and nothing is mapped there (the instruction is at 0x3234 "
            "in tool). This is probably a null pointer."
        ),
    ),
    "a constant": (
        text(signal.SIGSEGV, 2, 0x1010, Fault(access=2, at=CODE)),
        (
            "it wrote to the address 0x1010, and the protection of the memory there forbids it: "
            "the file tool, r-x."
        ),
    ),
    "data as code": (
        text(signal.SIGSEGV, 2, 0x5010, Fault(access=3, at=Mapping(0x5000, 0x6000, 3))),
        (
            "it tried to execute code at 0x5010, and the protection of the memory there forbids "
            "it: memory without a file, rw-."
        ),
    ),
    "a guard page": (text(signal.SIGSEGV, 2, 0x90010, Fault(at=GUARD)), "end of a thread's stack"),
    "a full stack": (
        text(
            signal.SIGSEGV,
            1,
            STACK - 8 * MIB - 100,
            Fault(stack=STACK, limit_stack=8 * MIB, access=2),
        ),
        "The stack is probably full: its limit is 8 MiB (ulimit -s).",
    ),
    "no address": (text(signal.SIGSEGV, 0x80), "an address that no process can have"),
    "sent": (text(signal.SIGSEGV, 0, sender=OTHER), "other (PID 99) sent the signal."),
    "behind the file": (
        text(signal.SIGBUS, 2, 0x6388, Fault(access=1, at=FILE)),
        (
            "it read the address 0x6388, which is byte 5000 of the mapped file data. The file has "
            "only 100 bytes."
        ),
    ),
    "no space for a page": (
        text(signal.SIGBUS, 2, 0x5010, Fault(access=2, at=FILE)),
        "byte 16 of the mapped file data, and the kernel had no memory or no space for this page.",
    ),
    "an instruction": (
        text(signal.SIGILL, 2, 0x1234, Fault(0x1234, code=CODE)),
        "the CPU rejects an instruction (the instruction is at 0x3234 in tool).",
    ),
    "a division": (text(signal.SIGFPE, 1, 0x99), "it divided an integer by zero at 0x99."),
    "a breakpoint": (text(signal.SIGTRAP, 0x80), "it ran a breakpoint instruction"),
    "seccomp": (
        text(signal.SIGSYS, 1, 0, Fault(call="chdir()")),
        "a seccomp filter forbids the system call chdir().",
    ),
    "processor time": (
        text(signal.SIGXCPU, 0x80, 0, Fault(limit_cpu=3)),
        "RLIMIT_CPU (ulimit -t) allows, which is 3 s.",
    ),
    "a hard limit": (
        text(signal.SIGKILL, 0x80, 0, Fault(hard_limit_cpu=4), sender=OTHER),
        "Its hard limit of processor time is 4 s (ulimit -Ht), which it has probably reached.",
    ),
    "a file's size": (
        text(signal.SIGXFSZ, 0, 0, Fault(limit_file=1024, descriptor=1, file="big")),
        (
            "it wrote more to the file big (descriptor 1) than its limit RLIMIT_FSIZE (ulimit -f) "
            "allows, which is 1 KiB."
        ),
    ),
    "a pipe": (
        text(
            signal.SIGPIPE,
            0,
            0,
            Fault(is_in_call=True, descriptor=1, mode=stat.S_IFIFO | 0o600),
        ),
        "it wrote to a pipe (descriptor 1) that no process reads. head (PID 8) had ended before.",
    ),
    "a socket": (
        text(
            signal.SIGPIPE, 0, 0, Fault(is_in_call=True, descriptor=4, mode=stat.S_IFSOCK | 0o777)
        ),
        "it wrote to a socket (descriptor 4) that no process reads.",
    ),
    "an assertion": (
        text(signal.SIGABRT, -6, written="hello\ntool: a.c:3: main: Assertion `x' failed.\nbye\n"),
        'it called abort(). Before that it wrote "tool: a.c:3: main: Assertion `x\' failed.".',
    ),
    "abort": (text(signal.SIGABRT, -6), "it called abort(); most programs do so"),
    "a timer": (text(signal.SIGALRM, 0x80, sender=OTHER), "a timer that it had set ran out"),
    "another process": (text(signal.SIGTERM, 0, sender=OTHER), "other (PID 99) sent the signal."),
    "itself": (text(signal.SIGTERM, 0), "it sent the signal to itself."),
}


@pytest.mark.parametrize("name", CASES)
def test_what_killed_it(name: str) -> None:
    found, words = CASES[name]
    assert words in found
