# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py functions GLOB...``."""

# The options are the parameters. Options that only print are handled earlier.

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.report import say
from retsnoop_py.errors import UsageError
from retsnoop_py.options.settings import listing_settings
from retsnoop_py.options.table import Words, complete_function, options_of
from retsnoop_py.settings import Settings
from retsnoop_py.value import Value

if TYPE_CHECKING:
    from retsnoop_py.errors import InputError
    from retsnoop_py.listing import Listing

_TEXT = """
List the functions that a trace with these options would trace, with the mechanism of each. Also \
list matching functions that it would not trace, with the reason.

A GLOB is the same as for -e: NAME, NAME[MODULE], :SOURCE/PATH*.c or @FILE. Prototypes come from \
the kernel's BTF, source files from its debug information. retsnoop-py tries each mechanism on a \
function that every kernel has, and attaches nothing else.

\b
Examples:
  retsnoop-py functions '*_sys_bpf'
  retsnoop-py functions -c bpf --attach=fentry      what can fentry not trace?
  retsnoop-py functions ':kernel/bpf/arraymap.c' | cut -f2
  retsnoop-py functions 'nft_*[nf_tables]' --json | jq '.left_out[].text'

\b
In a pipe, each function is one line, with columns separated by tabs:
  entry, traced or left-out; name; module; mechanism; source file;
  prototype or reason. - marks an empty column.
"""

_USAGE = """Usage: retsnoop-py functions [GLOB...] [-c PRESET]* [-a GLOB]* [-d GLOB]* [--json]

'retsnoop-py functions --help' explains all options."""


class FunctionsRequest(Value):
    """The functions to list, and the output format."""

    settings: Settings
    json: bool

    @property
    def verbose(self) -> int:
        """Return the verbosity."""
        return self.settings.verbose


def request(words: Words, globs: list[str]) -> FunctionsRequest:
    """Return the request of the command line. Raise :class:`UsageError` or :class:`InputError`."""
    if not (globs or words.has("entry") or words.has("case")):
        raise UsageError(
            "no functions to list",
            "name a GLOB (retsnoop-py functions '*_sys_bpf') or a preset (-c bpf)",
        )
    words = Words({**words.said, "entry": [*globs, *words.texts("entry")]})
    return FunctionsRequest(listing_settings(words), words.has("json"))


def run(asked: FunctionsRequest) -> int:
    """Print the list. Raise the errors of a trace if no function can be traced."""
    from retsnoop_py.api.selecting import list_functions
    from retsnoop_py.kernel.facts import KernelFacts
    from retsnoop_py.listing import Listing, left_out
    from retsnoop_py.selection.explain import NoMatch

    release = KernelFacts().release
    try:
        listing = list_functions(asked.settings)
    except NoMatch as error:
        _show(asked, Listing(left_out=left_out(error.rejections)), release, error)
        raise
    _show(asked, listing, release)
    return 0


def _show(
    asked: FunctionsRequest, listing: Listing, release: str, error: InputError | None = None
) -> None:
    from retsnoop_py import listing as listed
    from retsnoop_py.render.palette import Palette

    width = shutil.get_terminal_size().columns
    if asked.json:
        print(listing.as_json(release, error).decode())
    elif sys.stdout.isatty():
        for line in listed.groups(listing, width, Palette.of(sys.stdout)):
            print(line)
    else:
        for line in listed.columns(listing):
            print(line)
    sys.stdout.flush()
    for line in listed.advice(listing, width if sys.stderr.isatty() else 0):
        say(line)


COMMAND = Command(
    request=request,
    options=options_of("functions"),
    argument=Argument("[GLOB...]", help="As -e.", many=True, complete=complete_function),
    name="retsnoop-py functions",
    synopsis="[GLOB...] [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "case",
        "entry",
        "allow",
        "deny",
        "attach",
        "json",
    ),
)
