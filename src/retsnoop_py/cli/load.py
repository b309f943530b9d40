# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py load OBJECT...``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py import own_file
from retsnoop_py.cli.argv import Kind, Spec
from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.report import expect_github, say
from retsnoop_py.errors import OutputError, PrivilegeError, UsageError
from retsnoop_py.foreign_json import encode
from retsnoop_py.options import values
from retsnoop_py.options.table import (
    HOST,
    OBJECTS,
    OUTPUT,
    STATUS,
    WHERE,
    Option,
    Takes,
    Words,
    options_of,
)
from retsnoop_py.text import printable, printable_json
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.api.loading import Loading
    from retsnoop_py.load.model import LoadResult
    from retsnoop_py.load.outcome import Expectation, Reason

_TEXT = """
Find out on which kernels BPF objects load, and explain each failure.

retsnoop-py loads each map, extern and program of each OBJECT separately. One failure therefore \
hides no other, and nothing stays loaded. Without --on it uses the running kernel and needs root. \
With --on it boots each KERNEL in a virtual machine. Use --on for objects that you do not trust: \
without --on, the running kernel loads their programs. The table of results is followed by one \
explanation for each distinct reason.

\b
Examples:
  sudo retsnoop-py load prog.bpf.o
  retsnoop-py load *.bpf.o --on 5.10,6.1,6.12,7.2
  retsnoop-py load prog.bpf.o --set small:slots=16 --set large:slots=4096
  retsnoop-py load prog.bpf.o --on 5.10,7.2 --known-failures known.txt
  retsnoop-py load prog.bpf.o --format json | jq 'select(.verdict != "ok")'

Exit status: 0 if everything loads, 2 if something was rejected or a kernel did not finish, 3 if \
--known-failures or --baseline expect another result.
"""

_USAGE = """Usage: retsnoop-py load OBJECT... [--on KERNEL,...] [--try-attach] [--prog NAME]* ...

'retsnoop-py load --help' explains all options."""

#: Exit statuses in addition to those of errors.
REFUSED = 2
UNEXPECTED = 3
_GROWTH = 10.0


def complete(incomplete: str) -> list[str]:
    """Return objects by their suffix, for the shell; without any, it offers files."""
    from retsnoop_py.options.live import files_named

    return files_named(incomplete, ".o")


def complete_program(incomplete: str, words: Sequence[str]) -> list[str]:
    """Return programs of the objects on the line, for the shell."""
    from retsnoop_py.load.object_names import object_symbols

    return [name for name in object_symbols(words) if name.startswith(incomplete)]


def complete_map(incomplete: str, words: Sequence[str]) -> list[str]:
    """Return maps of the objects on the line, for the shell."""
    from retsnoop_py.load.object_names import object_symbols

    return [name for name in object_symbols(words, ".maps") if name.startswith(incomplete)]


#: Options of this command: after --on in the help, and after --timeout.
_FIRST = (
    Option(
        ("--prog",),
        Takes.MANY,
        "Load only this program.",
        metavar="NAME",
        panel=OBJECTS,
        commands=("load",),
        complete_among=complete_program,
    ),
    Option(
        ("--map",),
        Takes.MANY,
        "Create only this map.",
        metavar="NAME",
        panel=OBJECTS,
        commands=("load",),
        complete_among=complete_map,
    ),
    Option(
        ("--set",),
        Takes.MANY,
        "Set a read-only variable (const volatile) before loading. NAME is a variant of the "
        "object: every program is loaded once per NAME.",
        metavar="[NAME:]VAR=VALUE",
        panel=OBJECTS,
        commands=("load",),
    ),
    Option(
        ("--try-attach",),
        Takes.FLAG,
        "Also attach each program for an instant, and register each struct_ops map. On the running "
        "kernel this asks first, as the programs run there.",
        panel=OBJECTS,
        commands=("load",),
    ),
    Option(
        ("--yes",),
        Takes.FLAG,
        "Do not ask before --try-attach on the running kernel.",
        panel=OBJECTS,
        commands=("load",),
    ),
)
_THEN = (
    Option(
        ("--known-failures",),
        Takes.ONE,
        "Exit with 3 if the failures differ from FILE. Each line of FILE is one failure: KERNEL "
        "OBJECT NAME REASON, where * matches anything.",
        metavar="FILE",
        panel=STATUS,
        commands=("load",),
    ),
    Option(
        ("--baseline",),
        Takes.ONE,
        "Exit with 3 if the verifier processes more instructions for a program than in FILE, the "
        "output of an earlier --format json.",
        metavar="FILE",
        panel=STATUS,
        commands=("load",),
    ),
    Option(
        ("--growth",),
        Takes.ONE,
        "Allow so many more instructions than in the baseline (default 10).",
        metavar="PERCENT",
        panel=STATUS,
        commands=("load",),
    ),
    Option(
        ("--junit",),
        Takes.ONE,
        "Also write JUnit XML to FILE.",
        metavar="FILE",
        panel=OUTPUT,
        commands=("load",),
    ),
    Option(
        ("--github",),
        Takes.FLAG,
        "Write GitHub annotations, and the table to the step summary. GitHub obeys no command "
        "in the text of an object.",
        panel=OUTPUT,
        commands=("load",),
    ),
    Option(
        ("--logs",),
        Takes.ONE,
        "Write the verifier log of each rejected program to DIR/KERNEL/OBJECT.PROGRAM.log.",
        metavar="DIR",
        panel=OUTPUT,
        commands=("load",),
    ),
    Option(
        ("--no-trace",),
        Takes.FLAG,
        "Do not trace the kernel when it rejects something without a message. Tracing needs a "
        "second load and a few seconds.",
        panel=OBJECTS,
        commands=("load",),
    ),
    Option(
        ("--keep-logs",),
        Takes.FLAG,
        hidden=True,
        commands=("load",),
    ),
    Option(
        ("--again",),
        Takes.ONE,
        hidden=True,
        commands=("load",),
    ),
    Option(
        ("--shard",),
        Takes.ONE,
        "Use only every N-th kernel, beginning with the I-th.",
        metavar="I/N",
        panel=WHERE,
        commands=("load",),
    ),
)


