# SPDX-License-Identifier: BSD-2-Clause
"""``retsnoop-py list [WHAT] [GLOB...]``."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from retsnoop_py.cli.declare import Argument, Command
from retsnoop_py.cli.report import say
from retsnoop_py.errors import InputError, RetsnoopError, UnavailableError, UsageError
from retsnoop_py.options.table import Words, options_of
from retsnoop_py.text import counted, did_you_mean, near_names, printable_json
from retsnoop_py.value import Value

_TEXT = """
List what can be traced on the running kernel: functions (-e, -a), tracepoints (-J) and presets \
(-c).

In a GLOB, * matches any text and ? one character. A tracepoint is CATEGORY:NAME, a function of a \
module NAME[MODULE]. Without GLOB, everything is listed; without WHAT, only the numbers are \
printed. -v adds prototypes of functions, fields of tracepoints and globs of presets. \
'retsnoop-py functions' prints more about a few functions.

\b
Examples:
  retsnoop-py list
  retsnoop-py list tracepoints 'sched:*switch' -v      with its fields
  retsnoop-py list functions '*[nf_tables]'
  retsnoop-py list presets -v
  retsnoop-py list tracepoints 'nfs:*' --json | jq -r '.tracepoints[].name'
"""

_USAGE = """Usage: retsnoop-py list [functions|tracepoints|presets] [GLOB...] [-v] [--json]

