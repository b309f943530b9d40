# SPDX-License-Identifier: BSD-2-Clause
"""Errors with one or a few usual meanings in a call, with the errors of real calls."""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import select
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cause.test_reasons import call, reason

from retsnoop_py.cause.decisions import usual_meanings
from retsnoop_py.cause.events import Address, Place
from retsnoop_py.cause.kinds import KINDS
from retsnoop_py.cause.operation import operation
from retsnoop_py.cause.reason import Reason

_FICLONE, _SIOCGIFADDR = 0x40049409, 0x8915


def _epoll_of_a_file() -> None:
    with Path("/etc/passwd").open() as file, select.epoll() as watched:
        watched.register(file)


def _twice_in_epoll() -> None:
    one, _ = os.pipe()
    with select.epoll() as watched:
        watched.register(one)
        watched.register(one)


def _append_by_sendfile() -> None:
    target = os.memfd_create("x")
    again = os.open(f"/proc/self/fd/{target}", os.O_WRONLY | os.O_APPEND)
    with Path("/etc/passwd").open() as file:
        os.sendfile(again, file.fileno(), 0, 10)


def _shorten_a_file_for_reading() -> None:
    with Path("/etc/passwd").open() as file:
        os.ftruncate(file.fileno(), 0)


def _write_lock_of_a_file_for_reading() -> None:
    with Path("/etc/passwd").open() as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _write_a_pipe_to_its_device() -> None:
    os.fsync(os.pipe()[1])


def _listen_with_datagrams() -> None:
    with socket.socket(type=socket.SOCK_DGRAM) as one:
        one.listen()


def _accept_without_listen() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.accept()


def _bind_twice() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        one.bind(("127.0.0.1", 0))


def _catch_kill() -> None:
    signal.signal(signal.SIGKILL, signal.SIG_IGN)


def _no_such_interface() -> None:
    with socket.socket() as one:
        fcntl.ioctl(one, _SIOCGIFADDR, struct.pack("256s", b"nosuch0"))


def _read_without_waiting() -> None:
    one, _ = os.pipe()
    os.set_blocking(one, False)
    os.read(one, 1)


@pytest.mark.parametrize(
    ("fails", "name", "arguments", "words", "is_inferred"),
    [
        (_epoll_of_a_file, "epoll_ctl", (4, 1, 3), "watch the file of descriptor 3", False),
        (_twice_in_epoll, "epoll_ctl", (4, 1, 3), "watches file descriptor 3 already", False),
        (_append_by_sendfile, "sendfile", (4, 3), "open for appending", True),
        (_shorten_a_file_for_reading, "ftruncate", (3,), "is not open for writing", True),
        (_write_lock_of_a_file_for_reading, "fcntl", (3, 6), "F_WRLCK", False),
        (_write_a_pipe_to_its_device, "fsync", (4,), "it is a pipe, a socket", False),
        (_listen_with_datagrams, "listen", (3, 128), "without connections, as of UDP", False),
        (_accept_without_listen, "accept4", (3,), "is not a listening socket", True),
        (_bind_twice, "bind", (3,), "has an address already", True),
        (_catch_kill, "rt_sigaction", (9,), "can catch or ignore SIGKILL", False),
        (_no_such_interface, "ioctl", (3, _SIOCGIFADDR), "no network interface", False),
        (_read_without_waiting, "read", (3,), "non-blocking mode", True),
        (os.wait, "wait4", (0xFFFFFFFF,), "no child process to wait for", True),
    ],
)
def test_the_meaning_of_a_real_error(
    fails: Callable[[], None],
    name: str,
    arguments: tuple[int, ...],
    words: str,
    is_inferred: bool,
) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - any error
        fails()
    assert caught.value.errno is not None
    filled = (*arguments, *(0,) * (6 - len(arguments)))
    opened = ((0, Place("/f", 0o100644, 3)),)
    found = reason(call(name, caught.value.errno, arguments=filled, places=opened))
    assert words in found.text
    assert found.is_inferred is is_inferred


def _of_socket(one: socket.socket, path: Path, name: str, do: str) -> Reason:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - any error
        getattr(one, do)(str(path))
    assert caught.value.errno is not None
    return reason(call(name, caught.value.errno, address=Address(socket.AF_UNIX, path=str(path))))


def test_a_socket_of_another_type_and_one_with_a_full_queue(tmp_path: Path) -> None:
    with (
        socket.socket(socket.AF_UNIX) as server,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other,
        socket.socket(socket.AF_UNIX) as waits,
        socket.socket(socket.AF_UNIX) as full,
    ):
        server.bind(str(tmp_path / "s"))
        server.listen(0)
        found = _of_socket(other, tmp_path / "s", "connect", "connect")
        assert "has another type" in found.text
        waits.connect(str(tmp_path / "s"))
        full.setblocking(False)
        found = _of_socket(full, tmp_path / "s", "connect", "connect")
        assert "The queue of the socket" in found.text


def test_an_abstract_socket_is_no_file() -> None:
    found = reason(call("bind", errno.EADDRINUSE, address=Address(socket.AF_UNIX, path="@shop")))
    assert "abstract name @shop" in found.text
    assert not any(one.startswith("rm ") for one in found.advice)


