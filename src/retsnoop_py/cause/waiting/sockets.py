# SPDX-License-Identifier: BSD-2-Clause
"""Waits for the peer of a socket: its address, its state, and the process at the other end."""

from __future__ import annotations

import os
import re
import socket
from struct import calcsize, pack, unpack_from

from retsnoop_py.cause.events import Address, read_address
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.waiting import proc
from retsnoop_py.cause.waiting.model import INFERRED, Blocked, Finding
from retsnoop_py.value import Value

__all__ = ["of_socket"]

_LISTEN, _SYN_SENT, _CLOSE_WAIT = "0A", "02", "08"
_STATES = {
    "01": "established", "02": "no answer yet", "03": "being accepted", "04": "closing",
    "05": "closing", "07": "not connected", "08": "closed by the other side", "09": "closing",
    "0A": "listening", "0B": "closing",
}  # fmt: skip
#: NETLINK_SOCK_DIAG (linux/unix_diag.h).
_NETLINK_SOCK_DIAG, _BY_FAMILY, _REQUEST = 4, 20, 1
_SHOW_PEER, _PEER = 4, 2
_HEADER, _REQUESTED, _ANSWER = "=IHHII", "=BBHIIIII", "=BBBBIII"


class Connection(Value):
    """An IP socket from /proc/net; ``queue`` is the number of bytes that the peer has not read."""

    kind: str
    state: str
    local: Address
    remote: Address
    queue: int = 0


def of_socket(thread: Blocked, inode: str, *, writing: bool) -> Finding | None:
    """Return the action that the peer of a socket must take; None for an unsupported family."""
    found = _connection(thread.pid, inode)
    if found is not None:
        return _of_ip(thread, found, writing=writing)
    if thread.call == "connect" and (address := _target(thread)) is not None:
        return _connecting(address)
    return _of_unix(thread, inode, writing=writing)


def _connection(pid: int, inode: str) -> Connection | None:
    for kind in ("tcp", "tcp6", "udp", "udp6", "raw"):
        for row in map(str.split, proc.net(pid, kind)):
            if len(row) > 9 and row[9] == inode:
                queue = int(row[4].partition(":")[0], 16)
                return Connection(kind, row[3], _address(row[1]), _address(row[2]), queue)
    return None


def _address(text: str) -> Address:
    """Parse an address such as ``0100007F:1F90``, in 4-byte words of the machine's byte order."""
    host, _, port = text.partition(":")
    raw = b"".join(
        int(host[at : at + 8], 16).to_bytes(4, "little") for at in range(0, len(host), 8)
    )
    family = socket.AF_INET if len(raw) == 4 else socket.AF_INET6
    if raw[:12] == b"\0" * 10 + b"\xff\xff":
        family, raw = socket.AF_INET, raw[12:]
    return Address(family, socket.inet_ntop(family, raw), int(port, 16))


def _of_ip(thread: Blocked, found: Connection, *, writing: bool) -> Finding:
    remote, local = str(found.remote), str(found.local)
    facts: tuple[tuple[str, int | str], ...] = (
        ("protocol", found.kind),
        ("local", local),
        ("remote", remote),
        ("state", _STATES.get(found.state, found.state)),
    )
    if found.state == _LISTEN:
        return Finding(
            "accept",
            f"{{waits}} for a client to connect to {local} ({found.kind})",
            "",
            (f"check that the client connects to port {found.local.port}",),
            facts=facts,
        )
    if found.state == _SYN_SENT:
        return _connecting(found.remote, facts)
    if found.kind.startswith(("udp", "raw")):
        return Finding(
            "socket",
            f"{{waits}} for a message to {local} ({found.kind})"
            + (f" from {remote}" if found.remote.port else ""),
            "UDP does not report lost messages.",
            ("tcpdump shows whether a message comes",),
            facts=facts,
        )
    peer, remark = _local_peer(thread.pid, found)
    end = f"{proc.who(peer)} is at the other end." if peer else remark
    on = (peer,) if peer else ()
    if writing:
        return Finding(
            "socket",
            f"{{waits}} until {remote} reads data ({found.kind}, {found.queue} bytes are waiting)",
            end,
            ("look at the program at the other end: it does not read",),
            facts=(*facts, ("peer", peer)),
            on=on,
        )
    return Finding(
        "socket",
        f"{{waits}} for data from {remote} ({found.kind}, {dict(facts)['state']})",
        end,
        ("look at the program at the other end: it does not answer",),
        facts=(*facts, ("peer", peer)),
        on=on,
    )


def _connecting(address: Address, facts: tuple[tuple[str, int | str], ...] = ()) -> Finding:
    return Finding(
        "connect",
        f"{{waits}} for {address} to accept the connection",
        "Nothing has answered: neither an acceptance nor a rejection came.",
        (
            f"check the address, and that the host is up (ping {address.host})",
            "a firewall that drops packets has the same effect",
        ),
        facts=facts or (("remote", str(address)), ("state", "no answer yet")),
    )


