# SPDX-License-Identifier: BSD-2-Clause
"""What a refused netlink message means: messages as ip(8) sends them."""

from __future__ import annotations

import errno
import socket
from pathlib import Path
from struct import pack

import pytest
from tests.unit.cause.test_reasons import call, reason

from retsnoop_py.cause.events import Request, State, SystemCall, Witnessed
from retsnoop_py.cause.files import Identity
from retsnoop_py.cause.netlink import name_of, object_of, words
from retsnoop_py.cause.reason import Scene
from retsnoop_py.cause.reasons import reason_of
from retsnoop_py.value import replace

HOST = socket.inet_aton("10.1.1.1")
NEWLINK, GETLINK, DELADDR, NEWROUTE = 16, 18, 21, 24


def attribute(number: int, value: bytes) -> bytes:
    raw = pack("=HH", 4 + len(value), number) + value
    return raw + bytes(-len(raw) % 4)


def refused(error: int, kind: int, head: int, *data: bytes, message: str = "") -> SystemCall:
    request = Request(0, kind, message, bytes(head) + b"".join(data))
    return call(name_of(request), error, (0, object_of(request)), request=request)


def of(error: int, kind: int, head: bytes, *data: bytes) -> SystemCall:
    """A message with this head, of a process in our network namespace."""
    here = Path("/proc/self/ns/net").stat().st_ino
    return replace(refused(error, kind, 0, head, *data), state=State(network=here))


def test_an_interface_that_does_not_exist() -> None:
    one = refused(errno.ENODEV, GETLINK, 16, attribute(29, b"...."), attribute(3, b"eth9x\0"))
    assert one.name == "RTM_GETLINK"
    assert words(one) == "looking up the network interface eth9x"
    found = reason(one)
    assert (found.kind, found.text) == ("not-found", "There is no network interface eth9x.")
    assert found.advice[-1] == "ip link lists the network interfaces"


def test_the_kernel_s_message_and_what_to_change() -> None:
    gateway = attribute(5, socket.inet_aton("10.9.9.9"))
    one = refused(errno.ENETUNREACH, NEWROUTE, 12, gateway, message="Nexthop has invalid gateway.")
    assert words(one) == "creating or changing the default route via 10.9.9.9"
    found = reason(one)
    assert found.text == 'The kernel reported: "Nexthop has invalid gateway."'
    assert "use a gateway in a network that this machine is connected to" in found.advice[0]


@pytest.mark.parametrize(
    ("message", "advice"),
    [
        ("Exclusivity flag on, cannot modify", "tc qdisc replace"),
        ("Parent Qdisc doesn't exists", "create it first: tc qdisc add"),
        ("Invalid prefix for given prefix length", "without host bits"),
        ("8021q: VLAN device already exists", "ip -d link show type vlan"),
        ("8021q: Invalid VLAN id", "1 to 4094"),
        ("Can not enslave a bridge to a bridge", "type veth"),
    ],
)
def test_what_to_change_by_the_kernel_s_message(message: str, advice: str) -> None:
    found = reason(refused(errno.EINVAL, NEWROUTE, 12, message=message))
    assert message in found.text
    assert advice in found.advice[0]


def test_a_name_that_is_too_long_for_an_interface() -> None:
    name = attribute(3, b"averyveryverylongname0\0")
    found = reason(refused(errno.ERANGE, NEWLINK, 16, name, message="Attribute failed policy"))
    assert found.text.startswith("The name averyveryverylongname0 is too long")


def test_what_is_there_and_what_is_not() -> None:
    link = refused(errno.EEXIST, NEWLINK, 16, attribute(3, b"d0\0"))
    assert reason(link).text == "There is a network interface d0 already."
    address = of(errno.EADDRNOTAVAIL, DELADDR, b"\2\x18\0\0\1\0\0\0", attribute(2, HOST))
    assert words(address) == "removing the address 10.1.1.1/24 of lo"
    assert reason(address).text == "There is no address 10.1.1.1/24."
    again = of(errno.EEXIST, DELADDR - 1, b"\2\x18\0\0\1\0\0\0", attribute(2, HOST))
    assert reason(again).text == "There is an address 10.1.1.1/24 already."
    route = of(errno.ESRCH, NEWROUTE + 1, b"\2\x18" + bytes(10), attribute(1, HOST))
    assert reason(route).text == "There is no route to 10.1.1.1/24 that fits all given values."
    default = of(errno.ESRCH, NEWROUTE + 1, b"\2\0" + bytes(10))
    assert reason(default).text == "There is no default route that fits all given values."


def test_a_pair_of_interfaces_names_the_end_that_exists() -> None:
    peer = attribute(1, bytes(16) + attribute(3, b"lo\0"))
    info = attribute(18, attribute(1, b"veth\0") + attribute(2, peer))
    data = (attribute(3, b"d0x\0"), info)
    found = reason(of(errno.EEXIST, NEWLINK, bytes(16), *data))
    assert (
        found.text
        == "lo, of the two names d0x and lo for the ends of the new pair, exists already."
    )
    elsewhere = replace(of(errno.EEXIST, NEWLINK, bytes(16), *data), state=None)
    assert "pair" not in reason(elsewhere).text


