# SPDX-License-Identifier: BSD-2-Clause
"""The cost of a regular expression on the worst text, from its syntax tree.

Python's ``re`` tries all paths through a pattern until one matches. A repeat that accepts the same
text as another repeat before it multiplies the paths: each such repeat makes the worst time grow by
one power of the text's length. A repeat that accepts one text in two ways makes it grow
exponentially. :func:`cost` counts both on the automaton of the pattern. The search for the first
position is a repeat, too.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import deque
from collections.abc import Callable, Iterable
from functools import cache, reduce
from importlib import import_module
from itertools import pairwise
from operator import and_, or_
from typing import Any, NamedTuple

__all__ = ["Cost", "cost", "tries_inside_names"]

_parser = import_module("re._parser")
_constants = import_module("re._constants")
_RANGE, _CATEGORY = _constants.RANGE, _constants.CATEGORY
_IS_WORD = _constants.CATEGORY_WORD
#: Characters that stand for all: ASCII, and others by their kind and by what IGNORECASE does.
_ALPHABET = (
    "".join(map(chr, range(128))) + "\u00e9\u00c9\u0130\u0131\u017f\u212a\u0660\u2028\u201c\u4e2d"
)
_ALL = (1 << len(_ALPHABET)) - 1
#: A repeat with a higher bound than this counts as one without.
_LONG = 64
#: The same where a search begins: 4,096 characters times 60 are too many steps, too.
_LONG_NAME = 16
#: Copies of a bounded repeat's body; more copies have the same loops.
_COPIES = 3


class Cost(NamedTuple):
    """The time of a match in the worst case, as a ``power`` of the text's length.

    ``exponential``: the time grows exponentially. ``text``: the word with the slow repetition, if
    it is known.
    """

    power: int
    exponential: bool
    text: str


#: Kinds of characters that word boundaries and the like distinguish: letters, the rest of ``\\w``,
#: all others. A state reads characters of one kind.
_LETTER, _WORD, _OTHER = 1, 2, 4
#: The end of the pattern without a further condition, as a flag beside the kinds of characters.
_END = 8
_ANY = _LETTER | _WORD | _OTHER | _END


class _State:
    """A place in the pattern that reads one character."""

    __slots__ = ("accepts", "chars", "guards", "kind", "next", "number")

    def __init__(self, number: int, chars: int, kind: int, guards: tuple[int, ...]) -> None:
        self.number = number
        self.chars = chars
        self.kind = kind
        #: Atomic groups and assertions around it.
        self.guards = guards
        #: The states behind it, and in how many ways each is reached.
        self.next: dict[int, int] = {}
        self.accepts = False


#: States, each with what may follow, and in how many ways the pattern comes there.
_Places = dict[tuple[int, int], int]


@cache
def _chars(operator: str, argument: Any, flags: int) -> int:
    """The characters of the alphabet that one item of a pattern accepts, as bits."""
    mask = 0
    for at, char in enumerate(_ALPHABET):
        if _accepts(operator, argument, flags, char):
            mask |= 1 << at
    return mask


def _accepts(operator: str, argument: Any, flags: int, char: str) -> bool:
    forms = {char, char.lower(), char.upper()} if flags & re.IGNORECASE else {char}
    forms |= {"s", "S"} if flags & re.IGNORECASE and char == "\u017f" else set()
    forms |= {"k", "K"} if flags & re.IGNORECASE and char == "\u212a" else set()
    forms |= {"i", "I"} if flags & re.IGNORECASE and char in "\u0130\u0131" else set()
    if operator == "ANY":
        return char != "\n" or bool(flags & re.DOTALL)
    if operator == "LITERAL":
        return any(len(form) == 1 and ord(form) == argument for form in forms)
    if operator == "NOT_LITERAL":
        return not any(len(form) == 1 and ord(form) == argument for form in forms)
    negated = bool(argument) and argument[0][0].name == "NEGATE"
    inside = any(
        _in_class(kind.name, value, form)
        for kind, value in argument
        if kind.name != "NEGATE"
        for form in forms
        if len(form) == 1
    )
    return inside != negated


def _in_class(kind: str, value: Any, char: str) -> bool:
    if kind == "LITERAL":
        return ord(char) == value
    if kind == "RANGE":
        return bool(value[0] <= ord(char) <= value[1])
    name = value.name.removeprefix("CATEGORY_")
    yes = {
        "DIGIT": char.isdigit() and unicodedata.category(char) == "Nd",
        "SPACE": char.isspace(),
        "WORD": char.isalnum() or char == "_",
    }
    return yes[name.removeprefix("NOT_")] != name.startswith("NOT_")


_KINDS = {
    _LETTER: _chars("IN", ((_RANGE, (65, 90)), (_RANGE, (97, 122))), 0),
    _WORD: 0,
    _OTHER: 0,
}
_KINDS[_WORD] = _chars("IN", ((_CATEGORY, _IS_WORD),), 0) & ~_KINDS[_LETTER]
_KINDS[_OTHER] = _ALL & ~_KINDS[_WORD] & ~_KINDS[_LETTER]


class _Automaton:
    """The states of a pattern: 0 is before the text, the next states skip text before a match."""

    def __init__(self, pattern: str | bytes, flags: int, longest: int = _LONG) -> None:
        #: A repeat with a higher bound counts as one without a bound.
        self.longest = longest
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        tree = _parser.parse(text, flags)
        self.flags = flags | tree.state.flags
        self.states: list[_State] = []
        self._guards = 0
        self.start = self._state(0, _OTHER, ())
        self.skip: list[int] = []
        #: States of text before a match that a look-behind restricts.
        self.narrowed: list[int] = []
        self.skip = [number for number, _ in self._read(_ALL, (), {(self.start, _ANY): 1})]
        for one in self.skip:
            self._join({(one, _ANY): 1 for one in self.skip}, one)
        before = {(number, _ANY): 1 for number in (self.start, *self.skip)}
        for number, follows in self._sequence(tree, (), before):
            self.states[number].accepts |= follows == _ANY

    def _state(self, chars: int, kind: int, guards: tuple[int, ...]) -> int:
        self.states.append(_State(len(self.states), chars, kind, guards))
        return len(self.states) - 1

    def _join(self, before: _Places, number: int) -> None:
        for (each, follows), ways in before.items():
            if follows & self.states[number].kind:
                known = self.states[each].next
                known[number] = known.get(number, 0) + ways

    def _read(self, chars: int, guards: tuple[int, ...], before: _Places) -> _Places:
        """Add states that read one of ``chars``: a state for each kind of character."""
        ends: _Places = {}
        for kind, of_kind in _KINDS.items():
            if chars & of_kind:
                number = self._state(chars & of_kind, kind, guards)
                self._join(before, number)
                ends[number, _ANY] = 1
        return ends

    def _sequence(self, items: Iterable[Any], guards: tuple[int, ...], before: _Places) -> _Places:
        """Add ``items`` behind the places ``before``; the places behind which the text goes on."""
        for operator, argument in items:
            before = self._item(operator.name, argument, guards, before)
        return before

    def _item(  # noqa: PLR0911 - one for each kind of node
        self, name: str, argument: Any, guards: tuple[int, ...], before: _Places
    ) -> _Places:
        if name in ("LITERAL", "NOT_LITERAL", "ANY", "IN"):
            return self._read(self._set(name, argument), guards, before)
        if name == "BRANCH":
            return self._branch(argument[1], guards, before)
        if name == "SUBPATTERN":
            return self._sequence(argument[3], guards, before)
        if name == "ATOMIC_GROUP":
            return self._atomic(argument, guards, before)
        if name in ("ASSERT", "ASSERT_NOT"):
            return self._assert(name == "ASSERT", argument, guards, before)
        if name in ("MAX_REPEAT", "MIN_REPEAT"):
            return self._repeat(*argument, guards, before)
        if name == "POSSESSIVE_REPEAT":
            self._guards += 1
            return dict.fromkeys(self._repeat(*argument, (*guards, self._guards), before), 1)
        if name == "AT":
            return self._at(argument.name, before)
        if name == "GROUPREF":
            return {**before, **self._repeat(0, _parser.MAXREPEAT, _DOT, guards, before)}
        if name == "GROUPREF_EXISTS":
            other = self._sequence(argument[2], guards, before) if argument[2] else before
            return self._sequence(argument[1], guards, before) | other
        raise ValueError(name)

    def _set(self, name: str, argument: Any) -> int:
        frozen = tuple(argument) if name == "IN" else argument
        return _chars(name, frozen, self.flags & (re.IGNORECASE | re.DOTALL))

    def _branch(self, branches: Any, guards: tuple[int, ...], before: _Places) -> _Places:
        ends: _Places = {}
        for branch in branches:
            for place, ways in self._sequence(branch, guards, before).items():
                ends[place] = min(ends.get(place, 0) + ways, 2)
        return ends

    def _at(self, name: str, before: _Places) -> _Places:
        by_line = bool(self.flags & re.MULTILINE)
        if name in ("AT_BEGINNING", "AT_BEGINNING_STRING"):
            if by_line and name == "AT_BEGINNING":
                return before
            return {place: ways for place, ways in before.items() if place[0] == self.start}
        if name in ("AT_END", "AT_END_STRING"):
            return self._followed(lambda _: _OTHER if by_line else 0, before)
        if name == "AT_BOUNDARY":
            return self._followed(
                lambda kind: _LETTER | _WORD if kind == _OTHER else _OTHER, before
            )
        return self._followed(lambda kind: _OTHER if kind == _OTHER else _LETTER | _WORD, before)

    def _followed(self, kinds: Callable[[int], int], before: _Places) -> _Places:
        """The places ``before`` of which the next character is of ``kinds``, by the last one's."""
        ends: _Places = {}
        for (number, follows), ways in before.items():
            place = number, follows & kinds(self.states[number].kind)
            ends[place] = ends.get(place, 0) + ways
        return ends

    def _assert(
        self, positive: bool, argument: Any, guards: tuple[int, ...], before: _Places
    ) -> _Places:
        """An assertion is a way of its own that ends; one of a single character is a condition."""
        direction, items = argument
        one = list(items)
        if len(one) == 1 and one[0][0].name in ("LITERAL", "NOT_LITERAL", "IN"):
            chars = self._set(one[0][0].name, one[0][1])
            kinds = sum(kind for kind, of_kind in _KINDS.items() if chars & of_kind)
            whole = sum(kind for kind, of_kind in _KINDS.items() if chars & of_kind == of_kind)
            allowed = kinds if positive else _ANY & ~whole & ~_END
            if direction > 0:
                return self._followed(lambda _: allowed, before)
            accepted = chars if positive else _ALL & ~chars
            return {
                (self._narrowed(number, accepted), follows): ways
                for (number, follows), ways in before.items()
                if self.states[number].kind & allowed
            }
        if direction > 0:
            self._atomic(items, guards, before)
            return self._followed(lambda _: _ANY & ~_END, before)
        return before

    def _narrowed(self, number: int, chars: int) -> int:
        """Return a state like ``number`` that reads only ``chars``, for text before a match."""
        state = self.states[number]
        if number not in self.skip or not 0 != state.chars & chars != state.chars:
            return number
        narrow = self._state(state.chars & chars, state.kind, state.guards)
        for before in (self.start, *self.skip):
            self.states[before].next[narrow] = 1
        self.narrowed.append(narrow)
        return narrow

    def _atomic(self, items: Iterable[Any], guards: tuple[int, ...], before: _Places) -> _Places:
        self._guards += 1
        return dict.fromkeys(self._sequence(items, (*guards, self._guards), before), 1)

    def _repeat(
        self, least: int, most: Any, body: Any, guards: tuple[int, ...], before: _Places
    ) -> _Places:
        is_open = most is _parser.MAXREPEAT or most > self.longest
        ends, begun = before, len(self.states)
        out = {} if least else dict(before)
        for at in range(1, min(max(least, 1) if is_open else most, _COPIES) + 1):
            begun = len(self.states)
            ends = self._sequence(body, guards, ends)
            if at >= min(least, _COPIES):
                for place, ways in ends.items():
                    known = out.get(place, 0)
                    out[place] = known + ways if place[0] >= begun else max(known, ways)
        if is_open:
            self._loop(body, guards, ends, begun)
        return out

    def _loop(self, body: Any, guards: tuple[int, ...], ends: _Places, begun: int) -> None:
        """Lead the ``ends`` of a repeat's last copy, from ``begun`` on, to its beginning."""
        for (number, follows), ways in ends.items():
            if number < begun:
                continue
            state = self.states[number]
            for first, more in self._firsts(body, guards, begun, state.kind, follows).items():
                known = state.next.get(first, 0)
                # an atomic group ends where its own repeats can go no further
                is_apart = len(state.guards) > len(guards)
                state.next[first] = max(known, ways * more) if is_apart else known + ways * more

    def _firsts(
        self, body: Any, guards: tuple[int, ...], begun: int, kind: int, follows: int
    ) -> dict[int, int]:
        """The states of a body that begins at ``begun`` which come first behind one of ``kind``."""
        kept, self.states = self.states, [_State(0, 0, kind, ())]
        start, counted, skip = self.start, self._guards, self.skip
        self.start, self.skip = -1, []
        self._sequence(body, guards, {(0, follows): 1})
        firsts = {begun + number - 1: ways for number, ways in self.states[0].next.items()}
        self.states, self._guards, self.start, self.skip = kept, counted, start, skip
        return firsts


