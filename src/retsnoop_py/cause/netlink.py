# SPDX-License-Identifier: BSD-2-Clause
"""Netlink messages that the kernel refuses, as ip(8) and tc(8) send them.

The system call that sends such a message succeeds; the error comes in the kernel's answer.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from socket import AF_INET, AF_INET6, if_indextoname, inet_ntop
from struct import unpack_from
from sys import byteorder

from retsnoop_py.cause.events import Request, SystemCall
from retsnoop_py.cause.network import is_elsewhere
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import is_nft_name, shell_word
from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.text import close_names
from retsnoop_py.value import Value

__all__ = ["answered", "name_of", "object_of", "reason", "words"]

_ROUTE, _NETFILTER = 0, 12
_PROTOCOLS = {6: "xfrm", 12: "nfnetlink", 15: "uevent", 16: "generic netlink"}


class _Object(Value):
    """A kind of object that rtnetlink messages are about.

    ``head`` bytes precede the attributes, of which ``names`` are the object's name or address.
    ``command`` shows such objects. ``has_index``: the head has the index of a network interface
    (4 bytes at offset 4).
    """

    name: str
    noun: str
    head: int
    names: tuple[int, ...]
    command: str
    has_index: bool = True


#: By type of RTM_NEW* (linux/rtnetlink.h).
_OBJECTS = {
    16: _Object("LINK", "network interface", 16, (3, 53), "ip link"),
    20: _Object("ADDR", "address", 8, (2, 1), "ip address"),
    24: _Object("ROUTE", "route", 12, (1,), "ip route", has_index=False),
    28: _Object("NEIGH", "neighbour entry", 12, (1,), "ip neigh"),
    32: _Object("RULE", "routing rule", 12, (), "ip rule", has_index=False),
    36: _Object("QDISC", "queueing discipline", 20, (1,), "tc qdisc"),
    40: _Object("TCLASS", "traffic class", 20, (1,), "tc class show dev INTERFACE"),
    44: _Object("TFILTER", "traffic filter", 20, (1,), "tc filter show dev INTERFACE"),
}
_VERBS = (
    ("NEW", "creating or changing"),
    ("DEL", "removing"),
    ("GET", "looking up"),
    ("SET", "changing"),
)
_GATEWAY = 5
#: IFLA_MASTER.
_MASTER = 10
#: IFLA_NET_NS_PID: the process whose network namespace gets the interface.
_NAMESPACE_OF = 19
#: Of a request, its type & 3: RTM_DEL*.
_DELETED = 1
#: ARPHRD_ETHER, as sysfs writes it, and IFF_LOOPBACK.
_ETHERNET, _IFF_LOOPBACK = "1", 8
#: IFLA_LINKINFO, in it IFLA_INFO_DATA, in it VETH_INFO_PEER and IFLA_NETKIT_PEER_INFO; IFLA_IFNAME.
_LINK_INFO, _INFO_DATA, _PEER, _NAME_OF_LINK = 18, 2, 1, 3
#: Characters of the name of a network interface (IFNAMSIZ).
_NAME = 15
#: The subsystem of nftables among the messages of netfilter (NFNL_SUBSYS_NFTABLES).
_NFTABLES = 10
#: struct nfgenmsg.
_NFT_HEAD = 4
#: Objects of nftables (enum nf_tables_msg_types): the type of NFT_MSG_NEW*, the numbers of the
#: attributes with its own name (None: without one) and with the names of what it is in.
_NftObject = tuple[int, str, str, int | None, tuple[tuple[str, int], ...]]
_NFT_OBJECTS: tuple[_NftObject, ...] = (
    (0, "TABLE", "table", 1, ()),
    (3, "CHAIN", "chain", 3, (("table", 1),)),
    (6, "RULE", "rule", None, (("chain", 2), ("table", 1))),
    (9, "SET", "set", 2, (("table", 1),)),
    (12, "SETELEM", "set element", None, (("set", 2), ("table", 1))),
    (18, "OBJ", "object", 2, (("table", 1),)),
    (22, "FLOWTABLE", "flow table", 2, (("table", 1),)),
)
_NFT_VERBS = (("NEW", "creating or changing"), ("GET", "looking up"), ("DEL", "removing"))
#: struct nfgenmsg.nfgen_family (NFPROTO_*), as nft(8) writes it.
_NFT_FAMILIES = {1: "inet", 2: "ip", 3: "arp", 5: "netdev", 7: "bridge", 10: "ip6"}
#: Objects that "replace" changes or creates.
_REPLACED = ("ADDR", "ROUTE", "NEIGH", "QDISC")
#: What to change, by the kernel's words.
_ADVICE = (
    (
        "Nexthop has invalid gateway*",
        "use a gateway in a network that this machine is connected to: ip address shows them",
    ),
    ("Device for nexthop is not up*", "start the network interface first: ip link set NAME up"),
    (
        "Unknown device type*",
        "check the type (ip link help lists them), or load its module: modprobe TYPE",
    ),
    (
        "*IPv6 is disabled on this device*",
        "switch IPv6 on for the interface: sysctl net.ipv6.conf.INTERFACE.disable_ipv6=0",
    ),
    ("*Address already assigned*", "ip address lists the addresses; ip address replace changes it"),
    ("*Address not found*", "ip address lists the addresses"),
    ("mtu greater than device maximum", "choose a smaller MTU: ip -d link shows maxmtu"),
    ("mtu less than device minimum", "choose a larger MTU: ip -d link shows minmtu"),
    (
        "Cannot delete qdisc with handle of zero*",
        "the interface has only its default queueing discipline, which stays: nothing to remove",
    ),
    ("*qdisc*not found*", "check the name, or load the module: modprobe sch_NAME"),
    ("*qdisc kind is unknown*", "check the name, or load the module: modprobe sch_NAME"),
    (
        "Exclusivity flag on, cannot modify",
        "there is one already: use tc qdisc replace instead of add, or remove it: tc qdisc del",
    ),
    (
        "Parent Qdisc doesn't exist*",
        (
            "create it first: tc qdisc add dev NAME root handle 1: htb, or for ingress and egress: "
            "tc qdisc add dev NAME clsact"
        ),
    ),
    ("TC classifier not found", "check the name, or load the module: modprobe cls_NAME"),
    (
        "Invalid prefix for given prefix length",
        "write the address of the network, without host bits: 192.0.2.0/24 instead of 192.0.2.7/24",
    ),
    ("Nexthop device is not up", "start the network interface first: ip link set NAME up"),
    (
        "Device can not be enslaved while up",
        "stop the interface first: ip link set NAME down; then ip link set NAME master BOND",
    ),
    (
        "Can not enslave a bridge to a bridge",
        "connect two bridges by a pair: ip link add A type veth peer name B, one end in each",
    ),
    ("*Invalid VLAN id", "choose a VLAN number from 1 to 4094"),
    (
        "*VLAN device already exists",
        "ip -d link show type vlan shows it: use it, or remove it with ip link del NAME",
    ),
    (
        "A VXLAN device with the specified VNI already exists",
        "ip -d link show type vxlan shows it: choose another VNI or port, or remove that device",
    ),
    (
        "*driver does not support XDP in native mode",
        "use the generic mode: ip link set dev NAME xdpgeneric obj FILE",
    ),
)


def name_of(request: Request) -> str:
    """``RTM_NEWROUTE``; the protocol's name where the type has none here."""
    found = _object(request)
    if (rule := _of_nftables(request)) is not None:
        return rule[0]
    if found is None:
        return _PROTOCOLS.get(request.protocol, f"netlink message {request.type}")
    return f"RTM_{_VERBS[request.type & 3][0]}{found.name}"