def test_a_process_with_a_tracer() -> None:
    trace_me = "ctypes.CDLL(None).ptrace(0, 0, 0, 0)"
    code = f"import ctypes, time; {trace_me}; print(1, flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            attach, other = (16, child.pid, 0, 0, 0, 0), os.getpid() + 1  # not the tracer itself
            found = reason(call("ptrace", errno.EPERM, arguments=attach, pid=other))
            assert f"(PID {child.pid}) already" in found.text
            assert f"end PID {os.getpid()} first" in found.advice[0]
        finally:
            child.kill()


def test_an_attribute_without_a_known_begin(tmp_path: Path) -> None:
    with pytest.raises(OSError) as caught:  # noqa: PT011 - any error
        os.setxattr(tmp_path, "comment", b"x")
    assert caught.value.errno is not None
    found = reason(call("setxattr", caught.value.errno, (0, str(tmp_path)), (1, "comment")))
    assert "comment is no name of an attribute" in found.text
    assert found.advice == ("name it user.comment",)


def test_a_bind_mount_of_a_file_on_a_directory(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    bind = (0, 0, 0, 1 << 12, 0, 0)
    texts = (0, str(file)), (1, str(tmp_path)), (2, ""), (4, "")
    found = reason(call("mount", errno.ENOTDIR, *texts, arguments=bind))
    assert f"{file} is a file, and {tmp_path} is a directory" in found.text
    texts = (0, "none"), (1, str(file)), (2, "tmpfs"), (4, "")
    found = reason(call("mount", errno.ENOTDIR, *texts))
    assert "can only be mounted on a directory" in found.text


def test_a_terminal_that_is_not_the_controlling_one() -> None:
    place = (0, Place("/dev/pts/0", 0o20620, 3))
    found = reason(call("ioctl", errno.ENOTTY, arguments=(0, 0x5410, 0, 0, 0, 0), places=(place,)))
    assert "is not the controlling terminal" in found.text
    place = (0, Place("/tmp/file", 0o100644, 3))
    found = reason(call("ioctl", errno.ENOTTY, arguments=(0, 0x5410, 0, 0, 0, 0), places=(place,)))
    assert "is not a terminal" in found.text


def test_a_clone_of_a_file_names_the_file(tmp_path: Path) -> None:
    place = (0, Place(str(tmp_path / "copy"), 0o100644, 3))
    clone = (4, _FICLONE, 3, 0, 0, 0)
    found = reason(call("ioctl", errno.EOPNOTSUPP, arguments=clone, places=(place,)))
    assert f"The file system of {tmp_path}/copy cannot clone files" in found.text


def test_answers_of_the_other_side() -> None:
    sent = reason(call("sendto", errno.ECONNREFUSED, places=((0, Place(None, 0o140777, 3)),)))
    assert "no program there has the port open" in sent.text
    address = Address(40, "an address of family 40", 0)
    virtual = reason(call("connect", errno.ECONNRESET, address=address))
    assert "No program listens on this port of the virtual machine" in virtual.text
    assert virtual.is_inferred


def test_sessions_and_groups_of_processes() -> None:
    assert operation(call("setsid", errno.EPERM)) == "creating a session"
    assert "leads a process group" in reason(call("setsid", errno.EPERM)).text
    child = call("setpgid", errno.EACCES, arguments=(7, 7, 0, 0, 0, 0))
    assert operation(child) == "changing the process group"
    assert "has run another program" in reason(child).text


def test_each_usual_meaning_is_complete() -> None:
    values = {"address": "/p", "argument": [1] * 6, "file": "/f"}
    for row in usual_meanings():
        assert row.kind in KINDS
        assert row.text.format(**values).endswith(".")
        assert row.advice
        assert not row.condition
        assert all(hasattr(errno, one) for one in row.errors)
        assert all(len(one) > 1 for one in row.given)
        assert not any("{" in one for one in row.advice)


def test_no_usual_meaning_hides_another() -> None:
    """A row without arguments before one with some would always apply first."""
    rows = usual_meanings()
    for number, row in enumerate(rows):
        for later in rows[number + 1 :]:
            if set(row.calls) & set(later.calls) and set(row.errors) & set(later.errors):
                assert row.given or row.between or row.unaligned or row.families, later.text


def test_a_range_of_memory_is_blamed_for_what_it_has() -> None:
    page = mmap.PAGESIZE

    def remapped(*arguments: int) -> str:
        return reason(call("mremap", errno.EINVAL, arguments=(*arguments, 0))).text

    assert remapped(page + 1, page, page, 0, 0) == "The address is no multiple of the page size."
    assert remapped(page, page, 0, 0, 0) == "The new length is 0."
    assert "MREMAP_MAYMOVE" in remapped(page, page, page, 2, page)
    assert "new address is no multiple" in remapped(page, page, page, 3, 17)
    assert "overlap" in remapped(page, page, page, 3, 2 * page)
    assert "flag" in reason(call("msync", errno.EINVAL, arguments=(page, page, 64, 0, 0, 0))).text
