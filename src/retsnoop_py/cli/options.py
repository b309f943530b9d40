# SPDX-License-Identifier: BSD-2-Clause
"""Every option, declared once, as the annotated types the commands' signatures are made of."""

from __future__ import annotations

import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.models import OptionInfo

from retsnoop_py.cli.argv import Foreign, Kind, Spec, Table

TARGETING = "TARGETING"
RUN_MODE = "RUN MODE"
FILTERING = "FILTERING"
ADVANCED = "ADVANCED"
EXTRA = "EXTRA CONFIGURATION"
USAGE = "HELP AND VERSION"


@dataclass(frozen=True, slots=True)
class Value:
    """How the normaliser reads a value, beyond what typer knows.

    ``implied``: what a bare option means; its value is then glued or absent.
    ``dashed``: a separate value may start with ``-``.
    """

    implied: str | None = None
    dashed: bool = False


def complete_preset(incomplete: str) -> list[str]:
    """Presets, for the shell."""
    from retsnoop_py.select import presets

    return [name for name in presets.names() if name.startswith(incomplete)]


def complete_error(incomplete: str) -> list[str]:
    """Names of errors, for the shell."""
    from retsnoop_py.kernel.errno import ERRNO_NAMES

    return [name for name in ERRNO_NAMES.values() if name.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """Settings of -C, for the shell."""
    from retsnoop_py.cli.config import KEYS

    return [f"{key.name}=" for key in KEYS if key.name.startswith(incomplete)]


Preset = Annotated[
    list[str],
    typer.Option(
        "-c",
        "--case",
        metavar="PRESET",
        help="Ready-made -e, -a and -d for a subject: bpf or perf. More may be added to it.",
        rich_help_panel=TARGETING,
        show_default=False,
        default_factory=list,
        autocompletion=complete_preset,
    ),
]
Entry = Annotated[
    list[str],
    typer.Option(
        "-e",
        "--entry",
        metavar="GLOB",
        help="Entry functions: each call of one is followed until it returns.",
        rich_help_panel=TARGETING,
        show_default=False,
        default_factory=list,
    ),
]
Allow = Annotated[
    list[str],
    typer.Option(
        "-a",
        "--allow",
        metavar="GLOB",
        help="Further functions to see inside those calls.",
        rich_help_panel=TARGETING,
        show_default=False,
        default_factory=list,
    ),
]
Deny = Annotated[
    list[str],
    typer.Option(
        "-d",
        "--deny",
        metavar="GLOB",
        help="Functions to leave alone; wins over -e and -a.",
        rich_help_panel=TARGETING,
        show_default=False,
        default_factory=list,
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Say what would be traced, and touch nothing in the kernel.",
        rich_help_panel=RUN_MODE,
    ),
]
Output = Annotated[
    str | None,
    typer.Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Record what is seen as well; 'retsnoop-py replay FILE' shows it again.",
        rich_help_panel=RUN_MODE,
        show_default=False,
    ),
]
Attach = Annotated[
    str | None,
    typer.Option(
        "--attach",
        metavar="MECHANISM",
        help="Attach by this mechanism alone: fsession.multi, kprobe.session, kprobe.multi, "
        "fentry, kprobe_events or kprobe. Without it: the best that works here, and the next "
        "best for functions it cannot take.",
        rich_help_panel=RUN_MODE,
        show_default=False,
    ),
]
Fentries = Annotated[
    bool,
    typer.Option(
        "-F",
        "--fentries",
        help="The same as --attach=fentry: cheap calls, slow to attach and detach.",
        rich_help_panel=RUN_MODE,
    ),
]
KprobesMulti = Annotated[
    bool,
    typer.Option(
        "-M",
        "--kprobes-multi",
        help="The same as --attach=kprobe.multi.",
        rich_help_panel=RUN_MODE,
    ),
]
Kprobes = Annotated[
    bool,
    typer.Option(
        "-K",
        "--kprobes",
        help="The same as --attach=kprobe: function by function, slow, works anywhere.",
        rich_help_panel=RUN_MODE,
    ),
]
MaxFunctions = Annotated[
    str | None,
    typer.Option(
        "--max-functions",
        metavar="N",
        help="Refuse to attach to more functions than this (10000).",
        rich_help_panel=RUN_MODE,
        show_default=False,
    ),
]
NoSystemChanges = Annotated[
    bool,
    typer.Option(
        "--no-system-changes",
        help="Leave /sys/kernel/rcu_expedited alone: where functions are attached one by one it "
        "is set meanwhile, which makes that faster, and put back.",
        rich_help_panel=RUN_MODE,
    ),
]
CallStack = Annotated[bool, typer.Option("-E", "--call-stack", hidden=True)]
Pid = Annotated[
    list[str],
    typer.Option(
        "-p",
        "--pid",
        metavar="PID",
        help="Only these processes.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
    ),
    Value(dashed=True),
]
NoPid = Annotated[
    list[str],
    typer.Option(
        "-P",
        "--no-pid",
        metavar="PID",
        help="Not these processes.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
    ),
    Value(dashed=True),
]
Comm = Annotated[
    list[str],
    typer.Option(
        "-n",
        "--comm",
        metavar="NAME",
        help="Only threads of this name; its first 15 bytes count, as in the kernel.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
    ),
    Value(dashed=True),
]
NoComm = Annotated[
    list[str],
    typer.Option(
        "-N",
        "--no-comm",
        metavar="NAME",
        help="Not threads of this name.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
    ),
    Value(dashed=True),
]
Longer = Annotated[
    str | None,
    typer.Option(
        "-L",
        "--longer",
        metavar="MS",
        help="Only calls of an entry function that took at least so many milliseconds.",
        rich_help_panel=FILTERING,
        show_default=False,
    ),
    Value(dashed=True),
]
SuccessStacks = Annotated[
    list[str],
    typer.Option(
        "-S",
        "--success-stacks",
        metavar="[=y|n]",
        help="Show calls that succeeded as well (-S, -Sy), or failures only (-Sn, the default).",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
    ),
    Value(implied="y"),
]
AllowErrors = Annotated[
    list[str],
    typer.Option(
        "-x",
        "--allow-errors",
        metavar="ERROR",
        help="Only stacks with this error in them, such as ENOMEM or NULL; any is every error.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
        autocompletion=complete_error,
    ),
    Value(dashed=True),
]
DenyErrors = Annotated[
    list[str],
    typer.Option(
        "-X",
        "--deny-errors",
        metavar="ERROR",
        help="No stacks with this error in them.",
        rich_help_panel=FILTERING,
        show_default=False,
        default_factory=list,
        autocompletion=complete_error,
    ),
    Value(dashed=True),
]
KernelImage = Annotated[
    str | None,
    typer.Option(
        "-k",
        "--kernel",
        metavar="PATH",
        help="The kernel's vmlinux with DWARF, where it is not found by itself.",
        rich_help_panel=ADVANCED,
        show_default=False,
    ),
]
Symbolize = Annotated[
    str | None,
    typer.Option(
        "-s",
        "--symbolize",
        metavar="[=s|n]",
        help="Show source lines (-s), and inlined functions (-ss), or neither (-sn). "
        "By default -ss where there is DWARF.",
        rich_help_panel=ADVANCED,
        show_default=False,
    ),
    Value(implied="linenum"),
]
Settings = Annotated[
    list[str],
    typer.Option(
        "-C",
        "--config",
        metavar="GROUP.KEY=VALUE",
        help="Change a finer setting.",
        rich_help_panel=EXTRA,
        show_default=False,
        default_factory=list,
        autocompletion=complete_setting,
    ),
]
ConfigHelp = Annotated[
    bool,
    typer.Option("--config-help", help="List those settings.", rich_help_panel=EXTRA),
]
Verbose = Annotated[
    int,
    typer.Option(
        "-v",
        "--verbose",
        count=True,
        metavar="",
        help="Say more; -vv more still.",
        rich_help_panel=USAGE,
        show_default=False,
    ),
]
Version = Annotated[
    bool,
    typer.Option(
        "-V",
        "--version",
        help="Print the version; with -v also what this kernel can do.",
        rich_help_panel=USAGE,
    ),
]
Help = Annotated[bool, typer.Option("-h", "--help", help="Show this help.", rich_help_panel=USAGE)]
Usage = Annotated[bool, typer.Option("--usage", hidden=True)]


