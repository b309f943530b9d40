# SPDX-License-Identifier: BSD-2-Clause
"""A session as a value: all that its text and its JSON show, computed on first use."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from retsnoop_py.kernel.function_table import FunctionTable
from retsnoop_py.render import encode
from retsnoop_py.render.encode import SessionEncoder
from retsnoop_py.settings import OutputFormat, Settings
from retsnoop_py.value import replace

if TYPE_CHECKING:
    from datetime import datetime

    from retsnoop_py.kernel.functions import Function
    from retsnoop_py.model.session import (
        Branches,
        Call,
        Event,
        ExplainedFailure,
        Func,
        KernelMessage,
        Lost,
        Origin,
        PidNamespace,
        Result,
        StackEntry,
        UserFrame,
    )
    from retsnoop_py.model.session import Session as SessionRecord
    from retsnoop_py.render.renderers import Renderer
    from retsnoop_py.session.report import PathView, Report
    from retsnoop_py.session.stream_header import StreamHeader

__all__ = ["Session", "Stream", "lost_of"]


class Stream:
    """The common data of a run's sessions: its functions, views, and renderers."""

    def __init__(self, header: StreamHeader, settings: Settings) -> None:
        self.header = header
        self.settings = settings
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
    def objects(self) -> SessionEncoder:
        """The maker of the objects of the run's sessions."""
        return SessionEncoder(self.header, self.settings)

    @cached_property
    def _ids(self) -> dict[tuple[int, str], int]:
        table = FunctionTable.of(self.header.functions)
        pairs = zip(table.addresses, table.names, strict=True)
        return {pair: number for number, pair in enumerate(pairs)}

    def traced(self, function: Func) -> Function:
        """Return the traced function with the name and address of ``function``."""
        return self.header.functions[self._ids[function.address, function.name]]

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
        self._objects = stream.objects
        self.tid = session.tid
        self.pid = session.tgid
        self.thread = session.task_comm
        self.process = session.proc_comm
        self.cpu = session.cpu
        self.start_ns = session.start_ns
        self.end_ns = session.emit_ns
        self.failed = session.is_error
        self.died = session.died
        self.report = encode.REPORTS[session.kind]

    @property
    def explained(self) -> ExplainedFailure | None:
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
        return self._objects.calls(self._report.session)

    @cached_property
    def stack(self) -> list[StackEntry] | None:
        """The calls merged with the kernel's stack, outermost first; None if not requested."""
        return self._objects.stack(self._report)

    @cached_property
    def trace(self) -> list[Event] | None:
        """Every traced call and return, and hits of injected probes; None if not requested."""
        return self._objects.trace(self._report)

    @cached_property
    def branches(self) -> Branches | None:
        """The CPU's branch records; None if they do not exist or were not requested."""
        return self._objects.branches(self._report.branches)

    @cached_property
    def said(self) -> tuple[KernelMessage, ...]:
        """The kernel messages that the thread wrote during the session."""
        return encode.messages(self._report.session)

    @cached_property
    def user_stack(self) -> tuple[UserFrame, ...] | None:
        """The program's own stack, outermost first; None if not requested."""
        return self._objects.user_stack(self._report)

    @cached_property
    def origin(self) -> Origin | None:
        """The origin of the innermost followed call's result (``path``), and the condition."""
        return self._objects.origin(self._report)

    @cached_property
    def paths(self) -> tuple[Origin, ...]:
        """The origins of all calls that were followed block by block."""
        return self._objects.origins(self._report)

    def way(self, seq: int) -> PathView | None:
        """Return the recorded path of the call number ``seq``; None if it was not followed."""
        return self._report.paths.get(seq)

    def told(self, way: PathView, function: Func, result: Result) -> Origin:
        """Return the origin that ``way`` shows for a call of ``function``."""
        return self._objects.way(way, function, result)

    def traced(self, function: Func) -> Function:
        """Return the traced function behind the function of a call or an event."""
        return self._stream.traced(function)

    @property
    def namespace(self) -> PidNamespace | None:
        """The thread's own PID namespace; None if the ids there are the same."""
        return encode.namespace(self._report.session)

    @property
    def lost(self) -> Lost:
        """The losses of the session."""
        return encode.lost(self._report.session)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The losses as text, as in the lines below the session."""
        return self._objects.warnings(self._report.session)

    @cached_property
    def record(self) -> SessionRecord:
        """The object that :meth:`as_json` encodes, with all parts of the session."""
        return self._objects.session(self._report)

    def as_text(self, *, ascii_only: bool = False) -> str:
        """Return the block that the command line writes."""
        return self._stream.text(self._report, OutputFormat.TEXT, ascii_only=ascii_only)

    def as_json(self, *, ascii_only: bool = False) -> str:
        """Return the line that ``--format json`` writes, see docs/json.md."""
        return self._stream.text(self._report, OutputFormat.JSON, ascii_only=ascii_only)


def lost_of(counters: Mapping[str, int]) -> dict[str, int]:
    """Return the counters of losses that are not zero."""
    return {name: count for name, count in counters.items() if count}
