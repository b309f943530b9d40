# SPDX-License-Identifier: BSD-2-Clause
"""Print the messages of a run on stderr; stdout has only the results.

A run that fails ends with one message, the next step and a documented status.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
from contextlib import AbstractContextManager
from pathlib import Path

from retsnoop_py.errors import BpfError, Interrupted, OutputError, RetsnoopError, UnavailableError
from retsnoop_py.listener import Listener, Progress
from retsnoop_py.text import printable, printable_lines

#: The exit status that a shell reports for a program killed by SIGPIPE.
BROKEN_PIPE = 141
#: Errors that the message explains completely; libbpf's log would have four more lines.
_KNOWN = frozenset({errno.EPERM, errno.EMFILE, errno.ENFILE})
#: Lines of a verifier log shown without -v: its verdict is at the end.
_LOG_LINES = 12
#: Commands for the runner of a GitHub job: ``##[`` anywhere in a line.
_COMMAND = re.compile(r"^\s*::|##\[", re.MULTILINE)
#: Whether --github was given: a container of a job need not have its variables.
_is_for_github = False


def prepare_streams() -> None:
    """Make printing safe for any locale, and for closed or unread streams."""
    # A closed stream is None, and print(file=None) would write to stdout.
    if sys.stdout is None:
        sys.stdout = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as we run
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - for as long as we run
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Flush standard output while errors can still be reported. Raise :class:`OSError`."""
    sys.stdout.flush()


def interrupted() -> int:
    """Report Ctrl-C outside of a trace; return the exit status.

    Output that waits is dropped if no process reads it.
    """
    from retsnoop_py.terminal import takes_more

    if not takes_more(sys.stdout):
        _abandon_stdout()
    _settle()
    say("retsnoop-py: interrupted")
    return Interrupted.exit_status


def failed(error: RetsnoopError, verbose: int) -> int:
    """Report ``error`` and return its exit status."""
    _settle()
    if isinstance(error, BpfError) and error.log and (verbose or error.errno not in _KNOWN):
        say(_shorten(error.log, verbose))
    kind = "" if isinstance(error, Interrupted) else "error: "
    say(f"retsnoop-py: {kind}{error.message}")
    if error.hint:
        say(f"hint: {error.hint}")
    if _wants_traceback(verbose):
        say(_traceback(error))
    return error.exit_status


def output_failed(error: OSError) -> int:
    """Report that standard output cannot be written; return 0 for another ``error``."""
    if isinstance(error, BrokenPipeError):
        _abandon_stdout()
        return BROKEN_PIPE
    if error.filename is None and error.errno in (errno.ENOSPC, errno.EIO, errno.EBADF):
        _abandon_stdout()
        message = f"cannot write to standard output: {error.strerror}"
        return failed(OutputError(message, "free some space, or send the output elsewhere"), 0)
    return 0


def no_memory(error: MemoryError, verbose: int) -> int:
    """Report that the input needs more memory than there is."""
    message = "there is not enough memory for this input"
    found = UnavailableError(message, "free some memory, or use a smaller input")
    found.__cause__ = error
    return failed(found, verbose)


def unexpected(error: Exception, verbose: int) -> int:
    """Report a bug, or extensions that were built for another machine."""
    if isinstance(error, ImportError) and (error.path or "").endswith(".abi3.so"):
        from retsnoop_py.libbpf import unloadable

        return failed(unloadable(error), verbose)
    _settle()
    if _wants_traceback(verbose):
        say(_traceback(error))
    say(f"retsnoop-py: error: {type(error).__name__}: {error} (a bug of retsnoop-py)")
    if not _wants_traceback(verbose):
        say("hint: run it again with -vv or RETSNOOP_DEBUG=1 and report what it prints")
    return RetsnoopError.exit_status


def _shorten(log: str, verbose: int) -> str:
    lines = log.rstrip().splitlines()
    if verbose or len(lines) <= _LOG_LINES:
        return "\n".join(lines)
    return "\n".join(["... (-v shows the whole log)", *lines[-_LOG_LINES:]])


def _wants_traceback(verbose: int) -> bool:
    return verbose >= 2 or os.environ.get("RETSNOOP_DEBUG", "0") not in ("", "0")


def _traceback(error: Exception) -> str:
    import traceback

    return "".join(traceback.format_exception(error)).rstrip()


def harmless(text: str) -> str:
    """Return ``text`` without control characters and without commands of a GitHub job.

    A name in a message, such as a file name, may contain a line end and then a command.
    """
    shown = printable_lines(text)
    if (_is_for_github or os.environ.get("GITHUB_ACTIONS")) and _COMMAND.search(shown):
        from retsnoop_py.render.github import unobeyed

        return "\n".join(unobeyed(shown.split("\n")))
    return shown


def expect_github(is_expected: bool) -> None:
    """Set whether a GitHub job reads the messages, even if no variable says so."""
    global _is_for_github  # noqa: PLW0603 - a process has one standard error
    _is_for_github = is_expected


def say(text: str) -> None:
    """Print ``text``, which may contain names of input, on standard error."""
    try:
        print(harmless(text), file=sys.stderr, flush=True)
    except OSError:
        # No reader is left.
        pass


def _settle() -> None:
    """Write the output before the error, if possible."""
    try:
        sys.stdout.flush()
    except OSError:
        _abandon_stdout()


def _abandon_stdout() -> None:
    """Make Python's own flush at exit succeed: the buffered output has no reader."""
    with Path(os.devnull).open("w") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


class Console(Listener):
    """Print all messages on standard error."""

    def say(self, line: str) -> None:
        """Print a line at once; it may contain names that other users chose."""
        print(harmless(line), file=sys.stderr, flush=True)

    def warn(self, text: str) -> None:
        """Print a warning."""
        if text:
            self.say(f"WARNING: {text}")

    def say_aside(self, text: str) -> None:
        """Print as much as possible without waiting, and drop the rest."""
        from retsnoop_py.terminal import Aside

        Aside(sys.stderr).write(printable_lines(text))

    def progress(
        self, what: str, unit: str = "functions", *, is_aside: bool = False
    ) -> AbstractContextManager[Progress]:
        """Return a progress bar, or lines in a pipe; nothing is shown in the first second."""
        from retsnoop_py.terminal import Aside, Bar

        return Bar(printable(what), unit, Aside(sys.stderr) if is_aside else sys.stderr)
