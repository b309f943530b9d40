# SPDX-License-Identifier: BSD-2-Clause
"""Call traces as objects of ``--format json``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from retsnoop_py.render import json_types as to
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.model import RowKind, Session, Shape, Trace, TraceRow
from retsnoop_py.session.stream_header import StreamHeader

#: So many steps of shapes are kept.
_ROOM = 1 << 15

# A look into an enum costs as much as the rest of the loop.
_ENTRY, _EXIT, _PROBE = RowKind.ENTRY, RowKind.EXIT, RowKind.PROBE
_EARLIER = RowKind.EARLIER

Arguments = Callable[[Session, int], tuple[to.Argument, ...] | None]


class _Step(NamedTuple):
    """What becomes of a row, or of one half of it.

    ``inner`` are the returns of the direct callees, None if some are missing.
    """

    kind: RowKind
    depth: int
    id: int
    event: int
    began: int | None
    inner: tuple[int, ...] | None
    missing: int
    interrupt: bool


class TraceEncoder:
    """Makes the events of traces. ``result`` reads a result register of a function's number.

    ``arguments`` gives what was captured at an event of a session, None without ``-A``.
    """

    def __init__(
        self,
        header: StreamHeader,
        functions: Sequence[to.Func],
        result: Callable[[int, int], to.Result],
        arguments: Arguments | None,
    ) -> None:
        self._functions = functions
        self._probe_name = header.probe_name
        self._result = result
        self._arguments = arguments
        self._steps: BoundedCache[Shape, list[_Step]] = BoundedCache(_ROOM)

    def events(self, session: Session, trace: Trace) -> list[to.TraceEvent]:
        """Every event, and where some are missing."""
        _, _, cpus, _, seqs, times, results, _ = trace.events
        arguments, functions, result_of = self._arguments, self._functions, self._result
        entered, returned = to.Entered, to.Returned
        took: dict[int, int] = dict(trace.spent)
        found: list[to.TraceEvent] = []
        for kind, depth, number, at, began, inner, missing, irq in self._steps_of(trace.shape):
            if kind is _ENTRY:
                given = None if arguments is None else arguments(session, seqs[at])
                function = functions[number]
                found.append(entered(seqs[at], times[at], depth, cpus[at], function, given, irq))
            elif kind is _EXIT:
                total = own = None
                if began is not None:
                    total = took[at] = times[at] - times[began]
                    own = _without(total, inner, took)
                result = result_of(number, results[at])
                found.append(
                    returned(
                        seqs[at],
                        times[at],
                        depth,
                        cpus[at],
                        functions[number],
                        result,
                        total,
                        own,
                        irq,
                    )
                )
            elif kind is _PROBE:
                given = None if arguments is None else arguments(session, seqs[at])
                probe = self._probe_name(number)
                found.append(to.ProbeHit(seqs[at], times[at], depth, cpus[at], probe, given, irq))
            elif kind is _EARLIER:
                found.append(to.ToldBefore(missing))
            else:
                found.append(to.Missing(missing))
        return found

    def _steps_of(self, shape: Shape) -> list[_Step]:
        known = self._steps.get(shape)
        if known is None:
            known = [step for row in shape.rows for step in _steps(row)]
            self._steps.keep(shape, known, len(known))
        return known


def _without(total: int, inner: tuple[int, ...] | None, took: dict[int, int]) -> int | None:
    """``total`` without the callees that returned at ``inner``."""
    if not inner:
        return None if inner is None else total
    return total - sum([took[end] for end in inner])


def _steps(row: TraceRow) -> Iterator[_Step]:
    kind, depth, number, event, began, inner, missing, interrupt = row
    ends = None if inner is None else tuple(ended for _, ended in inner)
    if kind is RowKind.LEAF:
        assert began is not None
        yield _Step(RowKind.ENTRY, depth, number, began, None, None, 0, interrupt)
        kind = RowKind.EXIT
    yield _Step(kind, depth, number, event, began, ends, missing, interrupt)