def specs(command: Callable[..., Any]) -> list[Spec]:
    """What the normaliser needs to know of the options in a command's signature."""
    hints = typing.get_type_hints(command, include_extras=True)
    found = (_spec(hint) for hint in hints.values() if hasattr(hint, "__metadata__"))
    return [spec for spec in found if spec]


def _spec(hint: Any) -> Spec | None:
    extra = {type(thing): thing for thing in hint.__metadata__}
    info = extra.get(OptionInfo)
    if info is None:
        return None
    value = extra.get(Value, Value())
    # Inside Annotated, typer keeps the first name where a default would otherwise be.
    names = (info.default, *(info.param_decls or ()))
    long = next(name[2:] for name in names if name.startswith("--"))
    short = next((name[1:] for name in names if not name.startswith("--")), None)
    if hint.__origin__ is bool or info.count:
        kind = Kind.FLAG
    else:
        kind = Kind.VALUE if value.implied is None else Kind.OPTIONAL
    return Spec(long, short, kind, info.metavar or "", value.implied or "", value.dashed)


#: Made by typer, not by a signature.
COMPLETION = (Spec("install-completion"), Spec("show-completion"))

_LATER_REASON = "({}) is not available in this version"
_LATER_HINT = "leave it out: this version shows call stacks, which needs no option"
LATER = tuple(
    Foreign(long, short, _LATER_REASON.format(what), _LATER_HINT)
    for long, short, what in (
        ("trace", "T", "the function call trace"),
        ("capture-args", "A", "argument capture"),
        ("inject-probe", "J", "injected probes"),
        ("lbr", "B", "LBR capture"),
        ("lbr", "R", "LBR capture"),
        ("lbr-max-count", None, "LBR capture"),
        ("interim-stacks", "I", "interim stacks"),
        ("intermediate-stacks", None, "interim stacks"),
        ("debug", None, "debugging of the tracer"),
        ("bpf-logs", "l", "debugging of the tracer"),
    )
)


def trace_table(command: Callable[..., Any]) -> Table:
    """The option table of tracing."""
    return Table([*specs(command), *COMPLETION], LATER)


def replay_table(command: Callable[..., Any], trace: Callable[..., Any]) -> Table:
    """The option table of replaying; options that only ``trace`` has are refused as such."""
    own = specs(command)
    names = {spec.long for spec in own}
    reason = "concerns tracing, and a recording is already traced"
    hint = "'retsnoop-py replay --help' lists the options"
    foreign = [
        Foreign(spec.long, spec.short, reason, hint)
        for spec in specs(trace)
        if spec.long not in names
    ]
    return Table(own, (*foreign, *LATER), takes_words=True)
