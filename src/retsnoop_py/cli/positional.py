# SPDX-License-Identifier: BSD-2-Clause
"""Words a trace has no use for: what they probably were meant to be."""

from __future__ import annotations

import os
from collections.abc import Callable

from retsnoop_py.cli.argv import Normalised, Word
from retsnoop_py.errors import UsageError
from retsnoop_py.text import did_you_mean, near_names

#: The first words that are no options of a trace.
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
    """Raise :class:`UsageError` if there are positional words, saying what to do instead."""
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
    # Files next to each other, in alphabetic order, behind -e: what a shell makes of a glob.
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
