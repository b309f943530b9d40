# SPDX-License-Identifier: BSD-2-Clause
"""The command without a name: trace."""

# The options are the parameters. Options that only print are handled earlier.

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.mechanism import LADDER, Mechanism
from retsnoop_py.options import table
from retsnoop_py.options.settings import trace_settings
from retsnoop_py.options.table import Words
from retsnoop_py.settings import Settings

if TYPE_CHECKING:
    from retsnoop_py.capture.target import Target
    from retsnoop_py.render.renderers import Printer
    from retsnoop_py.session.stream_header import StreamHeader

_TEXT = """
Find out which function of the Linux kernel returned an error.

retsnoop-py follows each call of an entry function (-e). If the call fails, it prints the deepest \
chain of functions that failed, with results, durations and source lines. With -- CMD it starts \
CMD after everything is attached, traces only CMD and its child processes, and exits with CMD's \
exit status. Without CMD it traces until Ctrl-C. If no option names functions, 'retsnoop-py -- \
CMD' is 'retsnoop-py why -- CMD'.

\b
Examples:
  retsnoop-py -c bpf -- ./loader           why does bpf() fail in ./loader?
  retsnoop-py -e '*sys_mount' -a ':fs/*.c' -- mount /dev/x /mnt
  sudo retsnoop-py --user "$USER" -c bpf -- ./loader      run ./loader as you
  retsnoop-py -e '*sys_bpf' -a '*bpf*' -n systemd -x ENOMEM
  retsnoop-py -e tcp_connect -S -L 10      all calls longer than 10 ms
  retsnoop-py --on 5.10,7.2 -c bpf -- ./test.sh     on two other kernels
  retsnoop-py -c bpf --expect-none -- ./test.sh     status 3 if a call fails
  retsnoop-py functions -c bpf             list what -c bpf traces
  retsnoop-py -c bpf -o bpf.rsn -- CMD     record
  retsnoop-py replay bpf.rsn               print the recording

\b
A first session, as root:
  1. retsnoop-py -e '*sys_bpf' -- CMD      does the call fail, and how?
  2. add -a '*bpf*' or -a ':kernel/bpf/*.c'    which function failed first?
  3. select less with -x, -n and -d, or more with -a

\b
A GLOB is NAME, NAME[MODULE] or :SOURCE/PATH*.c (needs DWARF), with * and ?.
Quote it, or the shell expands it. -e, -a, -d, -n and -N also accept @FILE.
Most options can be repeated. A PID selects a process, a NAME a thread.

\b
Other commands, each with its own --help:
  retsnoop-py why -- CMD                   explain why CMD fails
  retsnoop-py list [WHAT]                  list functions, presets, ...
  retsnoop-py replay FILE                  print a recording
  retsnoop-py functions GLOB...            list what would be traced, and how
  retsnoop-py doctor                       check this kernel and this user
  retsnoop-py explain FILE                 explain the log of a BPF loader
  retsnoop-py load OBJECT...               load BPF objects on several kernels
  retsnoop-py diff A.rsn B.rsn             compare two recordings
  retsnoop-py vm run|shell|fetch|list      run commands on other kernels
  retsnoop-py help TOPIC                   globs, sessions, filters, ...
"""

#: The output of a call without words.
WELCOME = """retsnoop-py finds out why the Linux kernel returned an error.

  sudo retsnoop-py why -- CMD               explain why CMD fails
  sudo retsnoop-py -e GLOB -- CMD           print the kernel functions that fail
  retsnoop-py explain LOG                   explain the log of a BPF loader
  retsnoop-py load OBJECT... --on KERNEL    load BPF objects on other kernels
  retsnoop-py vm run --on KERNEL -- CMD     run CMD on another kernel

Examples:
  sudo retsnoop-py why -- mount -t tmpfs -o size=large none /mnt
  sudo retsnoop-py -c bpf -- ./loader
  retsnoop-py load prog.bpf.o --on 5.10,6.12

Read on:
  retsnoop-py -h            the most important options
  retsnoop-py --help        all options and commands
  retsnoop-py help          pages about globs, filters, recordings, ...
  sudo retsnoop-py doctor   can this machine trace?"""

_USAGE = """retsnoop-py: find out which function of the Linux kernel returned that error

Usage: retsnoop-py [-v] [-c PRESET]* [-e GLOB]* [-a GLOB]* [-d GLOB]* [-o FILE] [-- CMD ARG...]
       retsnoop-py why -- CMD ARG...
       retsnoop-py list [functions|tracepoints|presets] [GLOB...]
       retsnoop-py replay FILE
       retsnoop-py functions GLOB...
       retsnoop-py doctor
       retsnoop-py explain FILE|-
       retsnoop-py load OBJECT...
       retsnoop-py diff A.rsn B.rsn
       retsnoop-py vm run|shell|fetch|list
       retsnoop-py help [TOPIC]

'retsnoop-py --help' explains all options, 'retsnoop-py --config-help' the settings of -C."""


def request(words: Words, _: list[str]) -> Settings:
    """Return the request of the command line. Raise :class:`UsageError` or :class:`InputError`."""
    return trace_settings(words)


def run(settings: Settings) -> int:
    """Trace and print until the end; return the exit status.

    Raise the errors of a live run, and OutputError if the summary cannot be written.
    """
    from retsnoop_py.capture.rights import return_large_memory
    from retsnoop_py.capture.run import run as live_run
    from retsnoop_py.capture.signals import StopSignals
    from retsnoop_py.cli.verdict import Judge

    return_large_memory()
    if settings.dry_run:
        return _dry_run(settings)
    judge = Judge(settings.verdict, settings.summary)
    with StopSignals() as signals:
        make_sink, facts, witness = judge.caught.sink(_printer), None, None
        if settings.views.explain:
            from retsnoop_py.api.explaining import Explainer

            explainer = Explainer(signals)
            facts, witness = explainer.facts, explainer.witness
            make_sink = explainer.sink(make_sink)
        steps = live_run(settings, make_sink, signals, witness, facts)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                return judge.status(end.value.status, end.value.command)


def _printer(header: StreamHeader, settings: Settings) -> Printer:
    from retsnoop_py.render.renderers import Printer

    return Printer(header, settings, sys.stdout, sys.stderr)


def _dry_run(settings: Settings) -> int:
    from retsnoop_py.capture.run import choose
    from retsnoop_py.listener import current

    target = choose(settings)
    current().warn(target.notice or "")
    for line in _would_attach(settings, target):
        print(line)
    return 0


def _would_attach(settings: Settings, target: Target) -> Iterator[str]:
    """Yield a line for each attachment that a real run would make."""
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
    request=request,
    options=table.options_of("trace"),
    argument=Argument("[-- CMD ARG...]", hidden=True, many=True),
    name="retsnoop-py",
    synopsis="[OPTIONS] [-- CMD ARG...]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "case",
        "entry",
        "allow",
        "deny",
        "allow-errors",
        "comm",
        "pid",
        "trace",
        "user",
        "keep-env",
        "output",
    ),
)
