# SPDX-License-Identifier: BSD-2-Clause
"""Every option, declared once, as the annotated types the commands' signatures are made of."""

from __future__ import annotations

from typing import Annotated

from retsnoop_py.cli.declare import Option

TARGETING = "TARGETING"
RUN_MODE = "RUN MODE"
FILTERING = "FILTERING"
ADVANCED = "ADVANCED"
EXTRA = "EXTRA CONFIGURATION"
USAGE = "HELP AND VERSION"


def complete_preset(incomplete: str) -> list[str]:
    """Presets, for the shell."""
    from retsnoop_py.selection import presets

    return [name for name in presets.names() if name.startswith(incomplete)]


def complete_error(incomplete: str) -> list[str]:
    """Names of errors, for the shell."""
    from retsnoop_py.kernel.errno import ERRNO_NAMES

    return [name for name in ERRNO_NAMES.values() if name.startswith(incomplete)]


def complete_user(incomplete: str) -> list[str]:
    """Names of users, for the shell."""
    import pwd

    return [one.pw_name for one in pwd.getpwall() if one.pw_name.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """Settings of -C, for the shell."""
    from retsnoop_py.options.config import KEYS

    return [f"{key.name}=" for key in KEYS if key.name.startswith(incomplete)]


Preset = Annotated[
    list[str],
    Option(
        "-c",
        "--case",
        metavar="PRESET",
        help="Ready-made -e, -a and -d for a subject: bpf or perf. More may be added to it.",
        panel=TARGETING,
        complete=complete_preset,
    ),
]
Entry = Annotated[
    list[str],
    Option(
        "-e",
        "--entry",
        metavar="GLOB",
        help="Entry functions: each call of one is followed until it returns.",
        panel=TARGETING,
    ),
]
Allow = Annotated[
    list[str],
    Option(
        "-a",
        "--allow",
        metavar="GLOB",
        help="Further functions to see inside those calls.",
        panel=TARGETING,
    ),
]
Deny = Annotated[
    list[str],
    Option(
        "-d",
        "--deny",
        metavar="GLOB",
        help="Functions to leave alone; wins over -e and -a.",
        panel=TARGETING,
    ),
]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Say what would be traced, and touch nothing in the kernel.",
        panel=RUN_MODE,
    ),
]
Output = Annotated[
    str | None,
    Option(
        "-o",
        "--output",
        metavar="FILE",
        help="Record what is seen as well; 'retsnoop-py replay FILE' shows it again.",
        panel=RUN_MODE,
    ),
]
Attach = Annotated[
    str | None,
    Option(
        "--attach",
        metavar="MECHANISM",
        help="Attach by this mechanism alone: fsession.multi, kprobe.session, kprobe.multi, "
        "fentry, kprobe_events or kprobe. Without it: the best that works here, and the next "
        "best for functions it cannot take.",
        panel=RUN_MODE,
    ),
]
Fentries = Annotated[
    bool,
    Option(
        "-F",
        "--fentries",
        help="The same as --attach=fentry: cheap calls, slow to attach and detach.",
        panel=RUN_MODE,
    ),
]
KprobesMulti = Annotated[
    bool,
    Option(
        "-M",
        "--kprobes-multi",
        help="The same as --attach=kprobe.multi.",
        panel=RUN_MODE,
    ),
]
Kprobes = Annotated[
    bool,
    Option(
        "-K",
        "--kprobes",
        help="The same as --attach=kprobe: function by function, slow, works anywhere.",
        panel=RUN_MODE,
    ),
]
MaxFunctions = Annotated[
    str | None,
    Option(
        "--max-functions",
        metavar="N",
        help="Refuse to attach to more functions than this (10000).",
        panel=RUN_MODE,
    ),
]
NoSystemChanges = Annotated[
    bool,
    Option(
        "--no-system-changes",
        help="Leave /sys/kernel/rcu_expedited alone: where functions are attached one by one it "
        "is set meanwhile, which makes that faster, and put back.",
        panel=RUN_MODE,
    ),
]
CallStack = Annotated[
    bool,
    Option(
        "-E",
        "--call-stack",
        help="Show the call stack; the default, unless -T is given.",
        panel=RUN_MODE,
    ),
]
Trace = Annotated[
    bool,
    Option(
        "-T",
        "--trace",
        help="Show every traced call inside an entry function's, as a tree. Of successful ones "
        "as well, unless -E, -x or -Sn is given.",
        panel=RUN_MODE,
    ),
]
CaptureArgs = Annotated[
    bool,
    Option(
        "-A",
        "--capture-args",
        help="Show the arguments of calls and what injected probes were hit with.",
        panel=RUN_MODE,
    ),
]
InjectProbe = Annotated[
    list[str],
    Option(
        "-J",
        "--inject-probe",
        metavar="PROBE",
        help="Show hits of this probe inside followed calls: kprobe:NAME+OFF, kprobe:FILE:LINE, "
        "kretprobe:NAME, tp:CATEGORY:NAME or rawtp:NAME, names with * and ?.",
        panel=RUN_MODE,
    ),
]
Path = Annotated[
    list[str],
    Option(
        "--path",
        metavar="GLOB",
        help="Follow each call of these functions block by block: show the way it took (-T), where "
        "its error was made and which condition decided, with the values. Such functions are "
        "traced, as with -a.",
        panel=RUN_MODE,
    ),
]
MaxBlocks = Annotated[
    str | None,
    Option(
        "--max-blocks",
        metavar="N",
        help="Do not follow functions of more blocks than this (1000).",
        panel=RUN_MODE,
    ),
]
Lbr = Annotated[
    list[str],
    Option(
        "-B",
        "--lbr",
        metavar="[=FLAG]",
        help="Show the last branches the CPU took (LBR): any, any_call, any_return (the default), "
        "cond, call, ind_call, ind_jump, call_stack, abort_tx, in_tx, no_tx or a number.",
        panel=RUN_MODE,
        implied="any_return",
    ),
]
InterimStacks = Annotated[
    bool,
    Option(
        "-I",
        "--interim-stacks",
        help="Show stacks of calls that still run: chains of failures about to be overwritten, "
        "and where injected probes are hit.",
        panel=RUN_MODE,
    ),
]
UserStack = Annotated[
    bool,
    Option(
        "--user-stack",
        help="Show the program's own stack under the kernel's.",
        panel=RUN_MODE,
    ),
]
Format = Annotated[
    str | None,
    Option(
        "--format",
        metavar="FORMAT",
        help="text, or json: one object for each session and line (docs/json.md); CMD's output "
        "goes to standard error then.",
        panel=RUN_MODE,
    ),
]
Ascii = Annotated[
    bool,
    Option("--ascii", help="Draw with ASCII only.", panel=RUN_MODE),
]
Count = Annotated[
    str | None,
    Option(
        "--count",
        metavar="N",
        help="Stop after N sessions were shown; CMD goes on untraced.",
        panel=RUN_MODE,
    ),
]
For = Annotated[
    str | None,
    Option(
        "--for",
        metavar="TIME",
        help="Stop after so long: 500ms, 10s, 5min; CMD goes on untraced.",
        panel=RUN_MODE,
        dashed=True,
    ),
]
User = Annotated[
    str | None,
    Option(
        "--user",
        metavar="NAME",
        help='Run CMD as this user, with its groups and HOME, and trace as root: --user "$USER" '
        'behind sudo, --user "$SUDO_USER" in a shell that sudo started.',
        panel=RUN_MODE,
        complete=complete_user,
    ),
]
Debug = Annotated[
    list[str],
    Option(
        "--debug",
        metavar="FEATURE",
        help="bpf: log to the kernel's trace_pipe. multi-kprobe: name each function that cannot "
        "be attached. full-lbr: show all branches, tracing's own as well.",
        panel=EXTRA,
    ),
]
Pid = Annotated[
    list[str],
    Option(
        "-p",
        "--pid",
        metavar="PID",
        help="Only these processes.",
        panel=FILTERING,
        dashed=True,
    ),
]
NoPid = Annotated[
    list[str],
    Option(
        "-P",
        "--no-pid",
        metavar="PID",
        help="Not these processes.",
        panel=FILTERING,
        dashed=True,
    ),
]
Comm = Annotated[
    list[str],
    Option(
        "-n",
        "--comm",
        metavar="NAME",
        help="Only threads of this name; its first 15 bytes count, as in the kernel.",
        panel=FILTERING,
        dashed=True,
    ),
]
NoComm = Annotated[
    list[str],
    Option(
        "-N",
        "--no-comm",
        metavar="NAME",
        help="Not threads of this name.",
        panel=FILTERING,
        dashed=True,
    ),
]
Longer = Annotated[
    str | None,
    Option(
        "-L",
        "--longer",
        metavar="TIME",
        help="Only calls of an entry function that took at least so long: 500us, 2ms, 1s; a bare "
        "number is milliseconds.",
        panel=FILTERING,
        dashed=True,
    ),
]
SuccessStacks = Annotated[
    list[str],
    Option(
        "-S",
        "--success-stacks",
        metavar="[=y|n]",
        help="Show calls that succeeded as well (-S, -Sy), or failures only (-Sn, the default).",
        panel=FILTERING,
        implied="y",
    ),
]
AllowErrors = Annotated[
    list[str],
    Option(
        "-x",
        "--allow-errors",
        metavar="ERROR",
        help="Only stacks with this error in them, such as ENOMEM or NULL; any is every error.",
        panel=FILTERING,
        complete=complete_error,
        dashed=True,
    ),
]
DenyErrors = Annotated[
    list[str],
    Option(
        "-X",
        "--deny-errors",
        metavar="ERROR",
        help="No stacks with this error in them.",
        panel=FILTERING,
        complete=complete_error,
        dashed=True,
    ),
]
KernelImage = Annotated[
    str | None,
    Option(
        "-k",
        "--kernel",
        metavar="PATH",
        help="The kernel's vmlinux with DWARF, where it is not found by itself.",
        panel=ADVANCED,
    ),
]
Symbolize = Annotated[
    str | None,
    Option(
        "-s",
        "--symbolize",
        metavar="[=s|n]",
        help="Show source lines (-s), and inlined functions (-ss), or neither (-sn). "
        "By default -ss where there is DWARF.",
        panel=ADVANCED,
        implied="linenum",
    ),
]
Settings = Annotated[
    list[str],
    Option(
        "-C",
        "--config",
        metavar="GROUP.KEY=VALUE",
        help="Change a finer setting.",
        panel=EXTRA,
        complete=complete_setting,
    ),
]
ConfigHelp = Annotated[
    bool,
    Option("--config-help", help="List those settings.", panel=EXTRA),
]
Json = Annotated[
    bool,
    Option("--json", help="Write one JSON document.", panel=RUN_MODE),
]
Verbose = Annotated[
    int,
    Option(
        "-v",
        "--verbose",
        count=True,
        metavar="",
        help="Say more; -vv more still.",
        panel=USAGE,
    ),
]
Version = Annotated[
    bool,
    Option(
        "-V",
        "--version",
        help="Print the version; with -v also what this kernel can do.",
        panel=USAGE,
    ),
]
Help = Annotated[bool, Option("-h", "--help", help="Show this help.", panel=USAGE)]
Usage = Annotated[bool, Option("--usage", hidden=True)]
