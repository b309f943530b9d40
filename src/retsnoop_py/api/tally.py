# SPDX-License-Identifier: BSD-2-Clause
"""Count the sessions of a recording: a counter for each different chain of failures.

This keeps a comparison small, even for long recordings. The counted data are those that two kernels
can have in common: failing chains, call trees, paths. Addresses, times, descriptors and the
compiler's suffixes of names differ from run to run, so they are removed. Calls of functions that
only one of the runs traced are removed as well.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from retsnoop_py.api.sessions import Session, Stream
from retsnoop_py.errors import DataError
from retsnoop_py.model.difference import ChainCall, DepartureStep
from retsnoop_py.model.session import (
    CodePlace,
    Entered,
    Event,
    Missing,
    Origin,
    ProbeHit,
    Result,
    ToldBefore,
)
from retsnoop_py.session.caches import BoundedCache

if TYPE_CHECKING:
    from retsnoop_py.recording.replay import Replay
    from retsnoop_py.session.counts import Counts
    from retsnoop_py.session.report import Report
    from retsnoop_py.session.stream_header import StreamHeader
    from retsnoop_py.settings import Settings


#: Longer call trees and paths are compared up to this step.
MOST_STEPS = 20_000
#: Suffixes of GCC and LLVM for a function that they cloned, split or moved.
_SUFFIX = re.compile(r"(?:\.(?:isra|constprop|part|cold|llvm|lto_priv)(?:\.[0-9]+)*)+$")
_UNFINISHED = "..."

#: The identity of a chain: names and results, outermost first.
Key = tuple[tuple[str, str], ...]
#: Steps by their numbers.
Steps = tuple[int, ...]


def plain_name(name: str) -> str:
    """Return ``name`` without the compiler's suffixes: ``foo.isra.0.cold`` is ``foo``."""
    return _SUFFIX.sub("", name) if "." in name else name


def plain_result(result: Result | None) -> str:
    """Return a result in the form that is equal in every run.

    See :mod:`retsnoop_py.model.difference`.
    """
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

    ``calls`` are all calls. ``key`` are the calls that the other run would also have, from the
    first common entry function on. ``error`` is the outermost error in ``key``. Without such an
    error, it is None, and the chain cannot be searched in the other run. ``own_error`` is the
    outermost error of all calls.
    """

    calls: tuple[ChainCall, ...]
    key: Key
    error: str | None
    own_error: str


class Projection:
    """Reduces sessions to data that both runs can have; ``shared`` and ``entries`` are plain names.

    Steps of call trees and paths are numbers, common to both runs. ``same_code``: the kernels are
    the same build, so blocks can be compared; else only conditions are compared.
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
        """Return the step with this number."""
        return self._steps[number]

    def chain(self, session: Session) -> Chain:
        """Return the chain of calls that the session shows."""
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
        """Return a shared object for equal calls: there are many, and they are kept."""
        call = ChainCall(name, result, failed, name in self._shared)
        known = self._calls.get(call)
        if known is None:
            known = self._calls[call] = call
            self._pairs[call] = name, result
        return known

    def tree(self, events: Iterable[Event]) -> Steps | None:
        """Return the call tree; None if a part is missing."""
        steps: list[int] = []
        running: list[str] = []  # by depth; empty for a skipped call
        for event in events:
            if isinstance(event, (Missing, ToldBefore)):
                return None
            if isinstance(event, ProbeHit) or event.interrupt:
                continue
            if len(steps) >= MOST_STEPS:
                break
            at, name = event.depth - 1, plain_name(event.function.name)
            if isinstance(event, Entered):
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
        """Return the paths through the followed functions, concatenated."""
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
        shown = plain_result(result)
        made = f"returned {shown}" + (f", which {origin.callee}() gave" if origin.callee else "")
        place = decided.place if decided is not None else origin.returned
        condition = decided.condition if decided is not None else None
        text = f"{made} because {condition}" if condition else made
        where = "" if place is None else _place(place)
        return self._number("decided", name, text, where)

    def _number(self, kind: str, name: str, text: str = "", place: str = "") -> int:
        """Return the number of a step; ``place`` is only printed, because it differs by build."""
        key = kind, name, text
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._steps)
            self._steps.append(DepartureStep(kind, name, text, place))  # type: ignore[arg-type]
        return number


