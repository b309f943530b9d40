# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py explain FILE|-``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.report import expect_github
from retsnoop_py.errors import DataError, InputError, UsageError
from retsnoop_py.foreign_json import encode
from retsnoop_py.options.table import OBJECTS, OUTPUT, Option, Takes, Words, options_of
from retsnoop_py.options.values import source_folder
from retsnoop_py.text import printable_json
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from collections.abc import Iterable

    from retsnoop_py.load.model import Explained
    from retsnoop_py.load.object_file import ObjectFile
    from retsnoop_py.terminal import Bar

_TEXT = """
Explain why BPF programs and maps were rejected, from the log of a loader.

FILE is the output of libbpf, bpftool, cilium/ebpf, aya, bcc or a kernel; - is standard input. \
The log may contain time stamps, colours, other lines and several failures. explain needs neither \
root nor a kernel. It explains each failure in the form that Linux 7.3 uses.

\b
Examples:
  retsnoop-py explain build.log
  journalctl -u my-agent | retsnoop-py explain -
  retsnoop-py explain --object prog.bpf.o log.txt      with source lines
  retsnoop-py explain --object prog.bpf.o --source src/ log.txt
  retsnoop-py explain --format json log.txt | jq .explanation.id

explain stops after 18 s of CPU time, reports how much of the log it read, and ends with 65.

Exit status: 0 if failures were found and explained, 65 if the log contains no failure or was not \
read to its end.
"""

_USAGE = """Usage: retsnoop-py explain FILE|- [--object FILE] [--format json]

'retsnoop-py explain --help' explains it."""


_OBJECT = Option(
    ("--object",),
    Takes.ONE,
    "Read source lines and CO-RE relocations from this BPF object.",
    panel=OBJECTS,
    metavar="FILE",
    commands=("explain",),
)
_GITHUB = Option(
    ("--github",),
    Takes.FLAG,
    "Write GitHub annotations. GitHub obeys no command in the text of the log.",
    panel=OUTPUT,
    commands=("explain",),
)
#: Number of bytes between two updates of the progress.
_STEP = 1 << 20


class ExplainRequest(Value):
    """The log to explain, and the output format; ``path`` is None for standard input."""

    path: Path | None
    target: Path | None
    source: Path | None
    json: bool
    github: bool
    verbose: int


def request(words: Words, files: list[str]) -> ExplainRequest:
    """Return the request of the command line. Raise :class:`UsageError`."""
    expect_github(words.has("github"))
    form, target = words.text("format"), words.text("object")
    if form not in (None, "text", "json"):
        raise UsageError(f"unknown --format '{form}'", "text or json")
    if len(files) != 1:
        raise UsageError(
            f"explain needs one log, not {len(files)}",
            "give the name of a file, or - for standard input: make 2>&1 | retsnoop-py explain -",
        )
    return ExplainRequest(
        None if files[0] == "-" else Path(files[0]),
        None if target is None else Path(target),
        source_folder(words.text("source")),
        form == "json",
        words.has("github"),
        words.count("verbose"),
    )


def run(asked: ExplainRequest) -> int:
    """Explain the log.

    Raise InputError for a missing file. Raise DataError for a log without a failure, or, after the
    explained failures, for a log that was not read to its end.
    """
    from retsnoop_py.load.explain import explain_log
    from retsnoop_py.terminal import Bar

    target = _target(asked.target, asked.source)
    name = "standard input" if asked.path is None else str(asked.path)
    with _opened(asked.path) as stream, Bar("reading the log", "bytes", sys.stderr) as bar:
        count = _show(asked, explain_log(_Counted(stream, bar), target))
    if not count:
        raise DataError(
            f"{name} contains no failure of a BPF program or map",
            "give the whole output of the loader; libbpf prints a verifier's log as a warning,"
            " cilium/ebpf with %+v, bpftool with -d",
        )
    return 0


class _Counted:
    """A stream with a progress bar for reading."""

    def __init__(self, stream: BinaryIO, bar: Bar) -> None:
        self._stream = stream
        self._bar = bar
        self._done = self._told = 0

    def readline(self, size: int) -> bytes:
        """Return at most ``size`` bytes of the next line."""
        line = self._stream.readline(size)
        self._done += len(line)
        if self._done - self._told > _STEP:
            self._told = self._done
            self._bar.update(self._done)
        return line


def _opened(path: Path | None) -> BinaryIO:
    if path is None:
        return sys.stdin.buffer
    try:
        return path.open("rb")
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _target(path: Path | None, source: Path | None) -> ObjectFile | None:
    from retsnoop_py.load.checked_object import open_object

    if path is None:
        return None
    try:
        return open_object(path, source=source)
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from None


def _show(asked: ExplainRequest, found: Iterable[Explained]) -> int:
    from retsnoop_py.render.explanation import explained_lines
    from retsnoop_py.render.palette import Palette
    from retsnoop_py.terminal import terminal_width

    palette = Palette.of(sys.stdout)
    count = 0
    for failure in found:
        if asked.github:
            _print_github(failure, as_json=asked.json)
        elif asked.json:
            print(printable_json(encode(failure).decode()))
        else:
            text = "\n".join(explained_lines(failure, palette, terminal_width(sys.stdout)))
            print(("\n\n" if count else "") + text)
        count += 1
    return count


def _print_github(failure: Explained, *, as_json: bool) -> None:
    """Print an annotation and the explanation; with JSON on standard error."""
    from retsnoop_py.render.github import explained_github_lines, github_json

    if as_json:
        print(github_json(printable_json(encode(failure).decode())))
    for line in explained_github_lines(failure):
        print(line, file=sys.stderr if as_json else sys.stdout)


COMMAND = Command(
    request=request,
    options=(_OBJECT, _GITHUB, *options_of("explain")),
    argument=Argument("FILE", help="The log; - is standard input."),
    name="retsnoop-py explain",
    synopsis="FILE|- [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "object",
        "source",
        "format",
    ),
)
