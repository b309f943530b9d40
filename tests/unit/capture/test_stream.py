# SPDX-License-Identifier: BSD-2-Clause
"""What a run tells at its end."""

from __future__ import annotations

import errno
import io
from types import SimpleNamespace

import pytest
from tests.unit.session.records import facts, pack, printing, symbols

from retsnoop_py.capture.stream import Stream
from retsnoop_py.libbpf.reader import ReaderStats, SpoolError
from retsnoop_py.settings import FilterSettings, Settings


class Loaded:
    """An object with these counters of sessions, and of what its programs were not run for."""

    def __init__(self, died: int = 0, exits: int = 0, forks: int = 0) -> None:
        self._died, self._exits, self._forks = died, exits, forks

    def stats(self) -> bytes:
        return pack("rsn_stats", sessions_died=self._died)

    def calls(self) -> int:
        return 12

    def failed_short(self) -> int:
        return 3

    def unseen_exits(self) -> int:
        return self._exits

    def unseen_forks(self) -> int:
        return self._forks


def told(
    loaded: Loaded = Loaded(),  # noqa: B008 - it has no state
    *,
    damaged: bool = False,
    settings: Settings = Settings(),  # noqa: B008 - neither has this
    **reader: int,
) -> str:
    zero = dict.fromkeys(ReaderStats.fields, 0)
    err = io.StringIO()
    pipeline = printing(facts(), settings, symbols(), io.StringIO(), err=err)
    stats = ReaderStats(**(zero | reader))
    target = SimpleNamespace(image_warnings=["a damaged image"] if damaged else [])
    Stream(facts(), pipeline, target).finish(loaded, stats)  # type: ignore[arg-type]
    return err.getvalue()


def test_nothing_is_told_if_nothing_was_lost() -> None:
    assert told(records=5, bytes=100, peak_bytes=100, spooled_bytes=50) == ""


def test_the_closing_line_has_what_the_kernel_side_counted() -> None:
    settings = Settings(counts=True, filters=FilterSettings(longer_ns=2_000_000))
    assert told(settings=settings) == "0 of 3 failed calls pass -L 2ms.\n"
    assert told(settings=settings, lost_memory=2, error=1).endswith(
        "\n12 calls of entry functions, 3 failed; 0 printed, 3 filtered out by -L 2ms, "
        "2 records lost.\n"
    )


def test_what_was_wrong_with_an_image_is_told_first() -> None:
    assert told(Loaded(died=1), damaged=True).startswith("WARNING: a damaged image\nNOTE: ")


def test_a_session_whose_exit_was_not_seen_is_not_said_to_have_died() -> None:
    text = told(Loaded(died=3, exits=2))

    assert "NOTE: 1 thread exited inside a traced call." in text
    assert "ABANDONED SAMPLES:   2  " in text
    assert "ABANDONED" not in told(Loaded(died=3))
    assert "exited" not in told(Loaded(died=1, exits=9))


def test_forks_that_were_not_seen_are_told_and_may_have_been_anybodys() -> None:
    text = told(Loaded(forks=1))

    assert text.startswith("NOTE: 1 fork not looked at, ")
    assert "WARNING" not in text


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
