# SPDX-License-Identifier: BSD-2-Clause
"""A session as a value: all that its text and its JSON show, computed on first use."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from retsnoop_py.kernel.errno import errno_name, error_name
from retsnoop_py.kernel.functions import Function
from retsnoop_py.render.formats import format_result, source_chain, user_mode
from retsnoop_py.session.losses import session_warnings
from retsnoop_py.session.model import Call as TracedCall
from retsnoop_py.session.model import KernelMessage, RowKind, SessionKind, Trace, TraceRow
from retsnoop_py.session.results import error_of, number_of
from retsnoop_py.settings import OutputFormat, Settings, SymbolizeMode
from retsnoop_py.symbolize.frames import Resolved, SourceFrame
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from datetime import datetime

    from retsnoop_py.render import json_types as to
    from retsnoop_py.render.args.read import ArgumentReader
    from retsnoop_py.render.json_types import Origin
    from retsnoop_py.render.jsonl import JsonRenderer
    from retsnoop_py.render.renderers import Renderer
    from retsnoop_py.session.report import Explained, PathView, Report
    from retsnoop_py.session.stream_header import StreamHeader

__all__ = [
    "Argument",
    "Branch",
    "Branches",
    "Call",
    "Event",
    "Frame",
    "KernelMessage",
    "Lost",
    "PidNamespace",
    "Result",
    "Session",
    "StackEntry",
    "Stream",
]

_KINDS: dict[SessionKind, Literal["final", "stitch", "probe", "running"]] = {
    SessionKind.FINAL: "final",
    SessionKind.STITCH: "stitch",
    SessionKind.PROBE: "probe",
    SessionKind.RUNNING: "running",
}


class Result(NamedTuple):
    """The result of a call.

    ``raw`` is the 64-bit result register, signed. ``text`` is formatted by the function's type:
    ``"-EINVAL"``, ``"NULL"``, ``"true"``, ``"17"``, ``"0xffff8881..."``. ``value`` is the number,
    if the result is a number. ``error`` is the name of the error, ``"NULL"`` for a NULL pointer.
    """

    raw: int
    text: str
    value: int | None
    error: str | None


class Argument(NamedTuple):
    """An argument of a call, or a value that an injected probe captured.

    ``text`` is for people. ``value`` consists of numbers, texts, lists and dicts, None for NULL.
    ``type`` is the C type. An argument without a name is a remark about the others.
    """

    name: str
    text: str
    value: Any
    type: str


class Frame(NamedTuple):
    """An address and its location.

    ``symbol`` and ``offset`` (bytes) are from kallsyms, or from the program's file, which is then
    in ``module``. ``source`` is the chain of inlined functions, innermost first: each has
    ``function``, ``file``, ``line`` and ``column`` (0: unknown). ``hidden``: a frame of tracing
    itself.
    """

    address: int
    symbol: str | None
    offset: int
    module: str | None
    source: tuple[SourceFrame, ...]
    hidden: bool = False


class Call(NamedTuple):
    """A traced call. If it had not returned, ``result`` and ``duration_ns`` are None.

    ``duration_ns`` includes its callees. ``stitched``: the call belongs to an earlier chain of
    failures. ``interrupt``: an interrupt of the thread made the call. ``arguments`` is None if they
    were not captured.
    """

    function: Function
    seq: int
    result: Result | None
    duration_ns: int | None
    stitched: bool
    interrupt: bool
    arguments: tuple[Argument, ...] | None

    @property
    def error(self) -> str | None:
        """The name of the returned error, or None."""
        return None if self.result is None else self.result.error


class StackEntry(NamedTuple):
    """A row of the merged stack: a traced call, a frame of the kernel's stack, or both."""

    call: Call | None
    frame: Frame | None


