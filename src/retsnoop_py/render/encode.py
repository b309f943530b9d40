# SPDX-License-Identifier: BSD-2-Clause
"""Reports of sessions as the objects of :mod:`retsnoop_py.model.session`.

``--format json`` prints these objects, and the Python interface returns them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

from retsnoop_py.kernel.errno import errno_name
from retsnoop_py.kernel.functions import Function
from retsnoop_py.model import session as to
from retsnoop_py.render.formats import encode_result, source_chain, user_mode
from retsnoop_py.session.caches import BoundedCache
from retsnoop_py.session.losses import session_warnings
from retsnoop_py.session.model import (
    Call,
    RowKind,
    Session,
    SessionKind,
    Shape,
    StackRow,
    Trace,
    TraceRow,
)
from retsnoop_py.session.report import BranchView, PathView, Report
from retsnoop_py.session.stream_header import Clock, StreamHeader
from retsnoop_py.settings import Settings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved
from retsnoop_py.symbolize.paths import SourceTree
from retsnoop_py.text import printable

if TYPE_CHECKING:
    from retsnoop_py.render.args.read import ArgumentReader

__all__ = ["SessionEncoder"]

#: Maximum number of cached steps of shapes.
_ROOM = 1 << 15

# Reading a member of an enum takes as long as the rest of the loop.
_ENTRY, _EXIT, _PROBE = RowKind.ENTRY, RowKind.EXIT, RowKind.PROBE
_EARLIER = RowKind.EARLIER

Arguments = Callable[[Session, int], tuple[to.Argument, ...] | None]


class _Step(NamedTuple):
    """A row as an event, or one of the two events of a row.

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
    """Creates the events of traces. ``result`` converts a result register of a function.

    ``arguments`` returns the values captured at an event of a session, None without ``-A``.
    """

    def __init__(
        self,
        header: StreamHeader,
        functions: Mapping[int, to.Func],
        result: Callable[[int, int], to.Result],
        arguments: Arguments | None,
    ) -> None:
        self._functions = functions
        self._probe_name = header.probe_name
        self._result = result
        self._arguments = arguments
        self._steps: BoundedCache[Shape, list[_Step]] = BoundedCache(_ROOM)

    def events(self, session: Session, trace: Trace) -> list[to.Event]:
        """Return every event, and the places of missing events."""
        _, _, cpus, _, seqs, times, results, _ = trace.events
        arguments, functions, result_of = self._arguments, self._functions, self._result
        entered, returned = to.Entered, to.Returned
        took: dict[int, int] = dict(trace.spent)
        found: list[to.Event] = []
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
    """Return ``total`` without the callees that returned at ``inner``."""
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


_MAX_RESULTS = 1 << 16
#: Maximum number of cached frames.
_MAX_FRAMES = 1 << 15
#: The words for the kinds of reports.
REPORTS: dict[SessionKind, Literal["final", "stitch", "probe", "running"]] = {
    SessionKind.FINAL: "final",
    SessionKind.STITCH: "stitch",
    SessionKind.PROBE: "probe",
    SessionKind.RUNNING: "running",
}
_NO_LOSS = to.Lost()


