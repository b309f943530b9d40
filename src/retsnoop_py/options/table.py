# SPDX-License-Identifier: BSD-2-Clause
"""Every option, declared once: its spellings, the meaning of its words, the place of its value.

These rows are used by the command line's parser, the help and the completion. They also define the
settings of a run, the changes of a replay and the keywords of the Python interface.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from retsnoop_py.errors import RetsnoopError, UsageError
from retsnoop_py.mechanism import Mechanism
from retsnoop_py.options import values
from retsnoop_py.value import Value, replace

__all__ = ["OPTIONS", "Option", "Takes", "Words", "file_path", "options_of"]

CALLS = "Which calls?"
PRINT = "What to print?"
CONDITION = "Which condition failed?"
LINES = "Where do source lines come from?"
_OBJECT_SOURCE = (
    "Print the lines around a source line from files below this folder. By default, retsnoop-py "
    "prints only the lines that the BPF object contains."
)
OUTPUT = "Where does the output go?"
WHERE = "Where to run, and how long?"
STATUS = "Which exit status?"
#: Only for `load`.
OBJECTS = "What to load?"
ATTACH = "How to attach?"
GENERAL = "Settings and help"
#: The groups of options in the order of the help.
PANELS = (CALLS, PRINT, CONDITION, LINES, OUTPUT, WHERE, OBJECTS, STATUS, ATTACH, GENERAL)
#: The name of the running kernel in --on.
HOST = "host"
#: The commands with options in this table.
EVERY = (
    *("trace", "replay", "functions", "list", "doctor", "why", "explain", "load", "diff", "help"),
)


class Takes(Enum):
    """The text that an option takes, and the type of its value."""

    #: No text: the option is given or not.
    FLAG = "flag"
    #: No text: the value is how often the option is given.
    COUNT = "count"
    #: A text; the last one counts.
    ONE = "one"
    #: A text, each time.
    MANY = "many"


class Option(Value):
    """An option: ``spellings`` with dashes, the texts that it takes, its help.

    * ``help_in``: commands with another help text, and that text
    * ``panel``: its group in the help; ``metavar``: the name of its text there; ``hidden``: the
      help does not show the option
    * ``place``: the place of its value in :class:`~retsnoop_py.settings.Settings`; its last word is
      the place in a replay's changes; empty if the value depends on several options
    * ``read``: converts its text or texts to a value, raises UsageError or InputError
    * ``commands``: the commands with this option
    * ``keyword``: the name in Python if it is not the long name; empty: not available in Python
    * ``complete``: returns completions for the shell; ``complete_among``: returns completions that
      depend on the other words of the line
    * ``implied``: the value without a text; a text must then follow without a space
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
    help_in: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        """Return the long name without dashes, or the letter if there is no long name."""
        return next(
            (one[2:] for one in self.spellings if one.startswith("--")), self.spellings[0][1:]
        )

    @property
    def short(self) -> str | None:
        """Return the letter without its dash, or None."""
        return next((one[1:] for one in self.spellings if not one.startswith("--")), None)


class Words(Value):
    """The given options by their long names, and the words of the command to trace.

    A flag is True, a count a number; other values are a text or a list of texts. Options that were
    not given, or have an empty list, are missing.
    """

    said: Mapping[str, Any]
    command: Sequence[str] = ()

    def has(self, name: str) -> bool:
        """Return True if the option was given."""
        return bool(self.said.get(name))

    def text(self, name: str) -> str | None:
        """Return the text of an option with one text, or None."""
        found: str | None = self.said.get(name)
        return found

    def texts(self, name: str) -> Sequence[str]:
        """Return the texts of an option with many texts."""
        found: Sequence[str] = self.said.get(name, ())
        return found

    def count(self, name: str) -> int:
        """Return how often the option was given."""
        return int(self.said.get(name, 0))


def file_path(option: str, value: str | None) -> Path | None:
    """Return the file of ``option``, or None. Raise :class:`UsageError` for an empty name."""
    if value == "":
        raise UsageError(f"{option} '': the name of a file is missing")
    return None if value is None else Path(value)


def complete_preset(incomplete: str) -> list[str]:
    """Return presets, for the shell."""
    from retsnoop_py.selection import globs

    return [name for name in globs.preset_names() if name.startswith(incomplete)]


