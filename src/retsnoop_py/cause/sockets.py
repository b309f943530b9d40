# SPDX-License-Identifier: BSD-2-Clause
"""Reasons at sockets other than addresses: protocols, options, connections, routes."""

from __future__ import annotations

import re
import socket
from contextlib import suppress
from pathlib import Path
from socket import AF_INET, AF_INET6, AF_VSOCK, AddressFamily

from retsnoop_py.cause.events import Address
from retsnoop_py.cause.modules import has_module
from retsnoop_py.cause.network import is_elsewhere
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.kernel.errno import errno_name

__all__ = ["connection", "missing_interface", "no_ipv6", "no_option", "no_protocol", "route_type"]

#: Addresses that mean something on one link alone: fe80::/10, and multicast of that scope.
_LINK_LOCAL = re.compile("fe[89ab][0-9a-f]:|ff[0-9a-f]2:")
_IPV6 = Path("/proc/sys/net/ipv6/conf")
#: Protocols of socket(2) that modules have (linux/in.h), by number.
_PROTOCOLS = {33: "dccp", 132: "sctp", 136: "udplite", 262: "mptcp"}
#: Levels of setsockopt(2), and IPT_SO_GET_INFO and EBT_SO_GET_INFO, by which iptables begins.
_SOCKET, _IP, _IPV6_LEVEL, _TCP = 1, 0, 41, 6
_BINDTODEVICE, _CONGESTION = 25, 13
_TABLES = {_IP: "iptable_filter", _IPV6_LEVEL: "ip6table_filter"}
_FIRST_OF_TABLES = 64
#: The problem with the connection and the advice, by error.
_CONNECTIONS = {
    "ENOTCONN": (
        "The socket is not connected: connect() failed or was not called, or the peer ended.",
        "check the result of connect(); a server uses the socket that accept() returned",
    ),
    "EDESTADDRREQ": (
        "The socket has no destination: no address was given, and the socket is not connected.",
        "call connect() first, or give the address to sendto()",
    ),
    "EISCONN": (
        "The socket is connected already.",
        "create a new socket for another connection",
    ),
    "ECONNRESET": (
        "The other side reset the connection: its program ended, or closed it before the end.",
        "find out why the other side closed it (its log, for example)",
    ),
}
#: By error: the type of a route that refuses packets (ip-route(8)).
_ROUTES = {"EACCES": "prohibit", "EINVAL": "blackhole", "EHOSTUNREACH": "unreachable"}


def no_protocol(scene: Scene) -> Reason | None:
    """socket(2) of a protocol that this kernel does not have (EPROTONOSUPPORT)."""
    number, kind, protocol = (one & 0xFFFFFFFF for one in scene.call.arguments[:3])
    try:
        family = AddressFamily(number).name
    except ValueError:
        family = f"number {number}"
    module = _PROTOCOLS.get(protocol, "")
    name = module.upper() or str(protocol)
    advice = "check that family, type and protocol fit together"
    if module and has_module(module):
        advice = f"load its module: modprobe {module}"
    elif module:
        advice = f"install a kernel that has the module {module}"
    return Reason(
        "unsupported",
        f"This kernel does not support the protocol {name} for sockets of the family {family} and "
        f"the type {kind & 0xF}.",
        (advice,),
        is_seen_later=False,
    )


def missing_interface(scene: Scene) -> Reason | None:
    """setsockopt(2) with SO_BINDTODEVICE: the interface does not exist (ENODEV)."""
    if tuple(scene.call.arguments[1:3]) != (_SOCKET, _BINDTODEVICE):
        return None
    return Reason(
        "not-found",
        "There is no network interface with the name that the program gave for SO_BINDTODEVICE.",
        ("check the name: ip link lists the network interfaces",),
        is_seen_later=False,
    )