class Event(NamedTuple):
    """A row of a call trace; ``kind`` decides which fields are set.

    ``entry`` and ``exit`` belong to ``function``, ``probe`` is a hit of the injected ``probe``.
    ``missing``: ``records`` were lost; ``told_before``: earlier reports of the session had them.
    ``time_ns`` is CLOCK_MONOTONIC, ``depth`` is 1 for the entry function. ``duration_ns``, and
    ``self_ns`` without traced callees, are None if uncertain.
    """

    kind: Literal["entry", "exit", "probe", "missing", "told_before"]
    seq: int = 0
    time_ns: int = 0
    depth: int = 0
    cpu: int = 0
    function: Function | None = None
    probe: str | None = None
    result: Result | None = None
    duration_ns: int | None = None
    self_ns: int | None = None
    arguments: tuple[Argument, ...] | None = None
    interrupt: bool = False
    records: int = 0


class Branch(NamedTuple):
    """A branch that the CPU took; ``number`` 0 is the newest record."""

    number: int
    source: Frame
    target: Frame


class Branches(NamedTuple):
    """The last branches before a failure, newest first; ``error``: why the CPU recorded none.

    ``lost``: the records did not arrive. ``relevant`` is False if no branch touches the innermost
    traced function; then branches of tracing itself are included.
    """

    records: tuple[Branch, ...]
    error: str | None
    lost: bool
    relevant: bool


class Lost(NamedTuple):
    """The losses of a session: numbers of records, calls and returns.

    ``missed`` are calls of traced functions for which the kernel ran no BPF program, the first of
    them inside ``missed_inside``. ``missed_shared``: some of these calls may belong to other
    threads.
    """

    records: int
    too_deep: int
    exits: int
    entries: int
    missed: int
    missed_inside: Function | None
    missed_shared: bool


class PidNamespace(NamedTuple):
    """The PID namespace of a thread: its inode (from /proc/PID/ns/pid), and the ids in it."""

    inode: int
    tid: int
    pid: int


class Stream:
    """The common data of a run's sessions: its functions, views, and renderers."""

    def __init__(self, header: StreamHeader, settings: Settings) -> None:
        self.header = header
        self.settings = settings
        mode = settings.symbolize
        self.mode = header.symbolize if mode is SymbolizeMode.AUTO else mode
        self.user_mode = user_mode(header, settings)
        self._renderers: dict[tuple[OutputFormat, bool], Renderer] = {}

    def text(self, report: Report, form: OutputFormat, *, ascii_only: bool) -> str:
        """Return a session as the command line would write it."""
        made = self._renderers.get((form, ascii_only))
        if made is None:
            from retsnoop_py.render.renderers import renderer

            views = replace(self.settings.views, format=form, ascii=ascii_only)
            made = renderer(self.header, replace(self.settings, views=views))
            self._renderers[form, ascii_only] = made
        return made.session(report)

    @cached_property
    def json(self) -> JsonRenderer:
        """The renderer of JSON objects."""
        from retsnoop_py.render.jsonl import JsonRenderer

        return JsonRenderer(self.header, self.settings)

    @cached_property
    def reader(self) -> ArgumentReader | None:
        """The reader of captured arguments; None if none are captured."""
        if not self.settings.args.capture or self.header.arguments is None:
            return None
        from retsnoop_py.render.args.read import ArgumentReader

        return ArgumentReader(self.header.arguments, raw_pointers=self.settings.args.raw_pointers)

    @cached_property
    def offset_ns(self) -> int:
        """CLOCK_REALTIME minus CLOCK_MONOTONIC when the run began, ns."""
        return self.header.realtime_offset_ns


