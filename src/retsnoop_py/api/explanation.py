# SPDX-License-Identifier: BSD-2-Clause
"""What one session, whose functions were followed, says of why its call failed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Self

import msgspec

from retsnoop_py.api.failing import syscall_name
from retsnoop_py.render import json_types as to
from retsnoop_py.render import why_types as told

if TYPE_CHECKING:
    from retsnoop_py.api.sessions import Session

__all__ = ["Explanation"]


class Explanation:
    """What the session ``said`` says of its outermost call, of ``function``, giving ``error``."""

    def __init__(self, said: to.Session, function: str, error: str) -> None:
        self._said = said
        self._function = function
        self._error = error
        self._origins = {one.seq: one for one in said.paths}

    @classmethod
    def of(cls, session: Session) -> Self:
        """That of a session."""
        first = session.calls[0]
        said = msgspec.json.decode(session.as_json(), type=to.Session)
        return cls(said, first.function.name, first.error or "")

    def _chain(self) -> list[to.StackEntry]:
        return [
            one for one in self._said.stack or () if one.call is not None and not one.call.interrupt
        ]

    def origin(self) -> to.Origin | None:
        """Of the call that made the error: as long as a function gives what another one gave."""
        found = self._failing()
        return found[-1] if found else None

    def _failing(self) -> tuple[to.Origin, ...]:
        """That of the chain, and those further in that returned before the chain's end was called.

        An error that a function gave may be handed on to another one, which is the one that the
        chain ends in.
        """
        found = self._of_chain()
        origins = [found] if found is not None else []
        while found is not None and found.made == "callee" and found.callee:
            inside = [
                one
                for one in self._said.paths
                if _plain(one.function.name) == _plain(found.callee)
                and one.seq > found.seq
                and one.result.error == found.result.error
            ]
            found = inside[-1] if inside else None
            origins += [found] if found is not None else []
        return tuple(origins)

    def _of_chain(self, begin: int = 0) -> to.Origin | None:
        """The innermost one of the chain, from its call ``begin`` on, that made the error."""
        calls = [one.call for one in self._chain() if one.call is not None][begin:]
        followed = [self._origins.get(call.seq) for call in calls]
        names = {_plain(call.function.name) for call in calls}
        found: to.Origin | None = None
        for number, origin in enumerate(followed):
            if origin is None:
                continue
            found = origin
            following = calls[number + 1] if number + 1 < len(calls) else None
            if following is None or not _gives(following, origin, names):
                break
            inner = followed[number + 1]
            if inner is not None and inner.made == "argument" and not _called(following, origin):
                break
        return found

    def _below(self, origin: to.Origin) -> to.Origin | None:
        """What made another error further in, where who made one of that cannot be followed."""
        seqs = [one.call.seq for one in self._chain() if one.call is not None]
        if origin.decided is not None or origin.seq not in seqs:
            return None
        below = self._of_chain(seqs.index(origin.seq) + 1)
        return below if below is not None and below.decided is not None else None

    def asks_of(self, followed: Sequence[str]) -> str | None:
        """The function that gave the error, where that was not followed yet and has a name."""
        origin = self.origin()
        if origin is None or origin.made != "callee":
            return None
        name = origin.callee
        if name is None:  # called through a pointer: the chain knows it, if it is traced
            chain = [one.call.function for one in self._chain() if one.call is not None]
            at = chain.index(origin.function) + 1 if origin.function in chain else len(chain)
            name = chain[at].name if at < len(chain) else None
        return name if name not in followed else None

    def tested(self) -> tuple[to.Origin, ...]:
        """The calls whose results the condition tested, from outside in, as far as followed."""
        found: list[to.Origin] = []
        origin = self.origin()
        while origin is not None:
            name = _given_by(origin) if found else _tested_name(origin)
            inside = [
                one
                for one in self._said.paths
                if _plain(one.function.name) == name and one.seq > origin.seq and one not in found
            ]
            origin = inside[-1] if name and inside else None
            found += [origin] if origin else []
        return tuple(found)

    def tests(self, followed: Sequence[str]) -> str | None:
        """The function whose result the innermost known condition tests, if not followed yet."""
        known = (self.origin(), *self.tested())
        ask = _tested_name if len(known) == 1 else _given_by
        name = ask(known[-1]) if known[-1] else None
        return name if name and name not in map(_plain, followed) else None

    def call(
        self, unknown: str | None = None, deduced: to.Origin | None = None
    ) -> told.ExplainedCall:
        """The call, as it is told; ``deduced`` is what is known of a callee without a way."""
        said = self._said
        origins = self._failing()
        if deduced is None and origins and origins[-1].made == "callee":
            below = self._below(origins[-1])
            origins = (below,) if below is not None else origins
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
            tuple(arguments or ()),
            _user_place(said.user_stack or ()),
            tuple(_up_to(chain, origins)),
            origin,
            self.tested(),
            deduced,
            said.said,
            None if origin is not None else unknown,
        )


def _plain(function: str) -> str:
    """Its name without what the compiler added."""
    return function.partition(".")[0]


def _tested_name(origin: to.Origin) -> str | None:
    """The function whose result decided, where that says yes or no.

    Not where that is a pointer that was not found; but where the error was in memory then, that is
    where the function had left it.
    """
    decided = origin.decided
    if decided is None or decided.check or not decided.condition:
        return None
    if decided.condition.endswith("NULL") and origin.made != "memory":
        return None
    names = [one.name for one in decided.operands]
    called = [one[:-2] for one in names if one.endswith("()") and one[:-2].isidentifier()]
    return _plain(called[0]) if len(names) == len(called) == 1 else None


def _given_by(origin: to.Origin) -> str | None:
    """The function whose result a tested call gave, or its condition tested."""
    if origin.decided is None and origin.made == "callee" and origin.callee:
        return _plain(origin.callee)
    return _tested_name(origin)


def _gives(inner: to.Call, origin: to.Origin, traced: set[str]) -> bool:
    """Whether what a call returned is what ``inner``, which it called, gave.

    Where its way does not tell, or leads to a function that is not ``traced`` and called ``inner``
    in turn, that both returned the same error has to do.
    """
    callee = _plain(origin.callee) if origin.callee else None
    if origin.made == "unknown" or (origin.made == "callee" and callee and callee not in traced):
        return inner.result is not None and inner.result.error == origin.result.error
    if origin.made != "callee":
        return False
    return callee is None or callee == _plain(inner.function.name)


def _called(inner: to.Call, origin: to.Origin) -> bool:
    """Whether ``inner`` is what gave the error, by its name or as that which has none."""
    return origin.callee is None or _plain(origin.callee) == _plain(inner.function.name)


def _up_to(
    chain: Sequence[told.FailingChainCall], origins: Sequence[to.Origin]
) -> Iterator[told.FailingChainCall]:
    """The chain to the function that made the error; what failed below it was of no consequence.

    Of the ``origins`` the first is in the chain, the others are further in. Without any, it is not
    observed which function made the error: the chain ends above trailing calls that returned -1
    where no caller returned EPERM, for -1 is then a comparison's result.
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
    """How many calls at the end of ``chain`` returned a -1 that no caller returned."""
    is_eperm = [one.result is not None and one.result.error == "EPERM" for one in chain]
    count = next((n for n, own in enumerate(reversed(is_eperm)) if not own), 0)
    return 0 if any(is_eperm[: len(chain) - count]) else count


def _user_place(stack: Sequence[to.UserFrame]) -> to.Source | None:
    """The innermost place that is the program's own, of which the source is known."""
    for frame in reversed(stack):
        for place in frame.source:
            if place.file and place.line and "/sysdeps/" not in place.file:
                return place
    return None