#: The body of ``.*``.
_DOT = _parser.parse(".")


def cost(pattern: str | bytes, flags: int = 0) -> Cost:
    """The worst cost of searching for ``pattern``."""
    it = _Automaton(pattern, flags)
    loops = _loops(it)
    for states in loops:
        if (text := _ambiguous(it, states)) is not None:
            return Cost(0, True, text)
    return max(
        (_Chains(it, loops).longest((one,)) for one in range(len(loops))),
        default=Cost(0, False, ""),
    )


def tries_inside_names(pattern: str | bytes, flags: int = 0) -> bool:
    """Return whether a search tries a name at the beginning of a match from inside that name.

    A name is a repeat that reads letters or digits and ``_``, and no space. Such a search of a line
    that is one long name takes the square of its length. A look-behind or ``\\b`` prevents it.
    """
    it = _Automaton(pattern, flags, _LONG_NAME)
    loop_of = {number: states for states in _loops(it) for number in states}
    return any(
        any(it.states[inside].chars & it.states[before].chars for inside in loop_of[first])
        for before in (*it.skip, *it.narrowed)
        for first in it.states[before].next
        if first in loop_of and first not in it.skip and _is_name(it, loop_of[first])
    )


def _is_name(it: _Automaton, loop: list[int]) -> bool:
    chars = reduce(or_, (it.states[number].chars for number in loop))
    read = {char for at, char in enumerate(_ALPHABET) if chars >> at & 1}
    return "_" in read and bool(read & {"a", "0"}) and " " not in read


