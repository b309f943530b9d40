# SPDX-License-Identifier: BSD-2-Clause
"""Phrases that make prose hard to read, per 100 sentences: ``python -m tests.plain FILE...``.

A hit is a place to look at, not always a mistake. ``tests/unit/test_plain.py`` limits the number
of hits in pages, help texts and messages.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

#: The subject is missing, hidden in a relative clause, or a pronoun; a verb of speech stands for
#: another one; something is described by what it is not.
PATTERNS = (
    r"\b(?:is|are|was|were|be|been) (?:told|said|asked|known|heard)\b",
    r"\b(?:tells?|told|says?|said|asks?|asked|hears?|knows) (?:of|wh\w+|that|how|nothing|it|so)\b",
    r"^(?:Of|What|That|Whom?|Where|Whether|Such|So)\b(?! (?:course|is|do|does|are|can|to)\b)",
    r"\bwhat (?:is|was|were|are|it|they|a|an|the|no|that|this|came|comes|stands|has|have|had)\b",
    r"\bof (?:it|them|whom|those|these|theirs|one|ours?)\b(?!-)",
    r"\b(?:is|are|was|were) (?:no|none)\b",
    r"\bbut (?:for|what|such|those|that)\b",
    r"\b(?:[Nn]obody|[Ss]omebody|whoever|whom|whose|whatever)\b",
    r"\btakes? (?:Linux|root|none|no)\b",
    r"\b(?:mended?|anew|thereof|therein|herein|besides|mostly|whence)\b",
    r"\bis that of\b",
    r"\b(?:to|can|may|must) be (?:had|made|told|said|seen|known)\b",
)
_HIT = re.compile("|".join(PATTERNS))
#: Fewer words are a label, not a sentence.
_FEWEST = 4


class Count(NamedTuple):
    """Sentences, and the hits among them: the phrase and its sentence."""

    sentences: int
    hits: tuple[tuple[str, str], ...]

    @property
    def per_100(self) -> float:
        """Hits per 100 sentences."""
        return 100 * len(self.hits) / max(self.sentences, 1)


def count(texts: Iterable[str]) -> Count:
    """The sentences of some texts, which are plain prose, and the hits in them."""
    found = [
        " ".join(sentence.split())
        for text in texts
        for sentence in re.split(r"(?<=[.!?:])\s+|\n\s*\n|\s\|\s", text)
        if len(sentence.split()) >= _FEWEST
    ]
    return Count(
        len(found), tuple((hit[0].strip(), one) for one in found for hit in _HIT.finditer(one))
    )


def page(text: str) -> str:
    """The prose of a page of Markdown: without blocks of code, the marks of code and of links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^ {4}.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "X", text)
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text)
    return re.sub(r"\n(?=[-*|#\d])", "\n\n", text)


def messages(source: str) -> Iterator[str]:
    """The strings of a module that are no docstrings: its messages, with X for each value."""
    tree = ast.parse(source)
    passed_over: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            passed_over.add(id(node.value))
        if isinstance(node, ast.JoinedStr):
            passed_over.update(map(id, node.values))
            parts = (one.value if isinstance(one, ast.Constant) else "X" for one in node.values)
            yield "".join(map(str, parts))
    for node in ast.walk(tree):
        is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
        if is_text and id(node) not in passed_over:
            yield str(node.value)


def main(names: list[str]) -> None:
    """Print the hits in files: pages, or the messages of modules."""
    for name in names:
        text = Path(name).read_text()
        found = count(messages(text) if name.endswith(".py") else [page(text)])
        for phrase, sentence in found.hits:
            print(f"{name}: '{phrase}' in: {sentence}")
        print(f"{name}: {found.per_100:.1f} per 100 of {found.sentences} sentences")


if __name__ == "__main__":
    main(sys.argv[1:])