_ROWS = {option.name: option for option in options_of("load")}
_RUNNING = tuple([_ROWS[name] for name in ("format", "jobs", "timeout")])
_REST = tuple([one for one in _ROWS.values() if one not in _RUNNING and one.name != "on"])


class LoadRequest(Value):
    """The objects and kernels, and the use of the results."""

    loading: Loading
    json: bool
    expect: Path | None
    baseline: Path | None
    growth: float
    junit: Path | None
    github: bool
    logs: Path | None
    again: Path | None
    verbose: int
    yes: bool = False


def request(words: Words, objects: list[str]) -> LoadRequest:
    """Return the request of the command line. Raise :class:`UsageError` or :class:`InputError`."""
    from retsnoop_py.api.loading import Loading, object_path

    expect_github(words.has("github"))
    form, logs = words.text("format"), words.text("logs")
    if not objects:
        raise UsageError("no object to load", "retsnoop-py load OBJECT.bpf.o [--on KERNEL,...]")
    if form not in (None, "text", "json"):
        raise UsageError(f"unknown --format '{form}'", "text or json")
    kernels = values.kernels(words.texts("on"))
    loading = Loading(
        tuple(object_path(word) for word in objects),
        _sharded(kernels or (HOST,), words.text("shard")),
        tuple(words.texts("prog")),
        tuple(words.texts("map")),
        tuple(words.texts("set")),
        words.has("try-attach"),
        values.jobs(words.text("jobs")),
        values.timeout(words.text("timeout")),
        words.has("keep-logs") or logs is not None,
        not words.has("no-trace"),
        _path(words, "kernel"),
        values.source_folder(words.text("source")),
    )
    return LoadRequest(
        loading,
        form == "json",
        _path(words, "known-failures"),
        _path(words, "baseline"),
        values.positive("--growth", words.text("growth"), _GROWTH),
        _path(words, "junit"),
        words.has("github"),
        Path(logs) if logs else None,
        _path(words, "again"),
        words.count("verbose"),
        words.has("yes"),
    )


def _path(words: Words, name: str) -> Path | None:
    text = words.text(name)
    return Path(text) if text else None


def _sharded(kernels: tuple[str, ...], shard: str | None) -> tuple[str, ...]:
    if shard is None:
        return kernels
    part, _, count = shard.partition("/")
    if not (part.isdigit() and count.isdigit() and 0 < int(part) <= int(count)):
        raise UsageError(f"--shard {shard}: not of the form I/N", "such as 1/3, 2/3 and 3/3")
    return kernels[int(part) - 1 :: int(count)]


def run(asked: LoadRequest) -> int:
    """Load all objects, print the results, and return the exit status."""
    from retsnoop_py.api.loading import in_order, load_again

    if asked.again is not None:
        load_again(asked.loading, asked.again)
        return 0
    from retsnoop_py.load.outcome import read_baseline, read_expectations, reasons

    # errors in these files are reported before the work starts
    if asked.loading.attach and asked.loading.here and not asked.yes:
        _confirm(asked.loading.objects)
    wanted = read_expectations(asked.expect) if asked.expect else None
    before = read_baseline(asked.baseline) if asked.baseline else ()
    _check_places(asked)
    results = in_order(_told(asked), asked.loading.kernels)
    why = reasons(results)
    _tell(asked, results, why)
    _write_files(asked, results)
    return _status(asked, results, wanted, before)