def complete_error(incomplete: str) -> list[str]:
    """Return names of errors, for the shell."""
    from retsnoop_py.kernel.errno import ERRNO_NAMES

    return [name for name in ERRNO_NAMES.values() if name.startswith(incomplete)]


def complete_function(incomplete: str) -> list[str]:
    """Return functions of the running kernel, or source files after a colon, for the shell."""
    from retsnoop_py.options import live

    if incomplete.startswith(":"):
        return [f":{path}" for path in live.source_files_starting(incomplete[1:])]
    return live.functions_starting(incomplete)


def complete_probe(incomplete: str) -> list[str]:
    """Return completions of -J for the shell: functions, source files and tracepoints."""
    from retsnoop_py.options import live

    kind, colon, begun = incomplete.partition(":")
    if not colon:
        # There are two forms of a kind, so that the shell stops after their common colon.
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
    """Return process ids, for the shell."""
    found = [path.name for path in Path("/proc").iterdir() if path.name.isdecimal()]
    return sorted((one for one in found if one.startswith(incomplete)), key=int)


def complete_comm(incomplete: str) -> list[str]:
    """Return names of running processes, for the shell."""
    names = set()
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            names.add(path.read_text(errors="replace").rstrip("\n"))
        except OSError:
            continue  # the process has exited
    return sorted(name for name in names if name.startswith(incomplete))


def complete_mechanism(incomplete: str) -> list[str]:
    """Return attach mechanisms, for the shell."""
    names = [one.value for one in Mechanism if one is not Mechanism.AUTO]
    return [name for name in names if name.startswith(incomplete)]


def _one_of(names: Iterable[str]) -> Callable[[str], list[str]]:
    known = tuple(names)
    return lambda incomplete: [name for name in known if name.startswith(incomplete)]


def complete_user(incomplete: str) -> list[str]:
    """Return names of users, for the shell."""
    import pwd

    return [one.pw_name for one in pwd.getpwall() if one.pw_name.startswith(incomplete)]


def complete_setting(incomplete: str) -> list[str]:
    """Return settings of -C, for the shell."""
    from retsnoop_py.options.config import KEYS

    return [f"{key.name}=" for key in KEYS if key.name.startswith(incomplete)]


def complete_kernels(incomplete: str) -> list[str]:
    """Return kernels to complete the text after the last comma, for the shell."""
    from retsnoop_py.options import live

    before, comma, begun = incomplete.rpartition(",")
    try:
        known = [*live.kernels(), HOST]
    except RetsnoopError:  # the command itself will report the error
        known = [HOST]
    return [before + comma + name for name in known if name.startswith(begun)]


def _duration(option: str, unit: str) -> Callable[[str], int]:
    return lambda text: values.duration_ns(option, text, unit)