def object_of(request: Request) -> str:
    """The name of the interface, or the address, that the message is about; "" without one."""
    found = _object(request)
    if found is None:
        return ""
    for number in found.names:
        value = _attribute(request, found.head, number)
        if value:
            if found.name in ("ADDR", "ROUTE", "NEIGH"):
                return _address(value)
            return value.partition(b"\0")[0].decode(errors="replace")
    return ""


def words(call: SystemCall) -> str:
    """Return the message's operation: ``creating or changing the network interface eth9``."""
    request = call.request
    found = _object(request) if request is not None else None
    if request is not None and (rule := _of_nftables(request)) is not None:
        return rule[1]
    if request is None or found is None:
        return f"a {call.name} request"
    name, interface = _with_length(request, found), _interface(call, found)
    what = f"the {found.noun} {show(name)}" if name else f"a {found.noun}"
    if found.name == "LINK":
        if interface:
            return f"{_VERBS[request.type & 3][1].split()[-1]} the {found.noun} {show(interface)}"
    elif interface:
        what += f" of {show(interface)}"
    if found.name == "ROUTE":
        gateway = _attribute(request, found.head, _GATEWAY)
        what = _route(request, name)
        what += f" via {_address(gateway)}" if gateway else ""
    return f"{_VERBS[request.type & 3][1]} {what}"


