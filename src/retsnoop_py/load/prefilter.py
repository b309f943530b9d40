# SPDX-License-Identifier: BSD-2-Clause
"""Many patterns searched in one line, of which most are known not to match before they are tried.

A pattern that is an alternation of messages is slow where it does not match: each alternative is
tried at each character. But what it matches has one of a few literal words in it, which are found
by plain search. They are taken from the pattern itself, so nobody has to write them down.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any

__all__ = ["PatternSet", "fold", "needed_words"]

#: What re.IGNORECASE takes for an ASCII letter besides those that str.lower() makes one.
_ALIKE = str.maketrans({"\u0130": "i", "\u0131": "i", "\u017f": "s"})
#: Of more words than these, the search for them is no gain.
_MOST_WORDS = 40
#: What an alternative is known by: one word is often as common as "failed to".
_SETS = 2
#: Characters by which a word is looked up; a shorter one is searched for.
_GRAM = 4


def fold(text: str) -> str:
    """``text`` in lower case, as re.IGNORECASE compares ASCII letters."""
    return text.lower() if text.isascii() else text.translate(_ALIKE).lower()


def _parsed(pattern: str, flags: int) -> Iterable[Any]:
    """The syntax tree of ``pattern``; nothing with a Python that has moved its parser elsewhere."""
    try:
        parser = import_module("re._parser")
    except ImportError:
        return ()
    tree: Iterable[Any] = parser.parse(pattern, flags)
    return tree


#: Words one of which is in each text that matches.
Words = frozenset[str]


def needed_words(pattern: str, flags: int = 0) -> list[tuple[Words, ...]]:
    """Of each alternative of ``pattern``, what is in the folded text of its matches.

    That is a word of each set; no set where that cannot be told.
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
    """Of parts that follow each other: the runs of letters, and what other parts need."""
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
    """The set of which a text has a word least often; an empty one if there is none."""
    return max(_of_sequence(_flat(items)), key=_selects, default=frozenset())


def _flat(items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """The parts of a sequence, those of groups in it as if they had no parentheses."""
    for operator, argument in items:
        if operator.name in ("SUBPATTERN", "ATOMIC_GROUP"):
            yield from _flat(argument[-1] if operator.name == "SUBPATTERN" else argument)
        else:
            yield operator.name, argument


def _letter(name: str, argument: Any) -> str:
    """The one ASCII character that a part matches, but for case; empty if there are others."""
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
    """How seldom a text has one of ``words``: by the shortest of them, then by their number."""
    return min(map(len, words)), -len(words)


def _grams(text: str) -> set[str]:
    """Each part of ``text`` that has as many characters as words are looked up by."""
    return {text[at : at + _GRAM] for at in range(len(text) - _GRAM + 1)}


#: A word, and the alternatives that it lets through as one of each set.
_Word = tuple[str, int, int]


class PatternSet:
    """Patterns in an order, each compiled when it is first tried.

    ``after``: texts in which all are tried, before it is worth the time to look at the patterns.
    """

    def __init__(self, patterns: Sequence[str], flags: int = 0, after: int = 50) -> None:
        self._patterns = patterns
        self._flags = flags
        self._left = after
        self._compiled: list[re.Pattern[str] | None] = [None] * len(patterns)
        #: The alternatives of all patterns have a bit each; here is whose it is.
        self._owner: list[int] = []
        #: For each of the sets, the alternatives that need none.
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
            # sorted, so that each run takes the same one of several
            rarest = min(sorted(_grams(word)), key=common.__getitem__, default="")
            kept = self._by_gram.setdefault(rarest, []) if rarest else self._short
            kept.append((word, one, other))

    def candidates(self, text: str) -> Iterator[int]:
        """The patterns that may match ``text``, by their number, in their order."""
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
        """A pattern, compiled."""
        compiled = self._compiled[number]
        if compiled is None:
            compiled = re.compile(self._patterns[number], self._flags)
            self._compiled[number] = compiled
        return compiled

    def search(self, text: str) -> Iterator[tuple[int, re.Match[str]]]:
        """Each pattern that matches in ``text``, by its number, and where it does first."""
        for number in self.candidates(text):
            if found := self.pattern(number).search(text):
                yield number, found
