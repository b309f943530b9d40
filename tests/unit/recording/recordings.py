# SPDX-License-Identifier: BSD-2-Clause
"""Recordings of runs made by hand."""

from __future__ import annotations

import io
from pathlib import Path

from tests.unit.session.records import facts, printing, raw_session, symbols, traced_session

from retsnoop_py.cli.replay import show
from retsnoop_py.recording.overrides import ReplayOverrides
from retsnoop_py.recording.writer import RecordingWriter
from retsnoop_py.settings import FilterSettings, Settings, SymbolizeMode

#: Two failures of other errors, the first with its events, and one success.
BATCHES = (
    traced_session(),
    raw_session(
        [(0, 0, -22, 9_000_000), (1, 1, -22, 8000)],
        (0xFFFFFFFF81001090,),
        flags=1,
        tid=8,
        tgid=8,
        task_comm=b"other",
        start_ts=11_000_000_000,
        emit_ts=11_009_000_000,
    )
    + raw_session([(0, 0, 5, 1000)], tid=9, tgid=9),
)
STATS = {"sessions_dropped": 2, "lost_memory": 0}


def record(path: Path, settings: Settings | None = None, **changes: object) -> tuple[str, str]:
    """Record a live run at ``path``; what it wrote to stdout and stderr."""
    settings = settings or Settings(filters=FilterSettings(success=True))
    out, err = io.StringIO(), io.StringIO()
    values = {
        "filters": settings.filters,
        "stacks": settings.stacks,
        "views": settings.views,
        "bpf": settings.bpf,
        "symbolize": SymbolizeMode.INLINES,
    }
    live = facts(**(values | changes))
    with RecordingWriter(path) as writer:
        writer.start(live)
        pipeline = printing(live, settings, symbols(), out, writer, err)
        pipeline.feed(BATCHES[0])
        pipeline.warn("something is missing")
        pipeline.feed(BATCHES[1])
        pipeline.finish(STATS)
    return out.getvalue(), err.getvalue()


class Replayed:
    """What a replay wrote, also when it ended in an error."""

    def __init__(self, path: Path, overrides: ReplayOverrides | None = None) -> None:
        out, err = io.StringIO(), io.StringIO()
        self.error: Exception | None = None
        self.status: int | None = None
        try:
            self.status = show(path, overrides or ReplayOverrides(), out, err)
        except Exception as error:  # noqa: BLE001 - the tests look at it
            self.error = error
        self.out, self.err = out.getvalue(), err.getvalue()
