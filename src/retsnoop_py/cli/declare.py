# SPDX-License-Identifier: BSD-2-Clause
"""A command, and the values of a normalised command line for it.

Both come from the rows of options: the values of a run, and the normaliser's table of a command
with its old spellings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from retsnoop_py.cli.argv import Foreign, Kind, Normalised, Spec, Table
from retsnoop_py.options.table import Option, Takes, Words, options_of
from retsnoop_py.value import Value


class Argument(Value):
    """Words that belong to no option: any number of words, or exactly one.

    ``complete``: returns completions for the shell.
    """

    metavar: str
    help: str | None = None
    hidden: bool = False
    many: bool = False
    complete: Callable[[str], list[str]] | None = None


class Command(Value):
    """A command: its name, its options and its help.

    * ``request``: converts the words of options, and the other words, to a request; raises
      UsageError or InputError
    * ``synopsis``: follows the name in the help's first line
    * ``text``: the help before the options; paragraphs that begin with a backspace keep their lines
    * ``usage``: the output of ``--usage``
    * ``first``: the options of the short help, in order
    * ``old``: earlier spellings of its options
    """

    request: Callable[[Words, list[str]], Any]
    options: tuple[Option, ...]
    argument: Argument | None
    name: str
    synopsis: str
    text: str
    usage: str
    first: tuple[str, ...] = ()
    old: tuple[Spec, ...] = ()

    def call(self, line: Normalised) -> Any:
        """Return the request of ``line``."""
        words = [*(word.text for word in line.words), *(line.command or ())]
        return self.request(words_of(self.options, line), words)


def command_of(name: str) -> Command:
    """Return the command called ``name``, "trace" for no name; all but vm, which is a typer app."""
    from importlib import import_module

    command: Command = import_module(f"retsnoop_py.cli.{name}").COMMAND
    return command


def spec_of(option: Option) -> Spec:
    """Return the normaliser's description of an option."""
    how = Kind.VALUE if option.implied is None else Kind.OPTIONAL
    if option.takes in (Takes.FLAG, Takes.COUNT):
        how = Kind.FLAG
    implied = option.implied or ""
    return Spec(option.name, option.short, how, option.metavar, implied, option.dashed)


def words_of(options: tuple[Option, ...], line: Normalised) -> Words:
    """Return the values of ``options`` in ``line``; the words after ``--`` are the command."""
    given: dict[str, list[str | None]] = {}
    for name, text in line.options:
        given.setdefault(name, []).append(text)
    said: dict[str, Any] = {}
    for option in options:
        texts = given.get(option.name)
        if not texts:
            continue
        match option.takes:
            case Takes.FLAG:
                said[option.name] = True
            case Takes.COUNT:
                said[option.name] = len(texts)
            case Takes.ONE:
                said[option.name] = texts[-1]
            case Takes.MANY:
                said[option.name] = texts
    return Words(said, tuple(line.command or ()))


#: Spellings of earlier versions of retsnoop, which old notes and blog posts still use.
OLD = (
    Spec("lbr", "R", Kind.OPTIONAL, implied="any_return"),
    Spec("lbr-max-count", None, Kind.VALUE, "N", means=(("config", "fmt.lbr-max-count={}"),)),
    Spec("intermediate-stacks", means=(("interim-stacks", None),)),
    Spec("bpf-logs", "l", means=(("debug", "bpf"),)),
    Spec("stacks-map-size", None, Kind.VALUE, "N", means=(("config", "bpf.sessions-size={}"),)),
    Spec("ringbuf-map-size", None, Kind.VALUE, "N", means=(("config", "bpf.ringbuf-size={}"),)),
    Spec(
        "full-stacks",
        means=(("config", "stacks.unfiltered=y"), ("config", "stacks.emit-addrs=y")),
    ),
)


def trace_table() -> Table:
    """Return the option table of tracing."""
    return Table(map(spec_of, options_of("trace")), old=OLD)


def command_table(command: Command, *, is_replay: bool = False) -> Table:
    """Return the option table of another command, which handles words itself.

    Options of tracing are rejected, with a reason.
    """
    own = [spec_of(option) for option in command.options]
    names = {spec.long for spec in own}
    old = [
        spec
        for spec in (*command.old, *OLD)
        if names.issuperset(name for name, _ in spec.means or ((spec.long, None),))
    ]
    names.update(spec.long for spec in old)
    reason = "concerns tracing, and nothing is traced here"
    if is_replay:
        reason = "concerns tracing, and a recording is already traced"
    hint = f"'{command.name} --help' lists the options"
    foreign = [
        Foreign(spec.long, spec.short, reason, hint)
        for spec in (*map(spec_of, options_of("trace")), *OLD)
        if spec.long not in names
    ]
    return Table(
        own,
        foreign,
        old=old,
        takes_words=True,
        see_help=hint,
    )