class SessionEncoder:
    """Makes the objects of the sessions of a stream, each part by itself or all of them."""

    def __init__(self, header: StreamHeader, settings: Settings) -> None:
        self._header = header
        self._views = settings.views
        self._mode = settings.symbolize
        if self._mode is SymbolizeMode.AUTO:
            self._mode = header.symbolize
        self._user_mode = user_mode(header, settings)
        self._source = SourceTree(settings.source, header.release)
        self._clock = Clock(header.realtime_offset_ns, header.utc_offset_s)
        self._functions = _Funcs(header.functions)
        #: Converts a result register of a function, by the function's id.
        self.result: Callable[[int, int], to.Result] = lru_cache(_MAX_RESULTS)(self._result_of)
        self._frames: BoundedCache[tuple[int, bool], tuple[Resolved, to.Frame]] = BoundedCache(
            _MAX_FRAMES
        )
        self._reader = _reader(header, settings)
        arguments = None if self._reader is None else self._arguments
        self._traces = TraceEncoder(header, self._functions, self.result, arguments)

    @property
    def has_arguments(self) -> bool:
        """True if sessions have captured arguments."""
        return self._reader is not None

    def like(self, clock: Clock, result: Callable[[int, int], to.Result]) -> SessionEncoder:
        """Return an encoder without arguments that writes times and results in another way."""
        made = copy.copy(self)
        traces = TraceEncoder(self._header, self._functions, result, None)
        vars(made).update(_clock=clock, result=result, _traces=traces)
        return made

    def session(self, report: Report) -> to.Session:
        """Return the object of a session."""
        session = report.session
        time_of = self._clock.timestamp
        return to.Session(
            version=to.VERSION,
            start=time_of(session.start_ns),
            end=time_of(session.emit_ns),
            start_ns=session.start_ns,
            end_ns=session.emit_ns,
            tid=session.tid,
            pid=session.tgid,
            thread=session.task_comm,
            process=session.proc_comm,
            cpu=session.cpu,
            failed=session.is_error,
            report=REPORTS[session.kind],
            died=session.died,
            trace=self.trace(report),
            stack=self.stack(report),
            branches=self.branches(report.branches),
            user_stack=self.user_stack(report),
            namespace=namespace(session),
            lost=lost(session),
            warnings=self.warnings(session),
            origin=self.origin(report) if report.paths else None,
            paths=self.origins(report),
            said=messages(session),
            explained=report.explained,
        )

    def warnings(self, session: Session) -> tuple[str, ...]:
        """Return the losses of a session as text."""
        return tuple(map(printable, session_warnings(session, self._header.bpf)))

    def trace(self, report: Report) -> list[to.Event] | None:
        """Return the events of the call trace; None if not requested."""
        return report.trace and self._traces.events(report.session, report.trace)

    def calls(self, session: Session) -> tuple[to.Call, ...]:
        """Return the deepest chain of traced calls, outermost first."""
        return tuple([self._call(session, call) for call in session.calls])

    def origins(self, report: Report) -> tuple[to.Origin, ...]:
        """Return the origins of all calls with a recorded path."""
        return tuple([self._origin(view) for view in report.paths.values()])

    def origin(self, report: Report) -> to.Origin | None:
        """Return the origin of the innermost call of the stack with a recorded path."""
        for call in reversed(report.session.calls):
            if call.seq in report.paths:
                return self._origin(report.paths[call.seq])
        return None

    def way(self, view: PathView, function: to.Func, result: to.Result) -> to.Origin:
        """Return the origin of a call of ``function``."""
        from retsnoop_py.render.origin import encode_origin

        return encode_origin(view, function, result, self._mode, self._source)

    def _origin(self, view: PathView) -> to.Origin:
        number = view.path.id
        return self.way(view, self._functions[number], self.result(number, view.path.result))

    def stack(self, report: Report) -> list[to.StackEntry] | None:
        """Return the calls merged with the kernel's stack; None if not requested."""
        if report.stack is None:
            return None
        return [self._entry(report.session, row) for row in report.stack]

    def _entry(self, session: Session, row: StackRow) -> to.StackEntry:
        return to.StackEntry(
            None if row.call is None else self._call(session, row.call),
            None if row.frame is None else self._frame(row.frame, row.hidden),
        )

    def branches(self, view: BranchView | None) -> to.Branches | None:
        """Return the CPU's branch records, newest first; None if they were not requested."""
        if view is None:
            return None
        rows = (
            to.Branch(row.number, self._frame(row.source, False), self._frame(row.target, False))
            for row in reversed(view.rows)
        )
        error = errno_name(view.error) if view.error else None
        return to.Branches(tuple(rows), error, view.lost, view.relevant)

    def user_stack(self, report: Report) -> tuple[to.UserFrame, ...] | None:
        """Return the program's own stack, outermost first; None if not requested."""
        if not self._views.user_stack:
            return None
        return tuple(
            to.UserFrame(
                hex(frame.address),
                frame.name,
                frame.offset,
                frame.module,
                tuple(to.Source(*level) for level in source_chain(frame, self._user_mode)),
            )
            for frame in report.user_stack
        )

    def _call(self, session: Session, call: Call) -> to.Call:
        number = call.func_id
        arguments = self._arguments(session, call.seq)
        if not call.finished:
            return to.Call(
                self._functions[number],
                call.seq,
                stitched=call.stitched,
                arguments=arguments,
                interrupt=call.interrupt,
            )
        return to.Call(
            self._functions[number],
            call.seq,
            self.result(number, call.result),
            call.latency_ns,
            call.stitched,
            arguments,
            call.interrupt,
        )

    def _frame(self, frame: Resolved, is_hidden: bool) -> to.Frame:
        known = self._frames.get((id(frame), is_hidden))
        if known is None:
            # The frame is stored as well, so that no other object gets its id.
            known = self._frames.keep(
                (id(frame), is_hidden), (frame, self._frame_of(frame, is_hidden))
            )
        return known[1]

    def _frame_of(self, frame: Resolved, is_hidden: bool) -> to.Frame:
        chain = () if is_hidden else source_chain(frame, self._mode)
        return to.Frame(
            hex(frame.address),
            frame.name,
            frame.offset,
            frame.module,
            tuple(to.Source(*level) for level in chain),
            is_hidden,
        )

    def _result_of(self, number: int, register: int) -> to.Result:
        return encode_result(self._header.functions[number], register)

    def _arguments(self, session: Session, seq: int) -> tuple[to.Argument, ...] | None:
        found = None if self._reader is None else self._reader.arguments(session, seq)
        return None if found is None else tuple([to.Argument(*one) for one in found])


def _reader(header: StreamHeader, settings: Settings) -> ArgumentReader | None:
    if not settings.args.capture or header.arguments is None:
        return None
    from retsnoop_py.render.args.read import ArgumentReader

    return ArgumentReader(header.arguments, raw_pointers=settings.args.raw_pointers)


class _Funcs(dict[int, to.Func]):
    """Functions as JSON objects, by id, made at their first use."""

    def __init__(self, functions: Sequence[Function]) -> None:
        self._of = functions

    def __missing__(self, number: int) -> to.Func:
        made = self[number] = _func(self._of[number])
        return made


def _func(function: Function) -> to.Func:
    return to.Func(function.name, hex(function.address), function.module)


def messages(session: Session) -> tuple[to.KernelMessage, ...]:
    """Return the kernel messages of a session."""
    return tuple([to.KernelMessage(*message) for message in session.said])


def namespace(session: Session) -> to.PidNamespace | None:
    """Return the thread's PID namespace; None if the ids there are the same."""
    if not session.has_other_ids:
        return None
    return to.PidNamespace(session.pid_ns, session.ns_tid, session.ns_tgid)


def lost(session: Session) -> to.Lost:
    """Return the losses of a session."""
    counts = session.dropped, session.too_deep, session.lost_exits, session.lost_entries
    missed = session.missed
    if missed is not None:
        return to.Lost(*counts, missed.calls, _func(missed.inside), missed.shared)
    return to.Lost(*counts) if any(counts) else _NO_LOSS