def _place(place: CodePlace) -> str:
    """Return a place as file and line; empty without DWARF."""
    if place.file is None:
        return ""
    return f"{place.file}:{place.line}" + (f":{place.column}" if place.column else "")


#: Maximum number of chains per recording; calls of further chains are only counted.
_MOST_CHAINS = 20_000
#: Maximum number of call trees per chain, and of steps in all call trees of a recording.
_MOST_TREES = 16
_ALL_STEPS = 1 << 21
#: Maximum number of calls in all cached sessions.
_SESSION_ROOM = 1 << 16
#: Gets the number of calls that have been read.
Heard = Callable[[int], None]
_K = TypeVar("_K")


class Counted:
    """The number of a chain's sessions, an example of its calls, and their call trees."""

    __slots__ = ("calls", "count", "error", "has_more", "trees", "ways")

    def __init__(self, calls: tuple[ChainCall, ...], error: str) -> None:
        self.calls = calls
        self.error = error
        self.count = 0
        self.trees: Counter[Steps] = Counter()
        self.ways: Counter[Steps] = Counter()
        #: True if some call trees were not kept.
        self.has_more = False


class Tally:
    """Counts the sessions of a recording, as the sink of its pipeline."""

    def __init__(self, projection: Projection, heard: Heard) -> None:
        self._projection = projection
        self._heard = heard
        self._stream: Stream | None = None
        self._room = _ALL_STEPS
        self._known_sessions: BoundedCache[object, tuple[Chain, Steps | None]]
        self._known_sessions = BoundedCache(_SESSION_ROOM)
        #: Failing sessions, by the part that both recordings can have.
        self.chains: dict[Key, Counted] = {}
        #: Successful sessions, by their entry function.
        self.successes: dict[str, Counted] = {}
        #: Sessions with failures only in functions that the other run does not trace.
        self.unseen: dict[tuple[ChainCall, ...], Counted] = {}
        self.calls = self.failed = self.uncounted = 0
        self.warnings: list[str] = []

    @cached_property
    def errors(self) -> dict[str, Counter[str]]:
        """The failed calls of each entry function by error; valid when all is read."""
        found: dict[str, Counter[str]] = {}
        for key, counted in self.chains.items():
            found.setdefault(key[0][0], Counter())[counted.error] += counted.count
        return found

    def read(self, recording: Replay) -> str | None:
        """Count the whole recording; return a description of its damage, or None."""
        try:
            for _ in recording.play(self.begin):
                self._heard(self.calls)
        except DataError as error:
            return error.message
        return None

    def begin(self, header: StreamHeader, settings: Settings) -> Tally:
        """Start the stream that the next sessions belong to."""
        self._stream = Stream(header, settings)
        return self

    def show(self, reports: Sequence[Report]) -> None:
        """Count the sessions."""
        assert self._stream is not None
        for report in reports:
            session = Session(report, self._stream)
            if session.report == "final":
                self._add(session, *self._seen(report, session))

    def say(self, line: str) -> None:
        """Keep the warnings, including losses."""
        if not line.startswith("NOTE"):
            self.warnings.append(line)

    def end(self, lost: Mapping[str, int]) -> None:
        """Do nothing: losses are in the warnings."""

    def conclude(self, counts: Counts) -> None:
        """Do nothing: the calls were already counted."""

    def abandon(self) -> None:
        """Do nothing: no session is waiting."""

    def _seen(self, report: Report, session: Session) -> tuple[Chain, Steps | None]:
        """Return a session's chain and call tree; computed once for equal calls and results."""
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
        """Return the counter for a chain; None if there are too many chains."""
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