def _local_peer(pid: int, found: Connection) -> tuple[int, str]:
    """Return the local process at the other end, or 0 and a remark on a search cut short."""
    for kind in ("tcp", "tcp6"):
        for row in map(str.split, proc.net(pid, kind)):
            if len(row) < 10 or row[9] == "0":
                continue
            if (_address(row[1]), _address(row[2])) == (found.remote, found.local):
                holders = proc.holders(f"socket:[{row[9]}]")
                ends = [one.pid for one in holders.found]
                peer = next((one for one in ends if one != pid), next(iter(ends), 0))
                return peer, holders.remark
    return 0, ""


def _target(thread: Blocked) -> Address | None:
    """Return the address argument of connect(2)."""
    size = thread.arguments[2] if len(thread.arguments) > 2 else 0
    return read_address(thread.memory(1, min(size, 128)))


def _of_unix(thread: Blocked, inode: str, *, writing: bool) -> Finding | None:
    row = _unix_row(thread.pid, inode)
    if row is None:
        return None
    flags, path = row
    if flags & 0x10000:  # SO_ACCEPTCON
        return Finding(
            "accept",
            f"{{waits}} for a client to connect to the socket {show(path)}",
            facts=(("path", path),),
        )
    if thread.call == "connect":
        target = _target(thread)
        path = target.path if target else path
        return Finding(
            "connect",
            f"{{waits}} for the service at the socket {show(path)} to accept the connection",
            "Its queue of new connections is full, so the service does not accept any.",
            ("look at the service: it may hang itself",),
            facts=(("path", path),),
        )
    peer = _unix_peer(int(inode))
    holders = proc.holders(f"socket:[{peer}]") if peer else proc.Holders(())
    ends = holders.found
    own = [one for one in ends if one.pid == thread.pid]
    others = [one.pid for one in ends if one.pid != thread.pid]
    if others:
        end = f"{proc.who(others[0])} has the other end."
    elif own:
        end = f"It has the other end itself (descriptor {own[0].descriptor})."
    else:
        end = holders.remark
    service = (_unix_row(thread.pid, str(peer)) or (0, ""))[1]
    what = "that the other end reads its data" if writing else "data"
    place = f"the socket {show(path or service)}" if path or service else "a socket pair"
    text = (
        f"{{waits}} until the other end of {place} reads data"
        if writing
        else (f"{{waits}} for {what} from {place}")
    )
    return Finding(
        "socket",
        text,
        end,
        ("look at the program at the other end",) if others else (),
        "observed" if ends else INFERRED,
        (("path", path or service), ("peer", others[0] if others else 0)),
        tuple(others[:1]),
    )


#: A row of /proc/net/unix: flags, inode and path.
_UNIX_ROW = re.compile(
    r"[0-9a-f]+: [0-9A-F]{8} [0-9A-F]{8} ([0-9A-F]{8}) [0-9A-F]{4} [0-9A-F]{2} +([0-9]+)(?: (.*))?",
    re.ASCII,
)


def _unix_row(pid: int, inode: str) -> tuple[int, str] | None:
    """Return the flags and the path of a unix socket; None if they are not known for certain.

    The kernel prints a path with a newline as it is, so that each user can add rows to the list.
    Then two rows have the same inode.
    """
    found = [
        row
        for line in proc.net(pid, "unix")
        if inode in line and (row := _UNIX_ROW.match(line)) is not None and row[2] == inode
    ]
    if len(found) != 1:
        return None
    return int(found[0][1], 16), found[0][3] or ""


def _unix_peer(inode: int) -> int:
    """Return the inode of the peer of a unix socket, 0 if the kernel does not report it."""
    every = 0xFFFFFFFF  # any state, any cookie
    body = pack(_REQUESTED, socket.AF_UNIX, 0, 0, every, inode, _SHOW_PEER, every, every)
    size = calcsize(_HEADER)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as asked:
            asked.settimeout(1)
            asked.send(pack(_HEADER, size + len(body), _BY_FAMILY, _REQUEST, 1, os.getpid()) + body)
            data = asked.recv(4096)
    except OSError:
        return 0
    if len(data) < size + calcsize(_ANSWER) or unpack_from(_HEADER, data)[1] != _BY_FAMILY:
        return 0
    at = size + calcsize(_ANSWER)
    while at + 4 <= len(data):
        length, kind = unpack_from("=HH", data, at)
        if kind == _PEER and length >= 8:
            return int(unpack_from("=I", data, at + 4)[0])
        at += max((length + 3) & ~3, 4)
    return 0
