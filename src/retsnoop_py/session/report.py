# SPDX-License-Identifier: BSD-2-Clause
"""A session with what its views show, worked out once for every renderer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol

from retsnoop_py.kernel.functions import Function
from retsnoop_py.session.model import Session, Trace, Tracer
from retsnoop_py.session.paths import Origin, Origins, Path
from retsnoop_py.session.stacks import Stack, Stacker, is_frame_of, resolve_stack
from retsnoop_py.settings import Settings, StackSettings, ViewSettings
from retsnoop_py.symbolize.frames import Resolved, Symbolizer, UserSymbolizer

if TYPE_CHECKING:
    from retsnoop_py.model.session import ExplainedFailure


class BranchRow(NamedTuple):
    """One branch; ``number`` is its position in the CPU's records, 0 for the newest."""

    number: int
    source: Resolved
    target: Resolved


class BranchView(NamedTuple):
    """The branches to show, oldest first.

    ``error`` is the errno where the CPU gave none, ``lost``: they were taken and did not arrive.
    ``relevant`` is False where none touches the innermost traced function, so that all are there.
    """

    rows: tuple[BranchRow, ...] = ()
    error: int = 0
    lost: bool = False
    relevant: bool = True


def resolve_branches(session: Session, symbolizer: Symbolizer) -> list[BranchRow]:
    """All branches of the session, newest first."""
    branches = session.branches.branches if session.branches is not None else ()
    return [
        BranchRow(
            number,
            symbolizer.resolve(branch.source, is_return=False),
            symbolizer.resolve(branch.target, is_return=False),
        )
        for number, branch in enumerate(branches)
    ]


def view_branches(
    session: Session, symbolizer: Symbolizer, views: ViewSettings, stacks: StackSettings
) -> BranchView | None:
    """What to show of the session's branches; None if it has none and none are missing.

    The newest up to the first that leaves or reaches the innermost traced function are those of
    tracing: left out, unless the settings ask for everything.
    """
    records = session.branches
    if records is None:
        return BranchView(lost=True) if session.dropped else None
    if records.error:
        return BranchView(error=records.error)
    rows = resolve_branches(session, symbolizer)
    first: int | None = 0
    if session.calls and not (views.lbr_full or stacks.unfiltered):
        first = _first_of(rows, session.calls[-1].function)
    shown = rows[first or 0 :][: views.lbr_max]
    return BranchView(tuple(reversed(shown)), relevant=first is not None)


def _first_of(rows: Sequence[BranchRow], function: Function) -> int | None:
    for row in rows:
        if is_frame_of(function, row.source) or is_frame_of(function, row.target):
            return row.number
    return None


class PathView(NamedTuple):
    """The executed path of a call, its meaning, and a resolver for its addresses."""

    path: Path
    origin: Origin
    resolve: Callable[[int], Resolved]


NO_PATH_VIEWS: Mapping[int, PathView] = MappingProxyType({})


class Report(NamedTuple):
    """One session and its views; views that were not requested are None.

    ``stack`` is the merged stack, outermost row first, ``trace`` the call trace, ``branches``
    the CPU's branch records, ``user_stack`` the program's frames, outermost first. ``explained``
    is None as well if no failed system call was seen around the session.
    """

    session: Session
    stack: Stack | None = None
    trace: Trace | None = None
    branches: BranchView | None = None
    user_stack: tuple[Resolved, ...] = ()
    #: By the ``seq`` of the call's entry.
    paths: Mapping[int, PathView] = NO_PATH_VIEWS
    explained: ExplainedFailure | None = None


class TextWriter(Protocol):
    """A renderer whose text can be used as a template."""

    #: What is added to CLOCK_MONOTONIC before its second is looked up, ns.
    clock_ns: int

    def session(self, report: Report) -> str:
        """One session, with its line's end."""
        ...

    def template(self, report: Report) -> str | None:
        """The same of any that is like it; None: it has more to say than its numbers."""
        ...

    def word(self, function: int, value: int) -> str:
        """How a result of a function is written; if that is -1, a time up to its seconds."""
        ...

    def repeated(self, times: int) -> None:
        """Count sessions that were written from templates."""
        ...


class Written(NamedTuple):
    """A text of sessions, and the reports they are like, with how many there are of each.

    ``hidden`` are sessions between them that a filter keeps out, in the same way.
    """

    text: str
    used: list[tuple[Report, int]]
    hidden: list[tuple[Session, int]] = []  # noqa: RUF012 - of a tuple, and never changed


class Reporter:
    """Makes the reports of a stream's sessions, as ``settings`` say."""

    def __init__(
        self,
        settings: Settings,
        symbolizer: Symbolizer,
        users: UserSymbolizer,
        origins: Origins,
    ) -> None:
        self._views = settings.views
        self._stacks = settings.stacks
        self._stacker = Stacker(symbolizer, settings.stacks)
        self._symbolizer = symbolizer
        self._users = users
        self._tracer = Tracer()
        self._origins = origins

    def resolve(self, session: Session) -> None:
        """Resolve every address that any view of the session needs."""
        if self._views.call_stack:
            self._stacker.stack(session)  # a known shape has its symbols resolved
        else:
            resolve_stack(session, self._symbolizer)
        resolve_branches(session, self._symbolizer)
        self._user_stack(session)
        if session.paths:
            self._paths(session)

    def report(self, session: Session) -> Report:
        """Return the session with the requested views."""
        views = self._views
        stack = self._stacker.stack(session) if views.call_stack else None
        trace = self._tracer.trace(session) if views.call_trace else None
        paths = self._paths(session) if session.paths else NO_PATH_VIEWS
        if views.lbr is None and not views.user_stack:
            return Report(session, stack, trace, None, (), paths)
        branches = None
        if views.lbr is not None:
            branches = view_branches(session, self._symbolizer, views, self._stacks)
        user_stack = self._user_stack(session) if views.user_stack else ()
        return Report(session, stack, trace, branches, user_stack, paths)

    def _paths(self, session: Session) -> Mapping[int, PathView]:
        """Return the meaning of the session's paths, with resolved addresses."""
        found = {}
        for seq, path in self._handed(session).items():
            origin = self._origins.origin(path)
            if origin is not None:
                found[seq] = PathView(path, origin, self._place)
                for place in (origin.returned, origin.decided):
                    if place is not None:
                        self._place(place.address)
                for address in origin.blocks:
                    self._place(address)
        return found

    def _handed(self, session: Session) -> Mapping[int, Path]:
        """Return the session's paths, with ``handed`` where a callee returned its argument."""
        paths = dict(session.paths)
        for inner, outer in pairwise(reversed(session.calls)):
            path, below = paths.get(outer.seq), paths.get(inner.seq)
            given = self._origins.origin(below) if below is not None else None
            if path is None or given is None or not given.argument:
                continue
            own = self._origins.origin(path)
            if own is not None and own.callee == inner.function.name:
                paths[outer.seq] = path._replace(handed=given.argument)
        return paths

    def _place(self, address: int) -> Resolved:
        return self._symbolizer.resolve(address, is_return=False)

    def pass_over(self, session: Session) -> None:
        """It is not shown: its calls are left to the next report of the same session."""
        if session.earlier is not None:
            session.earlier.wait(session.events)

    def _user_stack(self, session: Session) -> tuple[Resolved, ...]:
        resolve, tgid, here = self._users.resolve_user, session.tgid, session.proc_tgid
        name, stack = session.proc_comm, session.user_stack
        return tuple(resolve(tgid, address, here, name) for address in reversed(stack))
