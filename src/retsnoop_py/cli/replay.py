# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py replay FILE``."""

# The options are the parameters. Options that only print are handled earlier.

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.errors import UsageError
from retsnoop_py.options.settings import replay_overrides
from retsnoop_py.options.table import Words, options_of
from retsnoop_py.text import printable
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.recording.overrides import ReplayOverrides

_TEXT = """
Print a recording (-o FILE) again, as the live run did.

replay needs only FILE: no privileges, and not the same kernel. The options select and format the \
recorded calls.

\b
Examples:
  retsnoop-py replay bpf.rsn               the output of the live run
  retsnoop-py replay bpf.rsn -x EINVAL     only stacks with this error
  retsnoop-py replay bpf.rsn -T            call trees, if recorded with -T
  retsnoop-py replay bpf.rsn --format json
"""

_USAGE = """Usage: retsnoop-py replay FILE [-T] [-E] [-S[y|n]] [-x ERROR]* [-X ERROR]* [-p PID]* ...

'retsnoop-py replay --help' explains all options."""


class ReplayRequest(Value):
    """A recording to print, and the changes."""

    path: Path
    overrides: ReplayOverrides


def request(words: Words, files: list[str]) -> ReplayRequest:
    """Return the request of the command line. Raise :class:`UsageError` or :class:`InputError`."""
    if len(files) != 1:
        raise UsageError(
            f"replay needs one recording, not {len(files)}" if files else "no recording to replay",
            "retsnoop-py replay FILE [options]",
        )
    return ReplayRequest(Path(files[0]), replay_overrides(words))


def show(path: Path, overrides: ReplayOverrides, out: TextIO, err: TextIO) -> int:
    """Write the live run's output to ``out``, changed by ``overrides``; return the exit status.

    ``err`` gets the live run's warnings, and notes about requested data that was not captured.
    Raise InputError and DataError, after the readable part was written.
    """
    from retsnoop_py.cli.verdict import Judge
    from retsnoop_py.recording.replay import Replay, memory_limit
    from retsnoop_py.render.renderers import Printer

    judge = Judge(overrides.verdict)
    with memory_limit(path):
        replayed = Replay(path, overrides)
        for sentence in replayed.missing:
            err.write(f"NOTE: {printable(sentence)}\n")
        sink = judge.caught.sink(lambda header, settings: Printer(header, settings, out, err))
        for _ in replayed.play(sink):
            pass
    return judge.status(0, None)


def complete(incomplete: str) -> list[str]:
    """Return recordings by their usual suffix, for the shell; without any, it offers files."""
    from retsnoop_py.options.live import files_named

    return files_named(incomplete, ".rsn")


COMMAND = Command(
    request=request,
    options=options_of("replay"),
    argument=Argument("FILE", help="A recording made with -o.", complete=complete),
    name="retsnoop-py replay",
    synopsis="FILE [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "allow-errors",
        "trace",
        "pid",
        "comm",
        "format",
        "verbose",
    ),
)
