# SPDX-License-Identifier: BSD-2-Clause
"""The sessions of one recording, counted: one counter for each different chain of failures.

That is what keeps a comparison small, however long the recordings are. What is counted is what two
kernels can have in common: failing chains, call trees, ways.

Addresses, times, descriptors and what the compiler adds to names differ from run to run and are
left out; so are calls of functions that only one of two runs traced.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from retsnoop_py.api.sessions import Event, Result, Session, Stream
from retsnoop_py.errors import DataError
from retsnoop_py.render.difference import ChainCall, DepartureStep
from retsnoop_py.render.json_types import CodePlace, Origin
from retsnoop_py.session.caches import BoundedCache

if TYPE_CHECKING:
    from retsnoop_py.recording.replay import Replay
    from retsnoop_py.session.counts import Counts
    from retsnoop_py.session.report import Report
    from retsnoop_py.session.stream_header import StreamHeader
    from retsnoop_py.settings import Settings


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


#: Different chains of a recording that are kept; calls of further ones are only counted.
_MOST_CHAINS = 20_000
#: Different call trees that are kept of a chain, and steps of all those of a recording.
_MOST_TREES = 16
_ALL_STEPS = 1 << 21
#: Sessions with so many calls together are remembered.
_SESSION_ROOM = 1 << 16
#: Is told how many calls have been read.
Heard = Callable[[int], None]
_K = TypeVar("_K")


class Counted:
    """How often a chain was seen, one that it stands for, and what its calls looked like."""

    __slots__ = ("calls", "count", "error", "has_more", "trees", "ways")

    def __init__(self, calls: tuple[ChainCall, ...], error: str) -> None:
        self.calls = calls
        self.error = error
        self.count = 0
        self.trees: Counter[Steps] = Counter()
        self.ways: Counter[Steps] = Counter()
        #: Not all are kept.
        self.has_more = False


class Tally:
    """Counts the sessions of one recording; it is the pipeline's sink."""

    def __init__(self, projection: Projection, heard: Heard) -> None:
        self._projection = projection
        self._heard = heard
        self._stream: Stream | None = None
        self._room = _ALL_STEPS
        self._known_sessions: BoundedCache[object, tuple[Chain, Steps | None]]
        self._known_sessions = BoundedCache(_SESSION_ROOM)
        #: Those that fail, by what both recordings have of them.
        self.chains: dict[Key, Counted] = {}
        #: Those that do not fail, by their entry function.
        self.successes: dict[str, Counted] = {}
        #: Those that fail in what the other one does not trace.
        self.unseen: dict[tuple[ChainCall, ...], Counted] = {}
        self.calls = self.failed = self.uncounted = 0
        self.warnings: list[str] = []

    @cached_property
    def errors(self) -> dict[str, Counter[str]]:
        """How many calls of each entry function failed, by their errors; when all is read."""
        found: dict[str, Counter[str]] = {}
        for key, counted in self.chains.items():
            found.setdefault(key[0][0], Counter())[counted.error] += counted.count
        return found

    def read(self, recording: Replay) -> str | None:
        """Count all of it; where and why it is damaged, None if it is not."""
        try:
            for _ in recording.play(self.begin):
                self._heard(self.calls)
        except DataError as error:
            return error.message
        return None

    def begin(self, header: StreamHeader, settings: Settings) -> Tally:
        """What the sessions that come are of."""
        self._stream = Stream(header, settings)
        return self

    def show(self, reports: Sequence[Report]) -> None:
        """Count them."""
        assert self._stream is not None
        for report in reports:
            session = Session(report, self._stream)
            if session.report == "final":
                self._add(session, *self._seen(report, session))

    def say(self, line: str) -> None:
        """Keep the warnings, and what belongs to them: what was lost."""
        if not line.startswith("NOTE"):
            self.warnings.append(line)

    def end(self, lost: Mapping[str, int]) -> None:
        """Nothing more: losses are among the warnings."""

    def conclude(self, counts: Counts) -> None:
        """Nothing more: what is compared was counted here."""

    def abandon(self) -> None:
        """Nothing is waiting."""

    def _seen(self, report: Report, session: Session) -> tuple[Chain, Steps | None]:
        """Its chain and its call tree; those of sessions with the same calls and results once."""
        calls, trace = report.session.calls, report.trace
        key = (
            tuple([(call.func_id, call.result, call.finished) for call in calls]),
            None if trace is None else (trace.shape, trace.events.results),
        )
        known = self._known_sessions.get(key)
        if known is not None:
            return known
        tree = None if session.trace is None else self._projection.tree(session.trace)
        found = self._projection.chain(session), tree
        weight = len(calls) + (0 if trace is None else len(trace.shape.rows))
        return self._known_sessions.keep(key, found, weight)

    def _add(self, session: Session, chain: Chain, tree: Steps | None) -> None:
        self.calls += 1
        self.failed += session.failed
        counted = self._place(chain, has_failed=session.failed)
        if counted is None:
            self.uncounted += session.failed
            return
        counted.count += 1
        if self._stream is not None and self._stream.settings.views.call_trace:
            self._keep(counted, counted.trees, tree or ())
        if session.paths:
            self._keep(counted, counted.ways, self._projection.way(session.paths))

    def _place(self, chain: Chain, *, has_failed: bool) -> Counted | None:
        """Where to count it; None if there are too many already."""
        if not has_failed:
            if not chain.key:
                return None
            return self.successes.setdefault(chain.key[0][0], Counted(chain.calls, ""))
        if chain.error is None:
            return self._known(self.unseen, chain.calls, chain)
        return self._known(self.chains, chain.key, chain)

    def _known(self, found: dict[_K, Counted], key: _K, chain: Chain) -> Counted | None:
        known = found.get(key)
        if known is None and len(self.chains) + len(self.unseen) < _MOST_CHAINS:
            known = found[key] = Counted(chain.calls, chain.error or chain.own_error)
        return known

    def _keep(self, counted: Counted, kept: Counter[Steps], steps: Steps) -> None:
        if steps in kept:
            kept[steps] += 1
        elif steps and len(kept) < _MOST_TREES and len(steps) <= self._room:
            kept[steps] = 1
            self._room -= len(steps)
        else:
            counted.has_more = True
