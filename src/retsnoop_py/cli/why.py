# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py why [-- CMD]``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.api.why_request import WhyRequest
from retsnoop_py.cli.argv import Kind, Spec
from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.replay import complete
from retsnoop_py.errors import UsageError
from retsnoop_py.foreign_json import encode
from retsnoop_py.options.table import Words, options_of
from retsnoop_py.options.values import (
    allowed_errors,
    duration_ns,
    keep_env,
    pids,
    reruns,
    source_tree,
    user,
)
from retsnoop_py.text import printable_json
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.model.why import Why

_TEXT = """
Explain why a command failed: what it tried, why that did not work, what to change, and which \
condition in the kernel decided it.

If CMD fails, retsnoop-py runs it up to three times and shows its output once. The first run finds \
the failing system call and the kernel functions that failed inside it. The next runs follow the \
innermost functions to the line and the values; they read /dev/null as standard input. CMD must \
therefore be safe to run again. --reruns 0 runs it once, and the explanation is shorter. If CMD \
exits with status 0, it runs again only with --reruns N.

The explained call is the one that CMD's error message matches: by the error, and by the file or \
address that it names. --call and --errno choose another call. -p explains the next failure of a \
running process.

If CMD hangs, Ctrl-C or --for reports what each of its threads waits for, since when, and who has \
to act. CMD is ended then; a process of -p is not.

\b
Examples:
  retsnoop-py why -- ./loader               why does it fail?
  retsnoop-py why --errno EPERM -- ./loader where does EPERM come from?
  retsnoop-py why --call bpf -- ./loader    why does bpf() fail?
  sudo retsnoop-py why --user "$USER" -- ./test
  retsnoop-py why -p 4711                   the next failure of a process
  retsnoop-py why --for 5s -- ./server      why does it hang?
  retsnoop-py why failure.rsn               a recording made with --path
  retsnoop-py why --format json -- ./loader | jq .explained.origin.decided

Exit status: that of CMD's first run; 124 if --for ended CMD; 64 and more for errors of retsnoop-py.
"""

_FORMS = ("text", "json", "github", "junit", "sarif")
_USAGE = """Usage: retsnoop-py why [--call NAME] [--errno NAME] [--reruns N] -- CMD ARG...
       retsnoop-py why -p PID
       retsnoop-py why RECORDING

'retsnoop-py why --help' explains all options."""


class WhyCommand(Value):
    """The failure to explain, and the output format."""

    what: WhyRequest
    recording: Path | None
    form: str
    verbose: int


def request(words: Words, rest: list[str]) -> WhyCommand:
    """Return the request of the command line. Raise :class:`UsageError`."""
    processes = pids("-p", words.texts("pid"))
    command = tuple(words.command)
    files = rest[: len(rest) - len(command)]
    if len(files) > 1 or (files and (command or processes)):
        raise UsageError(
            f"unexpected word '{files[-1]}'", "a command stands behind --: retsnoop-py why -- CMD"
        )
    if sum(map(bool, (command, processes, files))) != 1:
        raise UsageError(
            "why needs one command, process or recording",
            "retsnoop-py why -- CMD, why -p PID, or why FILE.rsn",
        )
    errors = (*words.texts("allow-errors"), *words.texts("errno"))
    allowed_errors(words.texts("allow-errors"))
    allowed_errors(words.texts("errno"), "--errno")
    asked_reruns = words.text("reruns")
    image = words.text("kernel")
    what = WhyRequest(
        command,
        processes,
        user(words.text("user"), command),
        tuple(words.texts("call")),
        tuple(error.upper() for error in errors if error.lower() != "any"),
        reruns(asked_reruns) if asked_reruns is not None else None,
        Path(image) if image else None,
        source_tree(words.text("source")),
        keep_env(words.has("keep-env"), words.text("user")),
        duration_ns("--for", words.text("for"), "s"),
        words.text("format") not in (None, "text"),
    )
    if files and what.limit_ns:
        raise UsageError("--for limits a run, and a recording is none", "leave out --for")
    return WhyCommand(
        what,
        Path(files[0]) if files else None,
        _form(words.text("format")),
        words.count("verbose"),
    )


def _form(value: str | None) -> str:
    """Return the value of ``--format``. Raise :class:`UsageError`."""
    form = value or "text"
    if form not in _FORMS:
        known = f"{', '.join(_FORMS[:-1])} and {_FORMS[-1]}"
        raise UsageError(f"--format {form}: no such format", f"there are {known}")
    return form


def run(asked: WhyCommand) -> int:
    """Explain the failure, print it, and return CMD's exit status. Raise a live run's errors."""
    found = _answer(asked)
    if asked.form == "json":
        print(printable_json(encode(found).decode()))
    elif asked.form != "text":
        from retsnoop_py.render.why_reports import report

        print(report(found, asked.form), end="")
    else:
        from retsnoop_py.render.palette import Palette
        from retsnoop_py.render.why import WhyPage
        from retsnoop_py.symbolize.paths import SourceTree
        from retsnoop_py.terminal import terminal_width

        tree = SourceTree(asked.what.source, found.kernel).root
        palette, width = Palette.of(sys.stdout).linking(tree), terminal_width(sys.stdout)
        for line in WhyPage(palette, verbose=asked.verbose > 0, width=width).lines(found):
            print(line)
    return found.exit_status or 0


def _answer(asked: WhyCommand) -> Why:
    from retsnoop_py.api.why import Inquiry, why_recorded
    from retsnoop_py.cli.start import STARTED
    from retsnoop_py.listener import current

    if asked.recording is not None:
        return why_recorded(asked.recording, asked.what)
    from retsnoop_py.capture.rights import return_large_memory

    return_large_memory()
    listener = current()
    found = Inquiry(
        asked.what,
        lambda text: listener.say(f"why: {text}"),
        handle_signals=True,
        started=STARTED,
    ).answer()
    for text in found.warnings:
        listener.say(text)
    return found


COMMAND = Command(
    request=request,
    options=options_of("why"),
    argument=Argument("[-- CMD ARG...]", many=True, complete=complete),
    name="retsnoop-py why",
    synopsis="[OPTIONS] [-- CMD ARG...]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "call",
        "errno",
        "pid",
        "for",
        "reruns",
        "user",
        "keep-env",
        "format",
        "kernel",
        "verbose",
    ),
    old=(Spec("syscall", None, Kind.VALUE, "NAME", means=(("call", "{}"),), is_renamed=True),),
)