def test_the_loopback_interface_stays_and_is_no_port() -> None:
    gone = refused(errno.EOPNOTSUPP, NEWLINK + 1, 16, attribute(3, b"lo\0"))
    assert reason(gone).text == "The network interface lo is not one that can be removed."
    by_index = of(errno.EOPNOTSUPP, NEWLINK + 1, b"\0\0\0\0\1\0\0\0" + bytes(8))
    assert reason(by_index).text == reason(gone).text
    head = b"\0\0\0\0\1\0\0\0" + bytes(8)
    no_bridge = of(errno.EINVAL, NEWLINK, head, attribute(10, pack("=I", 1)))
    assert reason_of(Scene(no_bridge, Witnessed((no_bridge,)), Identity(0, 0))) is None


def test_an_interface_goes_to_no_process_that_has_ended() -> None:
    found = reason(refused(errno.ESRCH, NEWLINK, 16, attribute(19, pack("=I", 99999))))
    assert found.text == "There is no process with the id 99999."


def test_an_interface_by_its_index() -> None:
    """ip link set NAME sends the index. In another network namespace it is another interface."""
    head = b"\0\0\0\0\1\0\0\0" + bytes(8)
    assert words(of(errno.EINVAL, NEWLINK, head)) == "changing the network interface lo"
    elsewhere = replace(of(errno.EINVAL, NEWLINK, head), state=None)
    assert words(elsewhere) == "creating or changing a network interface"


def test_messages_that_are_cut_or_of_other_protocols() -> None:
    broken = Request(0, NEWLINK, "", bytes(16) + b"\x01\0\x03\0")
    assert object_of(broken) == ""
    other = Request(16, 30, "", b"")
    assert name_of(other) == "generic netlink"
    assert (
        words(call("generic netlink", errno.EINVAL, request=other)) == "a generic netlink request"
    )


def test_what_a_message_of_nftables_was_to_do() -> None:
    names = attribute(1, b"shop\0") + attribute(2, b"nochain\0")
    rule = Request(12, 10 << 8 | 6, "", bytes(4) + names)
    assert name_of(rule) == "NFT_MSG_NEWRULE"
    assert words(call("NFT_MSG_NEWRULE", errno.ENOENT, request=rule)) == (
        "creating or changing an nftables rule of the chain nochain of the table shop"
    )
    table = Request(12, 10 << 8 | 2, "", bytes(4) + attribute(1, b"shop\0"))
    assert words(call("NFT_MSG_DELTABLE", errno.ENOENT, request=table)) == (
        "removing the nftables table shop"
    )
    other = Request(12, 1 << 8, "", bytes(4))
    assert name_of(other) == "nfnetlink"


def test_why_nftables_refuses() -> None:
    names = attribute(1, b"shop\0") + attribute(2, b"nochain\0")
    rule = Request(12, 10 << 8 | 6, "", b"\1\0\0\0" + names)
    found = reason(call("NFT_MSG_NEWRULE", errno.ENOENT, request=rule))
    assert found.text.startswith("There is no inet table shop or no chain nochain")
    assert "nft add table inet shop; nft add chain inet shop nochain" in found.advice[1]
    names = attribute(1, b"x; flush ruleset\0") + attribute(2, b"nochain\0")
    rule = Request(12, 10 << 8 | 6, "", b"\1\0\0\0" + names)
    assert not any("flush" in one for one in reason(call(name_of(rule), 2, request=rule)).advice)
    chain = attribute(1, b"shop\0") + attribute(3, b"in\0")
    for kind, error, words_of_it in (
        (5, errno.EBUSY, "still uses the chain in."),
        (5, errno.ENOENT, "no such chain in in the ip table shop."),
        (3, errno.EEXIST, "There is a chain in already"),
    ):
        request = Request(12, 10 << 8 | kind, "", b"\2\0\0\0" + chain)
        assert words_of_it in reason(call(name_of(request), error, request=request)).text


def test_what_can_be_replaced() -> None:
    route = refused(errno.EEXIST, NEWROUTE, 12, attribute(1, socket.inet_aton("10.1.0.0")))
    assert reason(route).advice[1] == "ip route replace ... changes it"


def test_an_interface_that_cannot_have_members() -> None:
    link = refused(errno.EOPNOTSUPP, NEWLINK, 16, attribute(10, pack("=I", 3)))
    assert "Only a bridge, bond, team or VRF interface can" in reason(link).text
    other = refused(errno.EOPNOTSUPP, NEWLINK, 16, attribute(4, pack("=I", 70)))
    assert "does not support this setting" in reason(other).text
    words_of_it = refused(errno.EOPNOTSUPP, NEWLINK, 16, message="Device does not allow it")
    assert reason(words_of_it).text == 'The kernel reported: "Device does not allow it"'
