# SPDX-License-Identifier: BSD-2-Clause
"""The sessions of one recording, counted: one counter for each different chain of failures.

That is what keeps a comparison small, however long the recordings are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from retsnoop_py.api.chains import Chain, Key, Projection, Steps
from retsnoop_py.api.sessions import Session, Stream
from retsnoop_py.errors import DataError
from retsnoop_py.render.difference import ChainCall
from retsnoop_py.session.caches import BoundedCache

if TYPE_CHECKING:
    from retsnoop_py.recording.replay import Replay
    from retsnoop_py.session.report import Report
    from retsnoop_py.session.stream_header import StreamHeader
    from retsnoop_py.settings import Settings

__all__ = ["Counted", "Heard", "Tally"]

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
