# SPDX-License-Identifier: BSD-2-Clause
"""Reasons that sockets have: a port in use, a port for root, nobody who listens."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNIX

from retsnoop_py.cause import files
from retsnoop_py.cause.reason import Reason, Scene

__all__ = [
    "address_in_use",
    "no_listener",
    "privileged_port",
]

#: The highest port that only root may use, where the kernel does not say it.
_FIRST_FREE_PORT = 1024
_STATES = {"0A": "listens on", "06": "has just closed"}


def address_in_use(scene: Scene) -> Reason | None:
    """Another socket has the address."""
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX:
        return Reason(
            "busy",
            f"The file {address.path} exists already.",
            (f"rm {shlex.quote(address.path)}, if no program uses that socket",),
        )
    found = list(_sockets(address.port))
    if not found:
        return None
    words = "; ".join(found)
    return Reason(
        "busy",
        f"Port {address.port} is in use: {words}.",
        ("end that process, or choose another port",),
    )


def _sockets(port: int) -> Iterator[str]:
    """Who uses a port."""
    inodes: dict[str, str] = {}
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        try:
            rows = Path(f"/proc/net/{kind}").read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            words = row.split()
            if int(words[1].rpartition(":")[2], 16) != port:
                continue
            if kind.startswith("udp"):
                inodes[words[9]] = f"is bound to port {port} ({kind})"
            elif words[3] in _STATES:
                inodes[words[9]] = f"{_STATES[words[3]]} port {port} ({kind})"
    for inode, what in inodes.items():
        if inode == "0":
            yield f"a connection {what}; the kernel keeps it for a minute (TIME_WAIT)"
            continue
        holder = _holder_of_socket(inode)
        yield f"{holder} {what}" if holder else f"a process of another user {what}"


def _holder_of_socket(inode: str) -> str | None:
    wanted = f"socket:[{inode}]"
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if os.readlink(link) == wanted:
                folder = link.parent.parent
                name = (folder / "comm").read_text().strip()
                return f"{name} (PID {folder.name})"
        except OSError:
            continue
    return None


def privileged_port(scene: Scene) -> Reason | None:
    """The port is below the first one that every user may use."""
    address = scene.call.address
    if address is None or address.family not in (AF_INET, AF_INET6):
        return None
    first = _FIRST_FREE_PORT
    setting = Path("/proc/sys/net/ipv4/ip_unprivileged_port_start")
    try:
        first = int(setting.read_text())
    except (OSError, ValueError):
        pass
    if not 0 < address.port < first:
        return None
    return Reason(
        "capability",
        f"Ports below {first} require CAP_NET_BIND_SERVICE. The command ran as user "
        f"{files.user_name(scene.who.uid)} without it.",
        (
            f"choose port {first} or higher",
            "or setcap cap_net_bind_service=+ep PROGRAM",
            f"or sysctl net.ipv4.ip_unprivileged_port_start={address.port}",
        ),
    )


def no_listener(scene: Scene) -> Reason | None:
    """No process listens on the address."""
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX:
        return Reason(
            "not-listening",
            f"The socket {address.path} exists, and no process listens on it.",
            ("start its service",),
        )
    here = address.host.startswith(("127.", "0.")) or address.host in ("::1", "::")
    where = "on this machine" if here else "there, or a firewall rejects the connection"
    return Reason(
        "not-listening",
        f"No process listens on {address} {where}.",
        ("start the service, or check the port",),
        is_seen_later=False,
    )