def _confirm(objects: Sequence[Path]) -> None:
    """Ask on the terminal whether programs may run here. Raise PrivilegeError if not."""
    named = ", ".join(printable(path.name) for path in objects)
    hint = "--yes attaches without a question; --on KERNEL,... attaches in a virtual machine"
    if not (sys.stdin and sys.stdin.isatty() and sys.stderr.isatty()):
        raise PrivilegeError("--try-attach on the running kernel needs --yes", hint)
    say(f"--try-attach runs the programs of {named} in the running kernel.")
    print(
        "Use --on KERNEL,... if you do not trust them. Attach here? [y/N] ", end="", file=sys.stderr
    )
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise PrivilegeError("nothing was loaded: the answer was not yes", hint)


def _check_places(asked: LoadRequest) -> None:
    """Raise OutputError for an unwritable file before the work starts."""
    for path in filter(None, (asked.junit, asked.logs)):
        folder = path if path is asked.logs and path.exists() else path.parent
        while path is asked.logs and not folder.exists():
            folder = folder.parent
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            why = "Permission denied" if folder.is_dir() else "No such folder"
            raise OutputError(f"cannot write {path}: {why}")


def _told(asked: LoadRequest) -> Iterator[LoadResult]:
    """Yield the results; with ``--format json`` print each result at once."""
    from retsnoop_py.api.loading import load_results
    from retsnoop_py.cli.guest_signals import ended_by_signals

    with nullcontext() if asked.loading.kernels == (HOST,) else ended_by_signals():
        for result in load_results(asked.loading):
            if asked.json:
                _print_json(result, keep_log=asked.logs is None, github=asked.github)
            yield result


def _print_json(result: LoadResult, *, keep_log: bool, github: bool) -> None:
    import msgspec

    from retsnoop_py.render.github import github_json

    shown = result if keep_log else msgspec.structs.replace(result, log="")
    line = printable_json(encode(shown).decode())
    print(github_json(line) if github else line, flush=True)


def _tell(asked: LoadRequest, results: Sequence[LoadResult], why: Sequence[Reason]) -> None:
    if asked.json and not asked.github:
        return
    from retsnoop_py.render.github import github_lines, github_summary, unobeyed
    from retsnoop_py.render.load_results import matrix_lines, matrix_rows, reason_lines
    from retsnoop_py.render.palette import Palette
    from retsnoop_py.terminal import terminal_width

    rows = matrix_rows(results, asked.loading.kernels, why)
    if not asked.json:
        palette, width = Palette.of(sys.stdout), terminal_width(sys.stdout)
        lines = list(matrix_lines(rows, asked.loading.kernels, palette))
        for reason in why:
            lines += ["", *reason_lines(reason, palette, width)]
        for line in unobeyed(lines) if asked.github else lines:
            print(line)
    if asked.github:
        out = sys.stderr if asked.json else sys.stdout
        for line in github_lines(why):
            print(line, file=out)
        summary = os.environ.get("GITHUB_STEP_SUMMARY")
        if summary:
            text = github_summary(rows, asked.loading.kernels, why)
            own_file.append(Path(summary), text, own_file.SHARED)


def _write_files(asked: LoadRequest, results: Sequence[LoadResult]) -> None:
    from retsnoop_py.load.outcome import short_names
    from retsnoop_py.render.load_results import junit

    if asked.junit:
        own_file.write(asked.junit, junit(results), own_file.SHARED)
    if asked.logs:
        names = short_names(results)
        for result in results:
            if result.log:
                folder = asked.logs / own_file.short_name(result.kernel)
                own_file.make_output_folder(folder)
                shape = f".{result.shape}" if result.shape else ""
                name = f"{names[result.object]}.{result.name}{shape}"
                own_file.write(folder / own_file.short_name(name, ".log"), result.log)


def _status(
    asked: LoadRequest,
    results: Sequence[LoadResult],
    wanted: Sequence[Expectation] | None,
    before: Sequence[LoadResult],
) -> int:
    from retsnoop_py.load.outcome import compare, expected

    said: list[str] = []
    if asked.expect is not None and wanted is not None:
        said += expected(results, wanted, asked.expect)
    if asked.baseline is not None:
        said += compare(results, before, asked.growth)
    for line in said:
        say(f"retsnoop-py: {line}")
    if said:
        return UNEXPECTED
    if asked.expect is not None:
        return 0
    return REFUSED if any(one.is_failure for one in results) else 0


COMMAND = Command(
    request=request,
    options=(_ROWS["on"], *_FIRST, *_RUNNING, *_THEN, *_REST),
    argument=Argument("OBJECT...", help="Compiled BPF objects.", many=True, complete=complete),
    name="retsnoop-py load",
    synopsis="OBJECT... [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    old=(
        Spec("attach", means=(("try-attach", None),), is_renamed=True),
        Spec(
            "expect",
            kind=Kind.VALUE,
            metavar="FILE",
            means=(("known-failures", "{}"),),
            is_renamed=True,
        ),
    ),
    first=(
        "on",
        "prog",
        "map",
        "set",
        "try-attach",
        "known-failures",
        "junit",
        "format",
    ),
)