class Session:
    """A call of an entry function by a thread, from its start to its return.

    Times are ns of CLOCK_MONOTONIC. ``tid`` and ``pid`` are the kernel's own ids, ``thread`` and
    ``process`` their names, ``cpu`` the CPU at the end. ``report`` is ``"final"``, or ``"stitch"``
    or ``"probe"`` for a call that goes on (a chain of failures is about to be forgotten, an
    injected probe was hit), ``"running"`` for a call that had not returned when tracing ended.
    ``failed``: the chain of failures reaches the entry function. ``died``: the thread exited inside
    the call.
    """

    def __init__(self, report: Report, stream: Stream) -> None:
        session = report.session
        self._report = report
        self._stream = stream
        self.tid = session.tid
        self.pid = session.tgid
        self.thread = session.task_comm
        self.process = session.proc_comm
        self.cpu = session.cpu
        self.start_ns = session.start_ns
        self.end_ns = session.emit_ns
        self.failed = session.is_error
        self.died = session.died
        self.report = _KINDS[session.kind]

    @property
    def explained(self) -> Explained | None:
        """Why the session's system call failed, in the user's terms; needs ``explain=True``.

        None without ``explain``, and if no failed system call was recorded around the session.
        """
        return self._report.explained

    def __repr__(self) -> str:
        names = " > ".join(call.function.name for call in self._report.session.calls)
        return f"<Session of {self.thread} ({self.tid}): {names} [{self.error or 'no error'}]>"

    @property
    def error(self) -> str | None:
        """The error that the entry function returned, by name; None if it did not fail.

        If the function's result cannot be an error, the outermost error inside it.
        """
        if not self.failed:
            return None
        return next((call.error for call in self.calls if call.error), None)

    @property
    def start(self) -> datetime:
        """The start in the local time of the run, in microseconds."""
        return self._time(self.start_ns)

    @property
    def end(self) -> datetime:
        """The time of the end or report, in the local time of the run, in microseconds."""
        return self._time(self.end_ns)

    def _time(self, monotonic_ns: int) -> datetime:
        from datetime import datetime, timedelta, timezone

        zone = timezone(timedelta(seconds=self._stream.header.utc_offset_s))
        microseconds = (monotonic_ns + self._stream.offset_ns) // 1000
        return datetime.fromtimestamp(0, zone) + timedelta(microseconds=microseconds)

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        """The deepest chain of traced calls, including the failed ones, outermost first."""
        return tuple(map(self._call, self._report.session.calls))

    @cached_property
    def stack(self) -> tuple[StackEntry, ...] | None:
        """The calls merged with the kernel's stack, outermost first; None if not requested."""
        found = self._report.stack
        if found is None:
            return None
        position = {id(c): number for number, c in enumerate(self._report.session.calls)}
        return tuple(
            StackEntry(
                None if row.call is None else self.calls[position[id(row.call)]],
                None if row.frame is None else self._frame(row.frame, is_hidden=row.hidden),
            )
            for row in found
        )

    @cached_property
    def trace(self) -> tuple[Event, ...] | None:
        """Every traced call and return, and hits of injected probes; None if not requested."""
        found = self._report.trace
        return None if found is None else tuple(self._events(found))

    @cached_property
    def branches(self) -> Branches | None:
        """The CPU's branch records; None if they do not exist or were not requested."""
        view = self._report.branches
        if view is None:
            return None
        rows = tuple(
            Branch(row.number, self._frame(row.source), self._frame(row.target))
            for row in reversed(view.rows)
        )
        error = errno_name(view.error) if view.error else None
        return Branches(rows, error, view.lost, view.relevant)

    @property
    def said(self) -> tuple[KernelMessage, ...]:
        """The kernel messages that the thread wrote during the session."""
        return self._report.session.said

    @cached_property
    def user_stack(self) -> tuple[Frame, ...] | None:
        """The program's own stack, outermost first; None if not requested."""
        if not self._stream.settings.views.user_stack:
            return None
        mode = self._stream.user_mode
        return tuple(_frame(frame, mode) for frame in self._report.user_stack)

    @cached_property
    def origin(self) -> Origin | None:
        """The origin of the innermost followed call's result (``path``), and the condition.

        A value of a class for JSON, see docs/json.md.
        """
        return self._stream.json.origin(self._report)

    @cached_property
    def paths(self) -> tuple[Origin, ...]:
        """The origins of all calls that were followed block by block."""
        return self._stream.json.origins(self._report)

    def way(self, seq: int) -> PathView | None:
        """Return the recorded path of the call number ``seq``; None if it was not followed."""
        return self._report.paths.get(seq)

    def told(self, way: PathView, function: to.Func, result: to.Result) -> Origin:
        """Return the origin that ``way`` shows for a call of ``function``, as in JSON."""
        return self._stream.json.way(way, function, result)

    @property
    def namespace(self) -> PidNamespace | None:
        """The thread's own PID namespace; None if the ids there are the same."""
        session = self._report.session
        if not session.has_other_ids:
            return None
        return PidNamespace(session.pid_ns, session.ns_tid, session.ns_tgid)

    @property
    def lost(self) -> Lost:
        """The losses of the session."""
        session = self._report.session
        missed = session.missed
        return Lost(
            session.dropped,
            session.too_deep,
            session.lost_exits,
            session.lost_entries,
            missed.calls if missed else 0,
            missed.inside if missed else None,
            missed.shared if missed else False,
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """The losses as text, as in the lines below the session."""
        return tuple(session_warnings(self._report.session, self._stream.header.bpf))

    @cached_property
    def record(self) -> to.Session:
        """The object that :meth:`as_json` encodes."""
        return self._stream.json.record(self._report)

    def as_text(self, *, ascii_only: bool = False) -> str:
        """Return the block that the command line writes."""
        return self._stream.text(self._report, OutputFormat.TEXT, ascii_only=ascii_only)

    def as_json(self, *, ascii_only: bool = False) -> str:
        """Return the line that ``--format json`` writes, see docs/json.md."""
        return self._stream.text(self._report, OutputFormat.JSON, ascii_only=ascii_only)

    def _call(self, call: TracedCall) -> Call:
        is_done = call.finished
        return Call(
            call.function,
            call.seq,
            _result(call.function, call.result) if is_done else None,
            call.latency_ns if is_done else None,
            call.stitched,
            call.interrupt,
            self._arguments(call.seq),
        )

    def _frame(self, frame: Resolved, *, is_hidden: bool = False) -> Frame:
        return _frame(frame, self._stream.mode, is_hidden=is_hidden)

    def _arguments(self, seq: int) -> tuple[Argument, ...] | None:
        reader = self._stream.reader
        found = None if reader is None else reader.arguments(self._report.session, seq)
        return None if found is None else tuple(Argument(*one) for one in found)

    def _events(self, trace: Trace) -> Iterator[Event]:
        for row in trace.shape.rows:
            if row.kind in (RowKind.GAP, RowKind.EARLIER):
                is_gap = row.kind is RowKind.GAP
                yield Event("missing" if is_gap else "told_before", records=row.missing)
                continue
            if row.kind is RowKind.LEAF:
                assert row.began is not None
                yield self._event(trace, row, row.began, "entry")
            kind: Literal["entry", "exit", "probe"] = "exit"
            if row.kind in (RowKind.ENTRY, RowKind.PROBE):
                kind = "entry" if row.kind is RowKind.ENTRY else "probe"
            yield self._event(trace, row, row.event, kind)

    def _event(
        self, trace: Trace, row: TraceRow, at: int, kind: Literal["entry", "exit", "probe"]
    ) -> Event:
        events, header, is_exit = trace.events, self._stream.header, kind == "exit"
        function = None if kind == "probe" else header.functions[row.id]
        return Event(
            kind,
            events.seqs[at],
            events.times_ns[at],
            row.depth,
            events.cpus[at],
            function,
            header.probe_name(row.id) if function is None else None,
            _result(function, events.results[at]) if function and is_exit else None,
            trace.duration_ns(row) if is_exit else None,
            trace.self_ns(row) if is_exit else None,
            None if is_exit else self._arguments(events.seqs[at]),
            row.interrupt,
        )


def _result(function: Function, register: int) -> Result:
    error = error_of(function, register)
    name = None if error is None else error_name(error)
    text = format_result(function, register)[1:-1]
    return Result(register, text, number_of(function, register), name)


def _frame(frame: Resolved, mode: SymbolizeMode, *, is_hidden: bool = False) -> Frame:
    chain: Sequence[SourceFrame] = () if is_hidden else source_chain(frame, mode)
    return Frame(frame.address, frame.name, frame.offset, frame.module, tuple(chain), is_hidden)


def lost_of(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of losses that are not zero."""
    return {name: count for name, count in counters.items() if count}
