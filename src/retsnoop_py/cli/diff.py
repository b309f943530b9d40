# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py diff A.rsn B.rsn``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.replay import complete
from retsnoop_py.errors import DataError, UsageError
from retsnoop_py.foreign_json import encode
from retsnoop_py.options.settings import diff_overrides
from retsnoop_py.options.table import Words, options_of
from retsnoop_py.options.values import output_format
from retsnoop_py.settings import OutputFormat
from retsnoop_py.text import printable_json
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.model.difference import Difference
    from retsnoop_py.recording.overrides import ReplayOverrides

#: The exit status for a difference, which is not an error. 1 means a bug of retsnoop-py, 2 an error
#: in diff(1).
DIFFERENT = 3

_TEXT = """
Compare two recordings: what fails only in A, and what fails only in B.

Record the same program twice (-o FILE), on a kernel where it works and on one where it does not, \
or before and after a change. The failures are compared by entry function, error and chain of \
failing calls. Addresses, times and suffixes of the compiler (.isra.0) do not count. retsnoop-py \
ignores and names functions that only one recording traces.

If both recordings have call traces (-T or --path), retsnoop-py also prints where a failing call \
first differs from the most similar call in the other recording.

\b
Examples:
  retsnoop-py -T -c bpf -o good.rsn -- ./test      on the good kernel
  retsnoop-py -T -c bpf -o bad.rsn -- ./test       on the bad kernel
  retsnoop-py diff good.rsn bad.rsn
  retsnoop-py diff -x EINVAL good.rsn bad.rsn      only this error
  retsnoop-py diff -v good.rsn bad.rsn             also what fails in both
  retsnoop-py diff --format json good.rsn bad.rsn | jq '.only_b[].entry'

Exit status: 0 without a difference, 3 with one; 64 and more for errors. A damaged recording \
(65) is compared up to the damage.
"""

_USAGE = """Usage: retsnoop-py diff A.rsn B.rsn [-x ERROR]* [-X ERROR]* [-n NAME]* [-v] ...

'retsnoop-py diff --help' explains all options."""


class DiffRequest(Value):
    """Two recordings to compare, and the output format."""

    a: Path
    b: Path
    overrides: ReplayOverrides
    json: bool
    ascii: bool
    verbose: int


def request(words: Words, files: list[str]) -> DiffRequest:
    """Return the request of the command line. Raise :class:`UsageError`."""
    if len(files) != 2:
        raise UsageError(
            f"diff needs two recordings, not {len(files)}",
            "name the recording without the failure first: retsnoop-py diff A.rsn B.rsn",
        )
    return DiffRequest(
        Path(files[0]),
        Path(files[1]),
        diff_overrides(words),
        output_format(words.text("format")) is OutputFormat.JSON,
        words.has("ascii"),
        words.count("verbose"),
    )


def run(asked: DiffRequest) -> int:
    """Compare the recordings; return 0 without a difference, else 3.

    Raise InputError, UsageError and DataError. For a damaged recording, the part before the damage
    is compared and printed first.
    """
    from retsnoop_py.api.comparing import compare
    from retsnoop_py.recording.replay import memory_limit
    from retsnoop_py.terminal import Bar

    bar = Bar("comparing", "calls", sys.stderr)
    with bar, memory_limit(asked.a), memory_limit(asked.b):
        found = compare(asked.a, asked.b, asked.overrides, bar.update)
    _show(found, asked)
    damages = [side.damage for side in (found.a, found.b) if side.damage]
    if damages:
        raise DataError("; ".join(damages), "everything before that byte has been compared")
    return DIFFERENT if found.found else 0


def _show(found: Difference, asked: DiffRequest) -> None:
    if asked.json:
        print(printable_json(encode(found).decode()))
        return
    from retsnoop_py.render.difference import DifferencePage
    from retsnoop_py.render.palette import Glyphs, Palette
    from retsnoop_py.terminal import folded, terminal_width

    columns = terminal_width(sys.stdout)
    glyphs = Glyphs.of(sys.stdout, ascii_only=asked.ascii)
    page = DifferencePage(Palette.of(sys.stdout), glyphs, verbose=asked.verbose > 0)
    for line in page.lines(found):
        print(folded(line, columns) if columns else line)


COMMAND = Command(
    request=request,
    options=options_of("diff"),
    argument=Argument(
        "A.rsn B.rsn", help="Two recordings made with -o.", many=True, complete=complete
    ),
    name="retsnoop-py diff",
    synopsis="A.rsn B.rsn [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "allow-errors",
        "comm",
        "verbose",
        "format",
    ),
)
