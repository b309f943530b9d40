# SPDX-License-Identifier: BSD-2-Clause
"""``loopback.py COUNT``: so many connects to a closed port of the loopback interface.

Each sends a packet that a softirq takes right away, on top of the thread that sent it. Behind each
connect comes a bind() to an address that this host does not have.
"""

from __future__ import annotations

import contextlib
import fcntl
import socket
import struct
import sys

SIOCSIFFLAGS = 0x8914
IFF_UP = 1
#: Behind those that the kernel chooses itself, and nobody listens there.
CLOSED = 65535

with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))
for _ in range(int(sys.argv[1])):
    with socket.socket() as client, contextlib.suppress(ConnectionRefusedError):
        client.connect(("127.0.0.1", CLOSED))
    with socket.socket() as server, contextlib.suppress(OSError):
        server.bind(("192.0.2.1", 0))
