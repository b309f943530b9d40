# SPDX-License-Identifier: BSD-2-Clause
"""Ask for a dummy network device with a multicast address: its module refuses (EADDRNOTAVAIL)."""

from __future__ import annotations

import errno
import socket
import struct

RTM_NEWLINK = 16
REQUEST_ACK_EXCL_CREATE = 0x1 | 0x4 | 0x200 | 0x400
IFLA_ADDRESS, IFLA_LINKINFO, IFLA_INFO_KIND = 1, 18, 1


def attribute(kind: int, data: bytes) -> bytes:
    return struct.pack("=HH", len(data) + 4, kind) + data + bytes(-len(data) % 4)


body = bytes(16)  # struct ifinfomsg: any family, any type
body += attribute(IFLA_ADDRESS, bytes([1, 0, 0, 0, 0, 0]))
body += attribute(IFLA_LINKINFO, attribute(IFLA_INFO_KIND, b"dummy"))
header = struct.pack("=IHHII", 16 + len(body), RTM_NEWLINK, REQUEST_ACK_EXCL_CREATE, 1, 0)
with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE) as route:
    route.send(header + body)
    (error,) = struct.unpack_from("=i", route.recv(4096), 16)
assert error == -errno.EADDRNOTAVAIL, error
