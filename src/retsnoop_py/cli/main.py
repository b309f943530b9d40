# SPDX-License-Identifier: BSD-2-Clause
"""Select the command, run it and return the exit status.

The command line is parsed completely before the work starts. Therefore an error or a broken pipe
during a trace is never reported as a usage error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from retsnoop_py import __version__
from retsnoop_py.errors import PrivilegeError, RetsnoopError, UsageError
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.cli.argv import Normalised
    from retsnoop_py.cli.declare import Command

PROGRAM = "retsnoop-py"


class Job(Value):
    """The work that the command line requests; ``run`` returns the exit status.

    ``is_brief``: the job only prints text, and ends before a user could interrupt it.
    """

    run: Callable[[], int]
    verbose: int = 0
    is_brief: bool = False


def main(argv: Sequence[str] | None = None, before_work: Callable[[], None] = lambda: None) -> int:
    """Run ``retsnoop-py`` with ``argv`` (without the program's name); return its exit status.

    ``before_work`` is called after the command line is parsed, unless the job is brief.
    """
    from retsnoop_py.cli import report

    words = list(sys.argv[1:] if argv is None else argv)
    report.prepare_streams()
    verbose = 0
    try:
        job = _job(words)
        verbose = job.verbose
        status = job.run() if job.is_brief else _work(job, before_work)
        report.flush()
        return status
    except KeyboardInterrupt:
        return report.interrupted()
    except RetsnoopError as error:
        return report.failed(error, verbose)
    except OSError as error:
        return report.output_failed(error) or report.unexpected(error, verbose)
    except MemoryError as error:
        return report.no_memory(error, verbose)
    except Exception as error:  # noqa: BLE001 - a bug ends with one message as well
        return report.unexpected(error, verbose)


def _work(job: Job, before_work: Callable[[], None]) -> int:
    """Run a job that is not brief; print its progress and notes on standard error."""
    from retsnoop_py.cli.report import Console
    from retsnoop_py.listener import listening

    before_work()
    with listening(Console()):
        return job.run()


def _job(words: list[str]) -> Job:
    """Parse the command line."""
    name = words[0] if words else ""
    if name == "vm":
        return Job(lambda: _vm(words[1:]), verbose=2 if "-vv" in words else 0)
    if name in ("functions", "list", "doctor", "why", "explain", "load", "diff"):
        return _run_of(name, words[1:])
    if name == "replay":
        return _replay(words[1:])
    if name == "help":
        return _help_on(words[1:])
    return _trace(words[1:] if name == "trace" else words)


def _run_of(name: str, words: list[str]) -> Job:
    """Return the job of the command ``name``, which has a module of the same name."""
    from importlib import import_module

    command = import_module(f"retsnoop_py.cli.{name}")
    asked = _asked(command.COMMAND, words, is_replay=name == "diff")
    return asked if isinstance(asked, Job) else Job(lambda: command.run(asked), asked.verbose)


def _trace(words: list[str]) -> Job:
    from retsnoop_py.cli import argv, declare, trace
    from retsnoop_py.cli.argv import SEE_HELP, normalise

    if not words:
        return Job(lambda: _print(trace.WELCOME), is_brief=True)
    line = normalise(words, declare.trace_table())
    if line.words and line.words[0].text == "replay":
        at = line.words[0].position
        return _replay(words[:at] + words[at + 1 :])
    if line.command and not line.words and _names_no_functions(line):
        return _run_of("why", words)
    if line.has("install-completion") or line.has("show-completion"):
        return Job(lambda: _completion_option(line))
    said = _said(line, trace.COMMAND)
    if said:
        return said
    argv.refuse_words(line)
    if line.command == ():
        raise UsageError("no command behind --", "retsnoop-py ... -- CMD ARG..., or leave -- out")
    settings = trace.COMMAND.call(line)
    if line.has("on"):
        from retsnoop_py.cli import on

        asked = on.request(line, settings)
        return Job(lambda: on.run(asked), settings.verbose)
    for name in ("jobs", "timeout"):
        if line.has(name):
            raise UsageError(f"--{name} requires --on KERNEL", SEE_HELP)
    return Job(lambda: _run_trace(settings), settings.verbose)


def _names_no_functions(line: Normalised) -> bool:
    """Return True for ``retsnoop-py -- CMD``: the command ``why`` has all options of ``line``."""
    from retsnoop_py.options.table import options_of

    known = {option.name for option in options_of("why")}
    return all(name in known for name, _ in line.options)


def _replay(words: list[str]) -> Job:
    from retsnoop_py.cli import replay

    asked = _asked(replay.COMMAND, words, is_replay=True)
    if isinstance(asked, Job):
        return asked
    return Job(lambda: _run_replay(asked), asked.overrides.verbose)


def _asked(command: Command, words: list[str], *, is_replay: bool = False) -> Any:
    """Parse ``words`` for ``command``; return its values, or the job of an option that prints."""
    from retsnoop_py.cli import declare, report
    from retsnoop_py.cli.argv import normalise

    line = normalise(words, declare.command_table(command, is_replay=is_replay))
    for notice in line.notices:
        report.say(f"NOTE: {notice}")
    said = _said(line, command)
    return command.call(line) if said is None else said


def _help_on(words: list[str]) -> Job:
    from retsnoop_py.cli import help as pages

    asked = _asked(pages.COMMAND, words)
    return asked if isinstance(asked, Job) else Job(lambda: pages.run(asked), is_brief=True)


def _said(line: Normalised, command: Command) -> Job | None:
    """Return the job of an option that only prints text, or None."""
    if line.has("help"):
        return Job(lambda: _help(command), is_brief=True)
    if line.has("short-help"):
        return Job(lambda: _short_help(command), is_brief=True)
    if line.has("usage"):
        return Job(lambda: _print(command.usage), is_brief=True)
    if line.has("version"):
        return Job(lambda: _version(line.count("verbose")), line.count("verbose"), is_brief=True)
    if line.has("config-help"):
        return Job(_config_help, is_brief=True)
    return None


def _run_trace(settings: Any) -> int:
    from retsnoop_py.cli.trace import run

    return run(settings)


def _run_replay(request: Any) -> int:
    from retsnoop_py.cli.replay import show

    return show(request.path, request.overrides, sys.stdout, sys.stderr)


def _vm(words: list[str]) -> int:
    import signal

    # vm must also end guests after the second Ctrl-C
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from typer.main import get_command

    from retsnoop_py.cli import typed, vm

    short = vm.short_help(words)
    if short is not None:
        from retsnoop_py.terminal import folded, terminal_width

        columns = terminal_width(sys.stdout)
        return _print(folded(short, columns) if columns else short)
    return int(typed.call(get_command(vm.app), words, f"{PROGRAM} vm") or 0)


def _help(command: Command) -> int:
    from retsnoop_py.cli.plain_help import show_help

    show_help(command)
    return 0


def _short_help(command: Command) -> int:
    from retsnoop_py.cli.plain_help import show_short_help

    show_short_help(command)
    return 0


def _completion_option(line: Normalised) -> int:
    from retsnoop_py.cli import completion

    wanted = next(name for name in ("install-completion", "show-completion") if line.has(name))
    return completion.hand_out(wanted, agreed=line.has("yes"))


def _version(verbose: int) -> int:
    """Print the version; with ``verbose``, also test the kernel's features and print them.

    Raises :class:`PrivilegeError` if the user may not test the features.
    """
    print(f"retsnoop-py {__version__}", flush=True)
    if verbose:
        from retsnoop_py.attach.features import Features

        features = Features()
        # Without privileges, every test fails.
        if os.geteuid() and not features.ringbuf:
            raise PrivilegeError(
                "the features of this kernel can be checked only with privileges", "run it as root"
            )
        print("Feature detection:")
        for label, value in features.lines():
            shown = ("no", "yes")[value] if isinstance(value, bool) else value
            print(f"\t{label}: {shown}")
    return 0


def _config_help() -> int:
    from retsnoop_py.options import config

    return _print(config.help_text())


def _print(text: str) -> int:
    print(text)
    return 0
