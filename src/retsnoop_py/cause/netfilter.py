# SPDX-License-Identifier: BSD-2-Clause
"""Which firewall rule of this machine dropped a packet.

The rule is recorded as nftables drops the packet. nft(8), where it is installed, prints the text of
the rule after the command ended.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from retsnoop_py.cause.events import Dropped
from retsnoop_py.cause.reason import Reason, Scene
from retsnoop_py.cause.shell import is_nft_name, shell_word
from retsnoop_py.tool import TOOL_FOLDER, environment_of_tools

__all__ = ["dropped", "netfilter"]

#: Functions that return EPERM for a packet that a firewall dropped.
_HOOKS = ("nf_hook_slow", "nf_hook_slow_list", "nf_queue")
_SECONDS = 5
_NO_NAME = "nft list ruleset shows the chain; its name, or that of its table, fits in no command"


def netfilter(scene: Scene) -> Reason | None:
    """A firewall rule of this machine dropped the packet of the call (EPERM)."""
    call = scene.call
    begin = call.state.begin if call.state is not None else 0
    own = [
        one
        for one in scene.witnessed.dropped
        if begin and one.tid == call.tid and begin <= one.time <= call.time
    ]
    if own:
        return _reason(own)
    if not any(name in _HOOKS for name in scene.chain):
        return None
    return Reason(
        "netfilter",
        "A firewall rule of this machine (netfilter, hook output) dropped the packet.",
        (
            "nft list ruleset shows the rules of nftables, and iptables-save those of iptables",
            "change the rule with drop or reject that matches the packet",
        ),
        is_seen_later=False,
    )


def dropped(scene: Scene) -> Reason | None:
    """No answer came, and a firewall rule of this machine dropped packets to that address."""
    address = scene.call.address
    if address is None or not address.port:
        return None
    own = [
        one
        for one in scene.witnessed.dropped
        if (one.host, one.port) == (address.host, address.port) and one.time <= scene.call.time
    ]
    return _reason(own) if own else None


def _reason(found: Sequence[Dropped]) -> Reason:
    last = found[-1]
    place = "" if is_here(last) else f" in {_namespace(last)}"
    text = f"The chain {last.chain} of the nftables table {last.family} {last.table}{place} "
    text += f"dropped the packet to {_target(last)}" if last.host else "dropped the packet"
    if last.is_policy:
        text += ": no rule accepts it, and the policy of the chain is drop."
    elif not last.handle:
        text += " by a rule with the verdict drop."
    else:
        rule = None if place else rule_text(last)
        shown = f' "{rule}"' if rule else ""
        text += f": the rule{shown} with the handle {last.handle} has the verdict drop."
    return Reason("netfilter", text, _advice(last, is_here=not place), is_seen_later=False)


def is_here(one: Dropped) -> bool:
    """Return whether the rule is in the network namespace of this process.

    Another one can have a rule with the same table, chain and handle.
    """
    try:
        return one.network == os.stat("/proc/self/ns/net").st_ino
    except OSError:
        return False


def _namespace(one: Dropped) -> str:
    if not one.network:
        return "a network namespace that is not known"
    return f"another network namespace (net:[{one.network}])"


def _advice(one: Dropped, *, is_here: bool) -> tuple[str, ...]:
    if not _is_named(one):
        return (_NO_NAME,)
    named = " ".join(map(shell_word, _names(one)))
    nft = "nft" if is_here else "nsenter -n -t PID nft"
    where = () if is_here else ("PID is a process of that network namespace: lsns -t net",)
    if one.is_policy:
        chain = shell_word(f"chain {' '.join(_names(one))} {{ policy accept; }}")
        return (
            f"add a rule that accepts it: {nft} add rule {named} {_match(one)}accept",
            f"or {nft} {chain} (this allows all other packets, too)",
            *where,
        )
    if not one.handle:
        return (f"{nft} -a list chain {named} shows the rules and their handles", *where)
    return (
        f"delete the rule: {nft} delete rule {named} handle {one.handle}",
        f"or accept the packet before it: {nft} insert rule {named} {_match(one)}accept",
        *where,
    )


def _names(one: Dropped) -> tuple[str, str, str]:
    return one.family, one.table, one.chain


def _is_named(one: Dropped) -> bool:
    """Return whether nft(8) can name the chain."""
    return all(map(is_nft_name, _names(one)))


def _target(one: Dropped) -> str:
    host = f"[{one.host}]" if ":" in one.host else one.host
    return f"{host}:{one.port}" if one.port else host


def _match(one: Dropped) -> str:
    """Return the match of a rule for the packet; ``th dport`` is the port of TCP and UDP."""
    if not one.host:
        return ""
    address = f"{'ip6' if ':' in one.host else 'ip'} daddr {one.host} "
    return f"{address}th dport {one.port} " if one.port else address


def rule_text(one: Dropped) -> str | None:
    """The rule of this network namespace as nft(8) prints it.

    None where nft is not installed or cannot name the chain, or the rule is gone.
    """
    if not _is_named(one):
        return None
    import subprocess  # few answers need it, and all would wait for its import

    try:
        listed = subprocess.run(
            ["nft", "-a", "list", "chain", *_names(one)],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_SECONDS,
            check=False,
            env=environment_of_tools(),
            cwd=TOOL_FOLDER,
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    end = f" # handle {one.handle}"
    lines = (line.strip() for line in listed.splitlines())
    return next((line.removesuffix(end) for line in lines if line.endswith(end)), None)
