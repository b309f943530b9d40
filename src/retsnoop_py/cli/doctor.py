# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py doctor``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from retsnoop_py.cli.declare import Command
from retsnoop_py.errors import UsageError
from retsnoop_py.options.table import Words, file_path, options_of
from retsnoop_py.value import Value

_TEXT = """
Say what this kernel, this CPU and this user can do.

Every attach mechanism, what BPF has, where symbols, types and source lines come from, rights \
and limits: yes or no, with the reason and the next step. What can be tried is tried, on a \
function every kernel has; nothing of it stays. "unknown" is what rights are missing for. The \
last lines say whether tracing works, by which mechanism, and what it goes without.

\b
Examples:
  sudo retsnoop-py doctor                  before a first trace
  sudo retsnoop-py doctor -v               also every file looked at
  retsnoop-py doctor --json | jq .mechanisms
  retsnoop-py vm run --kernel 6.1 -- retsnoop-py doctor

Exit status: 0 if tracing works, 77 if only rights are missing,
69 if the kernel lacks something.
"""

_USAGE = """Usage: retsnoop-py doctor [-v] [--json] [-k VMLINUX]

'retsnoop-py doctor --help' explains it."""


class DoctorRequest(Value):
    """How to tell it."""

    image: Path | None
    json: bool
    verbose: int


def request(words: Words, rest: list[str]) -> DoctorRequest:
    """What the command line asks for. Raises :class:`UsageError`."""
    if rest:
        raise UsageError(
            f"unexpected word '{rest[0]}'", "doctor takes no words: it looks at it all"
        )
    image = file_path("-k", words.text("kernel"))
    return DoctorRequest(image, words.has("json"), words.count("verbose"))


def run(asked: DoctorRequest) -> int:
    """Examine the machine and print the answers; the exit status a trace would end with."""
    from retsnoop_py.api.selecting import examine_host
    from retsnoop_py.diagnosis import report
    from retsnoop_py.render.palette import Palette

    diagnosis, host = examine_host(asked.image)
    release, machine = host.facts.release, host.facts.machine
    if asked.json:
        print(report.as_json(diagnosis, release, machine).decode())
        return diagnosis.exit_status
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    style = report.Style(width, Palette.of(sys.stdout), verbose=asked.verbose > 0)
    user = "root" if host.is_root else "an ordinary user"
    for line in report.lines(diagnosis, f"Linux {release} on {machine}, as {user}", style):
        print(line)
    return diagnosis.exit_status


COMMAND = Command(
    request=request,
    options=options_of("doctor"),
    argument=None,
    name="retsnoop-py doctor",
    synopsis="[OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
)
