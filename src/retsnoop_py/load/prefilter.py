# SPDX-License-Identifier: BSD-2-Clause
"""Search many patterns in one line; most are excluded by plain text before they are tried.

A pattern with many alternative messages is slow if it does not match, because each alternative is
tried at each character. But every match contains one of a few literal words, and a plain search
finds words fast. This module takes the words from the pattern itself.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

__all__ = ["PatternSet", "fold", "needed_words"]

#: Non-ASCII characters that re.IGNORECASE treats as ASCII letters and str.lower() does not.
_ALIKE = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s"})
#: Maximum number of words. Searching more words takes longer than the pattern.
_MOST_WORDS = 40
#: Number of word sets per alternative. A single word is often as common as "failed to".
_SETS = 2
#: Length of the part by which a word is looked up. Shorter words are searched one by one.
_GRAM = 4


def fold(text: str) -> str:
    """Return ``text`` in lower case, as re.IGNORECASE compares ASCII letters."""
    return text.lower() if text.isascii() else text.translate(_ALIKE).lower()


def _parsed(pattern: str, flags: int) -> Iterable[Any]:
    """Return the syntax tree of ``pattern``; empty if this Python has its parser elsewhere."""
    try:
        parser = import_module("re._parser")
    except ImportError:
        return ()
    tree: Iterable[Any] = parser.parse(pattern, flags)
    return tree


#: Words of which each matching text contains at least one.
Words = frozenset[str]


def needed_words(pattern: str, flags: int = 0) -> list[tuple[Words, ...]]:
    """Return, for each alternative of ``pattern``, the word sets of its matches.

    The folded text of each match contains a word of each set. Without a set, the words are unknown.
    """
    return list(_of_alternatives(list(_flat(_parsed(pattern, flags)))))


def _of_alternatives(items: list[tuple[str, Any]]) -> Iterator[tuple[Words, ...]]:
    if len(items) == 1 and items[0][0] == "BRANCH":
        for branch in items[0][1][1]:
            yield from _of_alternatives(list(_flat(branch)))
    else:
        best = sorted(_of_sequence(items), key=_selects, reverse=True)
        yield tuple(best[:_SETS])


def _of_sequence(items: Iterable[tuple[str, Any]]) -> Iterator[Words]:
    """Yield the words of consecutive parts: runs of letters, and the words of other parts."""
    run = ""
    for name, argument in items:
        letter = _letter(name, argument)
        if letter:
            run += letter
            continue
        if run:
            yield frozenset({run})
        run = ""
        yield from filter(None, (_of_part(name, argument),))
    if run:
        yield frozenset({run})


def _best(items: Iterable[Any]) -> Words:
    """Return the set with the rarest words; empty if no set exists."""
    return max(_of_sequence(_flat(items)), key=_selects, default=frozenset())


def _flat(items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a sequence, with groups replaced by their parts."""
    for operator, argument in items:
        if operator.name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from _flat(argument[-1] if operator.name == "SUBPATTERN" else argument)
        else:
            yield operator.name, argument


def _letter(name: str, argument: Any) -> str:
    """Return the only ASCII character that a part matches, ignoring case; else empty."""
    if name == "LITERAL":
        codes = {argument}
    elif name == "IN" and all(operator.name == "LITERAL" for operator, _ in argument):
        codes = {code for _, code in argument}
    else:
        return ""
    letters = {fold(chr(code)) for code in codes}
    letter = letters.pop()
    return letter if not letters and letter.isascii() else ""


def _of_part(name: str, argument: Any) -> Words:
    if name == "BRANCH":
        each = [_best(branch) for branch in argument[1]]
        words: Words = frozenset().union(*each)
        return words if all(each) and len(words) <= _MOST_WORDS else frozenset()
    if name in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
        return _best(argument[2]) if argument[0] else frozenset()
    return _best(argument[1]) if name == "ASSERT" else frozenset()


def _selects(words: Words) -> tuple[int, int]:
    """Return how rare ``words`` are: by the shortest word, then by their number."""
    return min(map(len, words)), -len(words)


def _grams(text: str) -> set[str]:
    """Return each part of ``text`` with the length of a lookup key."""
    return {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}


#: A word, and the alternatives that need the word: as bits for the first and the second set.
_Word = tuple[str, int, int]


class PatternSet:
    """An ordered set of patterns, each compiled at its first use.

    ``after``: number of texts for which all patterns are tried before the words are extracted.
    """

    def __init__(self, patterns: Sequence[str], flags: int = 0, after: int = 50) -> None:
        self._patterns = patterns
        self._flags = flags
        self._left = after
        self._compiled: list[re.Pattern[str] | None] = [None] * len(patterns)
        #: The pattern number of each alternative; each alternative of all patterns has a bit.
        self._owner: list[int] = []
        #: For each of the sets, the alternatives without such a set.
        self._always = [0] * _SETS
        self._short: list[_Word] = []
        self._by_gram: dict[str, list[_Word]] = {}

    def _index(self) -> None:
        by_word: dict[str, list[int]] = {}
        for number, pattern in enumerate(self._patterns):
            for sets in needed_words(pattern, self._flags):
                bit = 1 << len(self._owner)
                self._owner.append(number)
                for at in range(_SETS):
                    for word in sets[at] if at < len(sets) else ():
                        by_word.setdefault(word, [0] * _SETS)[at] |= bit
                    self._always[at] |= 0 if at < len(sets) else bit
        common = Counter(gram for word in by_word for gram in _grams(word))
        for word, (one, other) in by_word.items():
            # Sorted, so that each run chooses the same part.
            rarest = min(sorted(_grams(word)), key=common.__getitem__, default="")
            kept = self._by_gram.setdefault(rarest, []) if rarest else self._short
            kept.append((word, one, other))

    def candidates(self, text: str) -> Iterator[int]:
        """Yield the numbers of the patterns that may match ``text``, in order."""
        if self._left:
            self._left -= 1
            yield from range(len(self._patterns))
            return
        if not self._owner:
            self._index()
        folded = fold(text)
        one, other = self._always
        there = self._by_gram.keys() & _grams(folded)
        for words in (self._short, *(self._by_gram[gram] for gram in there)):
            for word, ones, others in words:
                if word in folded:
                    one |= ones
                    other |= others
        bits, last = one & other, -1
        while bits:
            lowest = bits & -bits
            number = self._owner[lowest.bit_length() - 1]
            if number != last:
                yield number
            bits, last = bits ^ lowest, number

    def pattern(self, number: int) -> re.Pattern[str]:
        """Return a compiled pattern."""
        compiled = self._compiled[number]
        if compiled is None:
            compiled = re.compile(self._patterns[number], self._flags)
            self._compiled[number] = compiled
        return compiled

    def search(self, text: str) -> Iterator[tuple[int, re.Match[str]]]:
        """Yield each matching pattern's number, with its first match in ``text``."""
        for number in self.candidates(text):
            if found := self.pattern(number).search(text):
                yield number, found
