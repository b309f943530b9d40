# SPDX-License-Identifier: BSD-2-Clause
"""Lines of a long text that match a pattern of many alternatives.

One pattern of a hundred alternatives takes 0.1 ms for a line of 100 characters, because Python
tries each alternative at each character. Most alternatives contain a literal word. A plain search
finds the words in a megabyte of lines within 60 ms. Python then tries an alternative only on the
lines that contain its word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from itertools import accumulate

from retsnoop_py.load.prefilter import Words, fold, needed_words

__all__ = ["LineFinder", "alternatives"]

#: An escaped character, a class of characters, a parenthesis, or the bar between alternatives.
_TOKEN = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|[()|]", re.DOTALL)


def alternatives(pattern: str) -> list[str]:
    """Return the alternatives of ``pattern`` outside of all parentheses."""
    found, depth, begin = [], 0, 0
    for token in _TOKEN.finditer(pattern):
        depth += {"(": 1, ")": -1}.get(token[0], 0)
        if token[0] == "|" and depth == 0:
            found.append(pattern[begin : token.start()])
            begin = token.end()
    return [*found, pattern[begin:]]


class LineFinder:
    """Find the lines that match ``pattern``, without regard to case.

    No match may cross the end of a line.
    """

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern

    @cached_property
    def _parts(self) -> list[tuple[re.Pattern[str], tuple[Words, ...]]]:
        """Return each alternative with its word sets; a match contains a word of each set."""
        return [
            (re.compile(part, re.IGNORECASE), words)
            for part in alternatives(self._pattern)
            for words in needed_words(part, re.IGNORECASE)
        ]

    def matches(self, line: str) -> bool:
        """Return True if ``line`` matches."""
        return bool(self.offsets(line))

    def offsets(self, text: str) -> list[int]:
        """Return the numbers of the matching lines, from 0, in ascending order."""
        text = fold(text)
        starts: set[int] = set()
        for pattern, words in self._parts:
            for start, end in _lines_with(text, words[0] if words else frozenset({""}), starts):
                line = text[start:end]
                if all(any(word in line for word in each) for each in words[1:]) and (
                    pattern.search(line)
                ):
                    starts.add(start)
        if not starts:
            return []
        ends = accumulate((len(line) + 1 for line in text.split("\n")), initial=0)
        return [number for number, start in enumerate(ends) if start in starts]


def _lines_with(text: str, words: Words, known: set[int]) -> Iterator[tuple[int, int]]:
    """Yield start and end of each line with one of ``words``, except for ``known`` lines."""
    for word in words:
        at = text.find(word)
        while at >= 0:
            start = text.rfind("\n", 0, at) + 1
            end = text.find("\n", at)
            end = len(text) if end < 0 else end
            if start not in known:
                yield start, end
            at = text.find(word, end + 1)