def no_option(scene: Scene) -> Reason | None:
    """An option of a socket that this kernel does not have (ENOPROTOOPT, ENOENT)."""
    level, option = (one & 0xFFFFFFFF for one in scene.call.arguments[1:3])
    error = errno_name(scene.call.error)
    if level in _TABLES and option == _FIRST_OF_TABLES:
        module = _TABLES[level]
        return Reason(
            "module",
            f"The kernel has no table for iptables: the module {module} is not loaded.",
            (f"modprobe {module}", "or use nft or iptables-nft, which do not need this module"),
            is_seen_later=False,
        )
    if error == "ENOENT" and (level, option) == (_TCP, _CONGESTION):
        names = ""
        with suppress(OSError):
            names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().strip()
        return Reason(
            "not-found",
            "The kernel does not have this congestion control. It has: "
            f"{', '.join(names.split())}.",
            ("load its module: modprobe tcp_NAME", "or choose one of these"),
        )
    if error != "ENOPROTOOPT":
        return None
    name = f"number {option}"
    if level == _SOCKET:
        names_of = (one for one in dir(socket) if one.startswith("SO_"))
        name = next((one for one in names_of if getattr(socket, one) == option), name)
    return Reason(
        "unsupported",
        f"This kernel, or this kind of socket, does not have the socket option {name} of the level "
        f"{level}.",
        ("do without the option, or use a newer kernel",),
        is_seen_later=False,
    )


def connection(scene: Scene) -> Reason | None:
    """The socket is not connected, or not any more."""
    address = scene.call.address
    if scene.call.name == "connect" and address is not None and address.family == AF_VSOCK:
        return Reason(
            "not-listening",
            "No program listens on this port of the virtual machine or its host (AF_VSOCK), or the "
            "kernel has no driver that reaches it.",
            (
                "start the service there",
                "load the driver: modprobe vhost_vsock (host), vmw_vsock_virtio_transport (guest)",
            ),
            is_seen_later=False,
            is_inferred=True,
        )
    text, advice = _CONNECTIONS[errno_name(scene.call.error)]
    return Reason("closed", text, (advice,), is_seen_later=False)


def no_ipv6(scene: Scene) -> Reason | None:
    """IPv6 is switched off, or a link-local address comes without an interface."""
    address = scene.call.address
    if address is None or address.family != AF_INET6 or is_elsewhere(scene.call):
        return None
    if errno_name(scene.call.error) == "EINVAL":
        if not _LINK_LOCAL.match(address.host):
            return None
        return Reason(
            "not-local",
            f"{address.host} is a link-local address. Such an address needs a network interface.",
            (f"add the interface: {address.host}%eth0; ip link lists the interfaces",),
            is_seen_later=False,
        )
    name = "lo" if address.host == "::1" else "all"
    for one in dict.fromkeys((name, "all")):
        with suppress(OSError):
            if (_IPV6 / one / "disable_ipv6").read_text().strip() == "1":
                setting = f"net.ipv6.conf.{one}.disable_ipv6"
                return Reason(
                    "sysctl",
                    f"IPv6 is switched off: {setting} is 1.",
                    (f"sysctl {setting}=0", "or use IPv4"),
                )
    return None


def route_type(scene: Scene) -> Reason | None:
    """A route that rejects packets, or a broadcast address (EACCES, EINVAL, EHOSTUNREACH).

    The kernel looks up the route again for our own socket; this does not send packets.
    """
    address, error = scene.call.address, errno_name(scene.call.error)
    if address is None or address.family not in (AF_INET, AF_INET6) or is_elsewhere(scene.call):
        return None
    again = _connected(address)
    family = "-6 " if address.family == AF_INET6 else ""
    if again == scene.call.error:
        kind = _ROUTES[error]
        return Reason(
            "no-route",
            f"A route or a routing rule of the type {kind} refuses packets to {address.host}.",
            (
                f"ip {family}route show table all type {kind}, and ip {family}rule, list them",
                f"remove the route: ip {family}route del {kind} NETWORK",
            ),
        )
    if error != "EACCES" or again:
        return None
    return Reason(
        "unsupported",
        f"{address.host} is a broadcast address. A socket may only send there if it has the option "
        "SO_BROADCAST.",
        ("set the option: setsockopt(SO_BROADCAST); ping has -b for it", "or check the address"),
    )


def _connected(address: Address) -> int:
    """The error that the route to the address gives to a socket that may broadcast; 0: none."""
    with socket.socket(address.family, socket.SOCK_DGRAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        return one.connect_ex((address.host, address.port or 9))
