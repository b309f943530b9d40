# SPDX-License-Identifier: BSD-2-Clause
"""Names in the commands of advice, quoted so that even a hostile name is safe in a shell."""

from __future__ import annotations

import os
import re
import shlex

__all__ = ["is_nft_name", "is_plain_word", "shell_path", "shell_word"]

#: Words that are quoted although they have no special character: zsh replaces =ls by the path of
#: ls, and fish %self by its process id.
_REPLACED = re.compile(r"[=%][\w@%+=:,./-]*", re.ASCII)
#: Words that each shell reads as they are, also inside quotes, and that no program takes for an
#: option.
_PLAIN = re.compile(r"[\w/.][\w@%+=:,./-]*", re.ASCII)
#: Names that nft(8) reads as names, and not as commands.
_NFT_NAME = re.compile(r"[A-Za-z_.][\w./-]*", re.ASCII)


def shell_word(text: str) -> str:
    """``text`` as one word of a shell command.

    A text with control characters or backslashes becomes ``$'...'``, which bash, zsh and ksh
    understand. A shell that does not, such as an older dash, reads it as one word, too: it contains
    no other quote. fish runs no command of such a line. In plain quotes, a backslash hides the
    closing quote from fish.
    """
    if text.isprintable() and "\\" not in text:
        return f"'{text}'" if _REPLACED.fullmatch(text) else shlex.quote(text)
    return "$'" + "".join(map(_escaped, text)) + "'"


def is_plain_word(text: str) -> bool:
    """Return whether a command may contain ``text`` as it is, in any kind of quotes."""
    return bool(_PLAIN.fullmatch(text))


def shell_path(path: str | os.PathLike[str]) -> str:
    """``path`` as one word of a shell command, which no program takes for an option."""
    text = os.fspath(path)
    return shell_word(f"./{text}" if text.startswith("-") else text)


def _escaped(character: str) -> str:
    if character.isprintable() and character not in "'\\":
        return character
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))


def is_nft_name(text: str) -> bool:
    """Return whether nft(8) reads ``text`` as a name.

    nft joins its arguments and splits them itself: quoting for the shell does not help.
    """
    return bool(_NFT_NAME.fullmatch(text))
