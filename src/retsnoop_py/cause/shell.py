# SPDX-License-Identifier: BSD-2-Clause
"""Names in the commands of advice, quoted so that even a hostile name is safe in a shell."""

from __future__ import annotations

import os
import re
import shlex

__all__ = ["shell_path", "shell_word"]

_ZSH_COMMAND = re.compile(r"=[\w@%+=:,./-]*", re.ASCII)


def shell_word(text: str) -> str:
    """``text`` as one word of a shell command.

    A text with control characters becomes ``$'...'``, which bash, zsh and ksh understand. A shell
    that does not, such as an older dash, reads it as one word, too: it contains no other quote.
    """
    if text.isprintable():
        # zsh replaces =ls by the path of ls
        return f"'{text}'" if _ZSH_COMMAND.fullmatch(text) else shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def shell_path(path: str | os.PathLike[str]) -> str:
    """``path`` as one word of a shell command, which no program takes for an option."""
    text = os.fspath(path)
    return shell_word(f"./{text}" if text.startswith("-") else text)


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
