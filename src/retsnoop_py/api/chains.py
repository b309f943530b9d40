# SPDX-License-Identifier: BSD-2-Clause
"""A session as what two kernels can have in common: failing chains, call trees, ways.

Addresses, times, descriptors and what the compiler adds to names differ from run to run and are
left out; so are calls of functions that only one of two runs traced.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from retsnoop_py.api.sessions import Event, Result, Session
from retsnoop_py.render.difference import ChainCall, DepartureStep
from retsnoop_py.render.json_types import CodePlace, Origin

__all__ = ["MOST_STEPS", "Chain", "Projection", "Steps", "plain_name", "plain_result"]

#: Longer call trees and ways are compared up to here.
MOST_STEPS = 20_000
#: What GCC and LLVM put behind the name of a function they cloned, split or moved.
_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm|lto_priv)(?:\.[0-9]+)*)+$")
_UNFINISHED = "..."

#: What makes two chains the same: names and results, outermost first.
Key = tuple[tuple[str, str], ...]
#: Steps by their numbers.
Steps = tuple[int, ...]


def plain_name(name: str) -> str:
    """``name`` without the compiler's suffixes: ``foo.isra.0.cold`` is ``foo``."""
    return _SUFFIX.sub("", name) if "." in name else name


def plain_result(result: Result | None) -> str:
    """What of a result says the same in every run: see :mod:`retsnoop_py.render.difference`."""
    if result is None:
        return _UNFINISHED
    text = result.text
    if result.error is not None or text.startswith("-E"):
        return text
    if result.value is None:
        return "pointer" if text.startswith("0x") else text
    if not (text[:1].isdigit() or text[:1] == "-") or text == "0":
        return text
    return ">0" if result.value > 0 else "<0" if result.value else "0"


class Chain(NamedTuple):
    """The chain of calls of a session.

    ``calls`` are all, ``key`` those that the other run would have as well, from the first entry
    function of both on, ``error`` the outermost error among these, None if there is none: then
    it cannot be looked for in the other run. ``own_error`` is the outermost of all.
    """

    calls: tuple[ChainCall, ...]
    key: Key
    error: str | None
    own_error: str


class Projection:
    """Makes of sessions what both runs can have; ``shared`` and ``entries`` are plain names.

    Steps of call trees and ways are numbers, the same for both runs. ``same_code``: the kernels
    are the same build, so that blocks can be compared one by one; else only what was decided is.
    """

    def __init__(self, shared: frozenset[str], entries: frozenset[str], *, same_code: bool) -> None:
        self._shared = shared
        self._entries = entries
        self._same_code = same_code
        self._numbers: dict[tuple[str, str, str], int] = {}
        self._steps: list[DepartureStep] = []
        self._calls: dict[ChainCall, ChainCall] = {}
        self._pairs: dict[ChainCall, tuple[str, str]] = {}

    def step(self, number: int) -> DepartureStep:
        """The step of that number."""
        return self._steps[number]

    def chain(self, session: Session) -> Chain:
        """The chain of calls that the session shows."""
        calls: list[ChainCall] = []
        errors: list[str | None] = []
        for call in session.calls:
            name, error = plain_name(call.function.name), call.error
            is_part = bool(calls) and calls[-1].function == name and call.function.name != name
            if is_part:  # of its caller, which the compiler split
                continue
            calls.append(self._call(name, plain_result(call.result), error is not None))
            errors.append(error)
        first = next((at for at, c in enumerate(calls) if c.function in self._entries), len(calls))
        kept = [(c, e) for c, e in zip(calls[first:], errors[first:], strict=True) if c.both]
        return Chain(
            tuple(calls),
            tuple([self._pairs[call] for call, _ in kept]),
            next((error for _, error in kept if error), None),
            next(filter(None, errors), ""),
        )

    def _call(self, name: str, result: str, failed: bool) -> ChainCall:
        """One object for all equal calls: chains have many, and are kept."""
        call = ChainCall(name, result, failed, name in self._shared)
        known = self._calls.get(call)
        if known is None:
            known = self._calls[call] = call
            self._pairs[call] = name, result
        return known

    def tree(self, events: Iterable[Event]) -> Steps | None:
        """The call tree, None where some of it is missing."""
        steps: list[int] = []
        running: list[str] = []  # by depth; empty for a call that is left out
        for event in events:
            if event.kind in ("missing", "told_before"):
                return None
            if event.function is None or event.interrupt:
                continue
            if len(steps) >= MOST_STEPS:
                break
            at, name = event.depth - 1, plain_name(event.function.name)
            if event.kind == "entry":
                running[at:] = [""] * (at - len(running))
                known = name in self._shared and (bool(steps) or name in self._entries)
                caller = next((one for one in reversed(running) if one), "")
                is_part = caller == name and event.function.name != name
                running.append(name if known and not is_part else "")
                if running[-1]:
                    steps.append(self._number("entry", name))
            elif at < len(running):
                if running[at] == name:
                    steps.append(self._number("exit", name, plain_result(event.result)))
                del running[at:]
        return tuple(steps)

    def way(self, origins: Iterable[Origin]) -> Steps:
        """The ways through the functions that were followed, one behind the other."""
        steps: list[int] = []
        for origin in origins:
            name = plain_name(origin.function.name)
            if self._same_code:
                steps += [
                    self._number("block", name, f"+{place.offset:#x}", _place(place))
                    for place in origin.path[: MOST_STEPS - len(steps)]
                ]
            steps.append(self._decided(name, origin))
        return tuple(steps)

    def _decided(self, name: str, origin: Origin) -> int:
        result, decided = origin.result, origin.decided
        shown = plain_result(Result(0, result.text, result.value, result.error))
        made = f"returned {shown}" + (f", which {origin.callee}() gave" if origin.callee else "")
        place = decided.place if decided is not None else origin.returned
        condition = decided.condition if decided is not None else None
        text = f"{made} because {condition}" if condition else made
        where = "" if place is None else _place(place)
        return self._number("decided", name, text, where)

    def _number(self, kind: str, name: str, text: str = "", place: str = "") -> int:
        """The number of a step; ``place`` is only told, those of two builds differ."""
        key = kind, name, text
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._steps)
            self._steps.append(DepartureStep(kind, name, text, place))  # type: ignore[arg-type]
        return number


def _place(place: CodePlace) -> str:
    """A place as file and line; empty without DWARF."""
    if place.file is None:
        return ""
    return f"{place.file}:{place.line}" + (f":{place.column}" if place.column else "")
