# SPDX-License-Identifier: BSD-2-Clause
"""Explain a failed call from a session with followed functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Self

from retsnoop_py.api.failing import syscall_name
from retsnoop_py.model import session as to
from retsnoop_py.model import why as told

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session

__all__ = ["Explanation"]


class Explanation:
    """The explanation of session ``said``: its outermost call, of ``function``, gave ``error``."""

    def __init__(self, said: to.Session, function: str, error: str) -> None:
        self.session = said
        self._function = function
        self._error = error
        self._origins = {one.seq: one for one in said.paths}

    @classmethod
    def of(cls, session: Session) -> Self:
        """Return the explanation of a session."""
        first = session.calls[0]
        return cls(session.record, first.function.name, first.error or "")

    def _chain(self) -> list[to.StackEntry]:
        return [
            one
            for one in self.session.stack or ()
            if one.call is not None and not one.call.interrupt
        ]

    def origin(self) -> to.Origin | None:
        """Return the origin in the function that made the error, possibly a callee of callees."""
        found = self._made()
        return found[-1].origin if found else None

    def _made(self) -> list[_Link]:
        """Return the chain's function that made the error, and the functions it got the error from.

        A function may pass the error on to another one, where the chain ends. Return an empty list
        if no function of the chain was followed.
        """
        found = self._of_chain()
        links = [found] if found is not None else []
        while found is not None and found.origin.made == "callee" and found.origin.callee:
            origin = found.origin
            inside = [
                one
                for one in self.session.paths
                if _plain(one.function.name) == _plain(origin.callee or "")
                and one.seq > origin.seq
                and one.result.error == origin.result.error
            ]
            found = _Link(inside[-1], found.is_seen and len(inside) == 1) if inside else None
            links += [found] if found is not None else []
        return links

    def _of_chain(self, begin: int = 0) -> _Link | None:
        """Return the innermost call of the chain that made the error, from index ``begin`` on.

        A function that was not followed is skipped if the next one returned the same error. A
        function that returned something else may not be on the path of the value.
        """
        calls = [one.call for one in self._chain() if one.call is not None][begin:]
        names = {_plain(call.function.name) for call in calls}
        found: _Link | None = None
        is_seen = True
        for number, call in enumerate(calls):
            origin = self._origins.get(call.seq)
            if origin is not None:
                found = _Link(origin, is_seen)
            following = calls[number + 1] if number + 1 < len(calls) else None
            if following is None or not _hands_on(call, following, origin, names):
                break
            is_seen = is_seen and (origin is None or origin.made == "callee")
            inner = self._origins.get(following.seq)
            if (
                origin is not None
                and inner is not None
                and inner.made == "argument"
                and not _called(following, origin)
            ):
                break
        return found

    def _below(self, origin: to.Origin) -> _Link | None:
        """Return the origin of a different error further in.

        It is used if the maker of the error cannot be followed. Only calls inside the function that
        returned the error count: later calls of its caller may be a clean-up.
        """
        seqs = [one.call.seq for one in self._chain() if one.call is not None]
        if origin.decided is not None or origin.seq not in seqs:
            return None
        if _plain(origin.callee or "") not in self._frames_below(origin.seq):
            return None
        below = self._of_chain(seqs.index(origin.seq) + 1)
        return below if below is not None and below.origin.decided is not None else None

    def _frames_below(self, seq: int) -> set[str]:
        """Return the functions on the kernel's stack from a traced call to the next traced one."""
        found: set[str] = set()
        is_below = False
        for one in self.session.stack or ():
            if one.call is not None and not one.call.interrupt:
                if is_below:
                    break
                is_below = one.call.seq == seq
            if is_below and one.frame is not None:
                names = [one.frame.symbol, *(place.function for place in one.frame.source)]
                found.update(_plain(name) for name in names if name)
        return found

    def asks_of(self, followed: Sequence[str]) -> str | None:
        """Return the function that gave the error, if it has a name and was not followed yet."""
        origin = self.origin()
        if origin is None or origin.made != "callee":
            return None
        name = origin.callee
        if name is None:  # called through a pointer: a traced callee is in the chain
            chain = [one.call.function for one in self._chain() if one.call is not None]
            at = chain.index(origin.function) + 1 if origin.function in chain else len(chain)
            name = chain[at].name if at < len(chain) else None
        return name if name not in followed else None

    def tested(self) -> tuple[to.Origin, ...]:
        """Return the followed calls with results that the condition tested, from outside in."""
        found: list[to.Origin] = []
        origin = self.origin()
        while origin is not None:
            name = _given_by(origin) if found else _tested_name(origin)
            inside = [
                one
                for one in self.session.paths
                if _plain(one.function.name) == name
                and one.seq > origin.seq
                and one not in found
                and _fits(one, origin)
            ]
            origin = inside[-1] if name and inside else None
            found += [origin] if origin else []
        return tuple(found)

    def tests(self, followed: Sequence[str]) -> str | None:
        """Return the function with the result that the innermost condition tests.

        Return None if the function was already followed.
        """
        known = (self.origin(), *self.tested())
        ask = _tested_name if len(known) == 1 else _given_by
        name = ask(known[-1]) if known[-1] else None
        return name if name and name not in map(_plain, followed) else None

    def needed(self, followed: Sequence[str]) -> list[str]:
        """Return the globs of ``followed`` that lead from the error to the innermost condition.

        Functions that only returned their argument are included. Without their paths, the next run
        would request them again.
        """
        handed = (one for one in self._origins.values() if one.made == "argument")
        origins = (*(one.origin for one in self._made()), *self.tested(), *handed)
        names = {_plain(one.function.name) for one in origins}
        return [glob for glob in followed if _plain(glob.partition("[")[0]) in names]

    def call(
        self, unknown: str | None = None, deduced: to.Origin | None = None
    ) -> told.ExplainedCall:
        """Return the explained call; ``deduced`` is the origin in a callee without a path."""
        said = self.session
        links = self._made()
        if deduced is None and links and links[-1].origin.made == "callee":
            below = self._below(links[-1].origin)
            links = [_Link(below.origin, is_seen=False)] if below is not None else links
        origins = tuple(one.origin for one in links)
        origin = origins[-1] if origins else None
        chain = [
            told.FailingChainCall(one.call.function, one.call.result, one.frame)
            for one in self._chain()
            if one.call is not None
        ]
        arguments = next(
            (one.call.arguments for one in self._chain() if one.call and one.call.arguments), ()
        )
        return told.ExplainedCall(
            syscall_name(self._function),
            self._error,
            said.tid,
            said.pid,
            said.thread,
            said.process,
            said.end,
            _certainty(links, self.tested(), deduced),
            tuple(arguments or ()),
            _user_place(said.user_stack or ()),
            tuple(_up_to(chain, origins)),
            origin,
            self.tested(),
            deduced,
            said.said,
            unknown if origin is None else _not_followed(origin, deduced),
        )


