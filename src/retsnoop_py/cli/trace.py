# SPDX-License-Identifier: BSD-2-Clause
"""The command without a name: trace."""

# The options are the parameters, and those that only print are dealt with before.
# ruff: noqa: ARG001, PLR0913

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from retsnoop_py.cli import config, options, values, views
from retsnoop_py.cli.config import Config
from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.errors import UsageError
from retsnoop_py.settings import (
    FilterSettings,
    SelectionSettings,
    Settings,
    SymbolizeMode,
)
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from retsnoop_py.capture.target import Target
    from retsnoop_py.render.printer import Printer
    from retsnoop_py.session.facts import StreamFacts

_TEXT = """
Find out which function of the Linux kernel returned that error.

Each call of an entry function (-e) is followed; when it fails, the deepest chain of functions \
that failed is shown, with results, durations and source lines. With -- CMD, CMD is run once \
everything is attached, it alone and the processes it starts are traced, and its exit status \
is ours. Without, tracing goes on until Ctrl-C.

\b
Examples:
  retsnoop-py -c bpf -- ./loader           why does bpf() fail in ./loader?
  retsnoop-py -e '*sys_mount' -a ':fs/*.c' -- mount /dev/x /mnt
  sudo retsnoop-py --user "$USER" -c bpf -- ./loader      ./loader is not root
  retsnoop-py -e '*sys_bpf' -a '*bpf*' -n systemd -x ENOMEM
  retsnoop-py -e tcp_connect -S -L 10      calls over 10 ms, good or bad
  retsnoop-py functions -c bpf             what would be traced, and how?
  retsnoop-py -c bpf -o bpf.rsn -- CMD     record; to show it again:
  retsnoop-py replay bpf.rsn

\b
A first session, as root:
  1. retsnoop-py -e '*sys_bpf' -- CMD      does the call fail, and how?
  2. add -a '*bpf*' or -a ':kernel/bpf/*.c'    who failed first?
  3. narrow with -x, -n and -d, widen with more -a, until the stack
     tells the story

\b
A GLOB is NAME, NAME[MODULE] or :SOURCE/PATH*.c (needs DWARF), with * and ?.
Quote it, or the shell expands it. -e, -a, -d, -n and -N also take @FILE.
Most options can be repeated. A PID is a process, a NAME that of a thread.

\b
Other commands, each with its own --help:
  retsnoop-py replay FILE                  show a recording again
  retsnoop-py functions GLOB...            what would be traced, or why not
  retsnoop-py doctor                       what this kernel and user can do
  retsnoop-py vm run|fetch|list            kernels in virtual machines
"""

_USAGE = """retsnoop-py: find out which function of the Linux kernel returned that error

Usage: retsnoop-py [-v] [-c PRESET]* [-e GLOB]* [-a GLOB]* [-d GLOB]* [-o FILE] [-- CMD ARG...]
       retsnoop-py replay FILE
       retsnoop-py functions GLOB...
       retsnoop-py doctor
       retsnoop-py vm run|fetch|list

'retsnoop-py --help' explains all options, 'retsnoop-py --config-help' the settings of -C."""


def trace(
    *,
    preset: options.Preset,
    entry: options.Entry,
    allow: options.Allow,
    deny: options.Deny,
    command: Annotated[
        list[str],
        Argument("[-- CMD ARG...]", hidden=True),
    ],
    output: options.Output = None,
    dry_run: options.DryRun = False,
    attach: options.Attach = None,
    fentries: options.Fentries = False,
    kprobes_multi: options.KprobesMulti = False,
    kprobes: options.Kprobes = False,
    max_functions: options.MaxFunctions = None,
    no_system_changes: options.NoSystemChanges = False,
    call_stack: options.CallStack = False,
    trace: options.Trace = False,
    capture_args: options.CaptureArgs = False,
    inject_probe: options.InjectProbe,
    path: options.Path,
    max_blocks: options.MaxBlocks = None,
    lbr: options.Lbr,
    interim_stacks: options.InterimStacks = False,
    user_stack: options.UserStack = False,
    format: options.Format = None,  # noqa: A002
    ascii: options.Ascii = False,  # noqa: A002
    count: options.Count = None,
    for_: options.For = None,
    user: options.User = None,
    pid: options.Pid,
    no_pid: options.NoPid,
    comm: options.Comm,
    no_comm: options.NoComm,
    longer: options.Longer = None,
    success_stacks: options.SuccessStacks,
    allow_errors: options.AllowErrors,
    deny_errors: options.DenyErrors,
    kernel: options.KernelImage = None,
    symbolize: options.Symbolize = None,
    settings: options.Settings,
    config_help: options.ConfigHelp = False,
    debug: options.Debug,
    verbose: options.Verbose = 0,
    version: options.Version = False,
    help_: options.Help = False,
    usage: options.Usage = False,
) -> Settings:
    """What the command line asks for. Raises :class:`UsageError` or :class:`InputError`."""
    fine = config.parse(settings)
    if pid and command:
        raise UsageError(
            f"-p {pid[0]} with a command: of a command only its own processes are traced",
            "leave out -p; or leave out -- CMD, and run CMD elsewhere",
        )
    features = views.debug(debug)
    # a trace without -E is of all calls, stacks are of failures
    success = values.success(success_stacks, allow_errors)
    if success is None:
        success = trace and not call_stack and not allow_errors
    return Settings(
        # who names nothing else wants to see the calls of these very functions
        selection=selection(entry if entry or preset else path, (*allow, *path), deny, preset),
        filters=FilterSettings(
            pids=values.pids("-p", pid),
            deny_pids=values.pids("-P", no_pid),
            comms=values.comms("-n", comm),
            deny_comms=values.comms("-N", no_comm),
            longer_ns=views.duration_ns("-L", longer, "ms"),
            success=success,
            allow_errors=_allowed(allow_errors),
            deny_errors=values.denied_errors(deny_errors),
        ),
        stacks=fine.stacks,
        views=replace(
            fine.views,
            call_stack=call_stack or not trace,
            call_trace=trace,
            interim=interim_stacks,
            lbr=views.lbr(lbr),
            lbr_full="full-lbr" in features,
            user_stack=user_stack,
            format=views.output_format(format),
            ascii=ascii,
        ),
        args=replace(fine.args, capture=capture_args),
        bpf=fine.bpf,
        results=fine.results,
        probes=views.probes(inject_probe),
        paths=values.globs(path),
        max_blocks=values.max_blocks(max_blocks),
        stop_count=views.count(count),
        stop_after_ns=views.duration_ns("--for", for_, "s"),
        debug_bpf="bpf" in features,
        debug_multi_kprobe="multi-kprobe" in features,
        mechanism=values.mechanism(attach, fentry=fentries, multi=kprobes_multi, single=kprobes),
        max_functions=values.max_functions(max_functions),
        system_changes=not no_system_changes,
        symbolize=_mode(symbolize, fine),
        kernel_image=file_path("-k", kernel),
        command=tuple(command),
        user=values.user(user, command),
        output=file_path("-o", output),
        dry_run=dry_run,
        verbose=verbose,
    )


