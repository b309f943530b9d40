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
Check this kernel, this CPU and this user.

doctor checks every attach mechanism, the BPF features, the sources of symbols, types and lines, \
the rights and the limits. Each answer is yes or no, with the reason and the next step. doctor \
tries features on a function that every kernel has, and leaves nothing attached. "unknown" means \
that the rights for the check are missing. The last lines report whether tracing works, with which \
mechanism, and what is missing.

\b
Examples:
  sudo retsnoop-py doctor                  before the first trace
  sudo retsnoop-py doctor -v               also print every file that was read
  retsnoop-py doctor --json | jq .mechanisms
  retsnoop-py vm run --on 6.1 -- retsnoop-py doctor

Exit status: 0 if tracing works, 77 if only rights are missing, 69 if the kernel lacks something.
"""

_USAGE = """Usage: retsnoop-py doctor [-v] [--json] [-k VMLINUX]

'retsnoop-py doctor --help' explains it."""


class DoctorRequest(Value):
    """The output format, and the image that the user named."""

    image: Path | None
    json: bool
    verbose: int


def request(words: Words, rest: list[str]) -> DoctorRequest:
    """Return the request of the command line. Raise :class:`UsageError`."""
    if rest:
        raise UsageError(
            f"unexpected word '{rest[0]}'", "doctor takes no words: it looks at it all"
        )
    image = file_path("-k", words.text("kernel"))
    return DoctorRequest(image, words.has("json"), words.count("verbose"))


def run(asked: DoctorRequest) -> int:
    """Examine the machine, print the answers, and return the exit status of a trace."""
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
    first=(
        "verbose",
        "json",
    ),
)
