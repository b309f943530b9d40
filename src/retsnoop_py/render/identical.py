# SPDX-License-Identifier: BSD-2-Clause
"""Stacks that repeat, on a terminal: each is printed a few times and then counted.

Two stacks are identical if their process names, calls, results, kernel addresses and kernel
messages are equal. Times and process ids may differ. Every stack is printed if the user selected
more than stacks (arguments, call traces, branches, executed paths) or durations (``-L``).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TextIO

from retsnoop_py.render.formats import UNFINISHED, format_result
from retsnoop_py.session.losses import may_warn
from retsnoop_py.session.model import Call, Session, SessionKind
from retsnoop_py.session.report import Report
from retsnoop_py.session.stream_header import StreamHeader
from retsnoop_py.settings import OutputFormat, Settings
from retsnoop_py.text import counted, printable

__all__ = ["IdenticalStacks"]

#: Number of times that a stack is printed.
PRINTED = 3
#: Maximum number of different stacks that are counted. Further stacks are always printed.
_MOST_KEPT = 10_000
#: Maximum number of stacks in the table at the end.
_MOST_LISTED = 20
_NOTICES = frozenset(10**power for power in range(1, 10))


class _Kind:
    """A stack and the number of its occurrences."""

    __slots__ = ("count", "session")

    def __init__(self, session: Session) -> None:
        self.count = 0
        self.session = session

    def text(self) -> str:
        """Return the process, the entry function and the innermost function, with their results."""
        outer, *others = self.session.calls
        parts = [_with_result(outer)]
        parts += ["..."] if len(others) > 1 else []
        parts += [_with_result(others[-1])] if others else []
        return printable(f"{self.session.proc_comm}: {' > '.join(parts)}")


def _with_result(call: Call) -> str:
    result = format_result(call.function, call.result) if call.finished else UNFINISHED
    return f"{call.function.name} {result}"


class IdenticalStacks:
    """Select the stacks to print. ``repeated``: number of stacks that were counted instead."""

    def __init__(self) -> None:
        self.repeated = 0
        self._kinds: dict[Hashable, _Kind] = {}
        self._newest: _Kind

    @classmethod
    def of(cls, header: StreamHeader, settings: Settings, out: TextIO) -> IdenticalStacks | None:
        """Return None if every stack is to be printed, as on anything but a terminal."""
        views = settings.views
        has_more = (
            *(views.call_trace, views.lbr is not None, views.user_stack, views.interim),
            views.explain,
            *(settings.args.capture, bool(header.paths), bool(settings.filters.longer_ns)),
            *(settings.each, bool(settings.stop_count), views.format is not OutputFormat.TEXT),
        )
        return cls() if settings.counts and out.isatty() and not any(has_more) else None

    def admits(self, report: Report) -> bool:
        """Count a stack. Return True if it must be printed."""
        session = report.session
        if session.kind is not SessionKind.FINAL or may_warn(session) or not session.calls:
            return True
        key = (
            session.proc_comm,
            tuple([(call.func_id, call.result, call.stitched) for call in session.calls]),
            session.kstack,
            tuple([message.text for message in session.said]),
        )
        kind = self._kinds.get(key)
        if kind is None:
            if len(self._kinds) >= _MOST_KEPT:
                return True
            kind = self._kinds[key] = _Kind(session)
        kind.count += 1
        if kind.count <= PRINTED:
            return True
        self.repeated += 1
        self._newest = kind
        return False

    def notice(self) -> str:
        """Return a line about the last counted stack if it is the 10th, 100th ..., else ""."""
        kind = self._newest
        if kind.count not in _NOTICES:
            return ""
        return f"({kind.count:,} times so far: {kind.text()})\n"

    def summary(self) -> Iterator[str]:
        """Yield the table of the counted stacks, most frequent first, as lines with their ends."""
        found = [kind for kind in self._kinds.values() if kind.count > PRINTED]
        if not found:
            return
        found.sort(key=lambda kind: -kind.count)
        width = len(f"{found[0].count:,}")
        yield "Identical stacks, of which the first three are printed (--all prints each):\n"
        for kind in found[:_MOST_LISTED]:
            yield f"  {kind.count:>{width},}  {kind.text()}\n"
        rest = found[_MOST_LISTED:]
        if rest:
            calls = sum(kind.count for kind in rest)
            yield f"  {calls:>{width},}  in {counted(len(rest), 'further stack')}\n"
