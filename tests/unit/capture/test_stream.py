# SPDX-License-Identifier: BSD-2-Clause
"""What a run tells at its end."""

from __future__ import annotations

import errno
import io

import pytest
from tests.unit.session.records import LAYOUTS, facts, printing, symbols

from retsnoop_py.capture.stream import Stream
from retsnoop_py.libbpf.reader import ReaderStats, SpoolError
from retsnoop_py.session.layouts import layout_named
from retsnoop_py.settings import Settings


class Loaded:
    """An object whose counters are all zero."""

    def stats(self) -> bytes:
        return bytes(layout_named(LAYOUTS, "rsn_stats").size)


def told(**reader: int) -> str:
    zero = dict.fromkeys(ReaderStats.fields, 0)
    err = io.StringIO()
    pipeline = printing(facts(), Settings(), symbols(), io.StringIO(), err=err)
    stats = ReaderStats(**(zero | reader))
    Stream(facts(), pipeline).finish(Loaded(), stats)  # type: ignore[arg-type]
    return err.getvalue()


def test_nothing_is_told_if_nothing_was_lost() -> None:
    assert told(records=5, bytes=100, peak_bytes=100, spooled_bytes=50) == ""


def test_a_full_disk_is_told_with_what_was_lost() -> None:
    text = told(lost_memory=3, error=errno.ENOSPC)

    assert "WARNING: records that waited in " in text
    assert "were lost: No space left on device; free some space" in text
    assert "UNREAD RECORDS:      3  " in text


@pytest.mark.parametrize(
    ("error", "step"),
    [
        (SpoolError.FULL, "allow more than 4096 bytes with -C bpf.spool-size"),
        (SpoolError.SLOW, "(-C bpf.queue-size), or name a faster disk (TMPDIR)"),
        (errno.EDQUOT, "Disk quota exceeded; free some space, or name another folder (TMPDIR)"),
    ],
)
def test_why_records_were_lost_is_told_with_the_next_step(error: int, step: str) -> None:
    text = told(lost_memory=3, error=error, spool_limit=4096)

    assert step in text
    assert "UNREAD RECORDS:      3  " in text