class _Chains:
    """Loops of a pattern that each multiply the paths of the earlier loops."""

    def __init__(self, it: _Automaton, loops: list[list[int]]) -> None:
        self._it = it
        self._loops = loops
        self._known: dict[tuple[int, int, int], str | None] = {}
        #: The characters that a loop reads.
        self._chars = [
            reduce(or_, (it.states[number].chars for number in states)) for states in loops
        ]
        self._after: dict[int, list[int]] = {}

    def longest(self, chain: tuple[int, ...]) -> Cost:
        """The longest chain that begins with ``chain``: all its loops read the same word."""
        states = [self._it.states[number] for number in self._loops[chain[-1]]]
        # a loop that ends the pattern always succeeds
        ends = (
            all(state.accepts for state in states)
            and self._it.skip[0] not in self._loops[chain[-1]]
        )
        best = Cost(len(chain) - ends, False, self._word(chain) or "")
        for other in self._following(chain[-1]):
            longer = (*chain, other)
            if other not in chain and self._word(longer) is not None:
                best = max(best, self.longest(longer))
        return best

    def _following(self, one: int) -> list[int]:
        if one not in self._after:
            self._after[one] = [
                other
                for other in range(len(self._loops))
                if other != one and self._multiplied(one, other, _ALL) is not None
            ]
        return self._after[one]

    def _word(self, chain: tuple[int, ...]) -> str | None:
        """A word that all loops of ``chain`` read and that leads from each to the next; or None."""
        common = reduce(and_, (self._chars[one] for one in chain))
        text: str | None = ""
        for one, other in pairwise(chain):
            text = self._multiplied(one, other, common)
            if text is None:
                return None
        return text

    def _multiplied(self, one: int, other: int, chars: int) -> str | None:
        key = one, other, chars
        if key not in self._known:
            head, tail = self._loops[one], self._loops[other]
            is_open = _may_chain(self._it, head[0], tail[0])
            self._known[key] = _chained(self._it, head, tail, chars) if is_open else None
        return self._known[key]


