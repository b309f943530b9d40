# SPDX-License-Identifier: BSD-2-Clause
"""A session with what its views show, worked out once for every renderer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from retsnoop_py.session.branches import BranchView, resolve_branches, view_branches
from retsnoop_py.session.model import Session
from retsnoop_py.session.paths import Origin, Origins, Path
from retsnoop_py.session.stacks import Stack, Stacker, resolve_stack
from retsnoop_py.session.trace import Trace, Tracer
from retsnoop_py.settings import Settings
from retsnoop_py.symbolize.frames import Resolved, Symbolizer, UserSymbolizer


class PathView(NamedTuple):
    """The way of a call, what it means, and what resolves the addresses in it."""

    path: Path
    origin: Origin
    resolve: Callable[[int], Resolved]


NO_PATH_VIEWS: Mapping[int, PathView] = MappingProxyType({})


class Report(NamedTuple):
    """One session and its views; those that are not asked for are None.

    ``stack`` is the merged stack, outermost row first, ``trace`` the call trace, ``branches``
    what the CPU kept of its branches, ``user_stack`` the program's frames, outermost first.
    """

    session: Session
    stack: Stack | None = None
    trace: Trace | None = None
    branches: BranchView | None = None
    user_stack: tuple[Resolved, ...] = ()
    #: By the ``seq`` of the call's entry.
    paths: Mapping[int, PathView] = NO_PATH_VIEWS


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
            self._stacker.stack(session)  # of one that is known already they are resolved
        else:
            resolve_stack(session, self._symbolizer)
        resolve_branches(session, self._symbolizer)
        self._user_stack(session)
        if session.paths:
            self._paths(session)

    def report(self, session: Session) -> Report:
        """The session with what the views need."""
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
        """What the ways of its calls say, their addresses resolved."""
        found = {}
        for seq, path in session.paths.items():
            origin = self._origins.origin(path)
            if origin is not None:
                found[seq] = PathView(path, origin, self._place)
                for place in (origin.returned, origin.decided):
                    if place is not None:
                        self._place(place.address)
                for address in origin.blocks:
                    self._place(address)
        return found

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
