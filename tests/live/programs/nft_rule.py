# SPDX-License-Identifier: BSD-2-Clause
"""Adds an nftables rule to a chain that is not there, as nft(8) does: by a batch of netlink."""

import os
import socket
import struct
import sys

NETLINK_NETFILTER, NFTABLES = 12, 10
BEGIN, END, NEW_TABLE, NEW_RULE = 16, 17, NFTABLES << 8, NFTABLES << 8 | 6
REQUEST, ACKNOWLEDGE, CREATE = 1, 4, 0x400
INET, ERROR = 1, 2
TABLE, CHAIN = 1, 2


def text(kind: int, value: str) -> bytes:
    """An attribute."""
    data = value.encode() + b"\0"
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def message(kind: int, flags: int, number: int, data: bytes = b"", resource: int = 0) -> bytes:
    """A netlink message with the header of netfilter."""
    body = struct.pack(">BBH", INET if data else 0, 0, resource) + data
    return struct.pack("=IHHII", 16 + len(body), kind, flags, number, 0) + body


def send(kind: int, data: bytes) -> int:
    """Send one message as a batch; the errno of its answer."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER) as netlink:
        batch = message(BEGIN, REQUEST, 1, resource=NFTABLES)
        batch += message(kind, REQUEST | ACKNOWLEDGE | CREATE, 2, data)
        batch += message(END, REQUEST, 3, resource=NFTABLES)
        netlink.send(batch)
        answer = netlink.recv(65536)
    assert struct.unpack_from("=H", answer, 4)[0] == ERROR
    return -struct.unpack_from("=i", answer, 16)[0]


send(NEW_TABLE, text(TABLE, "shop"))
error = send(NEW_RULE, text(TABLE, "shop") + text(CHAIN, "nochain"))
if error:
    sys.exit(f"Error: Could not process rule: {os.strerror(error)}")
