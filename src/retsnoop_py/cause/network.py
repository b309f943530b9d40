# SPDX-License-Identifier: BSD-2-Clause
"""Reasons at sockets: a port in use, a port for root, no listener."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_UNIX, AddressFamily

from retsnoop_py.cause.events import SystemCall
from retsnoop_py.cause.not_found import advice_of_place
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.search import SECONDS
from retsnoop_py.cause.shell import shell_path, shell_word
from retsnoop_py.cause.waiting import proc
from retsnoop_py.kernel.errno import errno_name

__all__ = [
    "address_in_use",
    "is_elsewhere",
    "no_answer",
    "no_family",
    "no_listener",
    "no_route",
    "not_a_local_address",
    "special_file",
    "too_long_message",
]

#: IFF_UP of linux/if.h.
_UP = 1
_STATES = {"0A": "listens on", "06": "has just closed"}
#: The device of /dev/tty: the controlling terminal of the process that opens it.
_TERMINAL = os.makedev(5, 0)
#: Bytes of a UDP datagram behind its headers.
_MOST_UDP, _MOST_UDP_6 = 65507, 65527
#: The maximum number of users of a port in a sentence.
_MOST_USERS = 5


def address_in_use(scene: Scene) -> Reason | None:
    """Another socket has the address."""
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX and address.path.startswith("@"):
        return Reason(
            "busy",
            f"A socket with the abstract name {address.path} exists already. It is no file.",
            ("ss -xp shows the process: end it, or choose another name",),
            is_seen_later=False,
        )
    if address.family == AF_UNIX:
        return Reason(
            "busy",
            f"The file {address.path} exists already.",
            (f"rm {shell_path(address.path)}, if no program uses that socket",),
        )
    if scene.call.state is not None and is_elsewhere(scene.call):
        return Reason(
            "busy",
            f"Port {address.port} is in use in the network namespace of the process.",
            (f"choose another port, or find its user there: ss -tulpn sport = :{address.port}",),
            is_seen_later=False,
        )
    found = _sockets(address.port)
    if not found:
        return None
    words = "; ".join(found[:_MOST_USERS]) + ("; ..." if len(found) > _MOST_USERS else "")
    return Reason(
        "busy",
        f"Port {address.port} is in use: {words}.",
        ("end that process, or choose another port",),
    )


def _sockets(port: int) -> list[str]:
    """Return the users of a port."""
    inodes: dict[str, str] = {}
    for kind in ("tcp", "tcp6", "udp", "udp6"):
        for row in _rows(kind):
            words = row.split()
            if int(words[1].rpartition(":")[2], 16) != port:
                continue
            if kind.startswith("udp"):
                inodes[words[9]] = f"is bound to port {port} ({kind})"
            elif words[3] in _STATES:
                inodes[words[9]] = f"{_STATES[words[3]]} port {port} ({kind})"
            if len(inodes) > _MOST_USERS:
                break
    found = []
    with proc.searched_once():
        for inode, what in inodes.items():
            if inode == "0":
                found.append(f"a connection {what}; the kernel keeps it for a minute (TIME_WAIT)")
            else:
                found.append(f"{_holder_of_socket(inode)} {what}")
    return found


def _rows(kind: str) -> Iterator[str]:
    """Yield the lines of a list of sockets one by one: a user can have a million sockets."""
    try:
        with Path(f"/proc/net/{kind}").open() as file:
            yield from islice(file, 1, None)
    except OSError:
        pass


def _holder_of_socket(inode: str) -> str:
    holders = proc.holders(f"socket:[{inode}]")
    if holders.found:
        pid = holders.found[0].pid
        return f"{proc.comm(pid)} (PID {pid})"
    if holders.remark:
        return f"a process that was not found in {SECONDS:.0f} s"
    return "a process of another user"


def no_listener(scene: Scene) -> Reason | None:
    """No process listens on the address."""
    address = scene.call.address
    if address is None:
        return None
    if address.family == AF_UNIX and address.path.startswith("@"):
        return Reason(
            "not-listening",
            f"No process listens on the abstract name {show(address.path)}. It is no file, and "
            "belongs to one network namespace.",
            ("start its service in this network namespace; ss -xl lists the sockets",),
            is_seen_later=False,
        )
    if address.family == AF_UNIX:
        return Reason(
            "not-listening",
            f"The socket {show(address.path)} exists, and no process listens on it.",
            advice_of_place(address.path) or ("start its service",),
        )
    here = address.host.startswith(("127.", "0.")) or address.host in ("::1", "::")
    where = "on this machine" if here else "there, or a firewall rejects the connection"
    return Reason(
        "not-listening",
        f"No process listens on {address} {where}.",
        ("start the service, or check the port",),
        is_seen_later=False,
    )


def no_route(scene: Scene) -> Reason | None:
    """No route leads to the address, or the next host on it does not answer."""
    address = scene.call.address
    if address is None or address.family not in (AF_INET, AF_INET6):
        return None
    if errno_name(scene.call.error) == "ENETUNREACH":
        family = "-6 " if address.family == AF_INET6 else ""
        down = list(_down()) if not is_elsewhere(scene.call) else []
        text = f"This machine has no route to {address.host}."
        if down:
            text += f" {'A' if len(down) == 1 else 'Some'} network interface"
            text += f"{'s are' if len(down) > 1 else ' is'} down: {', '.join(map(show, down[:3]))}."
        return Reason(
            "no-route",
            text,
            (
                *(f"start the interface: ip link set {shell_word(one)} up" for one in down[:1]),
                f"add a route: ip {family}route add default via GATEWAY",
                f"ip {family}route shows the routes",
            ),
            is_seen_later=bool(down),
        )
    return Reason(
        "unreachable",
        f"{address.host} cannot be reached: it does not answer on the local network, or a router "
        "or firewall on the way reports it as unreachable.",
        (f"ip route get {address.host} shows the way; ip neigh shows which neighbours answer",),
        is_seen_later=False,
    )


def is_elsewhere(call: SystemCall) -> bool:
    """Return whether the process had another network namespace than we have, or may have had."""
    state = call.state
    try:
        ours = os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return True
    return state is None or state.network != ours


def _down() -> Iterator[str]:
    """Network interfaces of devices that are switched off."""
    for folder in sorted(Path("/sys/class/net").glob("*")):
        try:
            flags = int((folder / "flags").read_text(), 16)
        except (OSError, ValueError):
            continue
        if not flags & _UP and (folder / "device").exists():
            yield folder.name


def no_answer(scene: Scene) -> Reason | None:
    """No answer came in time."""
    address = scene.call.address
    if address is None:
        return None
    return Reason(
        "no-answer",
        f"{address} did not answer in time: the host is down, or a firewall drops the packets.",
        ("check the address, the host, and the firewalls on the way",),
        is_seen_later=False,
    )


def not_a_local_address(scene: Scene) -> Reason | None:
    """bind(2) to an address that no interface has."""
    address = scene.call.address
    if address is None or address.family not in (AF_INET, AF_INET6):
        return None
    return Reason(
        "not-local",
        f"No network interface of this machine has the address {address.host}.",
        (
            "ip address shows the addresses",
            "or bind to the wildcard address, which means all of them",
        ),
        is_seen_later=False,
    )


def too_long_message(scene: Scene) -> Reason | None:
    """send(2) of a datagram that is larger than its protocol carries (EMSGSIZE)."""
    call = scene.call
    address = call.address
    if call.name != "sendto" or address is None or address.family not in (AF_INET, AF_INET6):
        return None
    length = call.arguments[2]
    most = _MOST_UDP if address.family == AF_INET else _MOST_UDP_6
    if length <= most:
        return None
    return Reason(
        "too-long",
        f"The message has {length} bytes. A UDP datagram carries at most {most}.",
        ("send several smaller messages, or use TCP",),
        is_seen_later=False,
    )


def no_family(scene: Scene) -> Reason | None:
    """socket(2) of a family that this kernel does not have."""
    number = scene.call.arguments[0] & 0xFFFFFFFF
    try:
        name = AddressFamily(number).name
    except ValueError:
        name = f"number {number}"
    return Reason(
        "unsupported",
        f"This kernel does not support sockets of the family {name}.",
        ("load its module, if there is one; for IPv6: boot without ipv6.disable=1",),
        is_seen_later=False,
    )


def special_file(scene: Scene) -> Reason | None:
    """open(2) of a socket, of a FIFO without a reader, of a device without a driver."""
    path = scene.path
    try:
        status = os.stat(path or "")
    except OSError:
        return None
    if stat.S_ISSOCK(status.st_mode):
        text = "is a socket. Programs connect to a socket, and cannot open it as a file"
        advice = f"connect to it, for example: nc -U {shell_path(path or '')}"
    elif stat.S_ISFIFO(status.st_mode):
        text, advice = "is a FIFO that no process reads", "start the reader first"
    elif stat.S_ISCHR(status.st_mode) and status.st_rdev == _TERMINAL:
        return Reason(
            "special-file",
            f"{show(path or '')} is the terminal of the process, and the process has none.",
            (
                "run it in a terminal: ssh -t, docker run -it",
                "or script -qc COMMAND /dev/null, which gives COMMAND a terminal",
            ),
            is_seen_later=False,
        )
    elif stat.S_ISCHR(status.st_mode) or stat.S_ISBLK(status.st_mode):
        text = "is a device file, and no driver of this kernel serves its device"
        advice = "load the driver, or connect the device"
    else:
        return None
    return Reason("special-file", f"{show(path or '')} {text}.", (advice,))
