# SPDX-License-Identifier: BSD-2-Clause
"""The options of each command as the normaliser knows them, old spellings included."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retsnoop_py.cli.argv import Foreign, Kind, Spec, Table
from retsnoop_py.cli.declare import specs

#: Made by typer, not by a signature.
COMPLETION = (Spec("install-completion"), Spec("show-completion"))

#: What earlier retsnoops called it, as old notes and blog posts still do.
OLD = (
    Spec("lbr", "R", Kind.OPTIONAL, implied="any_return"),
    Spec("lbr-max-count", None, Kind.VALUE, "N", means=(("config", "fmt.lbr-max-count={}"),)),
    Spec("intermediate-stacks", means=(("interim-stacks", None),)),
    Spec("bpf-logs", "l", means=(("debug", "bpf"),)),
    Spec("stacks-map-size", None, Kind.VALUE, "N", means=(("config", "bpf.sessions-size={}"),)),
    Spec("ringbuf-map-size", None, Kind.VALUE, "N", means=(("config", "bpf.ringbuf-size={}"),)),
    Spec(
        "full-stacks",
        means=(("config", "stacks.unfiltered=y"), ("config", "stacks.emit-addrs=y")),
    ),
)


def trace_table(command: Callable[..., Any]) -> Table:
    """The option table of tracing."""
    return Table([*specs(command), *COMPLETION], old=OLD)


def _refusing(
    command: Callable[..., Any], trace: Callable[..., Any], reason: str, hint: str
) -> Table:
    """The options of ``command``; those that only ``trace`` has are refused for ``reason``."""
    own = specs(command)
    names = {spec.long for spec in own}
    old = [
        spec
        for spec in OLD
        if names.issuperset(name for name, _ in spec.means or ((spec.long, None),))
    ]
    names.update(spec.long for spec in old)
    foreign = [
        Foreign(spec.long, spec.short, reason, hint)
        for spec in (*specs(trace), *OLD)
        if spec.long not in names
    ]
    return Table(own, foreign, old=old, takes_words=True)


def replay_table(command: Callable[..., Any], trace: Callable[..., Any]) -> Table:
    """The option table of replaying; options that only ``trace`` has are refused as such."""
    reason = "concerns tracing, and a recording is already traced"
    return _refusing(command, trace, reason, "'retsnoop-py replay --help' lists the options")


def plain_table(command: Callable[..., Any], trace: Callable[..., Any], help_hint: str) -> Table:
    """The option table of a command that traces nothing; words are left to the command.

    Options that only ``trace`` has are refused as such; ``help_hint`` is the next step then.
    """
    reason = "concerns tracing, and nothing is traced here"
    return _refusing(command, trace, reason, help_hint)
