# SPDX-License-Identifier: BSD-2-Clause
"""The options of each command as the normaliser knows them, old spellings included."""

from __future__ import annotations

from retsnoop_py.cli.argv import Foreign, Kind, Spec, Table
from retsnoop_py.cli.declare import Command, spec_of
from retsnoop_py.options.table import options_of

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


def trace_table() -> Table:
    """The option table of tracing."""
    return Table([*map(spec_of, options_of("trace")), *COMPLETION], old=OLD)


def command_table(command: Command, *, is_replay: bool = False) -> Table:
    """The option table of another command; words are left to it.

    Options that only tracing has are refused, with the reason.
    """
    own = [spec_of(option) for option in command.options]
    names = {spec.long for spec in own}
    old = [
        spec
        for spec in OLD
        if names.issuperset(name for name, _ in spec.means or ((spec.long, None),))
    ]
    names.update(spec.long for spec in old)
    reason = "concerns tracing, and nothing is traced here"
    if is_replay:
        reason = "concerns tracing, and a recording is already traced"
    hint = f"'{command.name} --help' lists the options"
    foreign = [
        Foreign(spec.long, spec.short, reason, hint)
        for spec in (*map(spec_of, options_of("trace")), *OLD)
        if spec.long not in names
    ]
    return Table(own, foreign, old=old, takes_words=True)
