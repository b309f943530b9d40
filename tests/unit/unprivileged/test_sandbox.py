# SPDX-License-Identifier: BSD-2-Clause
"""The process that reads untrusted files: what it can still do after it gave up its rights."""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import textwrap
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from retsnoop_py import package
from retsnoop_py.symbolize.isolated import ProgramReader
from retsnoop_py.unprivileged import process, sandbox

TRY = """
import os, socket, sys
sys.path[:] = {path!r}
from retsnoop_py.unprivileged import sandbox
readable = open("/etc/passwd")
sandbox.enter()
def attempt(what):
    try:
        return what()
    except OSError as error:
        return error.errno
print({action})
"""


def confined(action: str) -> str:
    """What the expression ``action`` prints in a process that gave up its rights."""
    code = textwrap.dedent(TRY).format(path=package.search_path(), action=action)
    argv = [*package.python(), "-S", "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize(
    "action",
    [
        "attempt(lambda: open('/etc/passwd').read())",
        "attempt(lambda: os.open('/proc/1/environ', 0))",
        "attempt(lambda: os.listdir('/'))",
        "attempt(lambda: os.open('/usr/lib/debug/../../../etc/passwd', 0))",
    ],
)
def test_files_cannot_be_opened(action: str) -> None:
    assert confined(action) in ("1", "13")


@pytest.mark.parametrize(
    "action",
    [
        "attempt(lambda: socket.socket(socket.AF_INET))",
        "attempt(lambda: socket.socket(socket.AF_UNIX))",
        "attempt(lambda: socket.socketpair())",
        "attempt(lambda: os.fork())",
        "attempt(lambda: os.execv('/bin/true', ['true']))",
        "attempt(lambda: os.kill(os.getppid(), 0))",
        "attempt(lambda: os.unlink('/tmp/x'))",
    ],
)
def test_sockets_processes_and_signals_are_denied(action: str) -> None:
    assert confined(action) == "1"


def test_open_files_can_be_read_and_memory_used() -> None:
    assert confined("len(bytes(8 << 20)), readable.read()[:5]") == f"{8 << 20} root:"


def test_installed_debug_files_can_be_opened() -> None:
    """libdw looks there for the common file that dwz makes."""
    action = "attempt(lambda: os.open('/usr/lib/debug/.build-id/none', 0))"
    landlock = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) >= 1
    assert confined(action) == ("2" if landlock and Path("/usr/lib/debug").is_dir() else "1")


def test_the_reader_has_no_environment_no_network_and_a_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SECRET_TOKEN", "hunter2")
    reader = ProgramReader(lines=False)
    try:
        reader.start()
        with Path("/proc/self/exe").open("rb") as file:
            reader.build_id(file.fileno(), "python")
        child = Path(f"/proc/{reader.child}")
        status = dict(line.split(":\t", 1) for line in (child / "status").read_text().splitlines())
        assert status["Seccomp"] == "2"
        assert b"SECRET_TOKEN" not in (child / "environ").read_bytes()
        if os.geteuid() == 0:
            assert (child / "ns/net").readlink() != Path("/proc/self/ns/net").readlink()
            assert status["CapEff"].strip("0") == ""
    finally:
        reader.close()


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
@pytest.mark.parametrize("shares", [False, True])
def test_the_filter_allows_what_is_listed_and_nothing_else(machine: str, shares: bool) -> None:
    """The filter of the other machine cannot be loaded here, so its steps are followed."""
    audit, column = sandbox._ARCHITECTURES[machine]
    steps = list(struct.iter_unpack("=HBBI", sandbox._filter(machine, shares=shares)))
    assert len(steps) < 128  # a jump has 8 bits
    allowed = {row[column] for row in sandbox._ALLOWED.values()}
    mmap = sandbox._ALLOWED["mmap"][column]
    for number in (*range(600), *(1 << 30 | each for each in range(600))):
        for flags in (0x02, 0x22, 0x01, 0x21, 0x23, 0x102, 0x122, 0x21 | 0x40000):
            is_shared = flags & 0x21 == 0x21 and not shares
            denied = number == mmap and (is_shared or flags & 0x100)
            expected = number in allowed and not denied
            assert (verdict(steps, number, audit, flags) == 0x7FFF0000) == expected, number
    assert verdict(steps, 0, audit + 1, 0) == 0x80000000


def verdict(steps: list[tuple[int, ...]], number: int, audit: int, flags: int) -> int:
    """What a filter returns for a system call with these flags as its fourth argument."""
    data = {0: number, 4: audit, 40: flags}
    at = held = 0
    while True:
        code, yes, no, value = steps[at]
        at += 1
        if code == sandbox._RETURN:
            return value
        if code == sandbox._LOAD:
            held = data[value]
        elif code == sandbox._AND:
            held &= value
        else:
            assert code in (sandbox._EQUALS, sandbox._HAS)
            at += yes if (held == value if code == sandbox._EQUALS else held & value) else no


def test_another_machine_has_no_filter() -> None:
    assert sandbox._filter("riscv64") == b""


@pytest.mark.parametrize("flags", [0x01 | 0x20, 0x03 | 0x20, 0x02 | 0x20 | 0x100])
def test_memory_that_the_limit_does_not_count_is_denied(flags: int) -> None:
    """Shared memory, and a stack that grows: the limit of memory is for private data."""
    assert confined(f"sandbox.ctypes.CDLL(None).mmap(None, 4096, 3, {flags}, -1, 0)") == "-1"


def test_an_answer_that_drips_ends_with_the_time() -> None:
    ours, theirs = socket.socketpair()

    def drip() -> None:
        with suppress(OSError):
            theirs.sendall((1000).to_bytes(4, "little"))
            while True:
                time.sleep(0.1)
                theirs.sendall(b"x")

    with ours, theirs:
        thread = threading.Thread(target=drip)
        thread.start()
        began = time.monotonic()
        with pytest.raises(TimeoutError):
            process._receive(ours, 1 << 20, time.monotonic() + 1)
        assert time.monotonic() - began < 5
        ours.shutdown(socket.SHUT_RDWR)
        thread.join()
