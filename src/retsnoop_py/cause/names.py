# SPDX-License-Identifier: BSD-2-Clause
"""Why a host name has no address: no name server can be reached, or it does not know the name.

The C library reports this by numbers of its own (EAI_*), so it is recognized by its words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from retsnoop_py.cause.complaint import lines_of
from retsnoop_py.cause.events import SystemCall, Witnessed
from retsnoop_py.cause.operation import show
from retsnoop_py.cause.reason import Reason
from retsnoop_py.kernel.errno import errno_name

__all__ = ["unresolved"]

_PORT = 53
#: Messages of programs and of the C library (gai_strerror(3)), in small letters.
_AGAIN = ("temporary failure in name resolution",)
_NO_NAME = (
    *("name or service not known", "unknown host", "no address associated with hostname"),
    *("nodename nor servname", "no such host"),
)
#: The message of Node.js: a whole word, unlike in FileNotFoundError.
_CODE = re.compile(r"\bENOTFOUND\b")
_EITHER = (
    *("could not resolve host", "couldn't resolve host", "unable to resolve host"),
    "bad address '",
)
#: Patterns of the name in such a line.
_NAMES = (
    re.compile(
        r"resolve (?:host(?:name)?:?)?(?: address)? ?['\"\u2018]?([\w-]+(?:\.[\w-]+)*)", re.I
    ),
    re.compile(
        r"(?:bad address|unknown host:?|lookup|ENOTFOUND) ['\"]?([\w-]+(?:\.[\w-]+)*)", re.I
    ),
    re.compile(r"([\w-]+(?:\.[\w-]+)*)(?:[:,] | \()(?:Name or service|Temporary failure)", re.I),
)
#: A warning behind which the program goes on: sudo(8) only looks its own host name up for the log.
_WARNING = re.compile(r"^sudo: unable to resolve host ")
_RESOLVER = Path("/etc/resolv.conf")


def unresolved(witnessed: Witnessed) -> Reason | None:
    """Return why a host name has no address, or None if the command wrote of no such thing."""
    for line in reversed(lines_of(witnessed)):
        if _WARNING.search(line.text):
            continue
        small = line.text.casefold()
        is_unknown = any(one in small for one in _NO_NAME) or bool(_CODE.search(line.text))
        if not is_unknown and not any(one in small for one in (*_AGAIN, *_EITHER)):
            continue
        name = next((found[1] for one in _NAMES if (found := one.search(line.text))), "")
        what = f"The host name {show(name)}" if name else "The host name"
        refused = _refused(witnessed)
        if refused is not None:
            why, advice = refused
            return Reason("name", f"{what} could not be resolved: {why}.", advice)
        servers = ", ".join(_servers()) or "127.0.0.1, the default"
        if is_unknown:
            text = f"{what} does not exist, as far as the name server ({servers}) knows."
        else:
            text = (
                f"{what} could not be resolved: the name server ({servers}) did not answer, or "
                "does not know the name."
            )
        look_up = f"getent hosts {name or 'NAME'} looks it up again"
        return Reason("name", text, ("check the spelling of the name", look_up))
    return None


def _refused(witnessed: Witnessed) -> tuple[str, tuple[str, ...]] | None:
    """Why a name server could not be reached, by the calls that failed; what to change."""
    for call in reversed(witnessed.calls):
        error = errno_name(call.error)
        address = call.address
        if address is not None and address.port == _PORT:
            if error in ("ENETUNREACH", "EHOSTUNREACH"):
                return (
                    f"there is no route to the name server {address.host}",
                    ("ip route shows the routes", f"name another server in {_RESOLVER}"),
                )
            if error in ("EPERM", "EACCES"):
                return (
                    f"a firewall rule of this machine forbids packets to {address.host}",
                    ("nft list ruleset shows the rules",),
                )
        if error == "ECONNREFUSED" and _is_answer(call):
            servers = list(_servers())
            if servers:
                where = f"no name server runs at {' or '.join(servers)}, which {_RESOLVER} names"
            else:
                where = f"{_RESOLVER} names no name server, and none runs on this machine"
            return where, (
                f"write the address of a name server to {_RESOLVER}: nameserver ADDRESS",
            )
    return None


def _is_answer(call: SystemCall) -> bool:
    """Return whether a call reads or sends the resolver's data on a connected socket."""
    return call.name in ("recvfrom", "recvmsg", "sendto", "sendmmsg", "send", "read") or (
        call.address is not None and call.address.port == _PORT
    )


def _servers() -> Iterator[str]:
    try:
        lines = _RESOLVER.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split()
        if len(parts) > 1 and parts[0] == "nameserver":
            yield parts[1]
