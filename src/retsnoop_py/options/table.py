# SPDX-License-Identifier: BSD-2-Clause
"""Every option, declared once: what it is called, what its words mean, and where that goes.

The command line's normaliser, help, completion, the settings of a run, what a replay may change and
the keywords of the Python interface are all read from these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from retsnoop_py.errors import UsageError
from retsnoop_py.options import values
from retsnoop_py.value import Value

__all__ = ["OPTIONS", "Option", "Takes", "Words", "file_path", "options_of"]

TARGETING = "TARGETING"
RUN_MODE = "RUN MODE"
FILTERING = "FILTERING"
ADVANCED = "ADVANCED"
EXTRA = "EXTRA CONFIGURATION"
USAGE = "HELP AND VERSION"
#: The kernel that runs here, among those of --on.
HOST = "host"
#: The commands that have options of this table.
EVERY = ("trace", "replay", "functions", "list", "doctor", "why", "explain", "load", "diff")


class Takes(Enum):
    """What an option does with the text that follows it, and what it then is."""

    #: Nothing: it is said or not.
    FLAG = "flag"
    #: Nothing: each time it is said counts.
    COUNT = "count"
    #: A text, the last one that is said.
    ONE = "one"
    #: A text each time.
    MANY = "many"


class Option(Value):
    """One option: ``spellings`` with dashes, what it takes, what its help says.

    * ``panel``: its group in the help; ``metavar``: what its text is called there; ``hidden``: it
      is left out there
    * ``place``: where in :class:`~retsnoop_py.settings.Settings` its value goes, and in what a
      replay changes, by the last word; empty where it takes more than one option to know
    * ``read``: makes a value of its text or texts, raises UsageError or InputError
    * ``commands``: which take it
    * ``keyword``: another name in Python than the long one; empty: it is not for Python
    * ``complete``: the texts that start with one, for the shell; ``complete_among``: those that do,
      where the other words of the line say what there is
    * ``implied``: what it means without a text, which then has to be glued
    * ``dashed``: a separate text may start with ``-``
    """

    spellings: tuple[str, ...]
    takes: Takes
    help: str = ""
    panel: str = ""
    metavar: str = ""
    place: str = ""
    read: Callable[[Any], Any] | None = None
    commands: tuple[str, ...] = ("trace",)
    keyword: str | None = None
    complete: Callable[[str], list[str]] | None = None
    complete_among: Callable[[str, Sequence[str]], list[str]] | None = None
    implied: str | None = None
    dashed: bool = False
    hidden: bool = False

    @property
    def name(self) -> str:
        """The long name, without dashes."""
        return next(one[2:] for one in self.spellings if one.startswith("--"))

    @property
    def short(self) -> str | None:
        """The letter, without its dash."""
        return next((one[1:] for one in self.spellings if not one.startswith("--")), None)


class Words(Value):
    """What was said: the options by their long names, and the words of the command to trace.

    A flag is True, a count a number, others are a text or a list of texts; what was not said, or
    said no text of, is not there.
    """

    said: Mapping[str, Any]
    command: Sequence[str] = ()

    def has(self, name: str) -> bool:
        """Whether it was said."""
        return bool(self.said.get(name))

    def text(self, name: str) -> str | None:
        """The text of an option that takes one."""
        found: str | None = self.said.get(name)
        return found

    def texts(self, name: str) -> Sequence[str]:
        """The texts of one that takes many."""
        found: Sequence[str] = self.said.get(name, ())
        return found

    def count(self, name: str) -> int:
        """How often it was said."""
        return int(self.said.get(name, 0))


def file_path(option: str, value: str | None) -> Path | None:
    """The file ``option`` names, None without it. Raises :class:`UsageError` for no name."""
    if value == "":
        raise UsageError(f"{option} '': the name of a file is missing")
    return None if value is None else Path(value)


def complete_preset(incomplete: str) -> list[str]:
    """Presets, for the shell."""
    from retsnoop_py.selection import globs

    return [name for name in globs.preset_names() if name.startswith(incomplete)]


def complete_error(incomplete: str) -> list[str]:
    """Names of errors, for the shell."""
    from retsnoop_py.kernel.errno import ERRNO_NAMES

    return [name for name in ERRNO_NAMES.values() if name.startswith(incomplete)]


def complete_function(incomplete: str) -> list[str]:
    """Functions of the kernel that runs, and behind a colon its source files, for the shell."""
    from retsnoop_py.options import live

    if incomplete.startswith(":"):
        return [f":{path}" for path in live.source_files_starting(incomplete[1:])]
    return live.functions_starting(incomplete)


def complete_probe(incomplete: str) -> list[str]:
    """What -J takes, for the shell: functions, source files and tracepoints."""
    from retsnoop_py.options import live

    kind, colon, begun = incomplete.partition(":")
    if not colon:
        # two of a kind, so that a shell stops behind the colon that they share
        forms = "kprobe:NAME kprobe:FILE:LINE kretprobe:NAME kretprobe:GLOB tp:CATEGORY:NAME "
        forms += "tp:CATEGORY:GLOB rawtp:NAME rawtp:GLOB"
        return [form for form in forms.split() if form.startswith(kind)]
    if kind == "tp":
        found = live.tracepoints_starting(begun)
    elif kind == "rawtp":
        names = {one.partition(":")[2] for one in live.tracepoints_starting("")}
        found = sorted(name for name in names if name.startswith(begun))
    elif "/" in begun:
        found = [f"{path}:" for path in live.source_files_starting(begun)]
    else:
        found = live.functions_starting(begun)
    return [f"{kind}:{one}" for one in found]


def complete_pid(incomplete: str) -> list[str]:
    """Processes, for the shell."""
    found = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return sorted((one for one in found if one.startswith(incomplete)), key=int)


def complete_comm(incomplete: str) -> list[str]:
    """Names of the processes there are, for the shell."""
    names = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.add(path.read_text(errors="replace").rstrip("\n"))
        except OSError:
            continue  # it is gone
    return sorted(name for name in names if name.startswith(incomplete))


def complete_mechanism(incomplete: str) -> list[str]:
    """Ways of attaching, for the shell."""
    from retsnoop_py.mechanism import Mechanism

    names = [one.value for one in Mechanism if one is not Mechanism.AUTO]
    return [name for name in names if name.startswith(incomplete)]


def _one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    known = tuple(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def complete_user(incomplete: str) -> list[str]:
    """Names of users, for the shell."""
    import pwd

    return [one.pw_name for one in pwd.getpwall() if one.pw_name.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """Settings of -C, for the shell."""
    from retsnoop_py.options.config import KEYS

    return [f"{key.name}=" for key in KEYS if key.name.startswith(incomplete)]


def complete_kernels(incomplete: str) -> list[str]:
    """Kernels behind the last comma, for the shell."""
    from retsnoop_py.errors import RetsnoopError
    from retsnoop_py.options import live

    before, comma, begun = incomplete.rpartition(",")
    try:
        known = [*live.kernels(), HOST]
    except RetsnoopError:  # the command itself will tell
        known = [HOST]
    return [before + comma + name for name in known if name.startswith(begun)]


def _duration(option: str, unit: str) -> Callable[[str], int]:
    return lambda text: values.duration_ns(option, text, unit)


#: In the order of the help.
OPTIONS: tuple[Option, ...] = (
    Option(
        ("-c", "--case"),
        Takes.MANY,
        "Ready-made -e, -a and -d for a subject: bpf, mount, open, socket, lsm (who said EPERM?) "
        "...; docs/reference.md lists them. More may be added to it.",
        panel=TARGETING,
        metavar="PRESET",
        commands=("trace", "functions"),
        keyword="preset",
        complete=complete_preset,
    ),
    Option(
        ("-e", "--entry"),
        Takes.MANY,
        "Entry functions: each call of one is followed until it returns.",
        panel=TARGETING,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("-a", "--allow"),
        Takes.MANY,
        "Further functions to see inside those calls.",
        panel=TARGETING,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("-d", "--deny"),
        Takes.MANY,
        "Functions to leave alone; wins over -e and -a.",
        panel=TARGETING,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("--on",),
        Takes.MANY,
        "Do it on each of these kernels, in a guest of its own, and end with one table: names of "
        "'vm list', bzImages; of load also host, the kernel that runs here. May be repeated.",
        panel=TARGETING,
        metavar="KERNEL,...",
        commands=("trace", "load"),
        keyword="",
        complete=complete_kernels,
    ),
    Option(
        ("-o", "--output"),
        Takes.ONE,
        "Record what is seen as well; 'retsnoop-py replay FILE' shows it again.",
        panel=RUN_MODE,
        metavar="FILE",
        place="output",
        read=partial(file_path, "-o"),
    ),
    Option(
        ("--dry-run",),
        Takes.FLAG,
        "Say what would be traced, and touch nothing in the kernel.",
        panel=RUN_MODE,
        place="dry_run",
        keyword="",
    ),
    Option(
        ("--attach",),
        Takes.ONE,
        "Attach by this mechanism alone: fsession.multi, kprobe.session, kprobe.multi, "
        "fentry, kprobe_events or kprobe. Without it: the best that works here, and the "
        "next best for functions it cannot take.",
        panel=RUN_MODE,
        metavar="MECHANISM",
        commands=("trace", "functions"),
        complete=complete_mechanism,
    ),
    Option(
        ("-F", "--fentries"),
        Takes.FLAG,
        "The same as --attach=fentry: cheap calls, slow to attach and detach.",
        panel=RUN_MODE,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("-M", "--kprobes-multi"),
        Takes.FLAG,
        "The same as --attach=kprobe.multi.",
        panel=RUN_MODE,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("-K", "--kprobes"),
        Takes.FLAG,
        "The same as --attach=kprobe: function by function, slow, works anywhere.",
        panel=RUN_MODE,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("--max-functions",),
        Takes.ONE,
        "Refuse to attach to more functions than this (10000).",
        panel=RUN_MODE,
        metavar="N",
        place="max_functions",
        read=values.max_functions,
    ),
    Option(
        ("--no-messages",),
        Takes.FLAG,
        "Do not show what the kernel itself says in words while a call runs: lines for its log, "
        "and answers to who sent a netlink message.",
        panel=RUN_MODE,
    ),
    Option(
        ("--no-system-changes",),
        Takes.FLAG,
        "Leave /sys/kernel/rcu_expedited alone: where functions are attached one by one it "
        "is set meanwhile, which makes that faster, and put back.",
        panel=RUN_MODE,
    ),
    Option(
        ("-E", "--call-stack"),
        Takes.FLAG,
        "Show the call stack; the default, unless -T is given.",
        panel=RUN_MODE,
        place="views.call_stack",
        commands=("trace", "replay"),
    ),
    Option(
        ("-T", "--trace"),
        Takes.FLAG,
        "Show every traced call inside an entry function's, as a tree. Of successful ones "
        "as well, unless -E, -x or -Sn is given.",
        panel=RUN_MODE,
        place="views.call_trace",
        commands=("trace", "replay"),
    ),
    Option(
        ("-A", "--capture-args"),
        Takes.FLAG,
        "Show the arguments of calls and what injected probes were hit with.",
        panel=RUN_MODE,
        place="args.capture",
        commands=("trace", "replay"),
        keyword="arguments",
    ),
    Option(
        ("-J", "--inject-probe"),
        Takes.MANY,
        "Show hits of this probe inside followed calls: kprobe:NAME+OFF, kprobe:FILE:LINE, "
        "kretprobe:NAME, tp:CATEGORY:NAME or rawtp:NAME, names with * and ?.",
        panel=RUN_MODE,
        metavar="PROBE",
        place="probes",
        read=values.probes,
        keyword="inject",
        complete=complete_probe,
    ),
    Option(
        ("--path",),
        Takes.MANY,
        "Follow each call of these functions block by block: show the way it took (-T), "
        "where its error was made and which condition decided, with the values. Such "
        "functions are traced, as with -a.",
        panel=RUN_MODE,
        metavar="GLOB",
        place="paths",
        read=values.globs,
        complete=complete_function,
    ),
    Option(
        ("--pinpoint",),
        Takes.FLAG,
        "Say by which condition each distinct chain failed: the innermost function of a chain is "
        "followed once it has failed, so its next failure tells. With -- CMD, CMD IS RUN AGAIN, at "
        "most --reruns times, and only what is new of that is shown.",
        panel=RUN_MODE,
        place="pinpoint",
    ),
    Option(
        ("--max-blocks",),
        Takes.ONE,
        "Do not follow functions of more blocks than this (1000).",
        panel=RUN_MODE,
        metavar="N",
        place="max_blocks",
        read=values.max_blocks,
    ),
    Option(
        ("--syscall",),
        Takes.MANY,
        "Explain a call of this system call, by the kernel's name for it: bpf, openat.",
        panel=FILTERING,
        metavar="NAME",
        commands=("why",),
    ),
    Option(
        ("--reruns",),
        Takes.ONE,
        "For why and --pinpoint: run CMD again this often at most (2); 0: run it once, and say "
        "what can be said from that.",
        panel=RUN_MODE,
        metavar="N",
        place="reruns",
        read=values.reruns,
        commands=("trace", "why"),
    ),
    Option(
        ("-B", "--lbr"),
        Takes.MANY,
        "Show the last branches the CPU took (LBR): any, any_call, any_return (the "
        "default), cond, call, ind_call, ind_jump, call_stack, abort_tx, in_tx, no_tx or a "
        "number.",
        panel=RUN_MODE,
        metavar="[=FLAG]",
        place="views.lbr",
        read=values.lbr,
        commands=("trace", "replay"),
        implied="any_return",
        complete=_one_of(values.LBR_FLAGS),
    ),
    Option(
        ("-I", "--interim-stacks"),
        Takes.FLAG,
        "Show stacks of calls that still run: chains of failures about to be overwritten, "
        "and where injected probes are hit.",
        panel=RUN_MODE,
        place="views.interim",
        commands=("trace", "replay"),
    ),
    Option(
        ("--user-stack",),
        Takes.FLAG,
        "Show the program's own stack under the kernel's.",
        panel=RUN_MODE,
        place="views.user_stack",
        commands=("trace", "replay"),
    ),
    Option(
        ("--format",),
        Takes.ONE,
        "text, or json: one object for each session and line (docs/json.md); CMD's output "
        "goes to standard error then.",
        panel=RUN_MODE,
        metavar="FORMAT",
        place="views.format",
        read=values.output_format,
        commands=("trace", "replay", "why", "explain", "load", "diff"),
        keyword="",
        complete=_one_of(("text", "json")),
    ),
    Option(
        ("--ascii",),
        Takes.FLAG,
        "Draw with ASCII only.",
        panel=RUN_MODE,
        place="views.ascii",
        commands=("trace", "replay", "diff"),
        keyword="",
    ),
    Option(
        ("--count",),
        Takes.ONE,
        "Stop after N sessions were shown; CMD goes on untraced.",
        panel=RUN_MODE,
        metavar="N",
        place="stop_count",
        read=values.count,
        commands=("trace", "replay"),
    ),
    Option(
        ("--for",),
        Takes.ONE,
        "Stop after so long: 500ms, 10s, 5min; CMD goes on untraced.",
        panel=RUN_MODE,
        metavar="TIME",
        place="stop_after_ns",
        read=_duration("--for", "s"),
        keyword="duration",
        dashed=True,
    ),
    Option(
        ("--user",),
        Takes.ONE,
        'Run CMD as this user, with its groups and HOME, and trace as root: --user "$USER" '
        'behind sudo, --user "$SUDO_USER" in a shell that sudo started.',
        panel=RUN_MODE,
        metavar="NAME",
        commands=("trace", "why"),
        complete=complete_user,
    ),
    Option(
        ("--jobs",),
        Takes.ONE,
        "Guests of --on at a time (one per core).",
        panel=RUN_MODE,
        metavar="N",
        commands=("trace", "load"),
        keyword="",
    ),
    Option(
        ("--timeout",),
        Takes.ONE,
        "For everything on one kernel of --on (600); a guest that takes longer is given up.",
        panel=RUN_MODE,
        metavar="SECONDS",
        commands=("trace", "load"),
        keyword="",
    ),
    Option(
        ("--summary",),
        Takes.ONE,
        "Also write what came of the run to FILE: failing sessions by error, losses, CMD's exit "
        "status, the verdict, as one JSON object (docs/json.md).",
        panel=RUN_MODE,
        metavar="FILE",
        place="summary",
        read=partial(file_path, "--summary"),
        keyword="",
    ),
    Option(
        ("-p", "--pid"),
        Takes.MANY,
        "Only these processes.",
        panel=FILTERING,
        metavar="PID",
        place="filters.pids",
        read=partial(values.pids, "-p"),
        commands=("trace", "replay", "why"),
        dashed=True,
        complete=complete_pid,
    ),
    Option(
        ("-P", "--no-pid"),
        Takes.MANY,
        "Not these processes.",
        panel=FILTERING,
        metavar="PID",
        place="filters.deny_pids",
        read=partial(values.pids, "-P"),
        commands=("trace", "replay"),
        dashed=True,
        complete=complete_pid,
    ),
    Option(
        ("-n", "--comm"),
        Takes.MANY,
        "Only threads of this name; its first 15 bytes count, as in the kernel.",
        panel=FILTERING,
        metavar="NAME",
        place="filters.comms",
        read=partial(values.comms, "-n"),
        commands=("trace", "replay", "diff"),
        dashed=True,
        complete=complete_comm,
    ),
    Option(
        ("-N", "--no-comm"),
        Takes.MANY,
        "Not threads of this name.",
        panel=FILTERING,
        metavar="NAME",
        place="filters.deny_comms",
        read=partial(values.comms, "-N"),
        commands=("trace", "replay", "diff"),
        dashed=True,
        complete=complete_comm,
    ),
    Option(
        ("-L", "--longer"),
        Takes.ONE,
        "Only calls of an entry function that took at least so long: 500us, 2ms, 1s; a bare"
        " number is milliseconds.",
        panel=FILTERING,
        metavar="TIME",
        place="filters.longer_ns",
        read=_duration("-L", "ms"),
        commands=("trace", "replay"),
        dashed=True,
    ),
    Option(
        ("-S", "--success-stacks"),
        Takes.MANY,
        "Show calls that succeeded as well (-S, -Sy), or failures only (-Sn, the default).",
        panel=FILTERING,
        metavar="[=y|n]",
        commands=("trace", "replay"),
        implied="y",
    ),
    Option(
        ("-x", "--allow-errors"),
        Takes.MANY,
        "Only stacks with this error in them, such as ENOMEM or NULL; any is every error.",
        panel=FILTERING,
        metavar="ERROR",
        commands=("trace", "replay", "why", "diff"),
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("-X", "--deny-errors"),
        Takes.MANY,
        "No stacks with this error in them.",
        panel=FILTERING,
        metavar="ERROR",
        place="filters.deny_errors",
        read=values.denied_errors,
        commands=("trace", "replay", "diff"),
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--fail-on",),
        Takes.MANY,
        "Exit status 3 if a session with this error in it is shown; any is every error, but for "
        "those of --expect. Otherwise the status is CMD's.",
        panel=FILTERING,
        metavar="ERROR",
        commands=("trace", "replay"),
        keyword="",
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--expect",),
        Takes.MANY,
        "Exit status 3 unless a session with this error in it is shown; 0 if so, also where CMD "
        "fails.",
        panel=FILTERING,
        metavar="ERROR",
        commands=("trace", "replay"),
        keyword="",
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--expect-none",),
        Takes.FLAG,
        "Exit status 3 if a failing session is shown, or if anything was lost, so that there may "
        "have been one. Otherwise the status is CMD's.",
        panel=FILTERING,
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--json",),
        Takes.FLAG,
        "Write one JSON document.",
        panel=RUN_MODE,
        commands=("functions", "list", "doctor"),
        keyword="",
    ),
    Option(
        ("-k", "--kernel"),
        Takes.ONE,
        "The kernel's vmlinux with DWARF, where it is not found by itself.",
        panel=ADVANCED,
        metavar="PATH",
        place="kernel_image",
        read=partial(file_path, "-k"),
        commands=("trace", "replay", "functions", "doctor", "why", "load"),
    ),
    Option(
        ("--source",),
        Takes.ONE,
        "The kernel's source tree: below the place that returned an error its line is shown. "
        "Without this, /lib/modules/RELEASE/source where that is there.",
        panel=ADVANCED,
        metavar="DIR",
        place="source",
        read=values.source_tree,
        commands=("trace", "replay", "why"),
    ),
    Option(
        ("-s", "--symbolize"),
        Takes.ONE,
        "Show source lines (-s), and inlined functions (-ss), or neither (-sn). By default "
        "-ss where there is DWARF.",
        panel=ADVANCED,
        metavar="[=s|n]",
        place="symbolize",
        read=values.symbolize,
        commands=("trace", "replay"),
        implied="linenum",
    ),
    Option(
        ("-C", "--config"),
        Takes.MANY,
        "Change a finer setting.",
        panel=EXTRA,
        metavar="GROUP.KEY=VALUE",
        commands=("trace", "replay"),
        complete=complete_setting,
    ),
    Option(
        ("--config-help",),
        Takes.FLAG,
        "List those settings.",
        panel=EXTRA,
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--debug",),
        Takes.MANY,
        "bpf: log to the kernel's trace_pipe. multi-kprobe: name each function that cannot "
        "be attached. full-lbr: show all branches, tracing's own as well.",
        panel=EXTRA,
        metavar="FEATURE",
        commands=("trace", "replay"),
        complete=_one_of(values.DEBUG_FEATURES),
    ),
    Option(
        ("-v", "--verbose"),
        Takes.COUNT,
        "Say more; -vv more still.",
        panel=USAGE,
        place="verbose",
        commands=EVERY,
    ),
    Option(
        ("-V", "--version"),
        Takes.FLAG,
        "Print the version; with -v also what this kernel can do.",
        panel=USAGE,
        commands=EVERY,
        keyword="",
    ),
    Option(
        ("-h", "--help"),
        Takes.FLAG,
        "Show this help.",
        panel=USAGE,
        commands=EVERY,
        keyword="",
    ),
    Option(
        ("--usage",),
        Takes.FLAG,
        "",
        commands=EVERY,
        keyword="",
        hidden=True,
    ),
)


def options_of(command: str) -> tuple[Option, ...]:
    """Those that ``command`` takes, in the order of its help."""
    return tuple([option for option in OPTIONS if command in option.commands])
