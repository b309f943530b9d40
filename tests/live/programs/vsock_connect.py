# SPDX-License-Identifier: BSD-2-Clause
"""vsock_connect.py N PORT: N connections to a port of this machine where nobody listens."""

from __future__ import annotations

import contextlib
import socket
import sys

#: VMADDR_CID_LOCAL (linux/vm_sockets.h).
HERE = 1

for _ in range(int(sys.argv[1])):
    made = socket.socket(socket.AF_VSOCK, socket.SOCK_STREAM)
    with contextlib.closing(made), contextlib.suppress(ConnectionResetError):
        made.connect((HERE, int(sys.argv[2])))
        sys.exit("somebody listens")
