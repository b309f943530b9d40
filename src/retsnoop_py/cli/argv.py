# SPDX-License-Identifier: BSD-2-Clause
"""Rewrite a command line to one form.

retsnoop's command line uses GNU argp. It has optional values without a space (``-Sn``, ``-ss``),
bundles (``-vS``) and abbreviated long options (``--ent``). :func:`normalise` rewrites these to
``--long`` and ``--long=value``, and keeps the words after ``--`` unchanged. It is a pure function
of its words.

For words that a trace cannot use, the error contains the likely intention.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from retsnoop_py.errors import UsageError
from retsnoop_py.text import did_you_mean, near_names
from retsnoop_py.value import Value


class Kind(Enum):
    """How an option takes a value."""

    FLAG = "flag"
    VALUE = "value"
    #: Takes a value only without a space; ``Spec.implied`` replaces a missing value.
    OPTIONAL = "optional"


class Spec(Value):
    """An option: names without dashes, and how it takes its value.

    ``dashed``: a separate value may start with ``-`` (``-x -EINVAL``, ``-n -bash``). ``means``: the
    options that this old spelling stands for; ``{}`` in their values is replaced by its own value.
    ``is_renamed``: an old spelling that works, and adds a notice to the command line.
    """

    long: str
    short: str | None = None
    kind: Kind = Kind.FLAG
    metavar: str = ""
    implied: str = ""
    dashed: bool = False
    means: tuple[tuple[str, str | None], ...] = ()
    is_renamed: bool = False

    @property
    def label(self) -> str:
        """Return ``-e/--entry``."""
        return f"-{self.short}/--{self.long}" if self.short else f"--{self.long}"


class Foreign(Value):
    """A known option that this command does not have, and the reason."""

    long: str
    short: str | None
    reason: str
    hint: str

    @property
    def label(self) -> str:
        """Return ``-T/--trace``."""
        return f"-{self.short}/--{self.long}" if self.short else f"--{self.long}"


SEE_HELP = "'retsnoop-py --help' lists the options"


class Table:
    """The options of a command, by name.

    ``takes_words``: the command has positional words. ``old``: earlier spellings, which cannot be
    abbreviated. ``see_help``: the general hint.
    """

    def __init__(
        self,
        specs: Iterable[Spec],
        foreign: Iterable[Foreign] = (),
        *,
        old: Iterable[Spec] = (),
        takes_words: bool = False,
        see_help: str = SEE_HELP,
    ) -> None:
        self.takes_words = takes_words
        self.see_help = see_help
        self.specs = tuple(specs)
        self.foreign = tuple(foreign)
        self.long: dict[str, Spec | Foreign] = {}
        self.short: dict[str, Spec | Foreign] = {}
        old = tuple(old)
        self._old = {spec.long for spec in old}
        self._renamed = {spec.long: spec.means[0][0] for spec in old if spec.is_renamed}
        known: list[Spec | Foreign] = [*self.specs, *self.foreign, *old]
        for entry in known:
            self.long.setdefault(entry.long, entry)
            if entry.short:
                self.short.setdefault(entry.short, entry)

    def find_long(self, name: str) -> Spec:
        """Return the option that ``--name`` means, which may be abbreviated.

        Raise :class:`UsageError` if the name is unknown, ambiguous or not available.
        """
        if name in self.long:
            return _have(self.long[name])
        names = [known for known in self.long if name and known.startswith(name)]
        names = [known for known in names if known not in self._old] or names
        if len(names) == 1:
            return _have(self.long[names[0]])
        if names:
            raise UsageError(
                f"--{name} is ambiguous: {', '.join(f'--{known}' for known in sorted(names))}",
                "write one of them out",
            )
        raise UsageError(f"unknown option --{name}", self._nearest(name) or self.see_help)

    def _nearest(self, name: str) -> str | None:
        """Return a hint with options that ``name`` resembles, in their present spelling."""
        known = [*(spec.long for spec in self.specs), *self._renamed]
        near = [self._renamed.get(one, one) for one in near_names(name, known)]
        return did_you_mean([f"--{one}" for one in dict.fromkeys(near)])

    def find_short(self, letter: str, word: str) -> Spec:
        """Return the option ``-letter``, which is part of ``word``. Raise :class:`UsageError`."""
        if letter in self.short:
            return _have(self.short[letter])
        where = f" in '{word}'" if word != f"-{letter}" else ""
        raise UsageError(f"unknown option -{letter}{where}", self.see_help)


class Word(Value):
    """A positional word: its text, its place in argv, and the option directly before it."""

    text: str
    position: int
    after: tuple[str, str | None] | None = None


class Normalised:
    """A normalised command line. ``command`` is None without ``--``."""

    def __init__(self) -> None:
        self.options: list[tuple[str, str | None]] = []
        self.words: list[Word] = []
        self.command: tuple[str, ...] | None = None
        #: A sentence for each old spelling.
        self.notices: list[str] = []

    @property
    def argv(self) -> list[str]:
        """Return the whole line: options, then positional words, then ``--`` and the command."""
        tail = [] if self.command is None else ["--", *self.command]
        return [*self.option_argv, *(word.text for word in self.words), *tail]

    @property
    def option_argv(self) -> list[str]:
        """Return only the options, as ``--long`` or ``--long=value``."""
        return [f"--{name}" if v is None else f"--{name}={v}" for name, v in self.options]

    def has(self, name: str) -> bool:
        """Return True if the option ``--name`` was given."""
        return any(known == name for known, _ in self.options)

    def count(self, name: str) -> int:
        """Return how often ``--name`` was given."""
        return sum(known == name for known, _ in self.options)


#: The levels of the old ``-v LEVEL`` without a space, as the number of ``-v``.
_LEVELS: Mapping[str, int] = {"0": 0, "1": 1, "2": 2, "3": 3, "v": 2, "vv": 3}


def normalise(argv: Sequence[str], table: Table) -> Normalised:
    """Rewrite ``argv`` (without the program's name) to one form.

    ``normalise(x).argv`` is a fixed point. Raise :class:`UsageError` for an option that is unknown,
    ambiguous, not available, or lacks its value.
    """
    return _Scanner(argv, table).run()


class _Scanner:
    """One pass over the words, from left to right."""

    def __init__(self, argv: Sequence[str], table: Table) -> None:
        self._argv = argv
        self._table = table
        self._next = 0
        self._out = Normalised()

    def run(self) -> Normalised:
        try:
            while self._next < len(self._argv):
                self._step()
        except UsageError as error:
            if self._table.takes_words or not self._out.words:
                raise
            # The option is then not wrong: it is the option of a command without the dashes before
            # it.
            import shlex

            start = self._out.words[0].position
            command = shlex.join(self._argv[start:])
            hint = f"if this is a command to run and trace, put -- before it: -- {command}"
            raise UsageError(error.message, hint) from None
        return self._out

    def _step(self) -> None:
        word = self._argv[self._next]
        self._next += 1
        if word == "--":
            self._out.command = tuple(self._argv[self._next :])
            self._next = len(self._argv)
        elif word.startswith("--"):
            self._long(word)
        elif word.startswith("-") and len(word) > 1:
            self._bundle(word)
        else:
            options = self._out.options
            # The option before a word helps to explain an error.
            before = options[-1] if options else None
            self._out.words.append(Word(word, self._next - 1, before))

    def _long(self, word: str) -> None:
        name, equals, value = word[2:].partition("=")
        given = value if equals else None
        spec = self._table.find_long(name)
        if spec.kind is Kind.FLAG:
            if given is not None and spec.long == "verbose" and given in _LEVELS:
                self._verbose(_LEVELS[given])
            elif given is not None:
                raise UsageError(f"--{spec.long} takes no value ('{word}')", self._table.see_help)
            else:
                self._add(spec, None)
        elif given is not None:
            self._add(spec, given)
        elif spec.kind is Kind.OPTIONAL:
            self._add(spec, spec.implied)
        else:
            self._add(spec, self._following(spec, f"--{spec.long}"))

    def _bundle(self, word: str) -> None:
        """Read short options in one word: ``-vS``, ``-efoo``, ``-ss``."""
        self._refuse_single_dash(word)
        rest = word[1:]
        while rest:
            letter, rest = rest[0], rest[1:]
            spec = self._table.find_short(letter, word)
            if spec.kind is Kind.FLAG:
                if spec.long == "verbose" and rest[:1].isdecimal() and rest[:1] in _LEVELS:
                    self._verbose(_LEVELS[rest[0]])
                    rest = rest[1:]
                else:
                    self._add(spec, None)
                continue
            value = rest.removeprefix("=")
            if rest:
                self._add(spec, value)
            elif spec.kind is Kind.OPTIONAL:
                self._add(spec, spec.implied)
            else:
                self._add(spec, self._following(spec, f"-{letter}"))
            return

    def _refuse_single_dash(self, word: str) -> None:
        """Raise UsageError for ``-entry foo``, which would mean ``-e ntry``."""
        name = word[1:].partition("=")[0]
        if len(name) > 2 and name in self._table.long:
            raise UsageError(f"unknown option {word}", f"long options have two dashes: --{name}")

    def _following(self, spec: Spec, spelling: str) -> str:
        """Return the next word, as the value of ``spec``."""
        word = self._argv[self._next] if self._next < len(self._argv) else "--"
        if word != "--" and (spec.dashed or not word.startswith("-") or word == "-"):
            self._next += 1
            return word
        found = "" if word == "--" else f", but '{word}' follows"
        glued = f"a value that starts with '-' is glued: --{spec.long}={word}"
        raise UsageError(
            f"{spelling} needs a value ({spec.metavar}){found}",
            glued if found else self._table.see_help,
        )

    def _verbose(self, level: int) -> None:
        self._out.options += [("verbose", None)] * level

    def _add(self, spec: Spec, value: str | None) -> None:
        if spec.is_renamed:
            new = spec.means[0][0]
            notice = f"--{spec.long} is now --{new}; the old spelling still works"
            if notice not in self._out.notices:
                self._out.notices.append(notice)
        for name, meant in spec.means or ((spec.long, "{}"),):
            given = value if meant == "{}" else meant and meant.format(value)
            self._out.options.append((name, given))


def _have(entry: Spec | Foreign) -> Spec:
    if isinstance(entry, Foreign):
        raise UsageError(f"{entry.label} {entry.reason}", entry.hint)
    return entry


#: First words that select another command than trace.
SUB_COMMANDS = (
    *("why", "list", "functions", "doctor", "replay", "diff"),
    *("load", "explain", "vm", "help"),
)
_GLOB_OPTIONS = {"entry": "-e", "allow": "-a", "deny": "-d"}


def _is_command(word: str) -> bool:
    import shutil

    return shutil.which(word) is not None


def refuse_words(
    line: Normalised,
    exists: Callable[[str], bool] = os.path.exists,
    is_command: Callable[[str], bool] = _is_command,
) -> None:
    """Raise :class:`UsageError` with a hint if there are positional words."""
    if line.words:
        word = line.words[0]
        raise UsageError(f"unexpected word '{word.text}'", _hint(line, word, exists, is_command))


def _hint(
    line: Normalised,
    word: Word,
    exists: Callable[[str], bool],
    is_command: Callable[[str], bool],
) -> str:
    option, value = word.after or ("", None)
    # Files after -e, next to each other in alphabetic order, come from a glob that the shell
    # expanded.
    expanded = option in _GLOB_OPTIONS and value is not None and exists(value)
    if expanded and exists(word.text):
        return (
            "these are files here: the shell expanded your glob; "
            f"quote it: {_GLOB_OPTIONS[option]} 'GLOB'"
        )
    if word.text in SUB_COMMANDS:
        return f"a sub-command is the first word: retsnoop-py {word.text} ..."
    if option in ("success-stacks", "symbolize") and word.text in ("y", "n", "s"):
        letter = "S" if option == "success-stacks" else "s"
        return f"its value is glued to -{letter}: -{letter}{word.text}"
    if option == "verbose" and word.text.isdecimal():
        return "say -v, -vv or -vvv"
    if is_command(word.text) or word.text.startswith(("./", "../", "/")):
        import shlex

        command = shlex.join([each.text for each in line.words] + list(line.command or ()))
        return f"a command to run and trace stands behind --: retsnoop-py ... -- {command}"
    near = did_you_mean([f"retsnoop-py {name}" for name in near_names(word.text, SUB_COMMANDS, 1)])
    if near and not word.position:
        return near
    if len(line.words) > 1 or exists(word.text):
        return "if the shell expanded a glob, quote it: -e 'GLOB'; a command stands behind --"
    return f"functions to trace are given with -e ('-e {word.text}'); a command stands behind --"
