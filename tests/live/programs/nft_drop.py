# SPDX-License-Identifier: BSD-2-Clause
"""Makes the nftables table ip shop, whose chain outgoing drops UDP packets to a port, without nft.

Arguments: the port, and optionally "policy" for a chain whose policy drops everything.
"""

import socket
import struct
import sys

NFTABLES, NETFILTER = 10, 12
ACCEPT, DROP = 1, 0


def attr(kind, data):
    return struct.pack("=HH", 4 + len(data), kind) + data + bytes(-len(data) % 4)


def nest(kind, *parts):
    return attr(kind | 0x8000, b"".join(parts))


def number(kind, value):
    return attr(kind, struct.pack(">I", value & 0xFFFFFFFF))


def text(kind, value):
    return attr(kind, value.encode() + b"\0")


def message(kind, *parts, flags=0x401):
    body = struct.pack(">BBH", 2, 0, NFTABLES if kind in (16, 17) else 0) + b"".join(parts)
    kind = kind if kind in (16, 17) else NFTABLES << 8 | kind
    return (
        struct.pack("=IHHII", 16 + len(body), kind, flags if kind in (16, 17) else flags | 4, 1, 0)
        + body
    )


def expression(name, *parts):
    return nest(1, text(1, name), nest(2, *parts))


def equal(data):
    return expression("cmp", number(1, 1), number(2, 0), nest(3, attr(1, data)))


def main():
    port, policy = int(sys.argv[1]), DROP if sys.argv[2:] == ["policy"] else ACCEPT
    hook = nest(4, number(1, 3), number(2, 0))  # output, priority 0
    chain = [text(1, "shop"), text(3, "outgoing"), hook, number(5, policy), text(7, "filter")]
    rule = [
        expression("payload", number(1, 1), number(2, 2), number(3, 2), number(4, 2)),
        equal(struct.pack(">H", port)),
        expression("immediate", number(1, 0), nest(2, nest(2, number(1, DROP)))),
    ]
    batch = [message(16, flags=1), message(0, text(1, "shop")), message(3, *chain)]
    if policy == ACCEPT:
        batch.append(message(6, text(1, "shop"), text(2, "outgoing"), nest(4, *rule), flags=0xC01))
    batch.append(message(17, flags=1))
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETFILTER) as netlink:
        netlink.bind((0, 0))
        netlink.send(b"".join(batch))
        netlink.settimeout(5)
        for _ in range(len(batch) - 2):
            _, kind, _, _, _, error = struct.unpack_from("=IHHIIi", netlink.recv(65536))
            if kind == 2 and error:
                sys.exit(f"nftables: error {-error}")


main()