def _with_length(request: Request, found: _Object) -> str:
    """Return the name or address of the object; an address with the length of its network."""
    name = object_of(request)
    if name and found.name in ("ADDR", "ROUTE"):
        return f"{name}/{request.data[1]}"
    return name


def _route(request: Request, name: str) -> str:
    if name:
        return f"the route to {name}"
    return "the default route" if request.data[1:2] == b"\0" else "a route"


def _interface(call: SystemCall, found: _Object) -> str:
    """Return the name of the interface with the index in the message; "" if it is unknown."""
    request = call.request
    if request is None or not found.has_index or len(request.data) < found.head:
        return ""
    (index,) = unpack_from("=i", request.data, 4)
    if index <= 0 or is_elsewhere(call):
        return ""
    try:
        return if_indextoname(index)
    except OSError:
        return ""


def reason(scene: Scene) -> Reason | None:
    """Why the kernel refused the message, by its words or its error."""
    request = scene.call.request
    if request is None:
        return None
    found = _object(request)
    name, error = object_of(request), errno_name(scene.call.error)
    if found is not None and found.name == "LINK":
        of_link = _reason_of_link(scene, request, found, name, error)
        if of_link is not None:
            return of_link
    if request.message:
        return answered([request.message])
    if found is None:
        return _reason_of_nftables(request, error)
    name = _with_length(request, found)
    what = f"{found.noun} {show(name)}" if name else found.noun
    if found.name == "ROUTE":
        what = _route(request, name).split(" ", 1)[1]
    if error == "EEXIST":
        article = "an" if what[0] in "aeiou" else "a"
        text = f"There is {article} {what} already."
        advice = [f"{found.command} lists what is there"]
        if found.name in _REPLACED:
            advice.append(f"{found.command} replace ... changes it")
        return Reason("exists", text, tuple(advice), is_seen_later=False)
    if error in ("ESRCH", "ENOENT", "EADDRNOTAVAIL") and request.type & 3:
        text = f"There is no {what}" + (
            "." if name and found.name == "ADDR" else " that fits all given values."
        )
        advice = [f"{found.command} lists what is there"]
        return Reason("not-found", text, tuple(advice), is_seen_later=False)
    return None


def _reason_of_nftables(request: Request, error: str) -> Reason | None:
    """Why nftables refused to change an object, by the error."""
    found = _nft_object(request)
    if found is None:
        return None
    noun, own, parents = found
    family = _NFT_FAMILIES.get(request.data[0], "ip") if request.data else "ip"
    within = [
        f"{f'{family} table' if parent == 'table' else parent} {show(value)}"
        for parent, value in parents
    ]
    named = f"{noun} {show(own)}" if own else noun
    seen = "nft list ruleset shows what is there"
    is_new = any(request.type & 0xFF == first for first, *_ in _NFT_OBJECTS)
    if error == "ENOENT" and is_new and within:
        missing = " or no ".join(reversed(within))
        text = f"There is no {missing}, or no object that the {noun} refers to."
        return Reason("not-found", text, (seen, *_nft_parents(family, parents)), False)
    if error == "ENOENT":
        place = f" in the {' of the '.join(within)}" if within else f" of the family {family}"
        return Reason("not-found", f"There is no such {named}{place}.", (seen,), False)
    if error == "EEXIST":
        text = f"There is a {named} already, and it has other properties."
        return Reason("exists", text, (seen,), False)
    if error == "EBUSY":
        text = f"A rule or another object of nftables still uses the {named}."
        return Reason("busy", text, (f"{seen}; remove the rules that use it first",), False)
    return None


