# SPDX-License-Identifier: BSD-2-Clause
"""A kernel message is reported with the call that wrote it, and with no other call."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.live.support import BPF_NUMBERS, PYTHON, series, trace

from retsnoop_py.vm.machine import Machine

#: Each write to /dev/kmsg takes the same path as every printk().
LOGGING = ("-e", "devkmsg_write", "-S")


def sessions(machine: Machine, *args: str, status: int = 0) -> list[dict[str, Any]]:
    """The sessions of a run."""
    result = trace(machine, "--format", "json", *args)
    assert result.status == status, result.err
    lines = [json.loads(line) for line in result.out.splitlines()]
    return [line for line in lines if line["type"] == "session"]


def log(text: str) -> tuple[str, ...]:
    """A shell that writes ``text`` as a line of the kernel's log."""
    return ("--", "sh", "-c", f"echo '{text}' > /dev/kmsg")


def test_what_is_logged_in_a_call_is_told_below_it_and_in_a_replay(machine: Machine) -> None:
    """One line of the log in text, and the same again from the recording."""
    path = machine.share / "messages.rsn"
    result = trace(machine, *LOGGING, "-o", str(path), *log("<3>bad superblock"))
    assert result.status == 0, result.err
    assert result.out.endswith("\nthe kernel said: bad superblock\n\n\n"), result.out
    assert trace(machine, "replay", "-S", str(path)).out == result.out


#: Processes that log their ids all at once, each so often.
PROCESSES, TIMES = 4, 40
CHATTER = f"""
import os
os.write(os.open('/proc/sys/kernel/printk_devkmsg', os.O_WRONLY), b'on\\n')
log = os.open('/dev/kmsg', os.O_WRONLY)
children = []
for _ in range({PROCESSES}):
    if not (child := os.fork()):
        for _ in range({TIMES}):
            os.write(log, b'<3>by %d' % os.getpid())
        os._exit(0)
    children.append(child)
for child in children:
    os.waitpid(child, 0)
"""


def test_no_message_of_another_thread_is_told(machine: Machine) -> None:
    """Before 5.19 the tracepoint of messages is hit by who is at the console for all others."""
    found = sessions(machine, *LOGGING, "--", PYTHON, "-c", CHATTER)
    told = [(one["pid"], [message["text"] for message in one["said"]]) for one in found]
    assert len(told) == PROCESSES * TIMES
    assert [(pid, said) for pid, said in told if said != [f"by {pid}"]] == []


@pytest.mark.oldest_and_newest
def test_who_does_not_want_them_gets_none(machine: Machine) -> None:
    """Neither in text nor in JSON."""
    (session,) = sessions(machine, *LOGGING, "--no-messages", *log("hello"))
    assert "said" not in session


#: A file system context that is given an option that it does not know; numbers of system calls are
#: the same on x86-64 and arm64.
FS_OPEN, FS_CONFIG, SET_STRING = 430, 431, 1
MOUNTING = f"""
import ctypes
syscall = ctypes.CDLL(None).syscall
fs = syscall({FS_OPEN}, b'tmpfs', 0)
raise SystemExit(syscall({FS_CONFIG}, fs, {SET_STRING}, b'bogus', b'1', 0) and 3)
"""


def test_the_log_of_a_file_system_context_is_told(machine: Machine) -> None:
    """This message is in no other log."""
    command = ("--", PYTHON, "-c", MOUNTING)
    (session,) = sessions(machine, "-e", "*_sys_fsconfig", *command, status=3)
    (message,) = session["said"]
    assert message["source"] == "fs_context"
    assert message["text"].startswith("tmpfs: Unknown parameter")


def test_an_answer_to_a_netlink_message_is_told(machine: Machine) -> None:
    """5.10 has no tracepoint for it."""
    command = ("ip", "link", "add", "name", "x", "type", "bogus")
    found = sessions(machine, "-e", "rtnetlink_rcv_msg", "--", *command, status=2)
    refused = [one for one in found if one["stack"][-1]["call"]["result"]["error"] == "EOPNOTSUPP"]
    said = [{"source": "netlink", "text": "Unknown device type"}]
    said = said if series(machine) > (5, 10) else []
    assert [one.get("said", []) for one in refused] == [said]


