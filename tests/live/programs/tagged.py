# SPDX-License-Identifier: BSD-2-Clause
"""System calls that take unions, each of which says in itself or beside it which variant it is."""

from __future__ import annotations

import ctypes
import mmap
import os
import socket
import struct

from retsnoop_py.workload.cases import bpf

LINK_CREATE, TRACE_ITER, BAD_FD = 28, 28, 9999
#: Of x86-64 and arm64 alike.
IO_URING_SETUP, IO_URING_ENTER = 425, 426
SQES = 0x10000000
TIMEOUT = 11
PERF_EVENT_OPEN = 241 if os.uname().machine == "aarch64" else 298
SOFTWARE, BREAKPOINT, FREQ = 1, 5, 1 << 10

libc = ctypes.CDLL(None, use_errno=True)


def call(number: int, *args: object) -> int:
    return int(libc.syscall(ctypes.c_long(number), *args))


def create_link() -> None:
    """Of an iterator, through a descriptor that is not open."""
    bpf(LINK_CREATE, struct.pack("=IIIIQI4x", BAD_FD, 0, TRACE_ITER, 0, 0x7000, 3))


def connect() -> None:
    for family, address in (
        (socket.AF_INET, ("127.0.0.1", 9)),
        (socket.AF_INET6, ("::1", 9)),
        (socket.AF_UNIX, "/run/retsnoop-py-missing"),
        (socket.AF_NETLINK, (77, 0)),
    ):
        kind = socket.SOCK_RAW if family == socket.AF_NETLINK else socket.SOCK_STREAM
        with socket.socket(family, kind) as one:
            one.connect_ex(address)  # type: ignore[arg-type]


def open_events() -> None:
    """On a CPU that no machine has."""
    watched = struct.pack("=IIQQ", 0, 4, 0x1234, 4)
    for kind, flags, rest in ((SOFTWARE, FREQ, b""), (BREAKPOINT, 0, watched)):
        head = struct.pack("=IIQQQQQ", kind, 112, 0, 1000, 0, 0, flags)
        attr = (head + rest).ljust(112, b"\0")
        call(PERF_EVENT_OPEN, attr, 0, ctypes.c_int(99_999), -1, ctypes.c_ulong(0))


def submit_timeout() -> None:
    """To io_uring; there is no timeout of two times."""
    params = ctypes.create_string_buffer(120)
    ring = call(IO_URING_SETUP, 1, params)
    entries, array = struct.unpack_from("=I", params)[0], struct.unpack_from("=I", params, 64)[0]
    tail = struct.unpack_from("=I", params, 44)[0]
    with (
        mmap.mmap(ring, array + 4 * entries, offset=0) as queue,
        mmap.mmap(ring, 64 * entries, offset=SQES) as requests,
    ):
        requests[:32] = struct.pack("=BBHiQQII", TIMEOUT, 0, 0, -1, 5, 0x7000, 2, 1)
        queue[array : array + 4] = bytes(4)
        queue[tail : tail + 4] = struct.pack("=I", 1)
        call(IO_URING_ENTER, ring, 1, 0, 0, None, ctypes.c_size_t(0))
    os.close(ring)


create_link()
connect()
open_events()
submit_timeout()