def _nft_parents(family: str, parents: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    """Commands that create the table of an object, and its chain."""
    names = {noun: shell_word(value) for noun, value in parents}
    if "table" not in names or not all(is_nft_name(value) for _, value in parents):
        return ()
    place = shell_word(family) + " " + names["table"]
    table = f"nft add table {shell_word(family)} " + names["table"]
    if "chain" not in names:
        return (f"create the table first: {table}",)
    chain = names["chain"] + " '{ type filter hook HOOK priority 0; }'"
    return (f"create both first: {table}; nft add chain " + f"{place} {chain}",)


def _reason_of_link(
    scene: Scene, request: Request, found: _Object, name: str, error: str
) -> Reason | None:
    """Why the kernel refused to create or change a network interface, by the error."""
    if error == "ENODEV" and name:
        return Reason("not-found", f"There is no network interface {show(name)}.", _links(name))
    if error == "ERANGE" and len(name) > _NAME:
        return Reason(
            "too-long",
            f"The name {show(name)} is too long: an interface name has at most {_NAME} characters.",
            ("choose a shorter name",),
            is_seen_later=False,
        )
    if error == "EEXIST":
        return None if is_elsewhere(scene.call) else _pair(request, found, name)
    if error == "EINVAL" and not request.message:
        return _no_port(request, found, _interface(scene.call, found))
    if error == "ESRCH" and (pid := _attribute(request, found.head, _NAMESPACE_OF)):
        text = f"There is no process with the id {int.from_bytes(pid, byteorder)}."
        advice = "ip netns list shows network namespaces with names: ip link set NAME netns NAME"
        return Reason("not-found", text, (advice,), is_seen_later=False)
    if error == "EOPNOTSUPP" and request.type & 3 == _DELETED:
        what = name or _interface(scene.call, found)
        text = f"The network interface {show(what)}" if what else "This network interface"
        text += " is not one that can be removed."
        advice = "set it down instead: ip link set NAME down"
        return Reason("unsupported", text, (advice,), is_seen_later=False)
    return _no_setting(request, found) if error == "EOPNOTSUPP" else None


def _no_port(request: Request, found: _Object, name: str) -> Reason | None:
    """An interface that is not of the Ethernet kind and was to become a port of a bridge."""
    master = _attribute(request, found.head, _MASTER)
    if not name or len(master) != 4:
        return None
    try:
        bridge = if_indextoname(*unpack_from("=I", master))
        kind = _read(f"/sys/class/net/{name}/type")
        flags = int(_read(f"/sys/class/net/{name}/flags"), 0)
    except (OSError, ValueError):
        return None
    is_bridge = os.path.isdir(f"/sys/class/net/{bridge}/bridge")
    if not is_bridge or (kind == _ETHERNET and not flags & _IFF_LOOPBACK):
        return None
    what = "is the loopback interface" if flags & _IFF_LOOPBACK else "is not an Ethernet interface"
    return Reason(
        "unsupported",
        f"{show(name)} {what}. Only Ethernet interfaces can be ports of the bridge {show(bridge)}.",
        ("use an Ethernet interface, for example one of type veth, tap or dummy",),
    )


def _read(path: str) -> str:
    with open(path) as file:
        return file.read(64).strip()


def _pair(request: Request, found: _Object, name: str) -> Reason | None:
    """A new pair of veth or netkit interfaces: the name that the other end was to have exists."""
    data = _within(_attribute(request, found.head, _LINK_INFO), _INFO_DATA)
    peer = _text_of(_within(data, _PEER)[found.head :], _NAME_OF_LINK)
    there = [one for one in (name, peer) if one and os.path.lexists(f"/sys/class/net/{one}")]
    if not peer or not there or any("/" in one for one in there):
        return None
    verb = "exist" if len(there) > 1 else "exists"
    return Reason(
        "exists",
        f"{' and '.join(map(show, there))}, of the two names {show(name)} and {show(peer)} for the "
        f"ends of the new pair, {verb} already.",
        ("choose other names, or remove the interface: ip link del NAME",),
    )


def _no_setting(request: Request, found: _Object) -> Reason:
    """A network interface that does not support what is to be set (EOPNOTSUPP)."""
    if request.message:
        text = f'The kernel reported: "{request.message}"'
        return Reason("kernel-message", text, is_seen_later=False)
    if _attribute(request, found.head, _MASTER):
        text = (
            "The interface after the word master cannot have other interfaces as members. "
            "Only a bridge, bond, team or VRF interface can."
        )
        advice = "create such an interface: ip link add NAME type bridge"
        return Reason("unsupported", text, (advice,), is_seen_later=False)
    text = "The driver of the network interface does not support this setting."
    advice = "ip -d link shows the type of the interface and its settings"
    return Reason("unsupported", text, (advice,), is_seen_later=False)


def answered(messages: Sequence[str]) -> Reason | None:
    """The kernel's words in its answer, the last two messages, as the reason; None without any."""
    if not messages:
        return None
    last = messages[-2:]
    advice = [text for one in last for glob, text in _ADVICE if fnmatchcase(one, glob)]
    words = " ".join(f'"{one}"' for one in last)
    text = f"The kernel reported: {words}"
    return Reason("kernel-message", text, tuple(advice[:1]), is_seen_later=False)


def _links(name: str) -> tuple[str, ...]:
    try:
        names = os.listdir("/sys/class/net")
    except OSError:
        names = []
    alike = close_names(name, names, 1)
    spelled = (f"check the spelling: {show(alike[0])} exists",) if alike else ()
    return (*spelled, "ip link lists the network interfaces")


def _object(request: Request) -> _Object | None:
    return _OBJECTS.get(request.type & ~3) if request.protocol == _ROUTE else None


def _nft_kind(request: Request) -> _NftObject | None:
    """The row of a message of nftables; None of any other message."""
    kind = request.type & 0xFF
    if request.protocol != _NETFILTER or request.type >> 8 != _NFTABLES:
        return None
    return next((row for row in _NFT_OBJECTS if 0 <= kind - row[0] < len(_NFT_VERBS)), None)


def _nft_object(request: Request) -> tuple[str, str, list[tuple[str, str]]] | None:
    """The noun of an object of nftables, its name, and the nouns and names of what it is in."""
    row = _nft_kind(request)
    if row is None:
        return None
    _, _, noun, own, parents = row
    named = _string(request, own) if own is not None else ""
    within = [(parent, value) for parent, at in parents if (value := _string(request, at))]
    return noun, named, within


def _of_nftables(request: Request) -> tuple[str, str] | None:
    """The name of a message of nftables, and what it was to do; None of any other message."""
    row, found = _nft_kind(request), _nft_object(request)
    if row is None or found is None:
        return None
    verb, words = _NFT_VERBS[(request.type & 0xFF) - row[0]]
    noun, named, within = found
    what = f"the nftables {noun} {show(named)}" if named else f"an nftables {noun}"
    what += "".join(f" of the {parent} {show(value)}" for parent, value in within)
    return f"NFT_MSG_{verb}{row[1]}", f"{words} {what}"


def _string(request: Request, number: int) -> str:
    return _text_of(request.data[_NFT_HEAD:], number)


def _text_of(data: bytes, number: int) -> str:
    """The string of an attribute among ``data``; "" where it is not captured."""
    return _within(data, number).partition(b"\0")[0].decode(errors="replace")


def _attribute(request: Request, at: int, wanted: int) -> bytes:
    """The value of an attribute behind the first ``at`` bytes; b"" where it is not captured."""
    return _within(request.data[at:], wanted)


def _within(data: bytes, wanted: int) -> bytes:
    """The value of an attribute among ``data``, also of one that is the value of another."""
    at = 0
    while at + 4 <= len(data):
        length, number = unpack_from("=HH", data, at)
        if length < 4:
            break
        if number & 0x3FFF == wanted:
            return data[at + 4 : at + length]
        at += length + -length % 4
    return b""


def _address(value: bytes) -> str:
    families = {4: AF_INET, 16: AF_INET6}
    return inet_ntop(families[len(value)], value) if len(value) in families else ""