#: In the order of the help.
OPTIONS: tuple[Option, ...] = (
    Option(
        ("-c", "--case"),
        Takes.MANY,
        "Use the functions of this preset: bpf, mount, open, lsm. 'retsnoop-py list presets' "
        "prints all presets. lsm also selects -x EPERM and -x EACCES; -x any shows every error.",
        panel=CALLS,
        metavar="PRESET",
        commands=("trace", "functions"),
        keyword="preset",
        complete=complete_preset,
    ),
    Option(
        ("-e", "--entry"),
        Takes.MANY,
        "Follow each call of these functions until it returns.",
        panel=CALLS,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("-a", "--allow"),
        Takes.MANY,
        "Also record these functions inside such calls.",
        panel=CALLS,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("-d", "--deny"),
        Takes.MANY,
        "Never trace these functions. -d wins over -e and -a.",
        panel=CALLS,
        metavar="GLOB",
        commands=("trace", "functions"),
        complete=complete_function,
    ),
    Option(
        ("--on",),
        Takes.MANY,
        "Run CMD on each of these kernels, in virtual machines. A KERNEL is a name that "
        "'retsnoop-py vm list' prints, or the path of a bzImage.",
        help_in=(
            (
                "load",
                (
                    "Load on each of these kernels, in virtual machines. A KERNEL is a name that "
                    "'retsnoop-py vm list' prints, the path of a bzImage, or host for the running "
                    "kernel."
                ),
            ),
        ),
        panel=WHERE,
        metavar="KERNEL,...",
        commands=("trace", "load"),
        keyword="",
        complete=complete_kernels,
    ),
    Option(
        ("-o", "--output"),
        Takes.ONE,
        "Also record to FILE, for 'retsnoop-py replay FILE'.",
        panel=OUTPUT,
        metavar="FILE",
        place="output",
        read=partial(file_path, "-o"),
    ),
    Option(
        ("--dry-run",),
        Takes.FLAG,
        "Print what would be traced, and attach nothing.",
        panel=ATTACH,
        place="dry_run",
        keyword="",
    ),
    Option(
        ("--attach",),
        Takes.ONE,
        "Attach only with this mechanism: fsession.multi, kprobe.session, kprobe.multi, fentry, "
        "kprobe_events or kprobe. By default, each function gets the best mechanism that works.",
        help_in=(
            (
                "functions",
                (
                    "List what this mechanism can attach to: fsession.multi, kprobe.session, "
                    "kprobe.multi, fentry, kprobe_events or kprobe. By default, each function gets "
                    "the best mechanism that works."
                ),
            ),
        ),
        panel=ATTACH,
        metavar="MECHANISM",
        commands=("trace", "functions"),
        complete=complete_mechanism,
    ),
    Option(
        ("-F", "--fentries"),
        Takes.FLAG,
        "Same as --attach=fentry. Calls cost little, but attaching and detaching are slow.",
        panel=ATTACH,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("-M", "--kprobes-multi"),
        Takes.FLAG,
        "Same as --attach=kprobe.multi.",
        panel=ATTACH,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("-K", "--kprobes"),
        Takes.FLAG,
        "Same as --attach=kprobe. It works on every kernel, but attaches functions one by one.",
        panel=ATTACH,
        commands=("trace", "functions"),
        keyword="",
    ),
    Option(
        ("--max-functions",),
        Takes.ONE,
        "Fail if more than N functions match (default 10000).",
        panel=ATTACH,
        metavar="N",
        place="max_functions",
        read=values.max_functions,
    ),
    Option(
        ("--no-messages",),
        Takes.FLAG,
        "Do not print the kernel messages of a call. These are lines for the kernel log, and "
        "error texts in netlink answers.",
        panel=PRINT,
    ),
    Option(
        ("--no-system-changes",),
        Takes.FLAG,
        "Do not change /sys/kernel/rcu_expedited while attaching. Attaching functions one by one "
        "is slower then.",
        panel=ATTACH,
    ),
    Option(
        ("-E", "--call-stack"),
        Takes.FLAG,
        "Print the call stack of each failing call. This is the default without -T.",
        help_in=(
            (
                "replay",
                (
                    "Print the call stack of each failing call. This is the default for a "
                    "recording made without -T."
                ),
            ),
        ),
        panel=PRINT,
        place="views.call_stack",
        commands=("trace", "replay"),
    ),
    Option(
        ("-T", "--trace"),
        Takes.FLAG,
        "Print every traced call inside an entry call, as a tree. Without -E, -x and -Sn, this "
        "includes calls that succeeded.",
        help_in=(
            (
                "replay",
                (
                    "Print every traced call inside an entry call, as a tree. The recording needs "
                    "-T, too."
                ),
            ),
        ),
        panel=PRINT,
        place="views.call_trace",
        commands=("trace", "replay"),
    ),
    Option(
        ("-A", "--capture-args"),
        Takes.FLAG,
        "Print the arguments of calls, and the data of -J probes.",
        help_in=(
            (
                "replay",
                (
                    "Print the arguments of calls, and the data of -J probes. The recording needs "
                    "-A, too."
                ),
            ),
        ),
        panel=PRINT,
        place="args.capture",
        commands=("trace", "replay"),
        keyword="arguments",
    ),
    Option(
        ("-J", "--inject-probe"),
        Takes.MANY,
        "Print each hit of this probe inside a followed call. PROBE is kprobe:NAME+OFF, "
        "kprobe:FILE:LINE, kretprobe:NAME, tp:CATEGORY:NAME or rawtp:NAME; a NAME may contain * "
        "and ?.",
        panel=PRINT,
        metavar="PROBE",
        place="probes",
        read=values.probes,
        keyword="inject",
        complete=complete_probe,
    ),
    Option(
        ("--path",),
        Takes.MANY,
        "Trace these functions block by block, and print the condition that made a call fail. "
        "With -T, print the whole executed path.",
        panel=CONDITION,
        metavar="GLOB",
        place="paths",
        read=values.globs,
        complete=complete_function,
    ),
    Option(
        ("--pinpoint",),
        Takes.FLAG,
        "Find the condition that made each chain of calls fail, when the chain fails again. With "
        "-- CMD, CMD RUNS AGAIN, at most --reruns times.",
        panel=CONDITION,
        place="pinpoint",
    ),
    Option(
        ("--max-blocks",),
        Takes.ONE,
        "Do not follow functions with more than N basic blocks (default 1000).",
        panel=CONDITION,
        metavar="N",
        place="max_blocks",
        read=values.max_blocks,
    ),
    Option(
        ("--call",),
        Takes.MANY,
        "Explain a failing call of this system call. NAME is the kernel's name, for example bpf "
        "or openat.",
        panel=CALLS,
        metavar="NAME",
        keyword="syscall",
        commands=("why",),
    ),
    Option(
        ("--errno",),
        Takes.MANY,
        "Explain a failing call with this error, for example EPERM. The same as -x.",
        panel=CALLS,
        metavar="NAME",
        keyword="",
        commands=("why",),
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--reruns",),
        Takes.ONE,
        "Run CMD again at most N times for --pinpoint (default 2).",
        help_in=(
            (
                "why",
                (
                    "Run CMD again at most N times (default 2, and 0 after exit status 0). With 0, "
                    "CMD runs once, and the explanation is shorter."
                ),
            ),
        ),
        panel=CONDITION,
        metavar="N",
        place="reruns",
        read=values.reruns,
        commands=("trace", "why"),
    ),
    Option(
        ("-B", "--lbr"),
        Takes.MANY,
        "Print the last branches that the CPU took (LBR). FLAG is any, any_call, any_return (the "
        "default), cond, call, ind_call, ind_jump, call_stack, abort_tx, in_tx, no_tx or a number.",
        help_in=(
            (
                "replay",
                "Print the last branches that the CPU took (LBR). The recording needs -B, too.",
            ),
        ),
        panel=PRINT,
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
        "Also print stacks of calls that still run. They show failures that a later call would "
        "overwrite, and hits of -J probes.",
        panel=PRINT,
        place="views.interim",
        commands=("trace", "replay"),
    ),
    Option(
        ("--explain",),
        Takes.FLAG,
        "Also print why each system call failed and what to change, as why does. Needs -- CMD or "
        "-p. A recording does not keep it.",
        panel=PRINT,
        place="views.explain",
        commands=("trace",),
    ),
    Option(
        ("--user-stack",),
        Takes.FLAG,
        "Also print the program's own stack.",
        panel=PRINT,
        place="views.user_stack",
        commands=("trace", "replay"),
    ),
    Option(
        ("--format",),
        Takes.ONE,
        "Print text, or json: one object per line (docs/json.md). With json, CMD's standard "
        "output goes to standard error.",
        help_in=(
            ("replay", "Print text, or json: one object per session (docs/json.md)."),
            (
                "why",
                "Print text, json (docs/json.md), github (annotations), junit, or sarif.",
            ),
            ("explain", "Print text, or json: one object per failure (docs/json.md)."),
            (
                "load",
                "Print text, or json: one object per map or program and kernel (docs/json.md).",
            ),
            ("diff", "Print text, or json: one object for the comparison (docs/json.md)."),
        ),
        panel=OUTPUT,
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
        "Draw with ASCII characters only.",
        panel=OUTPUT,
        place="views.ascii",
        commands=("trace", "replay", "diff"),
        keyword="",
    ),
    Option(
        ("--all",),
        Takes.FLAG,
        "On a terminal, print every stack. Without it, a stack that a process repeats is printed "
        "three times and then counted.",
        panel=PRINT,
        place="each",
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--no-counts",),
        Takes.FLAG,
        "Print every stack, as --all does, and no closing line with the numbers of calls.",
        panel=PRINT,
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--count",),
        Takes.ONE,
        "Stop after printing N sessions. CMD continues untraced.",
        help_in=(("replay", "Stop after printing N sessions."),),
        panel=WHERE,
        metavar="N",
        place="stop_count",
        read=values.count,
        commands=("trace", "replay"),
    ),
    Option(
        ("--for",),
        Takes.ONE,
        "Stop tracing after this time: 500ms, 10s, 5min. CMD continues untraced.",
        help_in=(
            (
                "why",
                "End CMD after this time (10s, 5min), and report what its threads wait for.",
            ),
        ),
        panel=WHERE,
        metavar="TIME",
        place="stop_after_ns",
        read=_duration("--for", "s"),
        keyword="duration",
        commands=("trace", "why"),
        dashed=True,
    ),
    Option(
        ("--user",),
        Takes.ONE,
        'Run CMD as this user, but trace as root. With sudo, write --user "$USER"; in a root '
        'shell that sudo started, write --user "$SUDO_USER".',
        panel=WHERE,
        metavar="NAME",
        commands=("trace", "why"),
        complete=complete_user,
    ),
    Option(
        ("--keep-env",),
        Takes.FLAG,
        "Give CMD of --user all environment variables. Without it, CMD gets PATH, TERM, LANG and "
        "LC_*, and the user's own HOME, SHELL, USER, LOGNAME and MAIL.",
        panel=WHERE,
        place="keep_env",
        commands=("trace", "why"),
    ),
    Option(
        ("--trace-self",),
        Takes.FLAG,
        "Also trace retsnoop-py's own calls.",
        panel=CALLS,
        place="trace_self",
    ),
    Option(
        ("--jobs",),
        Takes.ONE,
        "Run at most N virtual machines at a time (default: one per CPU).",
        panel=WHERE,
        metavar="N",
        commands=("trace", "load"),
        keyword="",
    ),
    Option(
        ("--timeout",),
        Takes.ONE,
        "Give up a kernel of --on after this time: 90s, 20min (default 10min).",
        panel=WHERE,
        metavar="TIME",
        commands=("trace", "load"),
        keyword="",
    ),
    Option(
        ("--summary",),
        Takes.ONE,
        "Also write the result of the run to FILE, as one JSON object: errors, losses, exit "
        "status and verdict (docs/json.md).",
        panel=OUTPUT,
        metavar="FILE",
        place="summary",
        read=partial(file_path, "--summary"),
        keyword="",
    ),
    Option(
        ("-p", "--pid"),
        Takes.MANY,
        "Trace only these processes.",
        help_in=(
            ("replay", "Print only calls of these processes."),
            ("why", "Explain the next failing call of this running process."),
        ),
        panel=CALLS,
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
        "Do not trace these processes.",
        help_in=(("replay", "Do not print calls of these processes."),),
        panel=CALLS,
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
        "Trace only threads with this name. The kernel keeps the first 15 bytes of a name.",
        help_in=(
            ("replay", "Print only calls of threads with this name."),
            ("diff", "Compare only calls of threads with this name."),
        ),
        panel=CALLS,
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
        "Do not trace threads with this name.",
        help_in=(
            ("replay", "Do not print calls of threads with this name."),
            ("diff", "Do not compare calls of threads with this name."),
        ),
        panel=CALLS,
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
        "Print only entry calls that took at least this long: 500us, 2ms, 1s. A bare number "
        "counts milliseconds.",
        panel=CALLS,
        metavar="TIME",
        place="filters.longer_ns",
        read=_duration("-L", "ms"),
        commands=("trace", "replay"),
        dashed=True,
    ),
    Option(
        ("-S", "--success-stacks"),
        Takes.MANY,
        "Also print calls that succeeded (-S or -Sy). -Sn prints only failures.",
        panel=CALLS,
        metavar="[=y|n]",
        commands=("trace", "replay"),
        implied="y",
    ),
    Option(
        ("-x", "--allow-errors"),
        Takes.MANY,
        "Print only stacks with this error: ENOMEM, NULL, any. any stands for every error.",
        help_in=(
            ("why", "Explain a failing call with this error, for example EPERM."),
            ("diff", "Compare only stacks with this error: ENOMEM, NULL, any."),
        ),
        panel=CALLS,
        metavar="ERROR",
        commands=("trace", "replay", "why", "diff"),
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("-X", "--deny-errors"),
        Takes.MANY,
        "Do not print stacks with this error.",
        help_in=(("diff", "Do not compare stacks with this error."),),
        panel=CALLS,
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
        "Exit with 3 if a stack with this error is printed. any stands for every error that "
        "--expect does not name.",
        panel=STATUS,
        metavar="ERROR",
        commands=("trace", "replay"),
        keyword="",
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--expect",),
        Takes.MANY,
        "Exit with 3 unless a stack with this error is printed. Otherwise exit with 0, even if "
        "CMD fails.",
        help_in=(("replay", "Exit with 3 unless a stack with this error is printed."),),
        panel=STATUS,
        metavar="ERROR",
        commands=("trace", "replay"),
        keyword="",
        complete=complete_error,
        dashed=True,
    ),
    Option(
        ("--expect-none",),
        Takes.FLAG,
        "Exit with 3 if a failing session is printed, or if sessions were lost.",
        panel=STATUS,
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--json",),
        Takes.FLAG,
        "Print one JSON document.",
        panel=OUTPUT,
        commands=("functions", "list", "doctor"),
        keyword="",
    ),
    Option(
        ("-k", "--kernel"),
        Takes.ONE,
        "Read debug information from this vmlinux (with DWARF). By default, retsnoop-py looks for "
        "one.",
        panel=LINES,
        metavar="PATH",
        place="kernel_image",
        read=partial(file_path, "-k"),
        commands=("trace", "replay", "functions", "doctor", "why", "load"),
    ),
    Option(
        ("--source",),
        Takes.ONE,
        "Print source lines from this kernel source tree. The default is "
        "/lib/modules/RELEASE/source.",
        panel=LINES,
        metavar="DIR",
        place="source",
        read=values.source_tree,
        commands=("trace", "replay", "why", "load", "explain"),
        help_in=(("load", _OBJECT_SOURCE), ("explain", _OBJECT_SOURCE)),
    ),
    Option(
        ("-s", "--symbolize"),
        Takes.ONE,
        "Print file and line of each frame (-s), also of inlined functions (-ss), or neither "
        "(-sn). The default is -ss if there is DWARF.",
        panel=LINES,
        metavar="[=s|n]",
        place="symbolize",
        read=values.symbolize,
        commands=("trace", "replay"),
        implied="linenum",
    ),
    Option(
        ("-C", "--config"),
        Takes.MANY,
        "Change a setting. --config-help lists the settings.",
        panel=GENERAL,
        metavar="GROUP.KEY=VALUE",
        commands=("trace", "replay"),
        complete=complete_setting,
    ),
    Option(
        ("--config-help",),
        Takes.FLAG,
        "List all settings for -C.",
        panel=GENERAL,
        commands=("trace", "replay"),
        keyword="",
    ),
    Option(
        ("--debug",),
        Takes.MANY,
        "Print more about tracing itself. FEATURE is bpf (log to the kernel's trace_pipe), "
        "multi-kprobe (name functions that cannot be attached) or full-lbr (print all branches).",
        help_in=(
            (
                "replay",
                "Print more about tracing itself. FEATURE is full-lbr (print all branches).",
            ),
        ),
        panel=GENERAL,
        metavar="FEATURE",
        commands=("trace", "replay"),
        complete=_one_of(values.DEBUG_FEATURES),
    ),
    Option(
        ("-v", "--verbose"),
        Takes.COUNT,
        "Print more details. -vv prints even more.",
        help_in=(
            ("why", "Also list the other failing calls."),
            ("diff", "Also print what fails in both recordings."),
            ("doctor", "Also print every file that was looked at."),
            ("list", "Also print prototypes, fields of tracepoints and globs of presets."),
        ),
        panel=GENERAL,
        place="verbose",
        commands=EVERY,
    ),
    Option(
        ("-V", "--version"),
        Takes.FLAG,
        "Print the version. With -v, also print the features of this kernel.",
        panel=GENERAL,
        commands=EVERY,
        keyword="",
    ),
    Option(
        ("-h", "--short-help"),
        Takes.FLAG,
        "Print a short help.",
        panel=GENERAL,
        commands=EVERY,
        keyword="",
    ),
    Option(
        ("--help",),
        Takes.FLAG,
        "Print all options.",
        panel=GENERAL,
        commands=EVERY,
        keyword="",
    ),
    Option(
        ("--install-completion",),
        Takes.FLAG,
        "Install completion with TAB for bash, zsh or fish. It asks before it changes a file. "
        "--yes answers yes.",
        panel=GENERAL,
        keyword="",
    ),
    Option(
        ("--show-completion",),
        Takes.FLAG,
        "Print the script that --install-completion installs.",
        panel=GENERAL,
        keyword="",
    ),
    Option(
        ("--yes",),
        Takes.FLAG,
        keyword="",
        hidden=True,
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
    """Return the options of ``command``, in the order of its help."""
    return tuple([_in(command, option) for option in OPTIONS if command in option.commands])


def _in(command: str, option: Option) -> Option:
    """Return ``option`` with the help text for ``command``."""
    for name, text in option.help_in:
        if name == command:
            return replace(option, help=text)
    return option