def selection(
    entry: Sequence[str], allow: Sequence[str], deny: Sequence[str], presets: Sequence[str]
) -> SelectionSettings:
    """Which functions. Raises :class:`UsageError`, or :class:`InputError` for ``@FILE``."""
    for name in presets:
        _check_preset(name)
    chosen = SelectionSettings(
        entry=values.globs(entry),
        allow=values.globs(allow),
        deny=values.globs(deny),
        presets=tuple(dict.fromkeys(presets)),
    )
    if not (chosen.entry or chosen.presets):
        raise UsageError(
            "no entry functions: nothing says which calls to follow",
            "give -e GLOB (-e '*sys_bpf') or a preset (-c bpf); 'retsnoop-py --help' has examples",
        )
    return chosen


def _check_preset(name: str) -> None:
    from retsnoop_py.selection import presets

    if name not in presets.names():
        raise UsageError(f"-c {name}: no such preset", f"there are {', '.join(presets.names())}")


def _allowed(names: Sequence[str]) -> frozenset[int] | None:
    errors = values.allowed_errors(names)
    return errors.numbers or None


def _mode(value: str | None, fine: Config) -> SymbolizeMode:
    """``-s`` says it louder than ``-C stacks.symb-mode``."""
    return values.symbolize(value) or fine.symbolize or SymbolizeMode.AUTO


def file_path(option: str, value: str | None) -> Path | None:
    """The file ``option`` names, None without it. Raises :class:`UsageError` for no name."""
    if value == "":
        raise UsageError(f"{option} '': the name of a file is missing")
    return None if value is None else Path(value)


def run(settings: Settings) -> int:
    """Trace and print until it is over; the exit status. Raises what a live run raises."""
    from retsnoop_py.capture.limits import return_large_memory
    from retsnoop_py.capture.run import run as live_run
    from retsnoop_py.capture.signals import StopSignals

    return_large_memory()
    if settings.dry_run:
        return _dry_run(settings)
    with StopSignals() as signals:
        steps = live_run(settings, _printer, signals)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return int(end.value)


def _printer(facts: StreamFacts, settings: Settings) -> Printer:
    from retsnoop_py.render.printer import Printer

    return Printer(facts, settings, sys.stdout, sys.stderr)


def _dry_run(settings: Settings) -> int:
    from retsnoop_py.capture.run import choose
    from retsnoop_py.listener import current

    target = choose(settings)
    current().warn(target.notice or "")
    for line in _would_attach(settings, target):
        print(line)
    return 0


def _would_attach(settings: Settings, target: Target) -> Iterator[str]:
    """What would be attached, a line each."""
    from retsnoop_py.mechanism import LADDER, Mechanism

    for number, probe in enumerate(target.probes, 1):
        yield f"Injected (dry run) probe #{number} '{probe.label}'."
    functions = target.selection.functions
    for number, function in enumerate(functions, 1):
        yield f"Attached (dry run) to function #{number} '{function.label}'."
    forced = settings.mechanism is not Mechanism.AUTO
    ladder = ", else ".join(one.value for one in ((settings.mechanism,) if forced else LADDER))
    yield f"Total {len(functions)} kernel functions attached (dry run) by {ladder}."
    yield "Dry run successful, nothing was loaded or attached."


COMMAND = Command(
    function=trace,
    name="retsnoop-py",
    synopsis="[OPTIONS] [-- CMD ARG...]",
    text=_TEXT,
    usage=_USAGE,
    completion_panel=options.USAGE,
)