def _may_chain(it: _Automaton, head: int, tail: int) -> bool:
    """Return whether a loop multiplies a later loop: no atomic group closes between them."""
    return set(it.states[head].guards) <= set(it.states[tail].guards)


def _loops(it: _Automaton) -> list[list[int]]:
    """The strongly connected components that have an edge."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    stack: list[int] = []
    on_stack: set[int] = set()
    found: list[list[int]] = []

    def visit(number: int) -> None:
        index[number] = low[number] = len(index)
        stack.append(number)
        on_stack.add(number)
        for other in it.states[number].next:
            if other not in index:
                visit(other)
                low[number] = min(low[number], low[other])
            elif other in on_stack:
                low[number] = min(low[number], index[other])
        if low[number] == index[number]:
            members = []
            while True:
                member = stack.pop()
                on_stack.discard(member)
                members.append(member)
                if member == number:
                    break
            if len(members) > 1 or number in it.states[number].next:
                found.append(sorted(members))

    sys.setrecursionlimit(max(sys.getrecursionlimit(), 20000))
    for number in range(len(it.states)):
        if number not in index:
            visit(number)
    return found


def _char(mask: int) -> str:
    """A character of ``mask``, a printable one if there is any."""
    chars = [char for at, char in enumerate(_ALPHABET) if mask >> at & 1]
    return min(chars, key=lambda one: (not one.isprintable(), one != "x", one))


def _ambiguous(it: _Automaton, states: list[int]) -> str | None:
    """Return a word that leads around the loop in two ways; None without such a word."""
    inside = set(states)
    for number in states:
        for other, ways in it.states[number].next.items():
            if other in inside and ways > 1:
                return _char(it.states[other].chars)
    for home in states:
        seen: dict[tuple[int, int, bool], str] = {(home, home, False): ""}
        queue = deque(seen)
        while queue:
            one, two, apart = key = queue.popleft()
            for a in it.states[one].next:
                for b in it.states[two].next:
                    both = it.states[a].chars & it.states[b].chars
                    if a not in inside or b not in inside or not both:
                        continue
                    now = (a, b, apart or a != b)
                    text = seen[key] + _char(both)
                    if now == (home, home, True):
                        return text
                    if now not in seen:
                        seen[now] = text
                        queue.append(now)
    return None


def _chained(it: _Automaton, loop: list[int], later: list[int], chars: int) -> str | None:
    """A word of ``chars`` that both loops read, and that leads from the first to the later one."""
    here, there = set(loop), set(later)
    between = _between(it, here, there)
    if not between:
        return None
    for p in loop:
        for q in later:
            seen: dict[tuple[int, int, int], str] = {(p, p, q): ""}
            queue = deque(seen)
            while queue:
                a, m, b = key = queue.popleft()
                for na in it.states[a].next.keys() & here:
                    for nm in it.states[m].next.keys() & between:
                        both = it.states[na].chars & it.states[nm].chars & chars
                        if not both:
                            continue
                        for nb in it.states[b].next.keys() & there:
                            common = both & it.states[nb].chars
                            if not common:
                                continue
                            now = (na, nm, nb)
                            text = seen[key] + _char(common)
                            if now == (p, q, q):
                                return text
                            if now not in seen:
                                seen[now] = text
                                queue.append(now)
    return None


def _between(it: _Automaton, here: set[int], there: set[int]) -> set[int]:
    """Return the states on the paths from ``here`` to ``there``; empty without a path."""
    ahead = _reached(here, lambda number: it.states[number].next)
    back: dict[int, list[int]] = {}
    for state in it.states:
        for other in state.next:
            back.setdefault(other, []).append(state.number)
    return ahead & _reached(there, lambda number: back.get(number, ())) if ahead & there else set()


def _reached(begin: set[int], following: Callable[[int], Iterable[int]]) -> set[int]:
    seen, queue = set(begin), list(begin)
    while queue:
        for other in following(queue.pop()):
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return seen