class _Link(NamedTuple):
    """A function that passed on or made the error; ``is_seen``: all outer links were observed."""

    origin: to.Origin
    is_seen: bool


def _certainty(
    links: Sequence[_Link], tested: Sequence[to.Origin], deduced: to.Origin | None
) -> told.Certainty:
    """Return how certain the condition is.

    If a loop rejected all elements, the printed condition is that of one of them: it is inferred
    that this element matters most. A condition that recorded values contradict is inferred, too.
    """
    if deduced is not None:
        return "inferred" if deduced.decided is not None else "unknown"
    if not links or links[-1].origin.decided is None or links[-1].origin.made == "callee":
        return "unknown"
    decisions = [one.decided for one in (links[-1].origin, *tested)]
    is_open = any(one is not None and (one.elements or one.refuted) for one in decisions)
    return "observed" if links[-1].is_seen and not is_open else "inferred"


def _not_followed(origin: to.Origin, deduced: to.Origin | None) -> str | None:
    """Return where the unreached condition is; None if it was reached, or if that is unknown."""
    if origin.made != "callee" or deduced is not None:
        return None
    name = f"{origin.callee}()" if origin.callee else "a function called through a pointer"
    return f"it is inside {name}, which was not followed"


def _plain(function: str) -> str:
    """Return the function's name without the compiler's suffixes."""
    return function.partition(".")[0]


