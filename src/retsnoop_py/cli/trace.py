# SPDX-License-Identifier: BSD-2-Clause
"""The command without a name: trace."""

# The options are the parameters, and those that only print are dealt with before.

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.options import table
from retsnoop_py.options.settings import trace_settings
from retsnoop_py.options.table import Words
from retsnoop_py.settings import Settings

if TYPE_CHECKING:
    from retsnoop_py.capture.target import Target
    from retsnoop_py.render.renderers import Printer
    from retsnoop_py.session.stream_header import StreamHeader

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
  retsnoop-py --on 5.10,7.2 -c bpf -- ./test.sh     on two kernels, in guests
  retsnoop-py -c bpf --expect-none -- ./test.sh     status 3 if anything fails
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
  retsnoop-py why -- CMD                   why a command fails, nothing named
  retsnoop-py list [WHAT]                  what there is to trace
  retsnoop-py replay FILE                  show a recording again
  retsnoop-py functions GLOB...            what would be traced, or why not
  retsnoop-py doctor                       what this kernel and user can do
  retsnoop-py explain FILE                 why a BPF program was refused
  retsnoop-py load OBJECT...               which kernels an object loads on
  retsnoop-py diff A.rsn B.rsn             what fails on one kernel only
  retsnoop-py vm run|fetch|list            kernels in virtual machines
  retsnoop-py help TOPIC                   globs, sessions, filters, ...
"""

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
       retsnoop-py vm run|fetch|list
       retsnoop-py help [TOPIC]

'retsnoop-py --help' explains all options, 'retsnoop-py --config-help' the settings of -C."""


def request(words: Words, _: list[str]) -> Settings:
    """What the command line asks for. Raises :class:`UsageError` or :class:`InputError`."""
    return trace_settings(words)


def run(settings: Settings) -> int:
    """Trace and print until it is over; the exit status. Raises what a live run raises.

    OutputError too if the summary cannot be written.
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
        steps = live_run(settings, judge.caught.sink(_printer), signals)
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
    request=request,
    options=table.options_of("trace"),
    argument=Argument("[-- CMD ARG...]", hidden=True, many=True),
    name="retsnoop-py",
    synopsis="[OPTIONS] [-- CMD ARG...]",
    text=_TEXT,
    usage=_USAGE,
    completion_panel=table.USAGE,
)
