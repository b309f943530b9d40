# SPDX-License-Identifier: BSD-2-Clause
"""The process that reads untrusted files: what it can still do after it gave up its rights."""

from __future__ import annotations

import ctypes
import os
import struct
import subprocess
import textwrap
from pathlib import Path

import pytest

from retsnoop_py import package
from retsnoop_py.symbolize.isolated import ProgramReader
from retsnoop_py.unprivileged import sandbox

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
def test_every_jump_of_the_filter_ends_at_a_verdict(machine: str) -> None:
    """The filter of the other machine cannot be loaded here, so its steps are followed."""
    steps = list(struct.iter_unpack("=HBBI", sandbox._filter(machine)))
    assert len(steps) < 128  # a jump has 8 bits
    jumps = [(at, step) for at, step in enumerate(steps) if step[0] == sandbox._EQUALS]
    arch, *rows = jumps
    assert steps[arch[0] + 2][0] == sandbox._LOAD
    for at, (_, yes, no, _) in rows:
        assert steps[at + 1 + yes] == (sandbox._RETURN, 0, 0, sandbox._RET_ALLOW)
        assert no == 0
    assert steps[-2] == (sandbox._RETURN, 0, 0, sandbox._RET_ERRNO | 1)


def test_another_machine_has_no_filter() -> None:
    assert sandbox._filter("riscv64") == b""