def _tested_name(origin: to.Origin) -> str | None:
    """Return the function with the boolean result that decided, or None.

    Return None for a pointer that was NULL, except if the error was then in memory: the function
    had left it there.
    """
    decided = origin.decided
    if decided is None or decided.check or not decided.condition:
        return None
    if decided.condition.endswith("NULL") and origin.made != "memory":
        return None
    names = [one.name for one in _last_operands(decided)]
    called = [one[:-2] for one in names if one.endswith("()") and one[:-2].isidentifier()]
    return _plain(called[0]) if len(names) == len(called) == 1 else None


def _last_operands(decided: to.Decision) -> list[to.ConditionOperand]:
    """Return the operands of the last test of the condition: ``B`` in ``A && B``."""
    last = (decided.condition or "").rpartition(" && ")[2]
    return [
        one
        for one in decided.operands
        if re.search(rf"(?<![\w>.]){re.escape(one.name)}(?!\w)", last)
    ]


def _fits(tested: to.Origin, origin: to.Origin) -> bool:
    """Return True if a call returned the value that the condition of ``origin`` read.

    Return True also if no value was recorded.
    """
    operands = _last_operands(origin.decided) if origin.decided is not None else []
    if not operands:
        return True
    value = operands[0].value
    mask = 0xFF if tested.result.text in ("true", "false") else 0xFFFFFFFF
    return value is None or value & mask == tested.result.raw & mask


def _given_by(origin: to.Origin) -> str | None:
    """Return the function with the result that a tested call returned, or that it tested."""
    if origin.decided is None and origin.made == "callee" and origin.callee:
        return _plain(origin.callee)
    return _tested_name(origin)


def _hands_on(outer: to.Call, inner: to.Call, origin: to.Origin | None, traced: set[str]) -> bool:
    """Return True if the result of ``outer`` is the result of ``inner``, which it called.

    If the path of ``outer`` is unknown, or leads through a function that is not ``traced`` and
    called ``inner``, both must have returned the same error.
    """
    if outer.result is None or inner.result is None:
        return origin is None
    is_alike = inner.result.error == outer.result.error
    if origin is None:
        return is_alike
    callee = _plain(origin.callee) if origin.callee else None
    if origin.made == "unknown" or (origin.made == "callee" and callee and callee not in traced):
        return is_alike
    if origin.made != "callee":
        return False
    return callee is None or callee == _plain(inner.function.name)


def _called(inner: to.Call, origin: to.Origin) -> bool:
    """Return True if ``inner`` gave the error, by its name, or if the callee has no name."""
    return origin.callee is None or _plain(origin.callee) == _plain(inner.function.name)


def _up_to(
    chain: Sequence[told.FailingChainCall], origins: Sequence[to.Origin]
) -> Iterator[told.FailingChainCall]:
    """Yield the chain down to the function that made the error; deeper failures do not matter.

    The first of ``origins`` is in the chain, the others are further in. Without origins, the
    function that made the error is unknown. The chain then ends before trailing calls that returned
    -1, if no caller returned EPERM: that -1 is the result of a comparison.
    """
    if not origins:
        chain = chain[: len(chain) - _comparisons(chain)]
    for one in chain:
        yield one
        if origins and one.function == origins[0].function:
            break
    for origin in origins[1:]:
        yield told.FailingChainCall(origin.function, origin.result)


def _comparisons(chain: Sequence[told.FailingChainCall]) -> int:
    """Return how many calls at the end of ``chain`` returned a -1 that no caller returned."""
    is_eperm = [one.result is not None and one.result.error == "EPERM" for one in chain]
    count = next((n for n, own in enumerate(reversed(is_eperm)) if not own), 0)
    return 0 if any(is_eperm[: len(chain) - count]) else count


def _user_place(stack: Sequence[to.UserFrame]) -> to.Source | None:
    """Return the innermost place in the program's own code with a known source line."""
    for frame in reversed(stack):
        for place in frame.source:
            if place.file and place.line and "/sysdeps/" not in place.file:
                return place
    return None