#: A program that reads through its second argument, which it has not got, and BTF of an integer
#: that none is, for a loader that wants no log. The number of bpf(2) is given.
LOADING = """
import ctypes, resource, struct, sys
resource.setrlimit(resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY,) * 2)
def insn(op, registers=0, imm=0):
    return struct.pack('=BBhi', op, registers, 0, imm)
def bpf(command, layout, *values):
    attributes = struct.pack(layout, *values).ljust(128, b'\\0')
    return ctypes.CDLL(None).syscall(int(sys.argv[1]), command, attributes, len(attributes))
code = ctypes.create_string_buffer(insn(0xB7) + insn(0x79, 0x20) + insn(0x95))
license = ctypes.create_string_buffer(b'GPL')
refused = bpf(5, '=IIQQ', 2, 3, ctypes.addressof(code), ctypes.addressof(license))
types, strings = struct.pack('=4I', 1, 1 << 24, 4, 99 << 24 | 32), b'\\0int\\0'
head = struct.pack('=HBB5I', 0xEB9F, 1, 0, 24, 0, len(types), len(types), len(strings))
btf = ctypes.create_string_buffer(head + types + strings)
refused += bpf(18, '=QQI', ctypes.addressof(btf), 0, len(btf) - 1)
raise SystemExit(refused == -2 and 3)
"""


def test_what_a_loader_without_a_log_is_refused_for_is_told(machine: Machine) -> None:
    """The kernel does not format the message then: the tool formats it from its arguments."""
    number = BPF_NUMBERS[machine.arch.name]
    path = machine.share / "unwritten.rsn"
    command = ("--", PYTHON, "-c", LOADING, number)
    found = sessions(machine, "-e", "*_sys_bpf", "-o", str(path), *command, status=3)
    assert [one["said"] for one in found] == [
        [{"source": "verifier", "text": "R2 !read_ok", "instruction": 1}],
        [{"source": "btf", "text": "[1] Invalid int_data:63000020"}],
    ]
    again = trace(machine, "replay", "--format", "text", str(path)).out
    assert "\nthe kernel said: R2 !read_ok (instruction 1)\n" in again


#: Submits a request with an unknown operation: io_uring_setup(2), its rings, one entry.
SUBMITTING = """
import ctypes, mmap, struct
syscall = ctypes.CDLL(None).syscall
parameters = ctypes.create_string_buffer(120)
ring = syscall(425, 1, parameters)
_, tail, mask, _, _, _, array = struct.unpack_from('7I', parameters, 40)
rings = mmap.mmap(ring, 4096, offset=0)
requests = mmap.mmap(ring, 64, offset=0x10000000)
requests[:64] = struct.pack('=BBHiQQIIQ', 200, 0, 0, 7, 0, 0x1234, 9, 0, 42).ljust(64, b'\\0')
rings[array:array + 4] = bytes(4)
rings[tail:tail + 4] = struct.pack('I', 1)
raise SystemExit(syscall(426, ring, 1, 0, 0, None, 0) == 1 and 3)
"""


def test_a_refused_request_of_io_uring_is_told(machine: Machine) -> None:
    """The system call itself succeeds: it submitted one request."""
    command = ("--", PYTHON, "-c", SUBMITTING)
    found = sessions(machine, "-e", "*_sys_io_uring_enter", "-S", *command, status=3)
    text = (
        "operation 200 refused with EINVAL: fd 7, flags 0x0, off 0x0, addr 0x1234, len 9, "
        "rw_flags 0x0, user_data 0x2a"
    )
    said = [{"source": "io_uring", "text": text}] if series(machine) > (5, 10) else []
    assert [one.get("said", []) for one in found] == [said]