'retsnoop-py list --help' explains it."""

_KINDS = ("functions", "tracepoints", "presets")


class ListRequest(Value):
    """The kind of names to list; None: the number of names of each kind."""

    kind: str | None
    globs: tuple[str, ...]
    json: bool
    verbose: int


class Item(Value):
    """A name with the lines for -v; ``told`` has the same facts for JSON."""

    name: str
    more: tuple[str, ...]
    told: dict[str, Any]


def request(words: Words, rest: list[str]) -> ListRequest:
    """Return the request of the command line. Raise :class:`UsageError`."""
    kind = rest[0] if rest else None
    if kind is not None and kind not in _KINDS:
        near = did_you_mean([f"retsnoop-py list {one}" for one in near_names(kind, _KINDS, 1)])
        hint = near or f"there are {', '.join(_KINDS)}; for one glob: retsnoop-py functions GLOB"
        raise UsageError(f"'{kind}' cannot be listed", hint)
    return ListRequest(kind, tuple(rest[1:]), words.has("json"), words.count("verbose"))


def run(asked: ListRequest) -> int:
    """Print the list.

    Raise InputError if no name matches, and errors of reading the kernel's lists.
    """
    from retsnoop_py.terminal import terminal_width

    if asked.kind is None:
        return _show_counts(asked)
    found = _LISTS[asked.kind](asked.globs, verbose=asked.verbose > 0 or asked.json)
    if not found:
        raise InputError(
            f"none of this kernel's {asked.kind} match {' '.join(asked.globs)}"
            if asked.globs
            else f"there are no {asked.kind}",
            f"'retsnoop-py list {asked.kind}' lists all",
        )
    if asked.json:
        _print_json({asked.kind: [{"name": one.name, **one.told} for one in found]})
        return 0
    widest = max(len(one.name) for one in found) if asked.kind == "presets" else 0
    columns = terminal_width(sys.stdout)
    for one in found:
        # Programs split lines at the tab, people read columns.
        gap = " " * (widest - len(one.name) + 2) if columns else "\t"
        rows = [f"{one.name}{gap}{one.told['about']}" if widest else one.name]
        if asked.verbose:
            rows += [f"    {line}" for line in one.more]
        for row in rows:
            print(_continued(row, widest + 2 if row is rows[0] else 6, columns))
    return 0


def _continued(row: str, indent: int, columns: int) -> str:
    """Return ``row`` wrapped to ``columns``, all lines but the first indented; 0: unchanged."""
    if len(row) <= columns or not columns:
        return row
    from textwrap import fill

    after = " " * indent
    return fill(
        row, columns, subsequent_indent=after, break_long_words=False, break_on_hyphens=False
    )


def _show_counts(asked: ListRequest) -> int:
    """Print the number of names of each kind; for an unreadable kind, print the error."""
    counts: dict[str, int | str] = {}
    for kind in _KINDS:
        try:
            counts[kind] = len(_NAMES[kind](()))
        except RetsnoopError as error:
            counts[kind] = error.message
    if asked.json:
        _print_json(counts)
        return 0
    for kind, count in counts.items():
        if isinstance(count, int):
            print(f"{counted(count, kind[:-1]):<20}  retsnoop-py list {kind} [GLOB...]")
        else:
            print(f"{kind}: {count}")
    return 0


def _print_json(document: dict[str, Any]) -> None:
    import msgspec

    from retsnoop_py.foreign_json import encode
    from retsnoop_py.kernel.facts import KernelFacts

    told = encode({"release": KernelFacts().release, **document})
    for line in msgspec.json.format(told, indent=1).decode().split("\n"):
        print(printable_json(line))


def _matches(globs: Sequence[str], name: str) -> bool:
    from retsnoop_py.libbpf.facts import glob_match

    return not globs or any(glob_match(glob, name) for glob in globs)


def _function_names(globs: Sequence[str]) -> list[str]:
    from retsnoop_py.options.live import can_tell_traceable, functions

    names = functions()
    if globs:
        names = [name for name in names if _matches(globs, name)]
    if not can_tell_traceable():
        why = "shown where tracefs is mounted" if os.geteuid() == 0 else "shown to root only"
        say(f"NOTE: which of the functions can be traced is {why}")
    return names


def _functions(globs: Sequence[str], *, verbose: bool) -> list[Item]:
    names = _function_names(globs)
    told = _prototypes(names) if verbose else {}
    return [
        Item(name, (told[name],) if name in told else (), {"prototype": told.get(name)})
        for name in names
    ]


def _prototypes(names: Sequence[str]) -> dict[str, str]:
    """Return the prototypes of functions in BTF, by ``NAME`` or ``NAME[MODULE]``."""
    from retsnoop_py.kernel.facts import KernelFacts

    facts, found = KernelFacts(), {}
    by_module: dict[str, list[str]] = {}
    for name in names:
        function, _, module = name.removesuffix("]").partition("[")
        by_module.setdefault(module, []).append(function)
    for module, functions in by_module.items():
        btf = facts.module_btf(module) if module else facts.btf
        if btf is not None:
            for function, number in btf.functions(functions).items():
                label = f"{function}[{module}]" if module else function
                found[label] = btf.prototype(number)[1]
    return found


def _tracepoint_names(globs: Sequence[str]) -> list[str]:
    """Return the names as CATEGORY:NAME."""
    from retsnoop_py.kernel.tracefs import Tracepoints

    known = Tracepoints()
    wanted = [glob.removeprefix("tp:") for glob in globs]
    names = (f"{one}:{name}" for one in known.categories() for name in known.names(one))
    return [name for name in names if _matches(wanted, name)]


def _tracepoints(globs: Sequence[str], *, verbose: bool) -> list[Item]:
    from retsnoop_py.kernel.tracefs import Tracepoint, Tracepoints, parse_format

    known = Tracepoints()
    found = []
    for label in _tracepoint_names(globs):
        category, _, name = label.partition(":")
        fields = []
        if verbose:
            try:
                fields = list(parse_format(known.format_of(Tracepoint(category, name))))
            except UnavailableError:
                continue  # its module was unloaded
        rows = [
            {"name": one.name, "type": one.type + ("[]" if one.is_array else "")} for one in fields
        ]
        lines = tuple(f"{row['type']} {row['name']}".strip() for row in rows)
        found.append(Item(f"tp:{label}", lines, {"fields": rows}))
    return found


def _preset_names(globs: Sequence[str]) -> list[str]:
    from retsnoop_py.selection.globs import preset_names

    return [name for name in preset_names() if _matches(globs, name)]


def _presets(globs: Sequence[str], *, verbose: bool) -> list[Item]:
    from retsnoop_py.selection.globs import load_preset

    found = []
    for name in _preset_names(globs):
        preset = load_preset(name)
        parts = {"-e": preset.entry, "-a": preset.allow, "-d": preset.deny}
        lines = tuple(f"{option} {' '.join(each)}" for option, each in parts.items() if each)
        fields = {"about": preset.about, "entry": list(preset.entry)}
        fields |= {"allow": list(preset.allow), "deny": list(preset.deny)}
        found.append(Item(name, lines if verbose else (), fields))
    return found


_NAMES: dict[str, Callable[[Sequence[str]], list[str]]] = {
    "functions": _function_names,
    "tracepoints": _tracepoint_names,
    "presets": _preset_names,
}
_LISTS = {"functions": _functions, "tracepoints": _tracepoints, "presets": _presets}


def complete(incomplete: str) -> Iterator[str]:
    """Yield the kinds of names, for the shell."""
    return (kind for kind in _KINDS if kind.startswith(incomplete))


COMMAND = Command(
    request=request,
    options=options_of("list"),
    argument=Argument(
        "[WHAT] [GLOB...]",
        help="functions, tracepoints or presets, and names to match.",
        many=True,
        complete=lambda incomplete: list(complete(incomplete)),
    ),
    name="retsnoop-py list",
    synopsis="[WHAT] [GLOB...] [OPTIONS]",
    text=_TEXT,
    usage=_USAGE,
    first=(
        "verbose",
        "json",
    ),
)
